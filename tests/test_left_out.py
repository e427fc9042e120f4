"""The section on what a run left out: in a run of its own, on tests that skip in each way there is."""

import subprocess
import sys

TESTS = """
import pytest

@pytest.mark.skipif(True, reason="no such oracle")
def test_one(): ...

@pytest.mark.skipif(True, reason="no such oracle")
def test_two(): ...

def test_three():
    pytest.skip("no such file")

def test_four(): ...
"""
MODULE = 'import pytest\npytest.importorskip("no_such_module")\ndef test_five(): ...\n'


def test_every_group_is_named_with_its_reason(tmp_path):
    (tmp_path / "conftest.py").write_text("from tests.left_out import pytest_terminal_summary\n")
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "test_module.py").write_text(MODULE)
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", "--rootdir", str(tmp_path)]
    said = subprocess.run([*run, "-c", "/dev/null", str(tmp_path)], capture_output=True, text=True, check=True).stdout
    section = said.split("left out of this run")[1]
    assert "2 in test_some.py: no such oracle" in section
    assert "1 in test_some.py: no such file" in section
    assert "1 in test_module.py: could not import 'no_such_module'" in section
    assert "tests that -m 'not slow' deselects" in section
