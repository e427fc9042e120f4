"""Each threshold names a benchmark that measures it again, and is stated in one place."""

import re
from pathlib import Path

import pytest

from benchmarks import cases
from kinetree.dynamics.schedules import tuning as of_schedules
from kinetree.lanes import tuning as of_lanes

PROGRAMS = {path.stem for path in Path(cases.__file__).parent.glob("*.py")}  # `python -m benchmarks.ground`
NAMES = {case.name for case in cases.CASES} | PROGRAMS


@pytest.mark.parametrize("module", [of_lanes, of_schedules], ids=lambda m: m.__name__)
def test_thresholds_name_benchmarks_that_exist(module):
    text = Path(module.__file__).read_text("utf-8")
    named = [
        name.strip() for group in re.findall(r"[\[(]([a-z0-9_/, ]+)[\])]$", text, re.M) for name in group.split(",")
    ]
    assert len(named) >= 5
    assert not [name for name in named if not any(name in case for case in NAMES)]


@pytest.mark.parametrize("module", [of_lanes, of_schedules], ids=lambda m: m.__name__)
def test_every_threshold_is_used_and_explained(module):
    path = Path(module.__file__)
    lines = [line for line in path.read_text("utf-8").splitlines() if re.match(r"[A-Z_]+ = ", line)]
    assert all("  # " in line for line in lines)
    sources = "".join(p.read_text("utf-8") for p in path.parents[1].rglob("*.py") if p != path)
    assert not [name for name in (line.split(" = ")[0] for line in lines) if f"tuning.{name}" not in sources]
