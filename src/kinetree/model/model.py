"""The model: a frozen pytree whose arrays are leaves and whose tree is static."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import numpy as np

from kinetree._types import AnyArray, Float, Number, Vector
from kinetree._unknown import did_you_mean
from kinetree.spatial import Inertia, Transform
from kinetree.tree import Tree

from .actuators import Actuator, Actuators, make_actuators
from .checks import check_gravity, check_inertia, check_leaves, check_parents, check_transform, frozen, settle
from .compile import compile_rows, merge_inertia
from .copies import with_same_rows
from .coupling import Coupling, Follow, make_coupling
from .describe import tree_html
from .errors import ModelError, UnknownName
from .fields import require_fields
from .joints import Joint, resolve
from .loops import Loop, Loops, make_loops
from .physics import Limits, Passive, check_rotors, vector
from .required import require_flag
from .rows import Rows
from .sensor import Sensor
from .state import DEFAULT_STEPPING, State, Stepping, check_timestep
from .structure import Structure
from .world import CONSTRAINTS, WORLD, World


@dataclass(frozen=True, eq=False)
class Model:
    """A kinematic tree. Make one with `Model.from_arrays`, `kinetree.auto_tree` or `kinetree.load`."""

    rows: Rows
    frames: Transform  # of each body in its row's frame
    inertia: Inertia  # of each body, in its own frame
    gravity: Float[AnyArray, " 3"]
    structure: Structure = field(metadata={"static": True})
    coupling: Coupling | None = field(default=None, metadata={"static": True})  # of mimic joints
    passive: Passive | None = None  # springs and dampers
    friction: Float[AnyArray, " nv"] | None = None  # dry friction
    limits: Limits | None = None
    actuators: Actuators | None = None
    stepping: Stepping | None = None  # the file's time step, integrator and keyframes
    sensors: tuple[Sensor, ...] = field(default=(), metadata={"static": True})
    loops: Loops | None = None  # rigid joints that close the tree
    world: World | None = None  # shapes, and softness of constraints; None: no shapes, and MuJoCo's defaults

    def __post_init__(self) -> None:
        """Make the arrays read-only: programs are compiled, and results kept, for the numbers of a model."""
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if not f.metadata.get("static") and value is not None:
                object.__setattr__(self, f.name, jax.tree.map(frozen, value))

    @staticmethod
    def from_arrays(
        parent: Sequence[int] | np.ndarray,
        joints: Sequence[str | Joint] | str | Joint,
        x_tree: Transform | AnyArray,
        inertia: Inertia | AnyArray,
        *,
        gravity: Vector = (0, 0, -9.81),
        names: Sequence[str] | None = None,
        joint_names: Sequence[str] | None = None,
        loops: Sequence[Loop] = (),
        allow_massless_leaves: bool = False,
        allow_unphysical: bool = False,
    ) -> "Model":
        """A model from arrays over its bodies.

        Arguments:
            parent: the parent of each body, −1 for the base; parent[i] < i.
            joints: for each body, or one for all: "Rx" "Ry" "Rz" "Px" "Py" "Pz" "fixed" "spherical" "translation"
                "planar" "free", or `Revolute(axis)`, `Prismatic(axis)`, `Helical(axis, pitch)`, ...
            x_tree: (n, 6, 6) Plücker matrices from parent body to joint frame, or a `Transform`.
            inertia: (n, 6, 6) spatial inertias in body coordinates, or (n, 10): mass, mass times centre of mass, and
                xx yy zz xy xz yz about the body's origin.
            gravity: acceleration of free fall, in base coordinates.
            names, joint_names: of the bodies and their joints.
            loops: `kinetree.Loop`s, rigid joints that close the tree.
            allow_massless_leaves: accept leaves without inertia; inverse dynamics is right for them, but the mass
                matrix is singular and forward dynamics has no answer.
            allow_unphysical: accept inertias that no distribution of mass has.

        Raises ModelError, naming the body, for anything that is not a mechanism.
        """
        require_flag("allow_massless_leaves", allow_massless_leaves)
        require_flag("allow_unphysical", allow_unphysical)
        p = check_parents(parent)
        n = len(p)
        names, joint_names = _words("names", names, n), _words("joint_names", joint_names, n)

        def label(i: int) -> str:
            return repr(names[i]) if names is not None else str(i)

        q_tree, r_tree = check_transform(x_tree, n, label)
        I = check_inertia(inertia, n, label, physical=not allow_unphysical)
        distinct, code = resolve(joints, n)
        compiled = compile_rows(p, distinct, code, q_tree, r_tree, I)
        if not allow_massless_leaves:
            body_of_row = np.repeat(np.arange(n), np.diff(compiled.v_start))
            first = compiled.v_start[body_of_row]
            check_leaves(compiled.parent, compiled.rows, first, lambda row: label(int(body_of_row[row])))
        structure = Structure(p, distinct, code, compiled, names, joint_names)
        rows, frames, I = settle((compiled.rows, compiled.frames, I))
        return Model(rows, frames, I, check_gravity(gravity), structure).replace(loops=loops)

    def replace(
        self,
        *,
        inertia: Inertia | AnyArray | None = None,
        gravity: Vector | None = None,
        armature: Number | Vector | None = None,
        damping: Number | Vector | None = None,
        stiffness: Number | Vector | None = None,
        rest: Number | Vector | None = None,
        friction: Number | Vector | None = None,
        limits: Limits | None = None,
        actuators: Actuators | Iterable[Actuator] | None = None,
        timestep: Number | None = None,
        integrator: str | None = None,
        loops: Loops | Iterable[Loop] | None = None,
        world: World | None = None,
        allow_unphysical: bool = False,
    ) -> "Model":
        """The same mechanism with other numbers. Inertias may be JAX arrays, so that they can be fitted by gradient.

        Arguments:
            inertia: (n, 10) or (n, 6, 6), as in `from_arrays`.
            gravity: acceleration of free fall, in base coordinates.
            armature: rotor inertia seen at each joint: (nv,) or one for all, as the next three. The three sliding ones
                of a free joint are the same, as in MuJoCo: that inertia resists the acceleration of the joint's origin.
            damping: force per velocity that opposes motion.
            stiffness: force per stretch that pulls back to `rest`, (nq,), which is the neutral configuration if not
            given.
            friction: dry friction; of a free joint's sliding rows along the axes of its parent.
            limits: of coordinates, velocities and forces.
            actuators: a list of `kinetree.Actuator`, or another model's; the effort limits bound what they do to a
                joint.
            timestep, integrator: of `kinetree.advance`.
            loops: a list of `kinetree.Loop`, or another model's; an empty list takes them off.
            world: shapes, surfaces and how soft constraints are; `model.world.replace(...)` makes one.
            allow_unphysical: accept inertias that no distribution of mass has, and negative numbers below.

        The mimic joints of a coupled model keep their own entries in these arrays: they are those of `model.uncoupled`.
        """
        new, free = self, self.uncoupled
        nq, nv = free.nq, free.nv
        require_flag("allow_unphysical", allow_unphysical)
        least = -np.inf if allow_unphysical else 0.0
        if gravity is not None:
            new = dataclasses.replace(new, gravity=check_gravity(gravity))
        if inertia is not None:
            I = check_inertia(inertia, self.n_bodies, lambda i: repr(self.names[i]), physical=not allow_unphysical)
            rows = merge_inertia(self.structure.row_of_body, self.frames, I, nv)
            new = dataclasses.replace(new, inertia=I, rows=new.rows._replace(inertia=rows))
        if armature is not None:
            rotors = check_rotors(vector("armature", armature, nv, least), self.structure)
            new = dataclasses.replace(new, rows=new.rows._replace(armature=rotors))
        if not (damping is None and stiffness is None and rest is None):
            old = self.passive or Passive(np.zeros(nv), np.zeros(nv), self.structure.neutral)
            passive = Passive(
                old.damping if damping is None else vector("damping", damping, nv, least),
                old.stiffness if stiffness is None else vector("stiffness", stiffness, nv, least),
                old.rest if rest is None else vector("rest", rest, nq),
            )
            new = dataclasses.replace(new, passive=passive)
        if world is not None:
            if not isinstance(world, World):
                raise TypeError(f"world must be a kinetree.World, not a {type(world).__name__}")
            require_fields("world", world, WORLD)
            new = dataclasses.replace(new, world=world)
        elif self.world is not None and not (inertia is None and armature is None):  # they depend on inertias
            new = dataclasses.replace(new, world=self.world.replace(inverse_weights=None))
        if friction is not None:
            new = dataclasses.replace(new, friction=vector("friction", friction, nv, 0.0))
        if limits is not None:
            if not (isinstance(limits, tuple | list) and len(limits) == len(Limits._fields)):
                raise TypeError(f"limits must be kinetree.Limits, not a {type(limits).__name__}")
            both = zip(Limits._fields, limits, (nq, nq, nv, nv), strict=True)
            checked = (vector(name, x, size, finite=False) for name, x, size in both)
            new = dataclasses.replace(new, limits=Limits(*checked))
        if loops is not None:
            new = dataclasses.replace(new, loops=loops if isinstance(loops, Loops) else make_loops(self, loops))
        if actuators is not None:
            if not isinstance(actuators, Actuators):
                tendons = () if new.world is None or new.world.tendons is None else new.world.tendons.names
                actuators = make_actuators(self.structure, actuators, new.limits and new.limits.effort, tendons)
            new = dataclasses.replace(new, actuators=actuators)
        if integrator is not None and not isinstance(integrator, str):
            raise ModelError(
                f"integrator must be a word, not of type {type(integrator).__name__}: choose from Euler, RK4, ..."
            )
        if not (timestep is None and integrator is None):
            steps = self.stepping or DEFAULT_STEPPING
            steps = steps if timestep is None else dataclasses.replace(steps, timestep=check_timestep(timestep))
            steps = steps if integrator is None else dataclasses.replace(steps, integrator=integrator)
            new = dataclasses.replace(new, stepping=steps)
        return new

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone, for copies and pickles: what else a model keeps beside them is made again when needed."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """From a copy or a pickle, whose arrays can be written to."""
        self.__dict__.update(state)
        self.__post_init__()

    @cached_property
    def without_passive(self) -> "Model":
        """The same mechanism with its springs and dampers switched off."""
        return self if self.passive is None else with_same_rows(self, passive=None)

    @cached_property
    def without_actuators(self) -> "Model":
        """The same mechanism with its actuators taken off."""
        return self if self.actuators is None else with_same_rows(self, actuators=None)

    @cached_property
    def alone(self) -> "Model":
        """The mechanism and its world alone; models that differ in what drives and measures them share its programs."""
        return with_same_rows(self, actuators=None, sensors=(), stepping=None)

    @cached_property
    def without_loops(self) -> "Model":
        """The tree alone, its loops open."""
        return self if self.loops is None else with_same_rows(self, loops=None)

    @cached_property
    def weightless(self) -> "Model":
        """The tree alone, without gravity, springs and dampers: its answers to forces at rest are H⁻¹ tau."""
        return with_same_rows(self, loops=None, passive=None, gravity=np.zeros(3))

    @cached_property
    def without_constraints(self) -> "Model":
        """The same mechanism with contact, limits and dry friction switched off."""
        return with_same_rows(self, world=(self.world or World()).replace(disabled=CONSTRAINTS))

    def couple(self, follows: Mapping[str, Follow]) -> "Model":
        """The same tree with fewer coordinates: joints that follow others, as mimic joints do.

        Arguments:
            follows: for each joint that follows: the name of the joint it follows, ratio and offset, with
                q = ratio · q_followed + offset.

        The coupled model's nq and nv count what is left, and every function takes and returns those.
        """
        if isinstance(follows, Mapping) and not follows:
            return self
        return dataclasses.replace(self, coupling=make_coupling(self.structure, follows))

    @cached_property
    def uncoupled(self) -> "Model":
        """The same model with all joints on their own."""
        return self if self.coupling is None else with_same_rows(self, coupling=None)

    @cached_property
    def specialized(self) -> bool:
        """True if the model has programs of its own; see `kinetree.specialize`."""
        return False

    @property
    def tree(self) -> Tree:
        """The tree of rows, one for each degree of freedom."""
        return self.structure.tree

    @property
    def n_bodies(self) -> int:
        """Bodies, those on fixed joints included, the base not."""
        return self.structure.n_bodies

    @property
    def batch(self) -> tuple[int, ...]:
        """First axes of the arrays, over worlds that differ; () for one model. See `kinetree.scaled`."""
        return tuple(np.shape(self.gravity)[:-1])

    @property
    def nq(self) -> int:
        """Coordinates."""
        return int(self.structure.q_start[-1]) if self.coupling is None else self.coupling.nq

    @property
    def nv(self) -> int:
        """Degrees of freedom."""
        return int(self.structure.v_start[-1]) if self.coupling is None else self.coupling.nv

    @property
    def nu(self) -> int:
        """Controls."""
        return 0 if self.actuators is None else self.actuators.nu

    @property
    def na(self) -> int:
        """Activations of actuators."""
        return 0 if self.actuators is None else self.actuators.na

    @property
    def actuator_names(self) -> tuple[str, ...]:
        """Names of the actuators, one for each control."""
        return () if self.actuators is None else self.actuators.wiring.names

    @property
    def timestep(self) -> Float[AnyArray, ""]:
        """The step of `kinetree.advance`, in seconds."""
        return (self.stepping or DEFAULT_STEPPING).timestep

    def keyframe(self, which: str | int) -> State:
        """A state that the file names, or numbers: a MuJoCo keyframe."""
        return (self.stepping or DEFAULT_STEPPING).keyframes.state(which)

    def keyframe_ctrl(self, which: str | int) -> np.ndarray:
        """The controls (nu,) that a keyframe holds."""
        return (self.stepping or DEFAULT_STEPPING).keyframes.controls(which)

    def keyframe_poses(self, which: str | int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Where a keyframe puts mocap bodies: position and quaternion by name, for `kinetree.place_bodies`."""
        return (self.stepping or DEFAULT_STEPPING).keyframes.places(which)

    @property
    def parent(self) -> np.ndarray:
        """Parent of each body, −1 for the base."""
        return self.structure.parent

    @property
    def depth(self) -> np.ndarray:
        """Depth of each body; 0 on the base."""
        return self.structure.body_tree.depth

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the bodies."""
        return self.structure.names

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints; joint i moves body i."""
        return self.structure.joint_names

    @property
    def total_mass(self) -> Float[AnyArray, ""]:
        """Mass of all that moves; bodies fixed to the base belong to the base."""
        return self.rows.inertia.mass.sum()

    def _joint(self, name: str) -> int:
        return _named("joint", name, self.structure.joint_numbers)

    def body_index(self, name: str) -> int:
        """The number of a body, link or site."""
        return _named("body", name, self.structure.body_numbers)

    def q_index(self, joint_name: str) -> slice:
        """The joint's coordinates within q; of a mimic joint, those of the joint it follows."""
        return _within(self.structure.q_start, self._joint(joint_name), self.coupling and self.coupling.source_q)

    def v_index(self, joint_name: str) -> slice:
        """The joint's velocities within qd, qdd and tau; of a mimic joint, those of the joint it follows."""
        return _within(self.structure.v_start, self._joint(joint_name), self.coupling and self.coupling.source_v)

    def __repr__(self) -> str:
        return f"Model({self.n_bodies} bodies, nq={self.nq}, nv={self.nv}, depth {self.structure.tree.height})"

    def _repr_html_(self) -> str:
        """In a notebook: the bodies as a tree."""
        return tree_html(self)


def _words(what: str, given: Any, count: int) -> tuple[str, ...] | None:
    """As many different words as there are bodies, or None."""
    if given is None:
        return None
    words = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else ()
    if len(words) != count or not all(isinstance(w, str) for w in words) or len(set(words)) != count:
        raise ModelError(f"{what} must be {count} different strings")
    return words


def _within(start: np.ndarray, joint: int, source: np.ndarray | None) -> slice:
    first, size = int(start[joint]), int(start[joint + 1] - start[joint])
    if source is not None and size:
        first = int(source[first])
    elif source is not None:
        first = 0
    return slice(first, first + size)


def _named(what: str, name: str, numbers: dict[str, int]) -> int:
    if name not in numbers:
        raise UnknownName(f"no {what} is called {name!r}{did_you_mean(name, numbers)}")
    return numbers[name]
