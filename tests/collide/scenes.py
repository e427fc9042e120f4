"""Two shapes in MuJoCo and here: random poses, MuJoCo's contacts, ours, and how far apart they are."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from kinetree.collide import Geom, Hull, collider
from kinetree.collide.pool import pooled
from kinetree.collide.solids import UNIT_BOX
from kinetree.lanes import Lane, Loop, Program
from kinetree.lanes.cpu.compiled import CompiledProgram
from kinetree.spatial import Mat3, Vec3

SIZES = {
    "plane": ("0 0 1", "0 0 1"),
    "sphere": ("0.3", "0.2"),
    "capsule": ("0.15 0.4", "0.1 0.25"),
    "ellipsoid": ("0.3 0.2 0.15", "0.1 0.25 0.3"),
    "cylinder": ("0.2 0.3", "0.3 0.15"),
    "box": ("0.3 0.2 0.1", "0.15 0.25 0.35"),
}
# Two meshes: scattered points on an egg, and a wedge with large flat faces.
_scattered = np.random.default_rng(5).normal(size=(40, 3))
_scattered = _scattered / np.linalg.norm(_scattered, axis=1, keepdims=True) * (0.35, 0.25, 0.2)
_wedge = np.array([[x, y, z * (0.2 if x > 0 else 0.1)] for x in (-0.3, 0.25) for y in (-0.2, 0.3) for z in (-1, 1)])
MESHES = (_scattered, _wedge)


def shape(kind: str, which: int) -> str:
    """The attributes of a geom."""
    return f'type="mesh" mesh="mesh{which}"' if kind == "mesh" else f'type="{kind}" size="{SIZES[kind][which]}"'


@cache
def scene(first: str, second: str, margin: float = 0.0, exact: bool = False) -> Any:
    """A compiled model of two shapes that move freely; a plane is moved as a mocap body.

    `exact` lets the general convex routine iterate far beyond its default, and return one point.
    """
    option = '<option ccd_iterations="400" ccd_tolerance="1e-12"><flag multiccd="disable"/></option>' if exact else ""
    meshes = "".join(f'<mesh name="mesh{i}" vertex="{" ".join(map(str, v.ravel()))}"/>' for i, v in enumerate(MESHES))
    joints = ['mocap="true"' if first == "plane" else "", ""]
    bodies = "".join(
        f'<body {mocap}>{"" if mocap else "<freejoint/>"}<geom {shape(kind, i)} mass="1" margin="{margin / 2}"/></body>'
        for i, (kind, mocap) in enumerate(zip((first, second), joints, strict=True))
    )
    return mujoco.MjModel.from_xml_string(
        f'<mujoco>{option}<size memory="4M"/><asset>{meshes}</asset><worldbody>{bodies}</worldbody></mujoco>'
    )


@dataclass
class Poses:
    """Positions and rotations of both geoms, and MuJoCo's contacts for each: (n, 3), (n, 3, 3), lists."""

    positions: tuple[np.ndarray, np.ndarray]
    rotations: tuple[np.ndarray, np.ndarray]
    contacts: list[list[tuple[np.ndarray, np.ndarray, float]]]


def random_rotations(rng: np.random.Generator, n: int, straight: float) -> np.ndarray:
    """Random quaternions; a part of them turn by multiples of a quarter, exactly."""
    free = rng.normal(size=(n, 4))
    quarter = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 0, 0]], float)
    chosen = quarter[rng.integers(len(quarter), size=n)]
    found = np.where((rng.random(n) < straight)[:, None], chosen, free)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def collide(model: Any, positions: tuple, quaternions: tuple) -> Poses:
    """MuJoCo's contacts for these poses of the two bodies."""
    data = mujoco.MjData(model)
    found = Poses(([], []), ([], []), [])  # type: ignore[arg-type]
    mocap = model.nmocap == 1
    for p1, q1, p2, q2 in zip(positions[0], quaternions[0], positions[1], quaternions[1], strict=True):
        if mocap:
            data.mocap_pos[0], data.mocap_quat[0] = p1, q1
            data.qpos[:] = [*p2, *q2]
        else:
            data.qpos[:] = [*p1, *q1, *p2, *q2]
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_collision(model, data)
        for i in range(2):
            found.positions[i].append(data.geom_xpos[i].copy())  # type: ignore[attr-defined]
            found.rotations[i].append(data.geom_xmat[i].reshape(3, 3).copy())  # type: ignore[attr-defined]
        c = data.contact
        found.contacts.append([(c.pos[k].copy(), c.frame[k].copy(), float(c.dist[k])) for k in range(data.ncon)])
    return Poses(
        tuple(map(np.array, found.positions)),  # type: ignore[arg-type]
        tuple(map(np.array, found.rotations)),  # type: ignore[arg-type]
        found.contacts,
    )


def random_poses(
    first: str, second: str, n: int, *, margin: float = 0.0, seed: int = 0, straight: float = 0.0, exact: bool = False
) -> Poses:
    """Poses near touching, and MuJoCo's contacts for them."""
    model = scene(first, second, margin, exact)
    rng = np.random.default_rng(seed)
    reach = model.geom_rbound.sum() + margin
    away = rng.normal(size=(n, 3))
    away /= np.linalg.norm(away, axis=1, keepdims=True)
    p1 = rng.normal(size=(n, 3))
    q1, q2 = random_rotations(rng, n, straight), random_rotations(rng, n, straight)
    return collide(model, (p1, p1 + away * rng.uniform(0.1, 1, (n, 1)) * reach), (q1, q2))


def geoms(first: str, second: str, poses: Poses, dtype: Any = np.float64) -> tuple[Geom, Geom]:
    """Both shapes as ours, a lane to a pose."""
    model = scene(first, second)
    made = []
    for i, kind in enumerate((first, second)):
        size = np.broadcast_to(model.geom_size[i], (len(poses.contacts), 3)).astype(dtype)
        hull = Hull.from_mujoco(model, i) if kind == "mesh" else None
        hull = hull and Hull(*(x if x.dtype == np.int32 else x.astype(dtype) for x in hull))
        made.append(
            Geom(
                Vec3.from_array(jnp.asarray(poses.positions[i], dtype)),
                Mat3.from_array(jnp.asarray(poses.rotations[i], dtype)),
                Vec3.from_array(jnp.asarray(size)),
                hull,
            )
        )
    return made[0], made[1]


@cache
def compiled(first: str, second: str, single: bool = False) -> Any:
    """The collider, compiled; positions (points, n, 3), frames (points, n, 3, 3), distances (points, n)."""

    def run(a: Geom, b: Geom, margin: Any) -> Any:
        points, function = collider((first, second), single)
        found = function(a, b, margin)
        assert len(found) == points
        return (
            jnp.stack([c.position.array() for c in found]),
            jnp.stack([c.frame.array() for c in found]),
            jnp.stack([c.distance for c in found]),
        )

    return jax.jit(run)


EXAMPLE = Geom(Vec3(*3 * (0.0,)), Mat3(*9 * (0.0,)), Vec3(*3 * (0.0,)))


@cache
def native(first: str, second: str, single: bool = False) -> Program:
    """The collider as a lane program: inputs are both shapes and the margin, a pool has the hulls."""
    points, function = collider((first, second), single)

    def step(known: Any, inputs: tuple, _: tuple) -> tuple:
        starts, pool = known
        *shapes, margin = inputs
        a, b = jax.tree.unflatten(jax.tree.structure((EXAMPLE, EXAMPLE)), shapes)
        a, b = (g._replace(hull=pool, which=w.astype(jnp.int32)) for g, w in zip((a, b), starts, strict=True))
        found = function(a, b, margin)
        return (), (), tuple(x for c in found for x in (*c.position, *c.frame, c.distance))

    inputs = tuple(Lane(0, None, k) for k in range(31))
    outputs = tuple(Lane(0, None, k) for k in range(13 * points))
    loop = Loop(step, 0, jax.tree.structure((0.0, 0.0)), inputs=inputs, outputs=outputs, pool=True)
    return Program(f"test_{first}_{second}", (loop,), 1, 1)


def natively(a: Geom, b: Geom, margin: Any, program: Program) -> tuple[np.ndarray, ...]:
    """As what `compiled` returns, by native lanes."""
    dtype = np.dtype(a.position.x.dtype)
    pool, starts = pooled([g.hull or UNIT_BOX for g in (a, b)], dtype)
    constants = np.concatenate([2 + starts, pool, np.zeros(len(pool) % 2)]).astype(dtype).reshape(-1, 2)
    leaves = jax.tree.leaves((a._replace(hull=None), b._replace(hull=None)))
    x = np.stack([np.asarray(c) for c in leaves] + [np.full(len(leaves[0]), margin)], -1).astype(dtype)
    points = len(program.loops[0].outputs) // 13
    (found,) = CompiledProgram(program, dtype)(0, (13 * points,), (np.zeros((1, 0), np.int32),), (constants,), (x,))
    each = found.reshape(len(x), points, 13).transpose(1, 0, 2)
    return each[..., :3], each[..., 3:12].reshape(*each.shape[:2], 3, 3), each[..., 12]


def ours(
    first: str,
    second: str,
    poses: Poses,
    margin: float = 0.0,
    dtype: Any = np.float64,
    single: bool = False,
    by_xla: bool = False,
) -> list:
    """Our contacts, in the form of MuJoCo's."""
    shapes = geoms(first, second, poses, dtype)
    if by_xla:
        p, f, d = map(np.asarray, compiled(first, second, single)(*shapes, dtype(margin)))
    else:
        p, f, d = natively(*shapes, margin, native(first, second, single))
    assert np.isfinite(p).all()
    assert np.isfinite(f).all()
    assert not np.isnan(d).any()
    return [[(p[j, i], f[j, i].ravel(), d[j, i]) for j in range(len(d)) if d[j, i] < np.inf] for i in range(d.shape[1])]


def errors(theirs: list, mine: list) -> np.ndarray:
    """For each pose the largest error of positions, frames and distances; inf where the numbers of points differ."""
    found = []
    for a, b in zip(theirs, mine, strict=True):
        if len(a) != len(b):
            found.append(np.inf)
        else:
            found.append(
                max(
                    (float(np.abs(x - y).max()) for c, e in zip(a, b, strict=True) for x, y in zip(c, e, strict=True)),
                    default=0.0,
                )
            )
    return np.array(found)
