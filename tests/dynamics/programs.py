"""Lane programs of inverse and forward dynamics, by the kind of mechanism that they serve."""

from kinetree.dynamics.algorithms.aba import aba_of
from kinetree.dynamics.algorithms.crba import CRBA
from kinetree.dynamics.algorithms.rnea import RNEA
from kinetree.dynamics.schedules.lane_algorithm import LaneAlgorithm
from kinetree.dynamics.schedules.lane_rows import Traits
from kinetree.dynamics.schedules.lanes import Variant, lane_program


def rnea_lanes(quaternions: bool, external: bool, deep: bool = False, hinges: bool = False) -> LaneAlgorithm:
    return lane_program(RNEA, Variant(Traits(quaternions, deep, hinges), external))


def aba_lanes(
    quaternions: bool,
    external: bool,
    deep: bool = False,
    hinges: bool = False,
    again: bool = False,
    checked: bool = True,
) -> LaneAlgorithm:
    algorithm = aba_of(not checked)
    algorithm = algorithm.again if again else algorithm
    return lane_program(algorithm, Variant(Traits(quaternions, deep, hinges), external))


def crba_lanes(quaternions: bool, packed: bool) -> LaneAlgorithm:
    return lane_program(CRBA, Variant(Traits(quaternions, False, False), packed=packed))
