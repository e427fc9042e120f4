"""What is static about a model: its trees, its joints, its names."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from kinetree.tree import Tree

from .checks import frozen
from .compile import Compiled
from .joints import Joint


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
        # 32 bits: the same to JAX in both of its modes (see pytree.py).
        self.parent, self.joint_code = parent.astype(np.int32), code.astype(np.int32)
        self.joints = tuple(distinct)
        self.tree = Tree(compiled.parent)
        self.row_of_body, self.q_of_row = compiled.row_of_body.astype(np.int32), compiled.q_of_row.astype(np.int32)
        self.q_start, self.v_start = compiled.q_start.astype(np.int32), compiled.v_start.astype(np.int32)
        self._names = None if names is None else tuple(names)
        self._joint_names = None if joint_names is None else tuple(joint_names)
        self.source: Any = None  # the file or text that the model was read from: the viewer finds its shapes there
        for name in ("parent", "joint_code", "row_of_body", "q_of_row", "q_start", "v_start"):
            setattr(self, name, frozen(getattr(self, name)))
        self._hash = hash((self.tree, self.joints, self.joint_code.tobytes(), self.parent.tobytes()))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """From a copy or a pickle, whose arrays can be written to."""
        self.__dict__.update({name: frozen(value) for name, value in state.items()})

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
        """The number of each joint, by name."""
        return {name: i for i, name in enumerate(self.joint_names)}

    @cached_property
    def body_numbers(self) -> dict[str, int]:
        """The number of each body, by name."""
        return {name: i for i, name in enumerate(self.names)}

    def rows_of(self, bodies: Any) -> np.ndarray:
        """The rows that carry bodies; −1 for the base, and for what is fixed to it."""
        bodies = np.asarray(bodies, np.int64)
        carried = self.row_of_body[np.maximum(bodies, 0)] if self.n_bodies else -1
        return np.where(bodies >= 0, carried, -1).astype(np.int64)

    @cached_property
    def quaternion_joints(self) -> np.ndarray:
        """(k, 3): first row, first column of q, and whether a position comes first, for spherical and free joints."""
        has = np.array([j.quaternion for j in self.joints], bool)
        position = np.array([j.position for j in self.joints], bool)
        bodies = np.flatnonzero(has[self.joint_code]) if len(has) else np.zeros(0, np.int64)
        places = [self.v_start[bodies], self.q_start[bodies], position[self.joint_code[bodies]]]
        return frozen(np.stack(places, -1).astype(np.int32))

    @cached_property
    def has_quaternions(self) -> bool:
        """True if there are spherical or free joints."""
        return len(self.quaternion_joints) > 0

    @cached_property
    def neutral(self) -> np.ndarray:
        """(nq,): all coordinates 0, all quaternions (1, 0, 0, 0)."""
        q = np.zeros(int(self.q_start[-1]))
        _, start, position = self.quaternion_joints.T.astype(np.int64)
        q[start + 3 * position] = 1
        return frozen(q)


def subtree(parent: np.ndarray, of: list[int]) -> np.ndarray:
    """(roots, bodies): which bodies hang on some, themselves included; all hang on the base."""
    roots = np.array(of)[:, None]
    at = np.arange(len(parent))
    found = np.broadcast_to(roots < 0, (len(of), len(parent))).copy()
    while (at >= 0).any():
        found |= at == roots
        at = np.where(at >= 0, parent[at], -1)
    return found
