"""The time on several devices: a model of bytes, operations, messages and latencies.

    time = max(bytes / bandwidth, operations / rate) of a device's share + launches + messages

Batches have no messages, as worlds are independent. One tree over P devices (`kinetree.shard_tree`) sends, for
each pass, one element of each device's chunk to all, and every device then walks the tree of chunks by itself:

    messages = passes · (latency · ⌈log2 P⌉ + element bytes · (P − 1) / link + launch + chunks in a row · time of one)

The figures of a machine are measured ones; benchmarks/NOTES.md has them.
"""

import math
from typing import NamedTuple

from kinetree.theory import is_count


class Machine(NamedTuple):
    """A kind of device, and what joins several of them. Seconds, bytes and operations."""

    stream: float  # bytes a second that lanes of a batch read and write
    walk: float  # bytes a second that walks along one huge tree read and write
    rate: float  # float32 operations a second
    launch: float  # seconds to start a call
    prefix: float  # seconds that the prefixes of one pass over a huge tree take
    latency: float  # seconds that a message takes to a neighbour, however short
    link: float  # bytes a second between devices
    chunk: float  # seconds to walk over one chunk, in the row of all chunks
    memory: float  # bytes of a device


# One H200. Stream: inverse dynamics of 8 and 32 degrees of freedom in float32. Walk and prefix: chains of 1 000 000 and
# 4 000 000 bodies in float64. Chunk: a prefix is some hundred such steps in a row. Latency and link are those of NVLink
# as its maker states them: several GPUs have not been measured.
H200 = Machine(2.4e12, 2.4e12, 6e13, 6e-6, 1e-4, 1e-5, 4.5e11, 1e-6, 1.39e11)


def part_of(machine: Machine, devices: int) -> Machine:
    """One of several host devices of a CPU: they share its memory and its cores, so their walks wait for each other."""
    return machine._replace(
        stream=machine.stream / devices,
        walk=machine.walk / devices,
        rate=machine.rate / devices,
        chunk=machine.chunk * devices,
        memory=machine.memory / devices,
    )


class Work(NamedTuple):
    """The work of an algorithm for a world, or for a body of one huge tree, in float32."""

    bytes: float
    operations: float
    passes: int = 1
    element: int = 0  # bytes of what a chunk sends in a pass
    kept: float = 0.0  # bytes that stay in memory


def inverse_dynamics_of_tree(width: int = 4) -> Work:
    """A body of a chain of hinges, in numbers of 4 or 8 bytes.

    Placement 7, inertia 10, inputs 3; 13 numbers are kept between the passes. Reduce reads 10, the walk out reads 20
    and writes 13, the walk in reads 13 and writes 1; each has an index of 4 bytes.
    """
    return Work(57 * width + 12, 700, passes=2, element=100 * width, kept=(20 + 13 + 4) * width + 4)


INVERSE_DYNAMICS_OF_TREE = inverse_dynamics_of_tree()


def inverse_dynamics_of_worlds(dof: int) -> Work:
    """Inverse dynamics of a robot: q, qd, qdd in, tau out; about 130 operations a joint.

    For programs that are written out for the robot (`kinetree.specialize`, and all of up to ten rows): others keep
    numbers in memory between their passes, and take longer.
    """
    return Work(4 * dof * 4, 130.0 * dof, kept=4 * dof * 4)


class Prediction(NamedTuple):
    """Seconds of a call, and their parts."""

    compute: float
    launches: float
    messages: float
    fits: bool  # True if a device's memory holds its share

    @property
    def total(self) -> float:
        """All of them, one after the other."""
        return self.compute + self.launches + self.messages

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {1e3 * getattr(self, name):.3g}" for name in ("compute", "launches", "messages"))
        return f"{1e3 * self.total:.3g} ms ({parts})" + ("" if self.fits else ", if memory were larger")


def _check(work: Work, machine: Machine, count: float, devices: int) -> None:
    for name, value, kind in (("work", work, Work), ("machine", machine, Machine)):
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be a {kind.__name__}, not a {type(value).__name__}")
    if not (is_count(count) and is_count(devices)):
        raise ValueError(f"at least one world or body, and one device, not {count} and {devices}")


def batch(work: Work, worlds: float, devices: int = 1, machine: Machine = H200) -> Prediction:
    """A batch of worlds, divided evenly."""
    _check(work, machine, worlds, devices)
    share = math.ceil(worlds / devices)
    compute = share * max(work.bytes / machine.stream, work.operations / machine.rate)
    return Prediction(compute, machine.launch, 0.0, share * work.kept <= machine.memory)


def tree(
    work: Work, bodies: float, devices: int = 1, machine: Machine = H200, chunks_in_a_row: int | None = None
) -> Prediction:
    """One tree over devices; of a chain, all chunks are in a row."""
    _check(work, machine, bodies, devices)
    share = math.ceil(bodies / devices)
    compute = share * max(work.bytes / machine.walk, work.operations / machine.rate)
    launches = machine.launch + work.passes * machine.prefix
    messages = 0.0
    if devices > 1:
        row = devices if chunks_in_a_row is None else chunks_in_a_row
        sent = work.element * (devices - 1) / machine.link
        walked = machine.launch + row * machine.chunk
        messages = work.passes * (machine.latency * math.ceil(math.log2(devices)) + sent + walked)
    return Prediction(compute, launches, messages, share * work.kept <= machine.memory)


def weak_scaling(one: Prediction, many: Prediction) -> float:
    """The efficiency of weak scaling: the part of the time that is not overhead, if each device has the same work."""
    return one.total / many.total
