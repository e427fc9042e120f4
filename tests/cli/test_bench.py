"""`kinetree bench`, on chains small enough for a test."""

import json

import pytest

from kinetree.cli.app import run
from tests.simulate.robots import ROBOTS


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_methods_are_laid_side_by_side(tmp_path, capsys):
    words = ["bench", "methods", "--links", "3,4", "--methods", "aba,crba", "--seconds", "0", "--out", str(tmp_path)]
    assert run(words) == 0
    assert "crba" in capsys.readouterr().out
    records = lines(tmp_path / "methods.jsonl")
    assert [(r["links"], r["method"]) for r in records] == [(3, "aba"), (3, "crba"), (4, "aba"), (4, "crba")]
    assert all(r["seconds"] > 0 and r["difference"] < 1e-10 for r in records)
    assert (tmp_path / "methods.png").stat().st_size > 1000


def test_dcae_is_laid_beside_its_counts(tmp_path, capsys):
    words = [
        "bench",
        "dcae",
        "--links",
        "8",
        "--chunks",
        "2",
        "--balance",
        "1,2",
        "--seconds",
        "0",
        "--out",
        str(tmp_path),
    ]
    assert run(words) == 0
    assert "balance 2" in capsys.readouterr().out
    serial, *records = lines(tmp_path / "dcae.jsonl")
    assert serial["method"] == "aba"
    assert [r["balance"] for r in records] == [1, 2]
    assert all(r["operations"] > 0 for r in records)


@pytest.mark.parametrize("words", [["--links", "a,b"], ["--links", "3", "--methods", "magic"]])
def test_a_wrong_word_is_told_in_one_line(words, tmp_path, capsys):
    assert run(["bench", "methods", *words, "--seconds", "0", "--out", str(tmp_path)]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_declared_cases_run_from_the_program(tmp_path, capsys):
    out = tmp_path / "records.jsonl"
    assert run(["bench", "run", "--filter", "tiny/forward_kinematics", "--seconds", "0", "--out", str(out)]) == 0
    (record,) = lines(out)
    assert record["algorithm"] == "forward_kinematics"
    assert run(["bench", "run", "--filter", "h200", "--filter", "cpu/", "--list"]) == 0
    assert "n=4000000" in capsys.readouterr().out
    assert run(["bench", "run", "--peers", "--filter", "cpu/", "--list"]) == 0
    assert "n=1000000" not in capsys.readouterr().out


def test_declared_cases_need_the_repository(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("kinetree.cli.bench.kt.__file__", str(tmp_path / "a" / "kinetree" / "__init__.py"))
    assert run(["bench", "run"]) == 1
    assert "repository" in capsys.readouterr().err


def test_methods_of_a_robot(tmp_path, capsys):
    robot = ROBOTS / "arm7.urdf"
    words = ["bench", "methods", str(robot), "--methods", "aba,crba", "--seconds", "0.001", "--out", str(tmp_path)]
    assert run(words) == 0
    records = lines(tmp_path / "methods.jsonl")
    assert [(r["model"], r["links"], r["method"]) for r in records] == [("arm7", 7, "aba"), ("arm7", 7, "crba")]
    assert all(r["difference"] < 1e-9 for r in records)
    assert (tmp_path / "methods.png").stat().st_size > 1000


def test_methods_that_refuse_say_why_once(tmp_path, capsys):
    words = ["bench", "methods", str(ROBOTS / "quadruped.urdf"), "--methods", "cfa", "--out", str(tmp_path)]
    assert run(words) == 0
    shown = capsys.readouterr().out
    assert "refused" in shown
    assert shown.splitlines()[-1].startswith("cfa: serves serial chains only")
