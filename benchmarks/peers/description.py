"""A generated tree as text that the peers read: a base, then hinges about z, in kinetree's order."""

from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np

import kinetree as kt
from kinetree.spatial import Inertia

from ..reference import rotation_matrices


def urdf(model: kt.Model) -> str:
    """The text of a tree of hinges about z, such as `auto_tree` makes. Its base has a mass, which some readers want."""
    parts = ['<robot name="tree">', _link("base", 1.0, np.zeros(3), np.eye(3))]
    for body in _bodies(model):
        parts.append(_link(body.name, body.mass, body.com, body.inertia))
        parts.append(
            f'<joint name="{body.joint}" type="revolute"><parent link="{body.above}"/><child link="{body.name}"/>'
            f'<origin xyz="{_numbers(body.position)}" rpy="{_numbers(body.angles)}"/><axis xyz="0 0 1"/>'
            '<limit lower="-100" upper="100" effort="1e9" velocity="1e9"/></joint>'
        )
    return "\n".join([*parts, "</robot>"])


def sdf(model: kt.Model) -> str:
    """The same in SDF, with the base standing fixed in the world: for readers that would need Gazebo to read URDF."""
    parts = [
        '<sdf version="1.7"><model name="tree">',
        _sdf_link("base", "", 1.0, np.zeros(3), np.eye(3)),
        '<joint name="stand" type="fixed"><parent>world</parent><child>base</child></joint>',
    ]
    for body in _bodies(model):
        place = f'<pose relative_to="{body.joint}">0 0 0 0 0 0</pose>'
        parts.append(_sdf_link(body.name, place, body.mass, body.com, body.inertia))
        parts.append(
            f'<joint name="{body.joint}" type="revolute">'
            f'<pose relative_to="{body.above}">{_numbers(body.position)} {_numbers(body.angles)}</pose>'
            f"<parent>{body.above}</parent><child>{body.name}</child><axis><xyz>0 0 1</xyz>"
            "<limit><lower>-100</lower><upper>100</upper></limit></axis></joint>"
        )
    return "\n".join([*parts, "</model></sdf>"])


class _Body(NamedTuple):
    name: str
    joint: str
    above: str
    position: np.ndarray  # of the joint in the body above
    angles: np.ndarray  # roll, pitch, yaw
    mass: float
    com: np.ndarray
    inertia: np.ndarray  # about the centre of mass


def _bodies(model: kt.Model) -> Iterator[_Body]:
    rotations = rotation_matrices(np.stack(model.rows.orientation, -1))
    positions = np.stack(model.rows.position, -1)
    for i, parent in enumerate(model.parent):
        above = "base" if parent < 0 else model.names[parent]
        angles = _roll_pitch_yaw(rotations[i])
        yield _Body(
            model.names[i], model.joint_names[i], above, positions[i], angles, *about_center(model.rows.inertia, i)
        )


def about_center(inertia: Inertia, i: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, centre of mass, and rotational inertia about it, of one row."""
    mass, hx, hy, hz, xx, yy, zz, xy, xz, yz = (float(x[i]) for x in jax.tree.leaves(inertia))
    com = np.array([hx, hy, hz]) / mass
    about_origin = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return mass, com, about_origin - mass * (com @ com * np.eye(3) - np.outer(com, com))


def _link(name: str, mass: float, com: np.ndarray, inertia: np.ndarray) -> str:
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = inertia.tolist()
    return (
        f'<link name="{name}"><inertial><origin xyz="{_numbers(com)}" rpy="0 0 0"/><mass value="{mass!r}"/>'
        f'<inertia ixx="{xx!r}" ixy="{xy!r}" ixz="{xz!r}" iyy="{yy!r}" iyz="{yz!r}" izz="{zz!r}"/></inertial></link>'
    )


def _sdf_link(name: str, place: str, mass: float, com: np.ndarray, inertia: np.ndarray) -> str:
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = inertia.tolist()
    return (
        f'<link name="{name}">{place}<inertial><pose>{_numbers(com)} 0 0 0</pose><mass>{mass!r}</mass><inertia>'
        f"<ixx>{xx!r}</ixx><ixy>{xy!r}</ixy><ixz>{xz!r}</ixz><iyy>{yy!r}</iyy><iyz>{yz!r}</iyz><izz>{zz!r}</izz>"
        "</inertia></inertial></link>"
    )


def _roll_pitch_yaw(R: np.ndarray) -> np.ndarray:
    """Angles with R = Rz(yaw) Ry(pitch) Rx(roll), for pitches short of a quarter turn."""
    return np.array([np.arctan2(R[2, 1], R[2, 2]), -np.arcsin(np.clip(R[2, 0], -1, 1)), np.arctan2(R[1, 0], R[0, 0])])


def _numbers(values: np.ndarray) -> str:
    return " ".join(repr(float(v)) for v in values)
