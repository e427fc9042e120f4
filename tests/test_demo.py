"""The demo, on mechanisms small enough for a test."""

from kinetree.cli.demo import FORWARD, PICTURE, demo
from kinetree.dynamics.schedules.choose import SCHEDULES


def test_the_demo_prints_a_table_for_each_problem_and_draws(tmp_path, monkeypatch, capsys):
    here, there = tmp_path / "here", tmp_path / "there" / "demo.png"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr("kinetree.cli.demo.REPEAT_SECONDS", 0.0)
    monkeypatch.setattr("kinetree.cli.demo.PICTURE", there)
    demo(large=40, small=4)
    text = capsys.readouterr().out
    for title in ("binary tree of 40 bodies", "arm of 4 bodies"):
        assert text.count(title) == 2  # inverse and forward dynamics
    assert text.count("chosen") == 4
    for schedule in SCHEDULES:
        assert text.count(f"│ {schedule} ") == (4 if schedule in FORWARD else 2)
    assert there.stat().st_size > 10_000
    assert f"wrote {there}" in text
    assert list(here.iterdir()) == [], "the demo leaves no file where it was started"


def test_the_picture_goes_to_a_folder_for_temporary_files():
    assert PICTURE.is_absolute()


def test_a_picture_that_can_not_be_written_is_told(tmp_path, capsys):
    from rich.console import Console

    from kinetree.cli.demo import Measured, _write_picture

    (tmp_path / "file").write_text("in the way")
    rows = {"a": [Measured("lanes", 1.0, 1.0, 0.0, True)]}
    _write_picture(rows, tmp_path / "file" / "demo.png", Console())
    assert "no picture: " in capsys.readouterr().out
