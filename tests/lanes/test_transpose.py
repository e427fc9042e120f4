"""The kernel that turns columns into rows, as machine code of the host: a block's threads run one after the other."""

import ctypes
import re

import llvmlite.binding as llvm
import numpy as np
import pytest

from kinetree.lanes.cpu.host import this_processor
from kinetree.lanes.cuda import transpose
from kinetree.lanes.cuda.ptx import assembled
from tests.lanes.assembler import assemble

KINDS = [np.dtype(name) for name in transpose.REALS]


def on_the_host(text):
    """An engine with the kernel, where a thread's number is the global `thread`, and a block's `block`."""
    text = re.sub(r"^target .*$", "", text, flags=re.MULTILINE)
    text = re.sub(r" addrspace\([13]\)|ptx_kernel ", "", text).replace("ptr addrspace(1)", "ptr")
    for name, register in (("thread", "tid.x"), ("block", "ctaid.x")):
        text = text.replace(f"call i32 @llvm.nvvm.read.ptx.sreg.{register}()", f"load i32, ptr @{name}")
    text = text.replace("call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()", f"add i32 0, {transpose.THREADS}")
    text = text.replace(transpose.MEETING, "").replace("internal global", "global")
    text = re.sub(r"^declare i32 @llvm.nvvm.*$", "", text, flags=re.MULTILINE)
    module = llvm.parse_assembly("@thread = global i32 0\n@block = global i32 0\n" + text)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, this_processor().machine())
    engine.finalize_object()
    return engine


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize(("lanes", "width"), [(1, 1), (64, 64), (65, 63), (5, 200), (130, 70)])
def test_every_number_goes_to_its_row(kind, lanes, width):
    engine = on_the_host(transpose.kernel_text(kind))
    pointer, whole = ctypes.c_void_p, ctypes.c_int64
    kernel = ctypes.CFUNCTYPE(None, pointer, pointer, whole, whole)(engine.get_function_address("kernel"))
    thread, block = (ctypes.c_int32.from_address(engine.get_global_value_address(name)) for name in ("thread", "block"))
    columns = np.random.default_rng(0).normal(size=(width, lanes)).astype(kind)
    rows = np.full((lanes, width), np.nan, kind)
    squares = -(-lanes // transpose.SIDE) * -(-width // transpose.SIDE)
    for block.value in range(squares):
        for _ in range(2):  # in the second round, each thread finds what all others left in the first
            for thread.value in range(transpose.THREADS):
                kernel(columns.ctypes.data, rows.ctypes.data, lanes, width)
    np.testing.assert_array_equal(rows, columns.T)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_kernels(kind, tmp_path):
    text = assembled("transpose", (), kind, 90, lambda: transpose.kernel_text(kind)).text
    before, after = text.split("bar.sync")
    # a thread reads all its numbers before it leaves one in shared memory
    loads, stores = ([m.start() for m in re.finditer(what, before)] for what in (r"ld\.global", r"st\.shared"))
    assert len(loads) == len(stores) == transpose.TURNS
    assert max(loads) < min(stores)
    assert after.count("st.global") == transpose.TURNS
    assemble(text, tmp_path)
