"""The demo, on mechanisms small enough for a test."""

from kinetree.cli.demo import FORWARD, PICTURE, demo
from kinetree.dynamics.schedules.choose import SCHEDULES


def test_the_demo_prints_a_table_for_each_problem_and_draws(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kinetree.cli.demo.PATIENCE", 0.0)
    demo(large=40, small=4)
    text = capsys.readouterr().out
    for title in ("binary tree of 40 bodies", "arm of 4 bodies"):
        assert text.count(title) == 2  # inverse and forward dynamics
    assert text.count("chosen") == 4
    for schedule in SCHEDULES:
        assert text.count(f"│ {schedule} ") == (4 if schedule in FORWARD else 2)
    assert (tmp_path / PICTURE).stat().st_size > 10_000
