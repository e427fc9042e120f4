"""Batches that do not fill blocks: one block repeats its last lane, or the rest goes one by one."""

import ctypes

import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.algorithms.kinematics import KINEMATICS
from kinetree.dynamics.algorithms.rnea import GRAVITY, RNEA
from kinetree.dynamics.schedules.lanes import lane_program_of
from kinetree.lanes.cpu.host import loaded
from kinetree.lanes.cpu.rest import SIGNATURE, some_lanes_text
from kinetree.lanes.target import compiled

MODEL = kt.auto_tree(5, 1.5, skew=0.3)
GUARD = 7.25  # in rows that no lane may write


@pytest.mark.cpu
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("algorithm", [RNEA, KINEMATICS])
def test_few_lanes_have_the_bits_of_many_and_write_no_other_rows(algorithm, dtype):
    program = lane_program_of(algorithm, MODEL)
    code = compiled(program.program, np.dtype(dtype).name)
    slots, widths, tables = program._sizes(MODEL)
    constants = program.constants(MODEL, np.dtype(dtype))
    rng = np.random.default_rng(0)
    many = 2 * code.width + 3
    inputs = tuple(rng.standard_normal((1, many, MODEL.nv)).astype(dtype) for _ in program.takes)

    def run(lanes, whole):
        rows = tuple(np.full((1, many, width), GUARD, dtype) for width in widths)
        given = (tuple(x[:, :lanes] for x in group) for group in (inputs, rows))
        code.frames(slots, tables, constants, *given, whole=whole)
        return rows

    wanted = run(many, True)
    for lanes in range(1, code.width + 2):
        for whole in (False, True):
            for found, expected in zip(run(lanes, whole), wanted, strict=True):
                np.testing.assert_array_equal(found[:, :lanes], expected[:, :lanes])
                assert (found[:, lanes:] == GUARD).all()


def note(name, place):
    """A function in place of `lanes` or `lane`, which notes its lanes."""
    stores = (
        f"store i64 %{x}, ptr getelementptr (i64, ptr @noted, i64 {place + k})" for k, x in enumerate(("lo", "hi"))
    )
    return f"define i1 @{name}({SIGNATURE}) {{\n" + "\n".join(f"  {x}" for x in stores) + "\n  ret i1 true\n}"


@pytest.mark.cpu
@pytest.mark.parametrize(
    ("turns", "numbers", "lanes", "middle"),
    [
        (60, 30, 8, 8),
        (60, 30, 1, 0),
        (60, 30, 2, 2),
        (60, 30, 9, 8),  # as two blocks they took 1.2 times as long
        (60, 30, 10, 10),
        (185, 9000, 4, 0),  # the regressor of a tree of 30 rows is mostly zeros: as a block four took 1.3 times as long
        (185, 9000, 5, 5),
        (185, 9000, 20, 16),
        (185, 9000, 21, 21),
    ],
)
def test_lanes_that_do_not_fill_a_block_go_one_by_one_if_that_is_quicker(turns, numbers, lanes, middle):
    program = lane_program_of(GRAVITY, MODEL).program
    first, each = f"i64 0, i64 {lanes}, ptr null", ", ".join(["ptr null"] * 4)
    text = "\n".join(
        [
            "@noted = global [4 x i64] zeroinitializer",
            note("lanes", 0),
            note("lane", 2),
            some_lanes_text(program, 8),
            "define i1 @main(ptr %turns, ptr %widths) {",
            f"  %a = call i1 @some_lanes({each}, ptr %turns, ptr %widths, i64 0, {first})",
            "  ret i1 %a\n}",
        ]
    )
    code = loaded("rest", text, np.dtype(np.float64), lambda: text)
    counts = np.array([1000 * loop.clears for loop in program.loops])  # turns that write zeros do not count
    counts[np.flatnonzero(counts == 0)[0]] = turns
    widths = np.array([*[0] * (2 * program.n_inputs + program.n_outputs), numbers])
    main = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_void_p)(code.address("main"))
    assert main(counts.ctypes.data, widths.ctypes.data)
    noted = (ctypes.c_int64 * 4).from_address(code.engine.get_global_value_address("noted"))
    assert tuple(noted) == ((0, middle) if middle else (0, 0)) + ((middle, lanes) if middle < lanes else (0, 0))
