"""A builtin with keywords. It finds the builtin for the facts of a call, and calls it.

Another integrator, another length of the step, or another number of substeps is another program. These are the *facts*
of a call: keywords with usual values. All other parameters are arrays, or objects of arrays. A dictionary has the
builtin for each set of facts. If it has none, or if the builtin refuses, the result is None.
"""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..kept.once import once
from ..llvm.text import module_of
from .arrays import HEADER
from .host import MachineCode
from .interpreter import METH_FASTCALL, METH_KEYWORDS, Caller, builtin_of, code_of

MAX_ARGUMENTS = 8

# Offsets in the record of a builtin. The names of all parameters follow, then their usual values.
TABLE, USUAL, ABSENT, YES, NO, POSITIONAL, ARRAYS, PARAMETERS, NAMES = range(0, 72, 8)


def _chooser_text() -> Caller:
    """`chooser(self, given, count, words)`: call the builtin that the dictionary has for the facts."""
    to = Caller("c")
    to.begin("ptr @chooser(ptr %self, ptr %given, i64 %count, ptr %words)")
    to.do(f"%values = alloca [{MAX_ARGUMENTS} x ptr]")
    known, plain, wanted = to.variable("i1"), to.variable("i1"), to.variable("ptr")
    record = to.call("PyLong_AsVoidPtr", f"ptr {to.call('PyTuple_GetItem', 'ptr %self', 'i64 0')}")
    most, given, every = (to.load("i64", record, x) for x in (POSITIONAL, ARRAYS, PARAMETERS))
    names, nothing = to.at(record, NAMES), to.load("ptr", record, ABSENT)
    usual = to.at(names, every, "ptr")
    to.require(to.op(f"icmp ule i64 %count, {most}"), otherwise="refuse")
    with to.each(every) as k:
        to.store("ptr", to.load("ptr", usual, k, "ptr"), "%values", k, "ptr")
    with to.each("%count") as k:
        to.store("ptr", to.load("ptr", "%given", k, "ptr"), "%values", k, "ptr")
    with to.when(to.op("icmp ne ptr %words, null")):
        size = to.load("i64", "%words", HEADER)  # of a tuple
        with to.each(size) as k:
            own = to.call("PyTuple_GetItem", "ptr %words", f"i64 {k}")
            value = to.load("ptr", "%given", to.op(f"add i64 %count, {k}"), "ptr")
            to.store("i1", "false", known)
            with to.each(every) as n, to.when(to.op(f"icmp eq ptr {to.load('ptr', names, n, 'ptr')}, {own}")):
                to.require(to.op(f"icmp sge i64 {n}, %count"), otherwise="refuse")
                to.store("ptr", value, "%values", n, "ptr")
                to.store("i1", "true", known)
            to.require(to.load("i1", known), otherwise="refuse")
    to.require(to.op(f"icmp ne ptr {to.load('ptr', '%values')}, null"), otherwise="refuse")
    # The key: the facts, and whether the last array is given.
    last = to.load("ptr", "%values", to.op(f"sub i64 {given}, 1"), "ptr")
    without = to.op(f"icmp eq ptr {last}, {nothing}")
    to.store("i1", without, plain)
    facts = to.op(f"sub i64 {every}, {given}")
    with to.each(facts) as k:
        n = to.op(f"add i64 {given}, {k}")
        same = to.op(f"icmp eq ptr {to.load('ptr', '%values', n, 'ptr')}, {to.load('ptr', usual, n, 'ptr')}")
        to.store("i1", to.op(f"and i1 {same}, {to.load('i1', plain)}"), plain)
    to.store("ptr", to.load("ptr", record, USUAL), wanted)
    to.branch(to.load("i1", plain), "as_usual", "other")
    to.label("as_usual")
    to.call("Py_IncRef", f"ptr {to.load('ptr', wanted)}")
    to.go("look")
    to.label("other")
    key = to.call("PyTuple_New", f"i64 {to.op(f'add i64 {facts}, 1')}")
    to.require(to.op(f"icmp ne ptr {key}, null"), otherwise="forget")
    with to.each(facts) as k:
        value = to.load("ptr", "%values", to.op(f"add i64 {given}, {k}"), "ptr")
        to.call("Py_IncRef", f"ptr {value}")
        to.call("PyTuple_SetItem", f"ptr {key}", f"i64 {k}", f"ptr {value}")
    yes, no = (to.load("ptr", record, x) for x in (YES, NO))
    pushed = to.op(f"select i1 {without}, ptr {no}, ptr {yes}")
    to.call("Py_IncRef", f"ptr {pushed}")
    to.call("PyTuple_SetItem", f"ptr {key}", f"i64 {facts}", f"ptr {pushed}")
    to.store("ptr", key, wanted)
    to.into("look")
    wanted = to.load("ptr", wanted)
    found = to.call("PyDict_GetItemWithError", f"ptr {to.load('ptr', record, TABLE)}", f"ptr {wanted}")
    with to.when(to.op(f"icmp ne ptr {found}, null")):
        to.call("Py_IncRef", f"ptr {found}")
        to.call("Py_DecRef", f"ptr {wanted}")
        result = to.call("PyObject_Vectorcall", f"ptr {found}", "ptr %values", f"i64 {given}", "ptr null")
        to.call("Py_DecRef", f"ptr {found}")
        to.give(f"ptr {result}")
    to.call("Py_DecRef", f"ptr {wanted}")
    to.into("forget")
    to.call("PyErr_Clear")
    to.into("refuse")
    to.call("Py_IncRef", f"ptr {nothing}")
    to.end(f"ptr {nothing}")
    return to


@once
def _code() -> MachineCode | None:
    """The machine code of such builtins; None if there can be none."""
    return code_of("chooser", lambda: module_of(str(_chooser_text())))


def chooser(table: dict[tuple, Any], names: Sequence[str], usual: Sequence[Any], arrays: int, positional: int) -> Any:
    """A builtin that calls what `table` has for the facts of a call; None if there can be none.

    `names` has all parameters: first the arrays (their number is `arrays`), then the facts. `usual` has the values of
    parameters that are not given, from the second one on; the first is required. A key of the table has all facts, and
    True if the last array is given. The first `positional` parameters need no keyword.
    """
    code = _code()
    if code is None or len(names) > MAX_ARGUMENTS:
        return None
    known = (*usual[arrays - 1 :], False)
    objects = table, known, None, True, False
    words = tuple(map(sys.intern, names))
    values = *map(id, words), 0, *map(id, usual)
    record = np.array([*map(id, objects), positional, arrays, len(words), *values], np.int64)
    return builtin_of(
        code.address("chooser"),
        "chooser",
        METH_FASTCALL | METH_KEYWORDS,
        record,
        code.engine,
        objects,
        words,
        tuple(usual),
    )
