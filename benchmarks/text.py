"""Numbers and tables, as the performance page writes them."""

from collections.abc import Iterator, Sequence

from .records import Record

ALGORITHMS = {
    "inverse_dynamics": "inverse dynamics",
    "forward_dynamics": "forward dynamics",
    "mass_matrix_and_bias": "H and C",
    "forward_kinematics": "forward kinematics",
    "inverse_dynamics_derivatives": "derivatives of inverse dynamics",
    "forward_dynamics_derivatives": "derivatives of forward dynamics",
    "rootfix": "rootfix",
}


def is_measured(record: Record) -> bool:
    """Whether a record holds a time."""
    return "median_s" in record or "first_result_s" in record


def count(number: int) -> str:
    """A whole number, in groups of three."""
    return f"{number:,}".replace(",", "\u202f")


def seconds(value: float | None) -> str:
    """A time with its unit, three digits."""
    if value is None:
        return ""
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def rate(value: float | None) -> str:
    """States a second, three digits."""
    if value is None:
        return ""
    for size, unit in ((1e9, "G/s"), (1e6, "M/s"), (1e3, "k/s")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} /s"


def ratio(value: float) -> str:
    """How many times, without an exponent."""
    return count(round(value)) if value >= 100 else f"{value:.2g}" if value < 1 else f"{value:.3g}"


def tree(record: Record) -> str:
    """The mechanism alone."""
    size = count(record["n"])
    return f"chain of {size}" if record["branching"] == 1 else f"tree of {size}, branching {record['branching']:g}"


def mechanism(record: Record) -> str:
    """What a record is about, in words."""
    name = record["algorithm"].removeprefix("first_")
    words = [ALGORITHMS.get(name, name), tree(record)]
    if record["batch"] > 1:
        words.append(f"{count(record['batch'])} states")
    if record["dtype"] != "float64":
        words.append(record["dtype"])
    if record["specialised"]:
        words.append("specialised")
    return ", ".join(words)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table in Markdown, and an empty line."""
    yield f"| {' | '.join(head)} |"
    yield f"|---|{'---:|' * (len(head) - 1)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""
