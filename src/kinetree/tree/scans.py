"""Scans: all prefix products of an array of elements, under any associative operator.

`elements` is a pytree of arrays with n elements along axis 0. `combine(a, b)` takes two stacks of elements, pairs them
off one by one, and returns the stack of products; `a` always holds the elements of lower index. It must be associative;
it need not commute and needs no inverse. `identity` is one element, without axis 0, with
`combine(identity, x) == x == combine(x, identity)`; only its value counts, it is cast to the dtype of `elements`.

With x0, x1, ... the elements and * the operator, row i of the result is
    inclusive           x0 * ... * xi                   exclusive           x0 * ... * x(i-1), identity at 0

All methods run under `jit`, `vmap` and `grad`, and unroll at most log2(n) copies of `combine` into the program:
    native          lax.associative_scan                     work O(n)          span O(log n)
    blocked         two walks of each block, a block a lane  2n combines        span O(block log n / log block)
    work_efficient  Blelloch's up-sweep and down-sweep       3n combines        span O(log n)
    mapped          cumulative sums, component by component  addition only      span O(log n)
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Elements = Any
Combine = Callable[[Elements, Elements], Elements]


def scan(
    combine: Combine,
    elements: Elements,
    identity: Elements,
    *,
    method: str = "blocked",
    block: int = 64,
    exclusive: bool = False,
) -> Elements:
    """All prefix products of `elements`, as the head of this file defines them.

    Arguments:
        combine: the operator on stacks of elements, associative.
        elements: a pytree of arrays of one length along axis 0; may be empty.
        identity: the neutral element, without axis 0.
        method: "native", "blocked", "work_efficient" or "mapped". "mapped" needs `combine` to be addition: `add` of
            this file, `jnp.add` or `operator.add`; it refuses others.
        block: elements to a block, for "blocked" only: any positive number. n or more gives the sequential scan.
        exclusive: leave out the element itself.
    """
    if method not in METHODS:
        raise ValueError(f"unknown scan method {method!r}: choose one of {', '.join(METHODS)}")
    if method == "mapped" and combine not in _ADDITIONS:
        raise ValueError("the mapped scan is for addition only: pass kinetree.tree.scans.add, or choose another method")
    if block < 1:
        raise ValueError(f"block must be positive, got {block}")
    elements = jax.tree.map(jnp.asarray, elements)
    n = _length(elements)
    identity = jax.tree.map(lambda e, x: jnp.asarray(e, x.dtype), identity, elements)
    if n == 0:
        return elements
    return METHODS[method](combine, elements, identity, block, exclusive)


def add(a: Elements, b: Elements) -> Elements:
    """Addition of pytrees, component by component: the operator that the mapped scan is for."""
    return jax.tree.map(jnp.add, a, b)


# -- the methods, all forward, n >= 1 --------------------------------------------------------------------------------


def _native(combine, elements, identity, block, exclusive):
    inclusive = lax.associative_scan(combine, elements)
    return _shift(inclusive, identity) if exclusive else inclusive


def _blocked(combine, elements, identity, block, exclusive):
    """Reduce each block, scan the totals in the same way, walk each block again from its start.

    A loop step advances all blocks by one element: blocks are lanes. The recursion on totals keeps the program at
    three copies of `combine` for each factor `block` in n.
    """
    n = _length(elements)
    if block == 1:  # blocks of one element would never shorten the array
        return _native(combine, elements, identity, block, exclusive)
    if n <= block:
        start = _repeat(identity, 1)
        return _from_lanes(_walk(combine, start, _to_lanes(elements, identity, n), exclusive), n)
    lanes = _to_lanes(elements, identity, block)
    start = _repeat(identity, -(-n // block))
    totals, _ = lax.scan(lambda carry, x: (combine(carry, x), None), start, lanes)
    incoming = _blocked(combine, totals, identity, block, True)
    return _from_lanes(_walk(combine, incoming, lanes, exclusive), n)


def _walk(combine, start, lanes, exclusive):
    """All lanes step by step from `start`, giving the running products before or after each step."""

    def step(carry, x):
        after = combine(carry, x)
        return after, carry if exclusive else after

    return lax.scan(step, start, lanes)[1]


def _work_efficient(combine, elements, identity, block, exclusive):
    """Up-sweep to a tree of pair products, down-sweep of the product before each. Odd levels are padded by one."""
    levels, stack = [], elements
    while (size := _length(stack)) > 1:
        stack = _pad(stack, identity, size + size % 2)
        levels.append((size, stack))
        stack = combine(_every_other(stack, 0), _every_other(stack, 1))
    before = _repeat(identity, 1)
    for size, stack in reversed(levels):
        after_left = combine(before, _every_other(stack, 0))
        before = _interleave(before, after_left, size)
    return before if exclusive else combine(before, elements)


def _mapped(combine, elements, identity, block, exclusive):
    inclusive = jax.tree.map(lax.cumsum, elements)
    return _shift(inclusive, identity) if exclusive else inclusive


METHODS = {"native": _native, "blocked": _blocked, "work_efficient": _work_efficient, "mapped": _mapped}
_ADDITIONS = (add, jnp.add, lax.add, operator.add)


# -- arrays ----------------------------------------------------------------------------------------------------------


def _length(elements) -> int:
    shapes = [x.shape for x in jax.tree.leaves(elements)]
    if len({shape[:1] for shape in shapes}) != 1 or () in shapes:
        raise ValueError(f"elements must be arrays of one length along axis 0, got shapes {shapes}")
    return shapes[0][0]


def _repeat(identity, size):
    return jax.tree.map(lambda e: jnp.broadcast_to(e, (size, *e.shape)), identity)


def _shift(inclusive, identity):
    """Exclusive from inclusive: shift by one, with the identity first."""
    return jax.tree.map(lambda e, x: jnp.concatenate([e[None], x[:-1]]), identity, inclusive)


def _pad(elements, identity, size):
    missing = size - _length(elements)
    if not missing:
        return elements
    return jax.tree.map(lambda x, e: jnp.concatenate([x, e]), elements, _repeat(identity, missing))


def _to_lanes(elements, identity, block):
    """[n, ...] to [step, lane, ...], with blocks as lanes; the last block is padded with identities."""
    count = -(-_length(elements) // block)
    padded = _pad(elements, identity, count * block)
    return jax.tree.map(lambda x: x.reshape(count, block, *x.shape[1:]).swapaxes(0, 1), padded)


def _from_lanes(lanes, n):
    return jax.tree.map(lambda x: x.swapaxes(0, 1).reshape(-1, *x.shape[2:])[:n], lanes)


def _every_other(elements, start):
    return jax.tree.map(lambda x: x[start::2], elements)


def _interleave(even, odd, size):
    """Two stacks merged turn by turn, and cut to `size`."""
    return jax.tree.map(lambda a, b: jnp.stack([a, b], axis=1).reshape(-1, *a.shape[1:])[:size], even, odd)
