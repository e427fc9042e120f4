"""`kinetree.shard_tree`: one tree over the devices of a mesh, and its inverse and forward dynamics.

The tree is divided into clusters (tree/clusters.py), and their rows dealt out to the devices (tree/dealt.py). Each
device runs the native walks of an algorithm over its own rows (part.py); what passes between devices is one small
element of each cluster for each pass of the algorithm (exchange.py).
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from kinetree._arrays import as_dtype, in_bits_of
from kinetree._types import AnyArray, Array, DType, Float
from kinetree._unknown import require_word
from kinetree.lanes.kept.once import OncePerOwner
from kinetree.lanes.target import current
from kinetree.model import Model, ModelError
from kinetree.model.arguments import evaluate
from kinetree.model.pieces import Pieces
from kinetree.model.required import require_model
from kinetree.tree.dealt import Dealt, OnDevices, deal

from ..algorithms.aba import aba_of
from ..algorithms.rnea import RNEA
from ..recursion import Algorithm
from ..schedules import tuning
from ..schedules.lane_rows import ROWS
from .exchange import ports_between
from .part import DevicePart, Joints, Quaternions, Springs, of_part
from .source import Source, from_model, from_pieces

FIELDS = ROWS.num_leaves
SLIDE = jax.tree.unflatten(ROWS, range(FIELDS)).slide

_calls: OncePerOwner[Any] = OncePerOwner()


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Spread:
    """Numbers of all rows, or of all coordinates, on the devices that hold them: `parts` is (..., devices, most).

    Made by `ShardedTree.spread`, read by `ShardedTree.collect`.
    """

    parts: Any


class ShardedTree:
    """One tree over several devices. Make one with `kinetree.shard_tree`.

    Arrays in the order of the model are dealt out and collected in each call. `spread` puts them on the devices once.
    Calls with its result give results of the same kind, so no device or host ever holds the whole.
    """

    def __init__(self, source: Source, mesh: Mesh, axis: str, dtype: np.dtype):
        # Its axes are always automatic, so that results can be put in order by plain indexing.
        self.mesh, self.axis, self.dtype = Mesh(mesh.devices, mesh.axis_names), axis, dtype
        self.nq, self.nv, self.devices = source.nq, source.nv, mesh.shape[axis]
        self.firm, self.hinges = source.firm, source.hinges
        self.gravity = np.asarray(source.gravity, dtype)
        target = current()
        lanes = 0 if target is None else target.chunks(-(-source.nv // self.devices))
        levels = 4 if target is None else target.facts.level_cost
        dealt = deal(source.parent, source.clusters, self.devices, max(tuning.SHARDED_MIN_LANES, lanes), levels)
        self.rows = dealt.rows
        self.columns = dealt.rows if not len(source.quaternion_joints) else _columns(source, self.devices)
        self.clusters, self.slot = dealt.ports.tree, dealt.ports.slot
        with self._mode():
            self._ports = tuple(
                self._put(x) for x in (dealt.ports.exist, dealt.ports.first, dealt.ports.last, dealt.ports.carries)
            )
            self._part = self._made(source, dealt)

    # -- what is kept on the devices -----------------------------------------------------------------------------------

    def _mode(self) -> Any:
        return in_bits_of(self.dtype)

    def _sharding(self, batch: int = 0) -> NamedSharding:
        return NamedSharding(self.mesh, P(*(None,) * batch, self.axis))

    def _put(self, x: np.ndarray, batch: int = 0) -> jax.Array:
        return jax.make_array_from_callback(x.shape, self._sharding(batch), lambda index: x[index])

    def _made(self, source: Source, dealt: Dealt) -> DevicePart:
        put, typed = self._put, partial(np.asarray, dtype=self.dtype)
        springs, quaternions = None, None
        if source.passive is not None:
            damping, stiffness, rest = (typed(x) for x in source.passive)
            rows, columns = self.rows.arrange, self.columns.arrange
            springs = Springs(put(rows(damping)), put(rows(stiffness)), put(columns(rest)))
        if len(source.quaternion_joints):
            quaternions = jax.tree.map(put, self._quaternions(source))
        constants = self._constants(source, dealt)
        return DevicePart(jax.tree.map(put, dealt.stages), constants, quaternions, springs)

    def _quaternions(self, source: Source) -> Quaternions:
        joints, part = source.quaternion_joints, source.clusters.part[source.clusters.of_row]
        most = self.rows.at.shape[1]

        leaves = [np.asarray(x, self.dtype) for x in source.constants(np.arange(source.nv))]

        def local(kind: int) -> Joints:
            first, start, _ = joints[joints[:, 2] == kind].T
            if not len(first):
                return Joints(np.zeros((self.devices, 0, 3), np.int32), np.zeros((self.devices, 7, 0), self.dtype))
            held = OnDevices.by(part[first], self.devices)
            row, column = held.arrange(self.rows.number[first], most), held.arrange(self.columns.number[start])
            fixed = held.arrange(np.stack([x[first] for x in leaves[:7]]))
            return Joints(np.stack([row, column, np.full_like(row, kind)], -1), fixed.swapaxes(0, 1))

        own = np.where(source.q_of_row >= 0, self.columns.number[np.maximum(source.q_of_row, 0)], -1)
        armature, slide = (self.rows.arrange(leaves[k]) for k in (-1, SLIDE))
        return Quaternions(local(0), local(1), self.rows.arrange(own.astype(np.int32), -1), armature, slide)

    def _constants(self, source: Source, dealt: Dealt) -> tuple[jax.Array, ...]:
        """(devices, turns, fields, lanes) of each stage, made for one device after the other."""
        sharding = self._sharding()
        shapes = [s.rows.shape for s in dealt.stages.stages]
        whole = [(d, t, FIELDS, w) for d, t, w in shapes]
        local: list[list[jax.Array]] = [[] for _ in shapes]
        for device, index in sharding.addressable_devices_indices_map(whole[0]).items():
            number = range(self.devices)[index[0]][0]  # type: ignore[index]
            held = self.rows.at[number]
            leaves = [np.asarray(x, self.dtype) for x in source.constants(held[held >= 0])] if (held >= 0).any() else []
            for k, stage in enumerate(dealt.stages.stages):
                cells = np.maximum(np.maximum.accumulate(stage.rows[number], 0), 0)  # a missing row is like the last
                made = np.zeros((1, cells.shape[0], FIELDS, cells.shape[1]), self.dtype)
                for field, x in enumerate(leaves):
                    made[0, :, field] = x[cells]
                local[k].append(jax.device_put(made, device))
        return tuple(
            jax.make_array_from_single_device_arrays(shape, sharding, parts)
            for shape, parts in zip(whole, local, strict=True)
        )

    # -- arrays of rows and coordinates --------------------------------------------------------------------------------

    def _held(self, size: int) -> OnDevices:
        if size not in (self.nq, self.nv):
            raise ValueError(f"an array of this tree has a last axis of {self.nq} (q) or {self.nv}, not {size}")
        return self.columns if size == self.nq else self.rows

    def spread(self, x: Float[AnyArray, "... n"]) -> Spread:
        """An array (..., nq) or (..., nv), in the order of the model, on the devices that hold its rows."""
        with self._mode():
            return Spread(self._spread(x if isinstance(x, jax.Array) else np.asarray(x, self.dtype)))

    def _spread(self, x: Any) -> Any:
        held = self._held(x.shape[-1])
        if not isinstance(x, jax.Array):
            return self._put(held.arrange(np.asarray(x, self.dtype)), x.ndim - 1)
        x = jnp.asarray(x, self.dtype)
        return jnp.where(held.at >= 0, x[..., np.maximum(held.at, 0)], jnp.zeros((), x.dtype))

    def collect(self, x: Spread) -> Float[np.ndarray, "... n"]:
        """An array (..., nv) in the order of the model, as a NumPy array."""
        return np.asarray(self._collect(np.asarray(x.parts)))

    def _collect(self, parts: Any) -> Any:
        held = self.rows if parts.shape[-2:] == self.rows.at.shape else self.columns
        device, number = np.nonzero(held.at >= 0)
        slot = np.empty(len(device), np.int64)
        slot[held.at[device, number]] = device * held.at.shape[1] + number
        return parts.reshape(*parts.shape[:-2], -1)[..., slot]

    # -- dynamics ------------------------------------------------------------------------------------------------------

    def inverse_dynamics(
        self, q: Float[Array, "... nq"], qd: Float[Array, "... nv"], qdd: Float[Array, "... nv"]
    ) -> Float[Array, "... nv"]:
        """tau, as `kinetree.inverse_dynamics`: of arrays in the order of the model, or spread ones."""
        return self._run(RNEA, "tau", q=q, qd=qd, qdd=qdd)

    def forward_dynamics(
        self, q: Float[Array, "... nq"], qd: Float[Array, "... nv"], tau: Float[Array, "... nv"]
    ) -> Float[Array, "... nv"]:
        """qdd, as `kinetree.forward_dynamics`: of arrays in the order of the model, or spread ones.

        Where the mass matrix is singular, the result is NaN.
        """
        return self._run(aba_of(self.firm), "qdd", q=q, qd=qd, tau=tau)

    def _run(self, algorithm: Algorithm, output: str, **given: Any) -> Any:
        call = self._call(algorithm, output)
        spread = [isinstance(x, Spread) for x in given.values()]
        if all(spread):
            with self._mode():
                return Spread(call(self._part, self._ports, *(x.parts for x in given.values())))
        if any(spread):
            raise TypeError("give all arrays spread, or none")
        sizes = {name: (self.nq if name == "q" else self.nv,) for name in given}

        def compute(*arrays: Any) -> Any:
            states = [x[0] if len(x) == 1 else x for x in arrays]
            found = self._collect(call(self._part, self._ports, *map(self._spread, states)))
            return found.reshape(len(arrays[0]), self.nv).astype(arrays[0].dtype)

        return evaluate(compute, **{name: (x, sizes[name]) for name, x in given.items()})

    def compiled(self, algorithm: Algorithm, output: str, *parts: jax.Array) -> jax.stages.Compiled:
        """The program that JAX compiles for spread arrays. Its text shows the messages between devices."""
        return self._call(algorithm, output).lower(self._part, self._ports, *parts).compile()

    def _call(self, algorithm: Algorithm, output: str) -> Any:
        def make() -> Any:
            axis, names = self.axis, algorithm.inputs

            def device(part: DevicePart, ports: tuple, *arrays: Any) -> Any:
                part, ports = jax.tree.map(lambda x: x.reshape(x.shape[1:]), (part, ports))
                through = ports_between(axis, self.clusters, algorithm is RNEA, self.slot, *ports)

                def one(state: tuple) -> Any:
                    inputs = dict(zip(names, state, strict=True))
                    return of_part(algorithm, self.hinges, part, through, self.gravity, inputs)[output]

                flat = tuple(x.reshape(-1, x.shape[-1]) for x in arrays)
                found = one(tuple(x[0] for x in flat))[None] if len(flat[0]) == 1 else jax.lax.map(one, flat)
                return found.reshape(*arrays[-1].shape)

            def run(part: DevicePart, ports: tuple, *arrays: Any) -> Any:
                batch = P(*(None,) * (arrays[0].ndim - 2), axis)
                specs = (P(axis), P(axis), *(batch for _ in arrays))
                return jax.shard_map(device, mesh=self.mesh, in_specs=specs, out_specs=batch, check_vma=False)(
                    part, ports, *arrays
                )

            return jax.jit(run)

        return _calls.get(self, algorithm, make)

    def __repr__(self) -> str:
        return f"ShardedTree(nq={self.nq}, nv={self.nv}, {self.devices} devices along {self.axis!r}, {self.dtype})"


def require_plain_call(f_ext: Any, *choices: str) -> None:
    """Refuse arguments that trees over devices do not support: forces on bodies, a schedule, a method."""
    if f_ext is not None:
        raise ValueError("forces on bodies (f_ext) are not served for a tree over several devices")
    if any(not isinstance(choice, str) or choice != "auto" for choice in choices):
        raise ValueError("a tree over several devices has one schedule and one method: leave them out")


def _columns(source: Source, devices: int) -> OnDevices:
    """Coordinates, on the devices that hold their rows."""
    part, of_q = source.clusters.part[source.clusters.of_row], np.zeros(source.nq, np.int64)
    own = np.flatnonzero(source.q_of_row >= 0)
    of_q[source.q_of_row[own]] = part[own]
    for first, start, free in source.quaternion_joints.tolist():
        of_q[start : start + 4 + 3 * free] = part[first]
    return OnDevices.by(of_q, devices)


def shard_tree(
    model: Model | Pieces, mesh: Mesh, *, axis: str | None = None, dtype: DType | None = None
) -> ShardedTree:
    """One tree over the devices of a mesh, for trees that are too large, or too slow, for one device.

    Long paths are cut into chunks, and subtrees dealt out, so that each device holds about the same number of rows.
    Inverse and forward dynamics then send one small element of each chunk to all devices for each pass.

    Arguments:
        model: the mechanism, or `kinetree.Pieces` of one that is too large for a single model. Mimic joints are not
            served.
        mesh: the devices.
        axis: the axis of the mesh along which the tree is divided; the first one if not given.
        dtype: of the tree's numbers and of its results; that of JAX's mode if not given.

    Returns:
        A `ShardedTree`. `kinetree.inverse_dynamics` and `kinetree.forward_dynamics` take it in place of a model.

        mesh = jax.make_mesh((8,), ("tree",))
        tree = kt.shard_tree(kt.auto_tree(1_000_000, 1, 0.3), mesh)
        tau = kt.inverse_dynamics(tree, q, qd, qdd)

    Raises ModelError for a model that can not be divided.
    """
    if not isinstance(model, Pieces):
        require_model(model)
    if not isinstance(mesh, Mesh):
        raise TypeError(f"mesh must be a jax.sharding.Mesh, such as jax.make_mesh makes, not a {type(mesh).__name__}")
    if axis is not None:
        require_word("axis", axis, mesh.axis_names)
    along = str(mesh.axis_names[0]) if axis is None else axis
    devices = mesh.shape[along]
    source = from_pieces(model, devices) if isinstance(model, Pieces) else from_model(model, devices)
    if source.nv == 0:
        raise ModelError("nothing moves in this model: there is nothing to divide")
    return ShardedTree(source, mesh, along, as_dtype(jnp.result_type(float) if dtype is None else dtype))
