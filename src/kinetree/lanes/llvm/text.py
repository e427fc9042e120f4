"""A writer of LLVM text: numbered values, one instruction a line."""

from collections.abc import Callable

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
        self._prefix, self._count = prefix, 0

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

    def end(self, value: str = "void") -> None:
        """Return a value; here the function ends."""
        self.do(f"ret {value}")
        self.lines.append("}")

    def label(self, name: str) -> None:
        """Start a block."""
        self.lines.append(f"{name}:")

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

    def prefetch(self, place: str) -> None:
        """Prefetch a place in memory that will be read."""
        self.declare("void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.do(f"call void @llvm.prefetch.p0(ptr {place}, i32 0, i32 3, i32 1)")

    def branch(self, condition: str, then: str, otherwise: str) -> None:
        """Jump to one of two labels."""
        self.do(f"br i1 {condition}, label %{then}, label %{otherwise}")

    def go(self, label: str) -> None:
        """Jump to a label."""
        self.do(f"br label %{label}")

    def __str__(self) -> str:
        return "\n".join(self.lines)


class Caller(Text):
    """A text that calls functions of C by name. `api` has their types, such as "ptr (ptr, i64)"."""

    def __init__(self, prefix: str, api: dict[str, str]):
        super().__init__(prefix)
        self.api = api

    def call(self, name: str, *arguments: str) -> str:
        """Call a function; return its result, empty if it has none. Arguments are written as "ptr %x"."""
        kind = self.api[name]
        result = kind.split(" ", 1)[0]
        text = f"call {kind if '...' in kind else result} @{name}({', '.join(arguments)})"
        if result != "void":
            return self.op(text)
        self.do(text)
        return ""

    def require(self, condition: str, then: str, otherwise: str = "leave") -> None:
        """Go on at a new label if the condition holds."""
        self.branch(condition, then, otherwise)
        self.label(then)


def declared(api: dict[str, str]) -> list[str]:
    """Declarations of functions of C."""
    return [f"declare {kind.replace(' (', f' @{name}(')}" for name, kind in api.items()]


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
