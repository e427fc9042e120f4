"""The documentation builds without a warning, its code runs, its pictures are what the code draws."""

import os
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

import kinetree as kt
from tests import quick_code

ROOT = Path(__file__).parents[1]


def blocks(path: Path) -> list[str]:
    """The python blocks of a page."""
    return re.findall(r"```python\n(.*?)```", path.read_text("utf-8"), re.S)


LONG = {"contact", "gait", "identification", "loops", "many_devices"}  # they compile for 10 s and more each


@pytest.mark.parametrize("pages", ["quick", pytest.param("long", marks=pytest.mark.thorough)])
def test_tutorials_run(pages, tmp_path):
    every = {p.stem: text for p in sorted((ROOT / "docs" / "tutorials").glob("*.md")) if (text := whole(p))}
    chosen = [text for name, text in every.items() if (name in LONG) == (pages == "long")]
    assert len(chosen) >= 2
    run_pages(chosen, tmp_path)


FEWER = {  # states and steps; many take half a minute to simulate. Nobody looks at the page.
    "(1000,)": "(4,)",
    "batch=(4096,)": "batch=(4,)",
    "(64, ": "(4, ",
    "steps=10_000": "steps=20",
    ".wait()": ".stop()",
    "steps=1_024_000": "steps=2048",
}


def whole(page: Path) -> str:
    """The code of a page, with the paths of this checkout, on few states."""
    code = "\n".join(blocks(page)).replace("examples/", f"{(ROOT / 'examples').as_posix()}/")
    for many, few in FEWER.items():
        code = code.replace(many, few)
    return code


def run_pages(texts: list[str], folder: Path) -> None:
    """All in one process, as JAX takes two seconds to start and compiles for most; each with names of its own."""
    code = "\n".join(f"exec({text!r}, {{'__name__': 'page'}})" for text in texts)
    command = [sys.executable, "-c", quick_code.IN_CHILDREN + code]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | quick_code.ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


PAGES = ("README.md", *(f"docs/{name}.md" for name in ("start", "numbers", "rollouts", "environments")))
SHORT = ("index", "simulation", "constraints", "conventions", "scaling")


def test_code_on_the_pages_runs(tmp_path):
    texts = [whole(ROOT / "docs" / f"{name}.md") for name in SHORT]
    run_pages([*(whole(ROOT / page) for page in PAGES), *texts], tmp_path)


def test_every_page_with_code_is_run():
    with_code = {p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").rglob("*.md") if blocks(p)}
    tutorials = {p for p in with_code if p.startswith("docs/tutorials/")}
    assert with_code - tutorials == {*PAGES[1:], *(f"docs/{name}.md" for name in SHORT)}


def test_readme_has_ten_lines_and_a_small_picture():
    (code,) = blocks(ROOT / "README.md")
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", (ROOT / "README.md").read_text("utf-8")):
        assert (ROOT / picture).stat().st_size < 1_000_000


def test_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "api" / "dynamics" / "index.html").read_text("utf-8")
    assert "Accelerations that the generalised forces" in page, "docstrings are missing"
    assert re.search(r"doc-heading\">\s*(<[^>]*>)*\s*kt\.forward_dynamics", page), "names have no kt."


def test_every_public_name_is_in_the_reference():
    pages = "".join(page.read_text("utf-8") for page in (ROOT / "docs" / "api").glob("*.md"))
    told = re.findall(r"^::: kt\.(\w+)$", pages, re.M)
    assert sorted(told) == sorted(set(kt.__all__) - {"__version__"}), "one line for each, in docs/api"


def test_files_that_pages_name_exist():
    """On the pages about the present code; the changelog also names files of earlier versions."""
    folders = ("src", "tests", "benchmarks", "examples", "docs")
    files = {f"/{p.relative_to(ROOT).as_posix()}" for folder in folders for p in (ROOT / folder).rglob("*.py")}
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    missing = [
        (page.name, name)
        for page in pages
        if page.name != "changes.md"
        for name in re.findall(r"`([\w/]+\.py)`", page.read_text("utf-8"))
        if not any(file.endswith(f"/{name}") for file in files)
    ]
    assert not missing


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
