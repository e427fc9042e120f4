"""Descriptions of what code is made from: the same for the same, different for whatever could change the code."""

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.algorithms.crba import FACTORS
from kinetree.dynamics.algorithms.rnea import RNEA
from kinetree.dynamics.schedules.lane_rows import Traits
from kinetree.dynamics.schedules.lanes import Variant, lane_program
from kinetree.dynamics.schedules.stages import CellPlan, inward_walks, outward_walks
from kinetree.lanes.kept.content import Indescribable, describe, source_files
from kinetree.lanes.program.derivative import adjoint_program, tangent_program
from kinetree.spatial import Vec3
from tests.dynamics.programs import aba_lanes, rnea_lanes


def test_steps_of_the_package_are_described_without_tracing(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("traced")

    programs = [f(q, e).program for f in (rnea_lanes, aba_lanes) for q in (False, True) for e in (False, True)]
    programs += [rnea_lanes(False, False, deep, hinges).program for deep, hinges in ((True, False), (False, True))]
    derived = [d(p, moving) for p in programs for d in (tangent_program, adjoint_program) for moving in (False, True)]
    plans = [CellPlan(RNEA, hinges) for hinges in (False, True)]
    walks = [outward_walks(p, 0).walk(2, r, False, g) for p in plans for r in (False, True) for g in (False, True)]
    walks += [inward_walks(plans[0], 1).walk(j, s, False) for j in (False, True) for s in (1, 2)]
    walks += [inward_walks(CellPlan(FACTORS, False), 1).walk(True, 2, False)]
    things = [*programs, *derived, *walks]
    monkeypatch.setattr(jax, "make_jaxpr", refuse)
    assert len({describe(x) for x in things}) == len(things)
    assert [describe(x) for x in things] == [describe(x) for x in things]
    again = lane_program.__wrapped__(RNEA, Variant(Traits(False, False, False))).program
    assert describe(again) == describe(rnea_lanes(False, False).program)


def test_values_are_told_apart_to_the_last_bit():
    x = np.arange(3.0)
    values = [1, True, 1.0, np.float32(1), np.float64(1), np.nextafter(1.0, 2), "1", b"1", None, (1,), [1], {"a": 1}]
    values += [x, x + 1e-16 + x * 1e-15, x.astype(np.float32), x[None], Vec3(1, 2, 3), (1, 2, 3), int, jnp.sin, np.sin]
    values += [partial(describe, 1), partial(describe, 2), describe]
    assert len(set(map(describe, values))) == len(values)


@pytest.mark.parametrize("thing", [lambda x: x, object(), jax.jit(lambda x: x), (1, lambda x: x)])
def test_what_comes_from_elsewhere_is_refused(thing):
    with pytest.raises(Indescribable):
        describe(thing)


def test_what_refers_to_itself_is_refused():
    itself: list = []
    itself.append(itself)
    with pytest.raises(Indescribable):
        describe(itself)


def test_the_digest_covers_every_room():
    """A change of any step makes other machine code, whichever room the step is in."""
    inside = {Path(path).relative_to(Path(kt.__file__).parent).as_posix() for path in source_files()}
    assert {"spatial/vec3.py", "dynamics/algorithms/rnea.py", "collide/plane.py", "lanes/llvm/emit.py"} <= inside
