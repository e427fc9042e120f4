"""How a braid carries values from turn to turn: in registers, or in memory that the steps load from and store to.

A thread of a GPU has registers enough. A CPU has 32, and would copy what it can not keep there at the end of each turn;
in memory a step reads what it needs, and writes what it changes.
"""

from abc import ABC, abstractmethod

from .emit import Emitter


class Carry(ABC):
    """The values of one braid; its methods are called in the order of the text."""

    def __init__(self, to: Emitter, label: str, count: int):
        self.to, self.label, self.count = to, label, count

    @abstractmethod
    def start(self) -> None:
        """Before the first turn: zeros."""

    def begin_turn(self) -> None:  # noqa: B027
        """At the head of a turn."""

    @abstractmethod
    def values(self) -> list[str]:
        """In a turn."""

    @abstractmethod
    def hand_on(self, block: str, old: list[str], new: list[str]) -> None:
        """What a turn makes of them; it ends in this block."""

    def keep(self, block: str) -> None:  # noqa: B027
        """A turn that is not done, and ends in this block."""

    def end_turn(self) -> None:  # noqa: B027
        """Where all turns end."""


class InRegisters(Carry):
    """As values of LLVM's."""

    def start(self) -> None:
        """Zeros."""
        self.ends: list[tuple[str, list[str]]] = []
        self.names = [f"%{self.label}_carried{j}" for j in range(self.count)]

    def begin_turn(self) -> None:
        """From before the loop, or from the turn before."""
        zero, label = self.to.number(0.0), self.label
        for x in self.names:
            self.to.lines.append(
                f"  {x} = phi {self.to.real} [ {zero}, %{label}_first ], [ {x}_next, %{label}_turned ]"
            )

    def values(self) -> list[str]:
        """The names of the values."""
        return self.names

    def hand_on(self, block: str, old: list[str], new: list[str]) -> None:
        """To the end of all turns."""
        self.ends.append((block, new))

    def keep(self, block: str) -> None:
        """To the end of all turns."""
        self.ends.append((block, self.names))

    def end_turn(self) -> None:
        """From all turns."""
        for j, x in enumerate(self.names):
            ways = ", ".join(f"[ {values[j]}, %{block} ]" for block, values in self.ends)
            self.to.lines.append(f"  {x}_next = phi {self.to.real} {ways}")


class InMemory(Carry):
    """In room on the stack, whose address LLVM is not told: it would put it into registers again."""

    def __init__(self, to: Emitter, label: str, count: int):
        super().__init__(to, label, count)
        room = f"%{label}_room"
        align = to.width * to.bits // 8
        to.lines.insert(to.lines.index("entry:") + 1, f"  {room} = alloca [{count} x {to.real}], align {align}")
        self.base = to.op(f'call ptr asm "", "=r,0"(ptr {room})')
        self.align = f"align {align}"

    def _place(self, j: int) -> str:
        return self.to.at(self.base, j, self.to.real)

    def start(self) -> None:
        """Zeros."""
        for j in range(self.count):
            self.to.do(f"store {self.to.real} {self.to.number(0.0)}, ptr {self._place(j)}, {self.align}")

    def values(self) -> list[str]:
        """Loaded; LLVM drops those that are not used."""
        return [self.to.op(f"load {self.to.real}, ptr {self._place(j)}, {self.align}") for j in range(self.count)]

    def hand_on(self, block: str, old: list[str], new: list[str]) -> None:
        """Stored where they changed."""
        for j, (x, y) in enumerate(zip(old, new, strict=True)):
            if x != y:
                self.to.do(f"store {self.to.real} {y}, ptr {self._place(j)}, {self.align}")
