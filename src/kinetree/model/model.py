"""The model: a frozen pytree whose arrays are leaves and whose tree is static."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import numpy as np

from kinetree.spatial import Inertia, Quaternion, Transform, Vec3
from kinetree.tree import Tree

from .checks import check_gravity, check_inertia, check_leaves, check_parents, check_transform
from .compile import Compiled, compile_rows, merge_inertia, quaternion_from_rotation
from .errors import ModelError
from .joints import Joint, resolve
from .rows import Rows


class Structure:
    """All that is static about a model: its trees, its joints, its names. Hashed once."""

    def __init__(
        self,
        parent: np.ndarray,
        distinct: list[Joint],
        code: np.ndarray,
        compiled: Compiled,
        names: Sequence[str] | None,
        joint_names: Sequence[str] | None,
    ):
        self.parent = parent
        self.joints, self.joint_code = tuple(distinct), code
        self.tree = Tree(compiled.parent)
        self.row_of_body, self.q_of_row = compiled.row_of_body, compiled.q_of_row
        self.q_start, self.v_start = compiled.q_start, compiled.v_start
        self._names = None if names is None else tuple(names)
        self._joint_names = None if joint_names is None else tuple(joint_names)
        for a in (self.parent, self.joint_code, self.row_of_body, self.q_of_row, self.q_start, self.v_start):
            a.flags.writeable = False
        self._hash = hash((self.tree, self.joints, self.joint_code.tobytes(), parent.tobytes()))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Structure)
            and self._hash == other._hash
            and self.joints == other.joints
            and np.array_equal(self.joint_code, other.joint_code)
            and np.array_equal(self.parent, other.parent)
            and self.names == other.names
            and self.joint_names == other.joint_names
        )

    @property
    def n_bodies(self) -> int:
        """Bodies, those on fixed joints included."""
        return len(self.parent)

    @cached_property
    def body_tree(self) -> Tree:
        """The tree of bodies; `tree` is the one of rows."""
        return Tree(self.parent)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """One for each body."""
        return self._names if self._names is not None else tuple(f"body_{i}" for i in range(self.n_bodies))

    @cached_property
    def joint_names(self) -> tuple[str, ...]:
        """One for each body's joint."""
        if self._joint_names is not None:
            return self._joint_names
        return tuple(f"joint_{i}" for i in range(self.n_bodies))

    @cached_property
    def joint_numbers(self) -> dict[str, int]:
        """Where each joint name stands."""
        return {name: i for i, name in enumerate(self.joint_names)}

    @cached_property
    def quaternion_joints(self) -> np.ndarray:
        """(k, 3): first row, first column of q, and whether a position comes first, for spherical and free joints."""
        has = np.array([j.quaternion for j in self.joints], bool)
        position = np.array([j.position for j in self.joints], bool)
        bodies = np.flatnonzero(has[self.joint_code]) if len(has) else np.zeros(0, np.int64)
        return np.stack([self.v_start[bodies], self.q_start[bodies], position[self.joint_code[bodies]]], -1)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Model:
    """A kinematic tree. Make one with `Model.from_arrays`, `kinetree.auto_tree` or `kinetree.load`."""

    rows: Rows
    frames: Transform  # of each body in its row's frame
    inertia: Inertia  # of each body, in its own frame
    gravity: Any
    structure: Structure = field(metadata={"static": True})

    @staticmethod
    def from_arrays(
        parent: Any,
        joints: Any,
        x_tree: Any,
        inertia: Any,
        *,
        gravity: Any = (0, 0, -9.81),
        names: Sequence[str] | None = None,
        joint_names: Sequence[str] | None = None,
        allow_massless_leaves: bool = False,
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
            allow_massless_leaves: accept leaves without inertia; inverse dynamics is right for them, but the mass
                matrix is singular and forward dynamics has no answer.

        Raises ModelError, naming the body, for anything that is not a mechanism.
        """
        p = check_parents(parent)
        n = len(p)
        for what, given in (("names", names), ("joint_names", joint_names)):
            if given is not None and (len(given) != n or len(set(given)) != n):
                raise ModelError(f"{what} must be {n} different strings")

        def label(i: int) -> str:
            return repr(names[i]) if names is not None else str(i)

        E, r = check_transform(x_tree, n, label)
        I = check_inertia(inertia, n, label)
        distinct, code = resolve(joints, n)
        q_tree = Quaternion.from_array(quaternion_from_rotation(E))
        compiled = compile_rows(p, distinct, code, q_tree, Vec3.from_array(r), I)
        if not allow_massless_leaves:
            body_of_row = np.repeat(np.arange(n), np.diff(compiled.v_start))
            first = compiled.v_start[body_of_row]
            check_leaves(compiled.parent, compiled.rows, first, lambda row: label(int(body_of_row[row])))
        structure = Structure(p, distinct, code, compiled, names, joint_names)
        return Model(compiled.rows, compiled.frames, I, check_gravity(gravity), structure)

    def replace(self, *, inertia: Any = None, gravity: Any = None) -> "Model":
        """The same mechanism with other inertias, (n, 10) or (n, 6, 6), or another gravity."""
        new = self
        if gravity is not None:
            new = dataclasses.replace(new, gravity=check_gravity(gravity))
        if inertia is not None:
            I = check_inertia(inertia, self.n_bodies, lambda i: repr(self.names[i]))
            rows = merge_inertia(self.structure.row_of_body, self.frames, I, self.nv)
            new = dataclasses.replace(new, inertia=I, rows=self.rows._replace(inertia=rows))
        return new

    @property
    def tree(self) -> Tree:
        """The tree of rows, one for each degree of freedom."""
        return self.structure.tree

    @property
    def n_bodies(self) -> int:
        """Bodies, those on fixed joints included, the base not."""
        return self.structure.n_bodies

    @property
    def nq(self) -> int:
        """Coordinates."""
        return int(self.structure.q_start[-1])

    @property
    def nv(self) -> int:
        """Degrees of freedom."""
        return int(self.structure.v_start[-1])

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
    def total_mass(self) -> Any:
        """Mass of all that moves; bodies fixed to the base belong to the base."""
        return self.rows.inertia.mass.sum()

    def _joint(self, name: str) -> int:
        try:
            return self.structure.joint_numbers[name]
        except KeyError:
            raise KeyError(f"no joint is called {name!r}") from None

    def q_index(self, joint_name: str) -> slice:
        """The joint's coordinates within q."""
        i = self._joint(joint_name)
        return slice(int(self.structure.q_start[i]), int(self.structure.q_start[i + 1]))

    def v_index(self, joint_name: str) -> slice:
        """The joint's velocities within qd, qdd and tau."""
        i = self._joint(joint_name)
        return slice(int(self.structure.v_start[i]), int(self.structure.v_start[i + 1]))

    def __repr__(self) -> str:
        return f"Model({self.n_bodies} bodies, nq={self.nq}, nv={self.nv}, depth {self.structure.tree.height})"
