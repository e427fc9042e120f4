"""Paths from the root by doubling, in plain NumPy: every body takes over its ancestors' product, log2(depth) times."""

import numpy as np

import kinetree as kt


def forward_kinematics(model: kt.Model, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rotations (states, n, 3, 3) from body to world and origins (states, n, 3), for a tree of hinges about z."""
    turned = np.stack([_about_z(angles) for angles in q])
    R = rotation_matrices(np.stack(model.rows.orientation, -1)) @ turned
    p = np.broadcast_to(np.stack(model.rows.position, -1), R.shape[:-1]).copy()
    above = model.parent.copy()
    while (has := above >= 0).any():
        up = above[has]
        p[:, has] = p[:, up] + (R[:, up] @ p[:, has, :, None])[..., 0]
        R[:, has] = R[:, up] @ R[:, has]
        above[has] = above[up]
    return R, p


def path_sums(parent: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The sum of values (n, ...) from the root down to each body."""
    total, above = values.copy(), parent.copy()
    while (has := above >= 0).any():
        up = above[has]
        total[has] = total[has] + total[up]
        above[has] = above[up]
    return total


def _about_z(angle: np.ndarray) -> np.ndarray:
    c, s, zero, one = np.cos(angle), np.sin(angle), 0 * angle, 0 * angle + 1
    return np.stack([c, -s, zero, s, c, zero, zero, zero, one], -1).reshape(*angle.shape, 3, 3)


def rotation_matrices(quaternion: np.ndarray) -> np.ndarray:
    w, x, y, z = np.moveaxis(quaternion / np.linalg.norm(quaternion, axis=-1, keepdims=True), -1, 0)
    rows = [
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ]  # fmt: skip
    return np.stack(rows, -1).reshape(*quaternion.shape[:-1], 3, 3)
