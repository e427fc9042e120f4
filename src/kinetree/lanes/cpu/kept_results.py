"""Results of one state that no code holds any more: the next direct call uses them again.

NumPy takes 50 ns to make an array. A pose is two arrays in a named tuple; to make them takes longer than the kinematics
of a small robot. So each builtin keeps its last two results in a list. A control loop holds one of them while it asks
for the next; the other is free again as soon as the loop drops it. A free result has one reference, from the list, and
no weak references. Its arrays must also have their first shape: in Python an array can be reshaped in place.

The first word of an object is its reference count. Interpreters that count in another way have another number there, so
they never find a free result.
"""

from typing import Any

from .. import tuning
from ..llvm.text import Text
from . import arrays

KEPT = 2  # results; a control loop holds the last one while it computes the next


def new_list(n_bytes: int) -> list[Any]:
    """The list in which a builtin keeps its last results; empty if a result has too many bytes."""
    return [None] * KEPT if n_bytes <= tuning.KEPT_RESULT_MAX_BYTES else []


def is_free(to: Text, thing: str) -> str:
    """True if an object has one reference."""
    return to.op(f"icmp eq i64 {to.load('i64', thing)}, 1")


def is_as_made(to: Text, array: str, dtype: str, sizes: list[str]) -> str:
    """True if an array has one reference, this dtype and shape, its own memory, and no weak references."""
    facts = [is_free(to, array), to.op(f"icmp eq ptr {to.load('ptr', array, arrays.DESCRIPTION)}, {dtype}")]
    facts.append(to.op(f"icmp eq ptr {to.load('ptr', array, arrays.WEAK)}, null"))
    facts.append(to.op(f"icmp eq i32 {to.load('i32', array, arrays.NDIM)}, {len(sizes)}"))
    flags = to.op(f"and i32 {to.load('i32', array, arrays.FLAGS)}, {arrays.OWN}")
    facts.append(to.op(f"icmp eq i32 {flags}, {arrays.OWN}"))
    found = facts[0]
    for fact in facts[1:]:
        found = to.op(f"and i1 {found}, {fact}")
    return found


def has_shape(to: Text, array: str, sizes: list[str]) -> str:
    """True if an array with as many axes has these sizes."""
    shape, found = to.load("ptr", array, arrays.SHAPE), "true"
    for k, size in enumerate(sizes):
        same = to.op(f"icmp eq i64 {to.load('i64', shape, 8 * k)}, {size}")
        found = to.op(f"and i1 {found}, {same}")
    return found
