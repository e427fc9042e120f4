"""The performance page is written from JSON lines, owns up to what is slower, and is up to date."""

import json
from pathlib import Path

import pytest

from benchmarks.cases import CASES, Case
from benchmarks.measure import describe
from benchmarks.operations import of_a_body
from benchmarks.records import append, read
from benchmarks.text import count, rate, ratio, seconds, table

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure

from benchmarks import experiments, summary
from benchmarks.report import machines, main, page, pages

ROOT = Path(__file__).parents[2]
MACHINE = {
    "run": "2026-01-02T03:04:05Z", "commit": "abc", "jax": "0.10", "jaxlib": "0.10", "numpy": "2", "llvmlite": "0.4",
    "python": "3.11", "device": "a device", "processor": "a processor", "threads": 2, "copy_bandwidth": 3e10,
}  # fmt: skip
ARM = Case("cpu", "inverse_dynamics", 7, 1.0, 4096)


def record(case: Case, platform: str, median: float, **more) -> dict:
    return describe(case) | MACHINE | {
        "platform": platform, "median_s": median, "states_per_s": case.batch / median, "compile_s": 0.5,
        "ns_per_body": 1e9 * median / case.n / case.batch, "fraction_of_copy_bandwidth": 0.1, "relative_error": 1e-15,
    } | more  # fmt: skip


@pytest.fixture(autouse=True)
def few_pictures(request, monkeypatch):
    """One test draws all kinds of pictures; for the others their names are enough."""
    if request.node.name != "test_the_page_has_every_section_and_its_figures":
        monkeypatch.setattr(Figure, "savefig", lambda _, path, **__: path.touch())


def every_group(platform: str, median: float) -> list[dict]:
    measured = [record(c, platform, median) for c in CASES if not c.algorithm.startswith("first_")]
    first = Case("cpu", "first_inverse_dynamics", 7, 1.0, 4096)
    return [
        *measured,
        describe(first)
        | MACHINE
        | {
            "platform": platform,
            "first_result_s": 0.7,
            "from_cache_s": 0.05,
            "relative_error": 1e-15,
        },
    ]


def peers(median: float) -> list[dict]:
    pinocchio = {"library": "pinocchio", "version": "4", "way": "in parallel", "run": "2026-02-01T00:00:00Z"}
    ours = record(ARM, "cpu", 1e-3, run="2026-02-01T00:00:00Z")
    missing = MACHINE | {"case": "", "library": "frax", "missing": "no module", "platform": "cpu", "run": ours["run"]}
    return [ours, record(ARM, "cpu", median, **pinocchio), missing]


def test_the_page_has_every_section_and_its_figures(tmp_path):
    lines = tmp_path / "lines.jsonl"
    for each in [*every_group("cpu", 1e-3), *every_group("gpu", 1e-4), *peers(30e-3)]:
        append(lines, each)
    assert main([str(lines), "--docs", str(tmp_path)]) == 0
    text = (tmp_path / "performance_details.md").read_text("utf-8")
    for heading in (
        "## a processor",
        "## a device",
        "dense mass matrix",
        "Goals",
        "Scan",
        "Methods",
        "first result",
        "slower",
    ):
        assert heading in text
    assert "a processor with 2 threads" in text
    assert "Not installed: frax" in text
    drawn = {p.name for p in (tmp_path / "performance").glob("*.png")}
    kinds = ("rnea", "crba", "scans", "methods")
    assert drawn == {f"a_{name}_{kind}.png" for name in ("processor", "device") for kind in kinds} | {
        "a_processor_peers.png"
    }
    assert all(f"performance/{name}" in text for name in drawn)


def test_what_is_slower_is_said(tmp_path):
    slow = page([*every_group("cpu", 1.0), *peers(0.5e-3)], tmp_path).split("fell short")[1]
    assert "one core of an EPYC 7413" in slow
    assert "short of its goal: inverse dynamics, chain of 1\u202f000\u202f000" in slow
    assert "short of its goal: first result" in slow
    assert "pinocchio, in parallel 500 µs" in slow
    assert "0.5 times Pinocchio, goal 20 times" in slow
    assert "few digits" not in slow
    rough = record(Case("yang_links", "forward_dynamics", 200, method="cg"), "cpu", 1e-3, relative_error=0.02)
    assert "few digits: forward dynamics, chain of 200 by cg: relative error 2e-02" in page([rough], tmp_path)
    fast = page([record(Case("lynghus_rnea", "inverse_dynamics", 1000), "cpu", 1e-6)], tmp_path)
    assert "Nothing that was measured here." in fast


def test_narrower_vectors_are_set_beside_the_wider(tmp_path):
    settings = {"KINETREE_AVX512": "0"}
    text = page([record(ARM, "cpu", 1e-3), record(ARM, "cpu", 2e-3, settings=settings)], tmp_path)
    assert "| numpy | 2 ms | 0.50 |" in text


def test_ratios_stay_within_a_run_when_kinetree_was_measured_again(tmp_path):
    again = record(ARM, "cpu", 1e-6, run="2026-03-01T00:00:00Z")
    assert "| 30 | 20 | yes |" in page([*peers(30e-3), again], tmp_path)


def test_two_machines_have_a_section_each(tmp_path):
    text = page([record(ARM, "cpu", 1e-3), record(ARM, "cpu", 1e-3, processor="another processor")], tmp_path)
    assert "## a processor" in text
    assert "## another processor" in text


def test_a_busy_machine_is_said_to_be_busy(tmp_path):
    assert "a load of 3.5" in page([record(ARM, "cpu", 1e-3, load=3.5)], tmp_path)
    assert "a load of" not in page([record(ARM, "cpu", 1e-3, load=0.1)], tmp_path)


def test_no_goal_is_judged_on_a_busy_machine(tmp_path):
    quiet = page(peers(30e-3), tmp_path)
    busy = page([r | {"load": 5.0} for r in peers(30e-3)], tmp_path)
    assert "| 30 | 20 | yes |" in quiet
    assert "| 30 | 20 | not judged |" in busy


def test_a_failed_case_is_on_the_page(tmp_path):
    failed = describe(ARM) | MACHINE | {"platform": "cpu", "failed": "ValueError: broken"}
    assert "ValueError: broken" in page(
        [failed, record(Case("lynghus_rnea", "inverse_dynamics", 10), "cpu", 1e-6)], tmp_path
    )


def test_the_last_record_of_a_case_counts(tmp_path):
    case = Case("lynghus_rnea", "inverse_dynamics", 10)
    text = page([record(case, "cpu", 2e-6, run="2026-02"), record(case, "cpu", 1e-6, run="2026-01")], tmp_path)
    assert "| 2 µs |" in text
    assert "| 1 µs |" not in text


def test_the_page_in_the_documentation_is_what_the_results_say(tmp_path):
    results = sorted((ROOT / "benchmarks" / "results").glob("*.jsonl"))
    for name, text in pages(read(results), tmp_path / "performance").items():
        assert text == (ROOT / "docs" / name).read_text("utf-8"), f"run python -m benchmarks.report: {name}"
    for folder in ("performance", "experiments"):
        drawn = {p.name for p in (tmp_path / folder).glob("*.png")}
        assert drawn == {p.name for p in (ROOT / "docs" / folder).glob("*.png")}
        assert all(f"{folder}/{name}" in "".join(pages_of(ROOT / "docs")) for name in drawn)


def pages_of(folder: Path) -> list[str]:
    return [(folder / name).read_text("utf-8") for name in ("performance_details.md", "experiments.md")]


def test_the_short_page_is_one_screen_and_names_the_fastest_other(tmp_path):
    text = summary.page(machines([*every_group("cpu", 1e-3), *peers(30e-3)], tmp_path))
    assert "| kinetree | fastest other |" in text
    assert "pinocchio 137 k/s | 30 |" in text
    assert "184 ms on one core of an EPYC 7413 (Lynghus)" in text
    assert len((ROOT / "docs" / "performance.md").read_text("utf-8").splitlines()) < 50


def test_published_numbers_stand_beside_ours(tmp_path):
    text = experiments.Page([*every_group("cpu", 1e-3), *every_group("gpu", 1e-4)], tmp_path).text()
    assert "| 1\u202f000 | 165 µs | 1 ms |" in text  # the thesis's CPU
    assert "| 1\u202f000 | 751 µs | 100 µs | 765 µs | 100 µs | 767 µs | 100 µs |" in text  # and its GPU
    for work in ("Lynghus", "Critchley", "Fijany", "Yang"):
        assert f"## {work}" in text
    assert "300m + 279a published" in text


def test_operations_are_counted_in_our_programs():
    """RNEA of a body takes fewer products than one product of 6×6 matrices, 216."""
    inverse, forward = (of_a_body(name) for name in ("inverse_dynamics", "forward_dynamics"))
    assert 100 < inverse.multiplications < 216
    assert inverse.total < forward.total < 3 * inverse.total


@pytest.mark.parametrize(
    ("value", "words"), [(2.5, "2.5 s"), (1.5e-3, "1.5 ms"), (12e-6, "12 µs"), (3e-9, "3 ns"), (None, "")]
)
def test_times_have_units(value, words):
    assert seconds(value) == words


def test_numbers_are_short():
    assert [rate(x) for x in (3e9, 2.5e6, 1e3, 7.0, None)] == ["3 G/s", "2.5 M/s", "1 k/s", "7 /s", ""]
    assert [ratio(x) for x in (0.008294, 1.0, 13.24, 11_083.2)] == ["0.0083", "1", "13.2", "11\u202f083"]
    assert count(1_000_000) == "1\u202f000\u202f000"
    assert list(table(["a", "b"], [["1", "2"]])) == ["| a | b |", "|---|---:|", "| 1 | 2 |", ""]


def test_lines_are_kept_as_they_come(tmp_path):
    path = tmp_path / "new" / "lines.jsonl"
    append(path, {"a": 1})
    append(path, {"b": 2})
    assert read([path]) == [{"a": 1}, {"b": 2}] == [json.loads(x) for x in path.read_text().splitlines()]


def test_real_robots_are_shown_with_the_worst_of_them(tmp_path):
    shared = MACHINE | {"platform": "cpu"}
    arm, dog = ({"table": "robots", "robot": name, "call": "batch"} | shared for name in ("arm", "dog"))
    floor = {"table": "ground", "robot": "ant", "worlds": 64, "dtype": "float64", "pairs": "floor only"} | shared
    lines = [
        *every_group("cpu", 1e-3),
        arm | {"ratios": {"ID": 12.0}},
        dog | {"ratios": {"ID": 0.5}},
        dog | {"ratios": {"ID": 0.75}, "run": "2027-01-01T00:00:00Z"},  # measured again: the earlier one is gone
        floor | {"controls": "noisy", "steps_per_second": 2e6, "mujoco": 1e5},
    ]
    text = pages(lines, tmp_path / "performance")["performance.md"]
    assert "| inverse dynamics |  |  | 12 | 0.75 (dog) |" in text
    assert "| ant, floor only, noisy controls | a processor | 64, float64 | 2 M/s | MuJoCo, one core: 100 k/s |" in text
