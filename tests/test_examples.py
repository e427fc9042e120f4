"""Every example runs, as a program of its own, without a warning but that limits do not act."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kinetree as kt

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


ARGUMENTS = {"07_learn": ("--steps", "4096")}  # enough to see that it runs
MARKS = {
    "05_methods": pytest.mark.slow,  # compiles nine methods
    "07_learn": pytest.mark.thorough,
    "09_identify": pytest.mark.thorough,
}


def test_there_are_nine():
    assert [e.name[:2] for e in EXAMPLES] == [f"0{k}" for k in range(1, 10)]


def test_the_humanoid_of_make_show_steps_in_native_code():
    """XLA would compile for a minute before it moves."""
    assert "advance: native" in str(kt.explain(kt.load(EXAMPLES[0].parent / "robots" / "humanoid.xml")))


def _parameter(path):
    return pytest.param(path, id=path.stem, marks=MARKS.get(path.stem, ()))


@pytest.mark.parametrize("path", [_parameter(e) for e in EXAMPLES])
def test_example_runs(path, tmp_path):
    little_optimization = os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}  # as for all tests, see conftest.py
    more = ARGUMENTS.get(path.stem, ())
    done = subprocess.run(  # the warnings are those of kt.load, see NotModelled
        [sys.executable, "-W", "error", "-W", "ignore::UserWarning:__main__", str(path), *more],
        cwd=tmp_path,
        env=little_optimization,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
