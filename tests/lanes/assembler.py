"""NVIDIA's assembler, where there is one."""

import shutil
import subprocess


def assemble(text, folder):
    """Fail if the assembler does not accept a kernel; nothing where there is no assembler."""
    if (ptxas := shutil.which("ptxas")) is not None:
        (folder / "kernel.ptx").write_text(text)
        subprocess.run([ptxas, "-arch=sm_90", "kernel.ptx", "-o", "out"], check=True, timeout=120, cwd=folder)
