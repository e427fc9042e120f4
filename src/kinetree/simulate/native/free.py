"""Accelerations of a mechanism without constraints, in the middle of a step: the articulated-body algorithm.

It is the program of forward dynamics (dynamics/algorithms/aba.py), in the frames of the rows, with springs, dampers,
rotors and forces on bodies, moved inside the step. Its memory comes last.
"""

from kinetree.constrain.native.memory import ROW
from kinetree.constrain.native.parts import Part
from kinetree.constrain.native.plan import Plan
from kinetree.dynamics.algorithms.aba import aba_of
from kinetree.dynamics.schedules.lane_algorithm import LaneAlgorithm
from kinetree.dynamics.schedules.lanes import lane_program_of
from kinetree.lanes.program.inside import inside
from kinetree.model import Model

FIELDS = {"qd": "qd", "tau": "b", "load": "load", "qdd": "alpha"}  # of rows; coordinates have slots of their own
APART = {"q": 1} | dict.fromkeys(FIELDS, ROW.size)
INPUTS = ("q", "qd", "tau", "load")


def free_algorithm(model: Model, firm: bool, loaded: bool, external: bool) -> LaneAlgorithm:
    """The program of a model.

    Arguments:
        model: the mechanism.
        firm: True if no pivot needs a check (dynamics/firmness.py). loaded: True if joints have loads, for velocity
        terms at the end of the step. external: True if forces act on bodies.
    """
    return lane_program_of(aba_of(firm, loaded), model, external)


def free_slots(algorithm: LaneAlgorithm, plan: Plan) -> int:
    """Slots in addition to those of the step."""
    return algorithm.memory.size * (plan.n + 1)


def free_parts(algorithm: LaneAlgorithm, f_ext: int | None) -> list[Part]:
    """From q, qd, forces and loads to accelerations; `f_ext` is the number of the lane array of forces on bodies."""
    external = f_ext is not None
    names = INPUTS[: algorithm.program.n_inputs - external]
    given = (*names, f_ext) if f_ext is not None else names

    def part(k: int) -> Part:
        moved = inside(algorithm.program.loops[k], given, ("qdd",), APART)

        def table(plan: Plan):
            slots = {name: lambda rows, f=f: plan.row(rows) + ROW.at(0, f).offset for name, f in FIELDS.items()}
            own = algorithm.turns(plan.structure)[k][0]
            return moved.table(own, plan.slots, slots | {"q": lambda column: plan.q + column})

        return Part(moved.loop, table, lambda model, *_: algorithm.values(model)[k])

    return [part(k) for k in range(len(algorithm.parts))]
