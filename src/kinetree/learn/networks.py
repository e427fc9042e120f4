"""Small networks: layers as pairs of arrays, observations scaled to unit size, the policy that comes out."""

import os
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._types import AnyArray, Float
from kinetree.simulate.trajectory import read_arrays, write_arrays

LARGEST = 10.0  # standard deviations that a scaled observation may be away from the mean


def make_mlp(key: Any, sizes: tuple[int, ...], last: float) -> list[tuple[Any, Any]]:
    """Layers of a network; `last` scales the weights of the last one."""
    layers = []
    for k, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        size = (last if k == len(sizes) - 2 else 1.0) / np.sqrt(fan_in)
        layers.append((size * jax.random.normal(jax.random.fold_in(key, k), (fan_in, fan_out)), jnp.zeros(fan_out)))
    return layers


def mlp(layers: Sequence[tuple[Any, Any]], x: Any) -> Any:
    """A network of smooth layers, the last one linear."""
    for weights, bias in layers[:-1]:
        x = jax.nn.swish(x @ weights + bias)
    weights, bias = layers[-1]
    return x @ weights + bias


def gaussian_log_density(x: Any, mean: Any, log_spread: Any) -> Any:
    """Log density of a normal distribution with independent components, (...,)."""
    z = (x - mean) * jnp.exp(-log_spread)
    return -0.5 * (z**2 + 2 * log_spread + np.log(2 * np.pi)).sum(-1)


class Normaliser(NamedTuple):
    """Mean and variance of all observations so far."""

    count: Any
    mean: Any
    variance: Any

    @staticmethod
    def none(size: int) -> "Normaliser":
        """Before anything is seen."""
        return Normaliser(jnp.full((), 1e-4, float), jnp.zeros(size), jnp.ones(size))

    def updated(self, obs: Any) -> "Normaliser":
        """With more observations, (..., size): Chan, Golub and LeVeque's sum of two parts."""
        obs = obs.reshape(-1, obs.shape[-1])
        n, mean, variance = float(len(obs)), obs.mean(0), obs.var(0)
        count = self.count + n
        shift = mean - self.mean
        spread = self.variance * self.count + variance * n + shift**2 * self.count * n / count
        return Normaliser(count, self.mean + shift * n / count, spread / count)

    def __call__(self, obs: Any) -> Any:
        """Observations of unit size."""
        return jnp.clip((obs - self.mean) / jnp.sqrt(self.variance + 1e-6), -LARGEST, LARGEST)


class Policy(NamedTuple):
    """The learnt policy: actions (..., action_size) from observations, without noise."""

    layers: Sequence[tuple[Float[AnyArray, "m n"], Float[AnyArray, " n"]]]  # weights and biases
    normaliser: Normaliser
    scale: Float[AnyArray, " actions"]
    middle: Float[AnyArray, " actions"]

    def __call__(self, obs: Float[AnyArray, "... observations"]) -> Float[AnyArray, "... actions"]:
        """The most likely action."""
        return self.middle + self.scale * jnp.clip(mlp(self.layers, self.normaliser(obs)), -1, 1)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one .npz."""
        write_arrays(path, {f"arr_{k}": np.asarray(x) for k, x in enumerate(jax.tree.leaves(self))})

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Policy":
        """Read what `save` wrote."""
        file = read_arrays(path)
        arrays = [jnp.asarray(file[name]) for name in (f"arr_{k}" for k in range(len(file))) if name in file]
        if len(arrays) < len(file) or len(arrays) < 7 or len(arrays) % 2 == 0:
            raise ValueError(f"{os.fspath(path)} is not a policy: its arrays are {', '.join(file)}")
        *layers, count, mean, variance, scale, middle = arrays
        pairs = list(zip(layers[::2], layers[1::2], strict=True))
        return Policy(pairs, Normaliser(count, mean, variance), scale, middle)
