"""The flags of the tests are known to the XLA that runs them, and leave those of the caller alone."""

from tests.xla_flags import EXTRA, flags, known


def test_flags_that_xla_does_not_know_are_left_out(monkeypatch):
    assert known("xla_cpu_enable_fast_math")
    assert not known("xla_cpu_enable_fast")  # part of a name
    monkeypatch.setattr("tests.xla_flags.WANTED", {"xla_cpu_no_such_flag": "1", "xla_cpu_enable_fast_math": "false"})
    assert flags("--mine=2") == f"{EXTRA} --xla_cpu_enable_fast_math=false --mine=2"


def test_flags_are_set_once():
    given = flags("--mine=2")
    assert flags(given) == given
