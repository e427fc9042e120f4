"""Long programs are compiled in pieces, a loop each, which other programs find in the cache."""

import numpy as np
import pytest

from kinetree.lanes import Program, tuning
from kinetree.lanes.cpu import host
from kinetree.lanes.cpu.compiled import CompiledProgram
from tests.dynamics.programs import rnea_lanes
from tests.lanes.test_repeat import bound, collatz, digits, square_root


@pytest.fixture
def in_pieces(monkeypatch, tmp_path):
    """Every loop apart, with a cache of its own; returns the LLVM texts that are compiled."""
    texts = []
    compiler = host.machine_code

    def machine_code(text):
        texts.append(text)
        return compiler(text)

    monkeypatch.setenv("KINETREE_CACHE", str(tmp_path))
    monkeypatch.setattr(tuning, "TOGETHER_MAX_LOOPS", 0)
    monkeypatch.setattr(tuning, "APART_MIN_EQUATIONS", 0)
    monkeypatch.setattr(host, "machine_code", machine_code)
    return texts


@pytest.mark.parametrize("make", [square_root, collatz, digits])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pieces_have_the_bits_of_the_whole(in_pieces, monkeypatch, tmp_path, make, dtype):
    """Masks, conditions, repeats in repeats, and what is read from and written to arrays, in vectors and alone."""
    program, slots, width = make()
    apart = CompiledProgram(program, dtype)
    assert len(in_pieces) == len(program.loops) + 1
    monkeypatch.setattr(tuning, "TOGETHER_MAX_LOOPS", 100)
    monkeypatch.setenv("KINETREE_CACHE", str(tmp_path / "another"))
    whole = CompiledProgram(program, dtype)
    assert len(in_pieces) == len(program.loops) + 2
    for lanes in (1, 3, 2 * whole.width + 1):
        x = np.arange(1.0, lanes + 1)[:, None].astype(dtype) * 37
        given = bound(program, slots, width, x)
        assert apart(*given)[0].tobytes() == whole(*given)[0].tobytes()


def test_three_modules_have_the_bits_of_one(monkeypatch, tmp_path):
    """Those for lanes side by side, for one lane, and for what calls them."""
    program, slots, width = digits()
    texts, compiler = [], host.machine_code
    monkeypatch.setattr(host, "machine_code", lambda text: texts.append(text) or compiler(text))
    found = []
    for lines in (0, 100_000):
        monkeypatch.setattr(tuning, "ONE_MODULE_MAX_LINES", lines)
        monkeypatch.setenv("KINETREE_CACHE", str(tmp_path / str(lines)))
        code = CompiledProgram(program, "float64")
        given = (bound(program, slots, width, np.arange(1.0, n + 1)[:, None]) for n in (1, 2, 3, 2 * code.width + 1))
        found.append([code(*x)[0].tobytes() for x in given])
    assert len(texts) == 3 + 1
    assert found[0] == found[1]


def test_programs_share_the_code_of_loops(in_pieces):
    """A second program of the same loops compiles only what holds them together."""
    first = rnea_lanes(False, False).program
    CompiledProgram(first, "float64")
    count = len(in_pieces)
    assert count == len(first.loops) + 1
    second = Program("another_name", first.body, first.n_inputs, first.n_outputs)
    CompiledProgram(second, "float64")
    assert len(in_pieces) == count + 1
    CompiledProgram(first, "float64")
    CompiledProgram(second, "float64")
    assert len(in_pieces) == count + 1  # Each program is found whole.
