"""The demo, on mechanisms small enough for a test."""

import numpy as np
from rich.console import Console

import kinetree as kt
from kinetree.cli import demo


def test_the_demo_measures_prints_and_draws(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = demo.measure("tree", kt.auto_tree(12, 2, 0.3), 1)
    assert {line.schedule for line in lines if line.computes == demo.INVERSE} == set(demo.SCHEDULES)
    assert all(line.error < 1e-12 and np.isfinite(line.again) for line in lines)
    assert sum(line.chosen for line in lines) == 2  # one for inverse, one for forward dynamics
    console = Console(record=True, width=140)
    console.print(demo.table(lines))
    text = console.export_text()
    assert "auto takes this" in text
    assert text.count("sequential") == 2
    demo.picture(lines, tmp_path / "demo.png")
    assert (tmp_path / "demo.png").stat().st_size > 10_000
