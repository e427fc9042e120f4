"""Batches of fewer lanes than a block holds are one block, which repeats the last of them."""

import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.algorithms.kinematics import KINEMATICS
from kinetree.dynamics.algorithms.rnea import RNEA
from kinetree.dynamics.schedules.lanes import lane_program_of
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
