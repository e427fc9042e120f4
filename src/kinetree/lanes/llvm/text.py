"""A writer of LLVM text: numbered values, one instruction a line, loops and conditions as contexts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

METADATA = '!7 = !{i32 1}\n!8 = !{}\n!9 = !{!"branch_weights", i32 1, i32 100000}\n'


def module_of(*parts: str) -> str:
    """One module of several texts, which may declare the same functions."""
    lines = "\n".join(parts).splitlines()
    declarations = dict.fromkeys(line for line in lines if line.startswith("declare"))
    rest = [line for line in lines if not line.startswith("declare")]
    return "\n".join([*declarations, *rest, METADATA])


class Text:
    """Lines of one LLVM function, and the declarations it needs."""

    def __init__(self, prefix: str = "v"):
        self.lines: list[str] = []
        self.declarations: set[str] = set()
        self._prefix, self._count, self._labels = prefix, 0, 0
        self.block, self.open = "", False  # the label of the last block; True if it has not ended yet

    def op(self, instruction: str) -> str:
        """Append an instruction that has a result; return its name."""
        self._count += 1
        name = f"%{self._prefix}{self._count}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def do(self, instruction: str) -> None:
        """Append an instruction without a result."""
        self.lines.append(f"  {instruction}")

    def begin(self, signature: str) -> None:
        """Start a function, and its first block, `entry`."""
        self.lines.append(f"define {signature} {{")
        self.label("entry")

    def give(self, value: str = "void") -> None:
        """Return a value."""
        self.do(f"ret {value}")
        self.open = False

    def end(self, value: str = "void") -> None:
        """Return a value; here the function ends."""
        self.give(value)
        self.lines.append("}")

    def label(self, name: str) -> None:
        """Start a block."""
        self.lines.append(f"{name}:")
        self.block, self.open = name, True

    def new_label(self, name: str) -> str:
        """A label that no other block has."""
        self._labels += 1
        return f"{name}.{self._labels}"

    def into(self, name: str) -> None:
        """Start a block, and go on in it."""
        self.go(name)
        self.label(name)

    def declare(self, declaration: str) -> None:
        """Say that a function exists elsewhere."""
        self.declarations.add(f"declare {declaration}")

    def at(self, base: str, index: str | int, kind: str = "i8", space: str = "") -> str:
        """Address of element `index` of an array of `kind`."""
        return self.op(f"getelementptr {kind}, ptr{space} {base}, i64 {index}")

    def load(self, kind: str, base: str, index: str | int = 0, of: str = "i8", extra: str = "") -> str:
        """A value from memory."""
        return self.op(f"load {kind}, ptr {self.at(base, index, of)}{extra}")

    def store(
        self, kind: str, value: str | int, base: str, index: str | int = 0, of: str = "i8", extra: str = ""
    ) -> None:
        """A value to memory."""
        self.do(f"store {kind} {value}, ptr {self.at(base, index, of)}{extra}")

    def smaller(self, a: str | int, b: str | int) -> str:
        """The smaller of two whole numbers."""
        return self.op(f"select i1 {self.op(f'icmp slt i64 {a}, {b}')}, i64 {a}, i64 {b}")

    def larger(self, a: str | int, b: str | int) -> str:
        """The larger of two whole numbers."""
        return self.op(f"select i1 {self.op(f'icmp sgt i64 {a}, {b}')}, i64 {a}, i64 {b}")

    def prefetch(self, place: str) -> None:
        """Prefetch a place in memory that will be read."""
        self.declare("void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.do(f"call void @llvm.prefetch.p0(ptr {place}, i32 0, i32 3, i32 1)")

    def branch(self, condition: str, then: str, otherwise: str) -> None:
        """Jump to one of two labels."""
        self.do(f"br i1 {condition}, label %{then}, label %{otherwise}")
        self.open = False

    def go(self, label: str) -> None:
        """Jump to a label."""
        self.do(f"br label %{label}")
        self.open = False

    def require(self, condition: str, then: str = "", otherwise: str = "leave") -> None:
        """Go on, at a new label, if the condition holds; else jump to the label `otherwise`."""
        then = then or self.new_label("good")
        self.branch(condition, then, otherwise)
        self.label(then)

    def variable(self, kind: str, start: str | int | None = None, extra: str = "") -> str:
        """The address of memory of the function; with a number there if it is to `start` with one."""
        name = f"%{self.new_label('variable')}"
        self.lines.insert(self.lines.index("entry:") + 1, f"  {name} = alloca {kind}{extra}")
        if start is not None:
            self.store(kind, start, name)
        return name

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """A context: the text written inside runs if the condition holds."""
        label = self.new_label("when")
        self.branch(condition, label, f"{label}_after")
        self.label(label)
        yield
        if self.open:
            self.go(f"{label}_after")
        self.label(f"{label}_after")

    @contextmanager
    def each(self, end: str | int, first: str | int = 0, step: str | int = 1, kind: str = "i64") -> Iterator[str]:
        """A context: the text written inside is a loop over the whole numbers from `first`, less than `end`."""
        label, before = self.new_label("each"), self.block
        self.branch(self.op(f"icmp slt {kind} {first}, {end}"), label, f"{label}_after")
        self.label(label)
        place = f"  ; {label}"  # for the number, until the block is known from which the loop goes on
        self.lines.append(place)
        yield f"%{label}_at"
        self.lines.append(f"  %{label}_next = add {kind} %{label}_at, {step}")
        ways = f"[ {first}, %{before} ], [ %{label}_next, %{self.block} ]"
        self.lines[self.lines.index(place)] = f"  %{label}_at = phi {kind} {ways}"
        self.branch(self.op(f"icmp slt {kind} %{label}_next, {end}"), label, f"{label}_after")
        self.label(f"{label}_after")

    def __str__(self) -> str:
        return "\n".join(self.lines)


def over_blocks(
    to: Text, width: int, first: str, end: str, body: Callable[[str], None], result: Callable[[], str] = lambda: "void"
) -> None:
    """The rest of a function: `body(start)` for blocks of `width` from first to end, then the end of the function.

    The last block may overlap the one before. If there are fewer lanes than in a block, the only block starts before
    `first`. The body begins in the block `block`, and jumps to the label `blockend`. `result()` writes the last
    instructions, and returns the name of the result.
    """
    last = to.op(f"sub i64 {end}, {width}")
    to.into("block")
    to.lines.append(f"  %start = phi i64 [ {first}, %entry ], [ %further, %blockend ]")
    body(to.op(f"select i1 {to.op(f'icmp slt i64 %start, {last}')}, i64 %start, i64 {last}"))
    to.label("blockend")
    to.lines.append(f"  %further = add i64 %start, {width}")
    to.branch(to.op(f"icmp slt i64 %further, {end}"), "block", "done")
    to.label("done")
    to.end(f"{result()}")


def transposed(to: Text, real: str, vectors: list[str]) -> list[str]:
    """A square of vectors, transposed: entry k of vector i becomes entry i of vector k."""
    width = len(vectors)
    step = 1
    while step < width:
        new = list(vectors)
        for i in range(width):
            if i & step:
                continue
            # in each pair (i, i + step), swap the entries whose place has the bit `step`
            low = [k if not k & step else width + k - step for k in range(width)]
            high = [k + step if not k & step else width + k for k in range(width)]
            for target, picked in ((i, low), (i + step, high)):
                mask = ", ".join(f"i32 {k}" for k in picked)
                pair = f"{real} {vectors[i]}, {real} {vectors[i + step]}"
                new[target] = to.op(f"shufflevector {pair}, <{width} x i32> <{mask}>")
        vectors, step = new, 2 * step
    return vectors
