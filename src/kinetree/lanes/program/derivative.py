"""Derivatives of a lane program are lane programs, made from the derivatives of its steps.

Forward, every slot has a tangent beside it, and every step computes value and tangent together. Backward, the program
first runs for its values. Then its loops run in reverse, from last turn to first, and each turn adds to the adjoints of
the numbers that it read. Memory is
    [values | tangents or adjoints of the slots | adjoints of the inputs (backward only)]
so a derived table is the table itself, beside copies that point into the other parts. Several directions are several
lanes. To share one run of values among them gains nothing (measured), as the registers do not hold them.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .program import Lane, Loop, Program, Slots

ZEROS = 16  # slots that one turn of the clearing loop writes


def _flat(count: int) -> Any:
    """The treedef of a list of `count` scalars."""
    return jax.tree.structure((0.0,) * count)


def _beside(places: Iterable[Slots], columns: int) -> tuple[Slots, ...]:
    """The places of tangents or adjoints of these slots, by the second copy of the table."""
    return tuple(s._replace(column=columns + _column(s)) for s in places)


def _column(place: Slots | Lane) -> int:
    assert place.column is not None  # of a reversible program
    return place.column


def _grouped(places: tuple[Slots, ...], leaves: Iterable[Any]) -> tuple:
    """A list of scalars as the pytrees that these places hold."""
    rest = iter(leaves)
    return tuple(jax.tree.unflatten(s.tree, [next(rest) for _ in range(s.count)]) for s in places)


class _FlatStep(NamedTuple):
    """A step as a function of lists of scalars, for JAX to differentiate."""

    loop: Loop

    def __call__(self, constants: list, inputs: list, reads: list) -> tuple[list, list, list]:
        dtype = next((x.dtype for x in constants + inputs + reads), None)
        known = jax.tree.unflatten(self.loop.constants, constants)
        results = self.loop.step(known, tuple(inputs), _grouped(self.loop.reads, reads))
        writes, adds, outputs = ([jnp.asarray(x, dtype) for x in jax.tree.leaves(r)] for r in results)
        return writes, adds, outputs


# -- forward ----------------------------------------------------------------------------------------------------------


def _tangent_loop(program: Program, loop: Loop, moving: bool) -> Loop:
    n_constants, n_in = loop.constants.num_leaves, len(loop.inputs)
    n_read = sum(s.count for s in loop.reads)

    def step(constants: tuple, given: tuple, reads: tuple) -> tuple:
        slots = jax.tree.leaves(reads)
        values = [list(constants[:n_constants]), list(given[:n_in]), slots[:n_read]]
        of_constants = list(constants[n_constants:]) if moving else [jnp.zeros_like(c) for c in values[0]]
        value, tangent = jax.jvp(_FlatStep(loop), values, [of_constants, list(given[n_in:]), slots[n_read:]])
        writes, adds = (
            _grouped(places, value[part]) + _grouped(places, tangent[part])
            for part, places in enumerate((loop.writes, loop.adds))
        )
        return writes, adds, tuple(tangent[2])

    moved = tuple(x._replace(array=program.n_inputs + x.array) for x in loop.inputs)
    return Loop(
        step,
        2 * loop.columns,
        _flat(n_constants * (1 + moving)),
        loop.reads + _beside(loop.reads, loop.columns),
        loop.writes + _beside(loop.writes, loop.columns),
        loop.adds + _beside(loop.adds, loop.columns),
        loop.inputs + moved,
        loop.outputs,
        when=loop.when,
    )


@lru_cache
def tangent_program(program: Program, moving: bool) -> Program:
    """The directional derivative of the outputs; inputs are those of the program, then their tangents.

    If `moving`, the constants have tangents too, after the values in each turn.
    """
    loops = tuple(_tangent_loop(program, loop, moving) for loop in program.loops)
    return Program(
        f"{program.name}_jvp{'m' * moving}", loops, 2 * program.n_inputs, program.n_outputs, program.reversible
    )


def tangent_tables(slots: int, tables: tuple) -> tuple:
    """Tables of the forward derivative of a program with `slots` slots."""
    return tuple(jnp.concatenate([t, slots + t], 1) for t in tables)


# -- backward ---------------------------------------------------------------------------------------------------------


def _values_loop(loop: Loop) -> Loop:
    """The loop without its outputs."""

    def step(*arguments: Any) -> tuple:
        return (*loop.step(*arguments)[:2], ())

    places = loop.reads, loop.writes, loop.adds, loop.inputs
    return Loop(step, loop.columns, loop.constants, *places, when=loop.when)


def _owed(result: Any, owed: Any) -> Any:
    """What is owed to a result. In XLA's body a result of no axes is the same in all lanes: nothing moves it."""
    return owed if owed.shape == result.shape else jnp.zeros_like(result)


def _adjoint_loop(program: Program, number: int, loop: Loop, moving: bool) -> Loop:
    columns, n_constants, n_in = loop.columns, loop.constants.num_leaves, len(loop.inputs)
    n_read, n_write = (sum(s.count for s in places) for places in (loop.reads, loop.writes))

    def step(constants: tuple, given: tuple, reads: tuple) -> tuple:
        if n_constants + n_in + n_read == 0:  # no input, so no adjoint
            return (), (), ()
        slots = jax.tree.leaves(reads)
        results, pullback = jax.vjp(_FlatStep(loop), list(constants), list(given[:n_in]), slots[:n_read])
        owed = slots[n_read:]
        owed = owed[:n_write], owed[n_write:], list(given[n_in:])
        owed = jax.tree.map(_owed, results, owed)
        of_constants, of_inputs, of_reads = pullback(owed)
        added = _grouped(loop.reads, of_reads) + tuple((x,) for x in of_inputs)
        return (), added, tuple(of_constants) if moving else ()

    # after the table: its copy for adjoints of slots, one copy for each input array, and the number of the turn
    of_inputs = tuple(Slots(columns * (2 + x.array) + _column(x), x.offset, _flat(1)) for x in loop.inputs)
    turn = columns * (2 + program.n_inputs)
    of_constants = tuple(Lane(program.n_inputs + number, turn, i) for i in range(n_constants))
    return Loop(
        step,
        turn + 1,
        _flat(n_constants),
        loop.reads + _beside(loop.writes + loop.adds, columns),
        (),
        _beside(loop.reads, columns) + of_inputs,
        loop.inputs + tuple(x._replace(array=program.n_inputs + x.array) for x in loop.outputs),
        of_constants if moving else (),
        when=loop.when,
    )


def _adjoint_loops(program: Program, number: int, loop: Loop, moving: bool) -> list[Loop]:
    """The loop that goes backward. Where lanes may leave out a turn, nothing is owed to its constants at first."""
    back = _adjoint_loop(program, number, loop, moving)
    if loop.when is None or not back.outputs:
        return [back]
    none = Loop(lambda *_: ((), (), (0.0,) * len(back.outputs)), back.columns, _flat(0), outputs=back.outputs)
    return [none, back]


def _clearing_loop() -> Loop:
    def step(zero: tuple, _: tuple, __: tuple) -> tuple:
        return (zero * ZEROS,), (), ()

    return Loop(step, 1, _flat(1), writes=(Slots(0, 0, _flat(ZEROS)),))


def _result_loop(array: int) -> Loop:
    """Adjoints of one input array, from their slots to an output."""

    def step(_: tuple, __: tuple, reads: tuple) -> tuple:
        return (), (), reads[0]

    return Loop(step, 2, _flat(0), reads=(Slots(0, 0, _flat(1)),), outputs=(Lane(array, 1),))


@lru_cache
def adjoint_program(program: Program, moving: bool) -> Program:
    """The product with the transposed derivative.

    Inputs: those of the program, then the adjoints of its outputs. Outputs: the adjoints of each input; if `moving`,
    also those of each loop's constants, turn after turn.
    """
    assert program.reversible
    values = tuple(_values_loop(loop) for loop in program.loops)
    back = [x for i, loop in reversed(list(enumerate(program.loops))) for x in _adjoint_loops(program, i, loop, moving)]
    results = tuple(_result_loop(a) for a in range(program.n_inputs))
    return Program(
        f"{program.name}_vjp{'m' * moving}",
        (*values, _clearing_loop(), *back, *results),
        program.n_inputs + program.n_outputs,
        program.n_inputs + len(program.loops) * moving,
        reversible=True,
    )


class Backward(NamedTuple):
    """All that the backward program needs except its inputs."""

    slots: int
    tables: tuple
    constants: tuple


def backward_memory(
    program: Program, slots: int, widths: tuple, tables: tuple, constants: tuple, moving: bool
) -> Backward:
    """Slots, tables and constants of the backward program, for inputs of these widths."""
    starts = [2 * slots + int(s) for s in np.concatenate([[0], np.cumsum(widths)])]
    clear = jnp.arange(slots, starts[-1], ZEROS, dtype=jnp.int32)[:, None]
    dtype = jnp.result_type(*constants)

    def reverse(loop: Loop, t: Any) -> Any:
        turn = jnp.arange(t.shape[0], dtype=t.dtype)[:, None] * loop.constants.num_leaves
        return jnp.concatenate([t, slots + t, *(s + t for s in starts[:-1]), turn], 1)[::-1]

    back, known = [], []
    for i, loop in reversed(list(enumerate(program.loops))):
        count = len(_adjoint_loops(program, i, loop, moving))
        back += [reverse(loop, tables[i])] * count
        known += [jnp.zeros((tables[i].shape[0], 0), dtype)] * (count - 1) + [constants[i][::-1]]
    columns = [jnp.arange(w, dtype=jnp.int32)[:, None] for w in widths]
    results = [jnp.concatenate([s + c, c], 1) for s, c in zip(starts[:-1], columns, strict=True)]
    return Backward(
        starts[-1] + ZEROS,
        (*tables, clear, *back, *results),
        (
            *constants,
            jnp.zeros((clear.shape[0], 1), dtype),
            *known,
            *(jnp.zeros((w, 0), dtype) for w in widths),
        ),
    )
