"""The documentation builds without a warning, its code runs, its pictures are what the code draws."""

import os
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import kinetree as kt

ROOT = Path(__file__).parents[1]


def blocks(path: Path) -> list[str]:
    """The python blocks of a page."""
    return re.findall(r"```python\n(.*?)```", path.read_text("utf-8"), re.S)


@pytest.mark.parametrize("page", ["README.md", "docs/start.md", "docs/rollouts.md", "docs/environments.md"])
def test_code_on_the_page_runs(page, tmp_path):
    code = "\n".join(blocks(ROOT / page)).replace("examples/", f"{(ROOT / 'examples').as_posix()}/")
    quick = os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}  # as for all tests, see conftest.py
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=quick, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_readme_has_ten_lines_and_a_small_picture():
    (code,) = blocks(ROOT / "README.md")
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", (ROOT / "README.md").read_text("utf-8")):
        assert (ROOT / picture).stat().st_size < 200_000


def test_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "api" / "index.html").read_text("utf-8")
    assert "Accelerations that the generalised forces" in page, "docstrings are missing"


def test_every_public_name_is_in_the_reference():
    """By the place where it is defined, as modules share names with functions."""
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    things = [getattr(kt, name) for name in kt.__all__ if name != "__version__"]
    paths = [x.__name__ if isinstance(x, ModuleType) else f"{x.__module__}.{x.__qualname__}" for x in things]
    assert [path for path in paths if f"::: {path}\n" not in page] == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_pictures_are_those_that_the_code_draws(tmp_path):
    """All but the one that simulates for ten minutes are drawn again, and have the size of those that are committed."""
    from PIL import Image

    spec = spec_from_file_location("figures", ROOT / "docs" / "figures.py")
    assert spec is not None
    assert spec.loader is not None
    figures = module_from_spec(spec)
    spec.loader.exec_module(figures)
    names = {draw.__name__ for draw in figures.FIGURES}
    assert names == {p.stem for p in (ROOT / "docs" / "figures").glob("*.png")}
    for draw in figures.FIGURES:
        if draw.__name__ in ("energy", "hero"):
            continue
        draw().savefig(tmp_path / "new.png", dpi=110)
        with (
            Image.open(tmp_path / "new.png") as new,
            Image.open(ROOT / "docs" / "figures" / f"{draw.__name__}.png") as old,
        ):
            assert new.size == old.size
            assert np.abs(np.asarray(new, float) - np.asarray(old, float)).mean() < 10, (
                f"{draw.__name__} is out of date"
            )
