"""NVIDIA's assembler, where there is one."""

import shutil
import subprocess

import pytest

NEEDED = pytest.mark.skipif(
    shutil.which("ptxas") is None, reason="no assembler of NVIDIA's is at hand"
)  # for tests of nothing else


def assemble(text, folder):
    """Fail if the assembler does not accept a kernel; nothing where there is no assembler."""
    if (ptxas := shutil.which("ptxas")) is not None:
        (folder / "kernel.ptx").write_text(text)
        subprocess.run([ptxas, "-arch=sm_90", "kernel.ptx", "-o", "out"], check=True, timeout=120, cwd=folder)
