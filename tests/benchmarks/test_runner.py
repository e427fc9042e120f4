"""One tiny case of each kind through the benchmark runner, and what its figures rest on."""

import json
from functools import partial

import numpy as np
import pytest

import kinetree as kt
from benchmarks.__main__ import main
from benchmarks.algorithms import ALGORITHMS
from benchmarks.cases import CASES, TINY, Case
from benchmarks.measure import least_bytes, make_problem
from benchmarks.reference import forward_kinematics, path_sums
from benchmarks.timing import copy_bandwidth, repeated

TOLERANCE = {"float64": 1e-12, "float32": 1e-5}  # of mechanisms of a dozen bodies


@pytest.fixture(autouse=True)
def small_copies(monkeypatch):
    monkeypatch.setattr("benchmarks.__main__.copy_bandwidth", partial(copy_bandwidth, megabytes=4))


def test_each_tiny_case_is_measured_and_right(tmp_path):
    out = tmp_path / "records.jsonl"
    assert main(["--filter", "tiny/", "--seconds", "0", "--out", str(out)]) == 0
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [r["case"] for r in records] == [case.name for case in TINY]
    for record in records:
        assert record["commit"] is not None
        assert record["processor"]
        if "skipped" in record:
            assert record["specialised"]
            continue
        assert record["relative_error"] < TOLERANCE[record["dtype"]]
        if "first_result_s" in record:
            assert record["first_result_s"] > 0
            assert record["from_cache_s"] > 0
        else:
            assert record["median_s"] > 0
            assert record["fraction_of_copy_bandwidth"] > 0


def test_a_filter_that_finds_nothing_says_so(capsys):
    assert main(["--filter", "no such case"]) == 1
    assert "no case" in capsys.readouterr().out


def test_a_case_that_fails_is_recorded_and_the_next_is_run(tmp_path, monkeypatch):
    bad, good = Case("x", "forward_dynamics", 3, method="no such"), Case("x", "inverse_dynamics", 3)
    monkeypatch.setattr("benchmarks.__main__.chosen", lambda filters: [bad, good])
    out = tmp_path / "records.jsonl"
    assert main(["--seconds", "0", "--out", str(out)]) == 1
    first, second = map(json.loads, out.read_text().splitlines())
    assert "no such" in first["failed"]
    assert second["median_s"] > 0


def test_names_of_cases_are_different_and_every_algorithm_is_tiny_once():
    assert len({case.name for case in CASES}) == len(CASES)
    assert {case.algorithm.removeprefix("first_") for case in TINY} == set(ALGORITHMS)


def test_a_wrong_result_has_a_large_error():
    for algorithm in ("inverse_dynamics", "forward_dynamics", "mass_matrix_and_bias", "forward_kinematics"):
        problem = make_problem(Case("x", algorithm, 6, 2.0, 4))
        right = problem.algorithm.call(problem.case, problem.model, *problem.state)
        wrong = tuple(1.001 * x for x in right) if isinstance(right, tuple) else 1.001 * right
        assert problem.error(right) < 1e-12
        assert problem.error(wrong) > 1e-4


def test_the_reference_walks_paths_by_doubling():
    model = kt.auto_tree(20, 1.5, 0.3)
    q = np.random.default_rng(0).uniform(-3, 3, (2, 20))
    rotation, position = forward_kinematics(model, q)
    pose = kt.forward_kinematics(model, q)
    np.testing.assert_allclose(rotation, pose.rotation, atol=1e-13)
    np.testing.assert_allclose(position, pose.position, atol=1e-12)
    np.testing.assert_array_equal(path_sums(model.parent, np.ones(20, int)), np.asarray(model.depth) + 1)


def test_least_bytes_of_dynamics_are_four_arrays_and_the_rows():
    assert least_bytes(Case("x", "inverse_dynamics", 8, 1.0, 1000, "float32")) == 4 * (4 * 8 * 1000 + 20 * 8)


@pytest.mark.parametrize("queued", [True, False])
def test_samples_hold_many_calls_when_a_call_is_short(queued):
    timed = repeated(lambda: np.zeros(1), 0.01, queued=queued)
    assert timed["calls_per_sample"] > 10
    assert timed["samples"] >= 3
    assert 0 < timed["best_s"] <= timed["median_s"] < 1e-3


@pytest.mark.parametrize("backend", ["cpu", "gpu"])  # NumPy's copies, and those of a device
def test_copies_have_a_bandwidth(backend, monkeypatch):
    monkeypatch.setattr("jax.default_backend", lambda: backend)
    assert copy_bandwidth(1, megabytes=8) > 1e7
