"""Every example runs, as a program of its own, without a warning but that limits do not act."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kinetree as kt
from tests import quick_code

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


ARGUMENTS = {"07_learn": ("--steps", "4096")}  # enough to see that it runs
MARKS = {
    "07_learn": pytest.mark.thorough,
    "09_identify": pytest.mark.thorough,
}


def test_there_are_nine():
    assert [e.name[:2] for e in EXAMPLES] == [f"0{k}" for k in range(1, 10)]


def test_the_humanoid_of_make_show_steps_in_native_code():
    """XLA would compile for a minute before it moves."""
    assert "advance: native" in str(kt.explain(kt.load(EXAMPLES[0].parent / "robots" / "humanoid.xml")))


# Each as `python example.py` would run it; in one process, since JAX takes two seconds to start. One goes over all
# methods of forward dynamics, which tests/dynamics/test_methods.py compiles: here over three.
RUN = """
import importlib, runpy, sys
methods = importlib.import_module("kinetree.dynamics.forward_dynamics").METHODS
for name in set(methods) - {{"aba", "crba", "cfa"}}:
    del methods[name]
for path, *more in {examples!r}:
    print("==", path, flush=True)
    sys.argv = [path, *more]
    runpy.run_path(path, run_name="__main__")
"""
QUICK = [e for e in EXAMPLES if e.stem not in MARKS]
OTHERS = [pytest.param([e], id=e.stem, marks=MARKS[e.stem]) for e in EXAMPLES if e.stem in MARKS]


@pytest.mark.parametrize("examples", [pytest.param(QUICK, id="quick"), *OTHERS])
def test_examples_run(examples, tmp_path):
    code = quick_code.IN_CHILDREN + RUN.format(examples=[(str(e), *ARGUMENTS.get(e.stem, ())) for e in examples])
    done = subprocess.run(  # the warnings are those of kt.load, see NotModelled
        [sys.executable, "-W", "error", "-W", "ignore::UserWarning:__main__", "-c", code],
        cwd=tmp_path,
        env=os.environ | quick_code.ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, (done.stdout[-500:], done.stderr)
    said = re.split("^== .*$", done.stdout, flags=re.M)[1:]
    assert len(said) == len(examples)
    assert all(text.strip() for text in said), "an example says nothing"
