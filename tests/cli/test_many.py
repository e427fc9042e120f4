"""`kinetree simulate` on several devices and in several processes."""

import numpy as np
import pytest

import kinetree as kt
from kinetree.cli.app import run

WORDS = ("simulate", "chain:2", "--time", "0.02", "--batch", "6", "--json")


def saved(path):
    return kt.Trajectory.load(path)


def test_processes_and_shares_give_the_bits_of_one(tmp_path, capsys):
    assert run([*WORDS, "--out", str(tmp_path / "one.npz"), "--controller", "hold"]) == 0
    for words in (("--share", "0/2"), ("--share", "1/2"), ("--devices", "1", "--share", "0/1")):
        assert run([*WORDS, "--out", str(tmp_path / "two.npz"), "--controller", "hold", *words]) == 0
    one = saved(tmp_path / "one.npz")
    for parts in (("two.0of2.npz", "two.1of2.npz"), ("two.0of1.npz",)):
        two = kt.Trajectory.join([saved(tmp_path / part) for part in parts])
        assert np.array_equal(one.q, two.q)
        assert np.array_equal(one.tau, two.tau)


def test_processes_are_started_and_their_parts_joined(tmp_path, capsys):
    assert run([*WORDS, "--out", str(tmp_path / "one.npz")]) == 0
    assert run([*WORDS, "--out", str(tmp_path / "many.npz"), "--processes", "2", "--devices", "1"]) == 0, (
        capsys.readouterr().err
    )
    assert np.array_equal(saved(tmp_path / "one.npz").qd, saved(tmp_path / "many.npz").qd)
    assert {file.name for file in tmp_path.iterdir()} == {"one.npz", "many.npz"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--devices", "some"), "a number, or all"),
        (("--processes", "-1"), "at least 1"),
        (("--share", "1"), "as 0/8"),
        (("--share", "2/2"), "share must be"),
        (("--share", "0/2", "--processes", "2"), "leave --share out"),
    ],
)
def test_wrong_words_are_told(words, message, tmp_path, capsys):
    assert run([*WORDS, "--out", str(tmp_path / "run.npz"), *words]) == 1
    assert message in capsys.readouterr().err
