"""Braids as LLVM text: turns of several loops in one order, with values that go from turn to turn."""

from collections.abc import Callable

from .carry import Carry, InRegisters
from .kernel import LoopWriter


class BraidWriter(LoopWriter):
    """Writes braids, too."""

    def braid(self, k: int, arrays: tuple[str, str, str]) -> None:
        """All turns of braid k: its loops are the cases of a switch, and what they carry goes round."""
        to, braid, label, before = self.to, self.program.loops[k], f"loop{k}", self.mask
        carry = self.carrying(label, braid.carried.num_leaves)

        def turn(number: str, row: Callable[[int], str]) -> None:
            cases = " ".join(f"i32 {j}, label %{label}_case{j}" for j in range(1, len(braid.members)))
            to.do(f"switch i32 {row(0)}, label %{label}_case0 [ {cases} ]")
            for j, loop in enumerate(braid.members):
                case = f"{label}_case{j}"
                to.label(case)
                self.columns = self._wide([row(1 + c) for c in range(loop.columns)])
                if loop.when is not None:
                    self._choose(self.read_slot(self._slots(loop.when)[0]), f"{case}_do", f"{case}_skip")
                elif loop.scratch and not loop.outputs:
                    self.mask = ""
                start = to.op(f"mul i64 {number}, {braid.constants.num_leaves}")
                old = carry.values()
                new = self._step(loop, self.jaxprs[k][j], start, arrays[0], old)
                if loop.when is not None:
                    new = [x if x == y else self._chosen(x, y) for x, y in zip(new, old, strict=True)]
                carry.hand_on(f"{case}_done", old, new)
                self.mask = before
                to.go(f"{case}_done")
                to.label(f"{case}_done")
                to.go(f"{label}_turned")
                if loop.when is not None:
                    to.label(f"{case}_skip")
                    carry.keep(f"{case}_skip")
                    to.go(f"{label}_turned")

        self._counted(k, arrays, turn, carry)

    def carrying(self, label: str, count: int) -> Carry:
        """How a braid carries so many values."""
        return InRegisters(self.to, label, count)
