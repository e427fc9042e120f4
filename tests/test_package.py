"""What a release says about itself agrees: version, changelog, citation, workflow, and what travels in the archives."""

import re
import tomllib
from pathlib import Path

import pytest

import kinetree as kt

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
READING_WORDS = 700  # in two to three minutes


def test_changelog_and_citation_are_of_this_version():
    versions = re.findall(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert versions[0] == kt.__version__
    assert f'version: "{kt.__version__}"' in (ROOT / "CITATION.cff").read_text("utf-8")


def test_a_version_is_read_in_two_minutes():
    of_version = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text("utf-8"), flags=re.M)[2:]
    assert of_version
    assert all(len(text.split()) < READING_WORDS for text in of_version)


def test_works_behind_algorithms_are_cited():
    """Each source that a page about an algorithm names is a reference of CITATION.cff, by family name and year."""
    yaml = pytest.importorskip("yaml")
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["references"]
    known = {(work["authors"][0]["family-names"], work["year"]) for work in cited}
    named = set()
    for page in (ROOT / "docs" / "algorithms").glob("*.md"):
        for line in re.findall(r"\*\*Source\*\*: (.*)", page.read_text("utf-8")):
            named |= {(m[1], int(m[2])) for m in re.finditer(r"([A-Z]\w+)[^;.]*? ((?:19|20)\d\d)", line)}
    assert len(named) > 8
    assert named - known == set()


def test_the_workflow_runs_what_ci_runs_and_says_that_it_is_unproven():
    yaml = pytest.importorskip("yaml")
    text = (ROOT / ".github" / "workflows" / "test.yml").read_text("utf-8")
    assert "UNPROVEN" in text
    jobs = yaml.safe_load(text)["jobs"]
    machines = [each["os"] for each in jobs["make"]["strategy"]["matrix"]["include"]] + [jobs["windows"]["runs-on"]]
    assert all(any(kind in m for m in machines) for kind in ("ubuntu-latest", "arm", "macos", "windows"))
    assert {"run": ".ci/run"} in jobs["make"]["steps"]
    steps = " ".join(step.get("run", "") for step in jobs["windows"]["steps"])
    tools = "ruff check .", "ruff format --check .", "pyright", "pytest -n 2 --dist worksteal"
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for tool in tools:
        assert f"$(BIN)/{tool}" in makefile
        assert tool in steps
    missing = {"example-robot-data", "pin"}  # no wheels for Windows
    needed = {re.split(r"[\[>= ]", each)[0] for each in PROJECT["project"]["optional-dependencies"]["test"]}
    assert [each for each in needed - missing - {"kinetree"} if each not in steps] == []


def test_archives_hold_what_the_tests_and_pages_need():
    kept = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    tracked = {p.name for p in ROOT.iterdir() if not p.name.startswith(".")}
    needed = {"src", "tests", "docs", "examples", "benchmarks", "Makefile", "mkdocs.yml", "CITATION.cff"}
    assert needed <= tracked
    assert needed <= set(kept)
