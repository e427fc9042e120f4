"""Scratch memory that is kept from call to call: new pages cost more than the step of a small robot.

`free` now and then gives pages back to the system, and each page is cleared again at its next use. So some *places*
hold the addresses of unused memory. Threads take memory from them and put it back by atomic exchanges, so no thread
waits. A head of 64 bytes before the memory holds its size.
"""

import sys

from .. import tuning
from .text import Text

PLACES, HEAD = 8, 64  # addresses that are kept together; bytes
KEPT_SCRATCH = "@kept_scratch"  # the places of a module; programs that Python calls share those of the helpers
LARGE_PAGE = 1 << 21
HUGE_PAGES = 14  # MADV_HUGEPAGE


def scratch_text() -> str:
    """Definitions of the module's places, of `take_scratch(places, size)` and `leave_scratch(places, memory)`."""
    return "\n".join(
        [f"{KEPT_SCRATCH} = internal global [{PLACES} x i64] zeroinitializer", str(_take()), str(_leave())]
    )


def take_scratch(to: Text, places: str, size: str) -> str:
    """Memory of a size, at a multiple of 64 bytes; null where there is none."""
    return to.op(f"call ptr @take_scratch(ptr {places}, i64 {size})")


def leave_scratch(to: Text, places: str, memory: str) -> None:
    """Leave memory, if there is some, for later calls."""
    to.do(f"call void @leave_scratch(ptr {places}, ptr {memory})")


def _take() -> Text:
    to = Text("s")
    to.begin("internal ptr @take_scratch(ptr %places, i64 %size) noinline")
    with to.each(PLACES) as k:
        place = to.at("%places", k, "i64")
        there = to.op(f"load atomic i64, ptr {place} monotonic, align 8")
        with to.when(to.op(f"icmp ne i64 {there}, 0")):
            got = to.op(f"atomicrmw xchg ptr {place}, i64 0 acq_rel")
            with to.when(to.op(f"icmp ne i64 {got}, 0")):
                memory = to.op(f"inttoptr i64 {got} to ptr")
                with to.when(to.op(f"icmp sge i64 {to.load('i64', memory)}, %size")):
                    to.give(f"ptr {to.at(memory, HEAD)}")
                to.do(f"call void @free(ptr {memory})")  # a larger memory will take its place
                to.go("none")
    to.into("none")
    new = scratch_memory(to, to.op(f"add i64 %size, {HEAD}"))
    with to.when(to.op(f"icmp eq ptr {new}, null")):
        to.give("ptr null")
    to.store("i64", "%size", new)
    to.end(f"ptr {to.at(new, HEAD)}")
    return to


def _leave() -> Text:
    to = Text("l")
    to.begin("internal void @leave_scratch(ptr %places, ptr %memory) noinline")
    with to.when(to.op("icmp eq ptr %memory, null")):
        to.give()
    head = to.at("%memory", -HEAD)
    address = to.op(f"ptrtoint ptr {head} to i64")
    with to.when(to.op(f"icmp sle i64 {to.load('i64', head)}, {tuning.KEPT_SCRATCH_MAX_BYTES}")), to.each(PLACES) as k:
        place = to.at("%places", k, "i64")
        pair = to.op(f"cmpxchg ptr {place}, i64 0, i64 {address} acq_rel monotonic, align 8")
        with to.when(to.op(f"extractvalue {{ i64, i1 }} {pair}, 1")):
            to.give()
    to.do(f"call void @free(ptr {head})")
    to.end()
    return to


def scratch_memory(to: Text, size: str) -> str:
    """Memory for slots. Large memory comes in large pages if the system has them, to save page faults."""
    if sys.platform != "linux":
        return to.op(f"call ptr @aligned_alloc(i64 64, i64 {size})")
    large = to.op(f"icmp sge i64 {size}, {tuning.LARGE_PAGES_MIN_BYTES}")
    unit = to.op(f"select i1 {large}, i64 {LARGE_PAGE}, i64 64")
    up = to.op(f"add i64 {size}, {to.op(f'sub i64 {unit}, 1')}")
    rounded = to.op(f"and i64 {up}, {to.op(f'sub i64 0, {unit}')}")
    memory = to.op(f"call ptr @aligned_alloc(i64 {unit}, i64 {rounded})")
    there = to.op(f"icmp ne ptr {memory}, null")
    advise_large_pages(to, memory, to.op(f"select i1 {there}, i64 {rounded}, i64 0"))
    return memory


def advise_large_pages(to: Text, memory: str, size: str) -> None:
    """Ask the system for large pages for new memory, if it is large enough."""
    if sys.platform != "linux":
        return
    with to.when(to.op(f"icmp sge i64 {size}, {tuning.LARGE_PAGES_MIN_BYTES}")):
        start = to.op(f"ptrtoint ptr {memory} to i64")
        # only the pages that lie wholly inside it
        first, end = (
            to.op(f"and i64 {to.op(f'add i64 {start}, {more}')}, {-LARGE_PAGE}") for more in (LARGE_PAGE - 1, size)
        )
        place = to.op(f"inttoptr i64 {first} to ptr")
        to.op(f"call i32 @madvise(ptr {place}, i64 {to.op(f'sub i64 {end}, {first}')}, i32 {HUGE_PAGES})")
