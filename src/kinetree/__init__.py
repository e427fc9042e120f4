"""kinetree: the dynamics of kinematic trees, in parallel."""

import sys
from typing import TYPE_CHECKING, Any

from ._unknown import did_you_mean
from ._version import __version__
from .actuate import activation_rate
from .constrain import (
    Constrained,
    Contacts,
    actuator_force,
    constrained_dynamics,
    constrained_inverse_dynamics,
    contacts,
)
from .dynamics import (
    LTDL,
    PackedMatrix,
    Pose,
    ShardedTree,
    bias_force,
    center_of_mass,
    centroidal_momentum,
    centroidal_momentum_matrix,
    close_loops,
    com_jacobian,
    coriolis_matrix,
    difference,
    factorize,
    forward_dynamics,
    forward_dynamics_derivatives,
    forward_kinematics,
    frame_acceleration,
    frame_velocity,
    gravity_force,
    hybrid_dynamics,
    impulse_response,
    integrate,
    inverse_dynamics,
    inverse_dynamics_derivatives,
    inverse_dynamics_regressor,
    inverse_inertia_at,
    jacobian,
    kinetic_energy,
    mass_matrix,
    momentum,
    passive_force,
    potential_energy,
    shard_tree,
    tendon_jacobian,
    tendon_length,
    with_tendons,
)
from .io import load
from .lanes import set_threads
from .model import (
    Actuator,
    Actuators,
    Crank,
    Fixed,
    Free,
    Helical,
    Joint,
    Limits,
    Loop,
    Model,
    ModelError,
    Mount,
    Muscle,
    Pieces,
    Planar,
    Prismatic,
    Pulley,
    Revolute,
    Sensor,
    Shape,
    Side,
    Spherical,
    State,
    Tendon,
    Translation,
    Via,
    World,
    Wrap,
    auto_tree,
    chain_pieces,
    neutral,
    place_bodies,
    random_state,
    scaled,
    specialize,
    with_ground,
    with_shapes,
)
from .sense import contact_forces, sensors, with_sensors
from .simulate import SimulationError, Trajectory, advance, controllers, explain, initial_state, rollout, simulate, step

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .view import open_viewer as view


def _plot(run: Trajectory, model: Model | None = None, *, state: int | None = None) -> "Figure":
    from .view import plots  # matplotlib is imported when it is needed

    return plots.trajectory(run, model, state=state)


Trajectory.plotter = _plot


def __getattr__(name: str) -> Any:
    """`kinetree.view` and others are imported when they are first asked for: most programs never draw or learn."""
    if name in ("view", "envs", "learn"):
        if name == "view":
            import kinetree.view
        elif name == "envs":
            import kinetree.envs
        else:
            import kinetree.learn  # noqa: F401
        return sys.modules[f"kinetree.{name}"]
    meant = "" if name.startswith("_") else did_you_mean(name, __all__)
    raise AttributeError(f"module 'kinetree' has no attribute {name!r}{meant}")


def __dir__() -> list[str]:
    """The public names and the rooms that a user may open, and nothing that this file itself imports."""
    return sorted({*__all__, "envs", "io", "learn"})


__all__ = [
    "LTDL",
    "Actuator",
    "Actuators",
    "Constrained",
    "Contacts",
    "Crank",
    "Fixed",
    "Free",
    "Helical",
    "Joint",
    "Limits",
    "Loop",
    "Model",
    "ModelError",
    "Mount",
    "Muscle",
    "PackedMatrix",
    "Pieces",
    "Planar",
    "Pose",
    "Prismatic",
    "Pulley",
    "Revolute",
    "Sensor",
    "Shape",
    "ShardedTree",
    "Side",
    "SimulationError",
    "Spherical",
    "State",
    "Tendon",
    "Trajectory",
    "Translation",
    "Via",
    "World",
    "Wrap",
    "__version__",
    "activation_rate",
    "actuator_force",
    "advance",
    "auto_tree",
    "bias_force",
    "center_of_mass",
    "centroidal_momentum",
    "centroidal_momentum_matrix",
    "chain_pieces",
    "close_loops",
    "com_jacobian",
    "constrained_dynamics",
    "constrained_inverse_dynamics",
    "contact_forces",
    "contacts",
    "controllers",
    "coriolis_matrix",
    "difference",
    "explain",
    "factorize",
    "forward_dynamics",
    "forward_dynamics_derivatives",
    "forward_kinematics",
    "frame_acceleration",
    "frame_velocity",
    "gravity_force",
    "hybrid_dynamics",
    "impulse_response",
    "initial_state",
    "integrate",
    "inverse_dynamics",
    "inverse_dynamics_derivatives",
    "inverse_dynamics_regressor",
    "inverse_inertia_at",
    "jacobian",
    "kinetic_energy",
    "load",
    "mass_matrix",
    "momentum",
    "neutral",
    "passive_force",
    "place_bodies",
    "potential_energy",
    "random_state",
    "rollout",
    "scaled",
    "sensors",
    "set_threads",
    "shard_tree",
    "simulate",
    "specialize",
    "step",
    "tendon_jacobian",
    "tendon_length",
    "view",
    "with_ground",
    "with_sensors",
    "with_shapes",
    "with_tendons",
]
