"""Native code of long programs, made quickly for the tests: without optimisation, which takes 87 % off LLVM's time.

It has the same bits: nothing in the text of a program may be reordered or contracted. Short programs, which have every
instruction that long ones have, are optimised as they are for users; so is what most tests of new processes compile.
"""

from pathlib import Path

import llvmlite.binding as llvm

from kinetree.lanes.cpu import host

MAX_OPTIMIZED_LINES = 2_000  # lines of LLVM text; half of all programs are longer, and take 9/10 of the time
MAX_OPTIMIZED_LOOP_LINES = 400  # the same for loops of long programs, which are modules of their own

HERE = Path(__file__).parents[1]
IN_CHILDREN = f"""import sys; sys.path.insert(0, {str(HERE)!r})
from tests import one_context, quick_code, quick_operators
quick_code.install(), one_context.install(), quick_operators.install()
"""
ENVIRONMENT = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}  # XLA's share, in the surroundings of a process

_optimized_code = host.machine_code


def machine_code(text: str) -> bytes:
    """An object file; optimised if that is quick."""
    if text.count("\n") <= (MAX_OPTIMIZED_LINES if "@handler" in text else MAX_OPTIMIZED_LOOP_LINES):
        return _optimized_code(text)
    own = host.this_processor()
    machine = llvm.Target.from_triple(own.triple).create_target_machine(own.name, own.features, opt=0, jit=True)
    module = llvm.parse_assembly(text, llvm.create_context())
    module.verify()
    return host.object_file(module, machine)


def install() -> None:
    """From here on, in this process."""
    host.machine_code = machine_code
