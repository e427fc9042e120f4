"""A program as object files: one for each long loop of a long program (apart.py), and one for the rest.

Each long loop is kept on disk under its own name, so programs that share loops share their code. Loops that are not yet
on disk are compiled by all threads, while this thread still writes the other texts.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from .. import tuning
from ..kept.cache import keep_cached, read_cached
from ..kept.content import Indescribable
from ..llvm.emit import trace
from ..program.program import Program
from . import host
from .apart import loop_text, masked
from .threads import threads

Frame = Callable[[Program, list[Any], np.dtype, int, dict[int, str]], list[str]]


def object_files(program: Program, dtype: np.dtype, width: int, frame: Frame) -> list[bytes]:
    """The object files of a program; `frame` writes the modules of all that is not apart."""
    jaxprs: list[Any] = []
    apart: dict[int, str] = {}
    pieces: list[Future[bytes] | bytes] = []
    in_pieces = program.straight is None and not program.woven and len(program.loops) > tuning.TOGETHER_MAX_LOOPS
    lists = {loop.lists[0] for loop in program.loops if loop.lists is not None}
    with ThreadPoolExecutor(threads()) as pool:
        for k, (loop, in_repeat) in enumerate(zip(program.loops, masked(program.body), strict=True)):
            loop = loop if loop.follows in lists else replace(loop, follows="")
            name = _name(loop, in_repeat, dtype) if in_pieces else None
            found = None if name is None else read_cached(name)
            jaxprs.append(trace(loop, dtype) if found is None else None)
            if found is not None:
                apart[k] = name or ""
                pieces.append(found)
            elif in_pieces and _equations(jaxprs[k].jaxpr) >= tuning.APART_MIN_EQUATIONS:
                apart[k] = name or f"loop{k}"
                text = loop_text(loop, jaxprs[k], (width, 1), dtype, apart[k], in_repeat)
                pieces.append(pool.submit(_made, name, text))
        pieces += [pool.submit(host.machine_code, text) for text in frame(program, jaxprs, dtype, width, apart)]
        return [one if isinstance(one, bytes) else one.result() for one in pieces]


def _name(loop: Any, in_repeat: bool, dtype: np.dtype) -> str | None:
    """The name of a loop's code; None if its content can not be described."""
    try:
        return host.full_name("loop", (loop, in_repeat), dtype)
    except Indescribable:
        return None


def _made(name: str | None, text: str) -> bytes:
    code = host.machine_code(text)
    if name is not None:
        keep_cached(name, code)
    return code


def _equations(jaxpr: Any) -> int:
    """The number of equations, with nested ones."""
    inner = (x.jaxpr for e in jaxpr.eqns for x in e.params.values() if hasattr(x, "jaxpr"))
    return len(jaxpr.eqns) + sum(map(_equations, inner))
