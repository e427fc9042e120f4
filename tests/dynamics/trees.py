"""Mechanisms that several tests share; those of the mass matrix and its solvers so that each is compiled for once."""

import dataclasses
from functools import lru_cache
from typing import NamedTuple

import numpy as np

import kinetree as kt
from tests.build import build_model
from tests.reference import dense, generate


class Sample(NamedTuple):
    """A tree, its kinetree model, states of it (K, ...), and its mass matrices by the 80-bit oracle."""

    description: dense.Description
    model: kt.Model
    states: generate.State
    H: np.ndarray


@lru_cache
def sample(name: str, n_states: int = 3) -> Sample:
    """All joint types on a "random" tree, "star" or "forest"; "long" is a chain that `paths` cuts; "one" body."""
    rng = np.random.default_rng(sum(map(ord, name)))
    if name == "long":
        d = generate.auto_tree(96, skew=0.3)
    elif name == "one":
        d = generate.random_tree(rng, 1, joints="helical")
    else:
        d = generate.random_tree(rng, 14, shape=name)
    each = [generate.random_state(rng, d) for _ in range(n_states)]
    states = generate.State(*(np.stack(x) for x in zip(*(vars(s).values() for s in each), strict=True)))
    H = np.stack([dense.crba(d, q) for q in states.q])
    return Sample(d, build_model(d), states, H)


def worst(found, expected) -> float:
    """Largest error over the largest entry."""
    return float(np.abs(np.asarray(found) - expected).max() / max(np.abs(expected).max(), 1e-30))


def limbs(n, count, length):
    """Parents of a trunk of n rows from which limbs of their own limbs hang: phases of long and short paths."""
    parent = list(range(-1, n - 1))
    for k in range(count):
        start = len(parent)
        parent += [(7 * k) % n, *range(start, start + length - 1)]
        parent += [start + length // 2, len(parent)]
    return parent


def hinged(parent):
    """A model of joints with one degree of freedom on a tree of these parents."""
    description = generate.random_tree(np.random.default_rng(0), len(parent), ("revolute", "prismatic", "helical"))
    return build_model(dataclasses.replace(description, parent=np.asarray(parent)))
