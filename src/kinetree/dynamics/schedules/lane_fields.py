"""The fields of a row, as the slots of a lane's memory; and the axes of an algorithm's outputs."""

from typing import Any

import jax

from kinetree.dynamics.recursion import Algorithm, Base, Bodies, OneBody, Total
from kinetree.lanes import Memory
from kinetree.lanes.program.program import Slots
from kinetree.model import Structure
from kinetree.spatial import Mat3


class Fields:
    """The fields of a row as slots. A part of a field that forces are added to has slots of its own."""

    def __init__(self, examples: dict[str, Any], split: str):
        self.examples = examples
        self.parts = {name: [name] for name in examples}
        values = dict(examples)
        if split:
            whole = {part: x for part, x in values.pop(split)._asdict().items() if x is not None}
            self.parts[split] = [f"{split}_{part}" for part in whole]
            values |= zip(self.parts[split], whole.values(), strict=True)
        self.memory = Memory(**values)

    def at(self, column: int, *names: str) -> tuple[Slots, ...]:
        """The slots of some fields of the row in this column of the table."""
        return tuple(self.memory.at(column, part) for name in names for part in self.parts[name])

    def taken(self, names: tuple[str, ...], slots: list[Any]) -> dict[str, Any]:
        """Values of some fields, from the values of their slots, which are taken off the list."""
        found = {}
        for name in names:
            parts = [slots.pop(0) for _ in self.parts[name]]
            found[name] = parts[0] if len(parts) == 1 else self._joined(name, parts)
        return found

    def spread(self, names: tuple[str, ...], values: dict[str, Any]) -> tuple:
        """Values of some fields, as their slots take them."""
        spread = ([x for x in values[n] if x is not None] if len(self.parts[n]) > 1 else [values[n]] for n in names)
        return tuple(x for parts in spread for x in parts)

    def _joined(self, name: str, parts: list[Any]) -> Any:
        """A field from its parts; what its example has not, it has not."""
        rest = iter(parts)
        return type(self.examples[name])(*(None if x is None else next(rest) for x in self.examples[name]))


def output_axes(algorithm: Algorithm, name: str, packed: bool) -> tuple[Any, ...]:
    """Axes of an output of one state: numbers, or functions of the structure."""

    def rows(structure: Structure) -> int:
        return structure.tree.n

    example = algorithm.outputs[name]
    count = jax.tree.structure(example).num_leaves
    if name == algorithm.matrix:
        return (lambda structure: structure.tree.n_ancestor_pairs,) if packed else (rows, rows)
    if name in algorithm.columns:
        return (count, rows)
    group = () if count == 1 else (3, 3) if isinstance(example, Mat3) else (count,)
    (p,) = (p for p in algorithm.passes if name in p.outputs)
    if isinstance(p, Total | Base | OneBody):
        return group
    return ((lambda structure: structure.n_bodies) if isinstance(p, Bodies) else rows, *group)
