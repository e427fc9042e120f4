"""The number of threads: what is taken, what is refused, and that it holds at any time."""

import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.schedules.staged import staged
from kinetree.lanes.cpu import threads
from kinetree.lanes.kept.notice import forget_warnings


@pytest.fixture(autouse=True)
def all_cores(monkeypatch):
    monkeypatch.delenv("KINETREE_THREADS", raising=False)
    forget_warnings()
    yield
    kt.set_threads(None)


@pytest.mark.parametrize("n", [1.5, 2.0, "2", "²", np.float64(2), [2], 0, -1, 2**40, threads.MAX_THREADS + 1])
def test_what_is_no_number_of_threads_is_refused(n):
    kt.set_threads(3)
    with pytest.raises(ValueError, match=r"whole number|at least one thread is needed"):
        kt.set_threads(n)
    assert threads.threads() == 3


@pytest.mark.parametrize("n", [1, 7, np.int32(4), threads.MAX_THREADS])
def test_whole_numbers_are_taken(n):
    kt.set_threads(n)
    assert threads.threads() == n


@pytest.mark.parametrize("text", ["²", "٣", "many", "1.5", "0", "-2", str(2**40), "4 threads"])
def test_nonsense_in_the_environment_is_told_once(text, monkeypatch):
    cores = threads.threads()
    monkeypatch.setenv("KINETREE_THREADS", text)
    with pytest.warns(RuntimeWarning, match="KINETREE_THREADS must be a whole number") as told:
        assert [threads.threads() for _ in range(3)] == [cores] * 3
    assert len(told) == 1


@pytest.mark.parametrize(("text", "n"), [("3", 3), (" 5 ", 5)])
def test_the_number_of_the_environment(text, n, monkeypatch):
    monkeypatch.setenv("KINETREE_THREADS", text)
    assert threads.threads() == n
    kt.set_threads(2)
    assert threads.threads() == 2


@pytest.mark.cpu
def test_a_tree_is_cut_anew_for_another_number():
    """The stages of one tree were kept whatever the number of threads was."""
    tree = kt.auto_tree(3000).tree
    lanes = {}
    for n in (2, 4, 2):
        kt.set_threads(n)
        lanes.setdefault(n, []).append(max(stage.rows.shape[1] for stage in staged(tree).stages))
    assert lanes[4][0] > lanes[2][0] == lanes[2][1]
