"""Processors of other kinds than the one at hand: their machine code can be made here, though not run."""

import re

import llvmlite.binding as llvm
import numpy as np
import pytest

from kinetree.lanes.cpu.compiled import module_text
from kinetree.lanes.cpu.host import Processor, optimized, register_bytes, this_processor
from tests.dynamics.programs import aba_lanes, rnea_lanes

ELF_ARM64 = 183  # EM_AARCH64, at byte 18 of an ELF header
ARM = Processor("aarch64-linux-gnu", "neoverse-n1", "+neon", 16)


@pytest.fixture(scope="module", autouse=True)
def all_targets():
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@pytest.mark.parametrize(("dtype", "lanes"), [("float64", "2d"), ("float32", "4s")])
@pytest.mark.parametrize("algorithm", [rnea_lanes, aba_lanes])
def test_arm_gets_vectors_of_its_own_width(algorithm, dtype, lanes):
    kind, machine = np.dtype(dtype), ARM.machine(jit=False)
    module = optimized(module_text(algorithm(False, False).program, kind, ARM.width(kind)), machine)
    code = machine.emit_object(module)
    assert code[:4] == b"\x7fELF"
    assert int.from_bytes(code[18:20], "little") == ELF_ARM64
    text = machine.emit_assembly(module)
    assert len(re.findall(rf"\bfml[as]\s+v\d+\.{lanes}", text)) > 50  # fused, on whole registers
    called = set(re.findall(r"\bbl\s+(\w+)", text))
    assert not [c for c in called if c.rstrip("f") in {"fma", "sin", "cos", "sqrt"}]  # nothing goes to libm


def test_registers_are_known_by_their_features():
    assert register_bytes({"avx512f": True, "avx2": True}) == 64
    assert register_bytes({"avx2": True}) == 32
    assert register_bytes({"neon": True}) == register_bytes({}) == 16
    assert this_processor().vector_bytes in (16, 32, 64)
