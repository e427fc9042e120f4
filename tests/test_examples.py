"""Every example runs, as a program of its own, without a warning but that limits do not act."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


def test_there_are_six():
    assert [e.name[:2] for e in EXAMPLES] == ["01", "02", "03", "04", "05", "06"]


def _parameter(path):
    """Comparing all methods compiles nine of them."""
    return pytest.param(path, id=path.stem, marks=pytest.mark.slow if path.stem == "05_methods" else ())


@pytest.mark.parametrize("path", [_parameter(e) for e in EXAMPLES])
def test_example_runs(path, tmp_path):
    little_optimization = os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}  # as for all tests, see conftest.py
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::UserWarning:__main__", str(path)],  # of kt.load, see NotModelled
        cwd=tmp_path,
        env=little_optimization,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
