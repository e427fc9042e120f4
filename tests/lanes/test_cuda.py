"""Handlers that launch kernels, as far as they can be tested without a GPU.

They are compiled, and called as XLA calls them, with a driver that stands in for NVIDIA's: it records launches, or
refuses them.
"""

import ctypes

import numpy as np
import pytest

from kinetree.dynamics.algorithms.crba import FACTORS
from kinetree.dynamics.algorithms.rnea import RNEA
from kinetree.dynamics.matrices.crba import ENTRIES
from kinetree.dynamics.schedules.stages import CellPlan, inward_walks, outward_walks
from kinetree.lanes.cuda import driver as cuda
from kinetree.lanes.cuda import pairs as pairs_native
from kinetree.lanes.cuda import programs
from kinetree.lanes.cuda import walks as walk_native
from kinetree.lanes.cuda.ptx import Access, Assembly
from kinetree.lanes.kept.notice import forget_warnings
from tests.dynamics.programs import rnea_lanes
from tests.lanes.frame import Frame

POINTER, WHOLE = ctypes.c_void_p, ctypes.c_uint
LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, POINTER, *[WHOLE] * 7, POINTER, ctypes.POINTER(POINTER), POINTER)
TEXT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p))
KERNEL = 4096  # its handle
OK, INVALID, NO_WORDS = 0, 1, 999


class Driver:
    """What the code calls of NVIDIA's driver, for machines of some devices, of which some are in use."""

    def __init__(self, chips=(90,), in_use=(0,)):
        self.chips, self.in_use = chips, in_use
        self.handlers: dict[str, int] = {}  # by name of the target
        self.answer, self.launches, self.log, self.current = OK, [], [], []
        self.cuLaunchKernel, self.cuGetErrorString = LAUNCH(self._launch), TEXT(self._words)

    def _launch(self, kernel, *rest):
        grid, block, shared, stream, values = rest[0], rest[3], rest[6], rest[7], rest[8]
        self.launches.append((kernel, grid, block, shared, stream, values))
        return self.answer

    def _words(self, code, place):
        if code == NO_WORDS:
            return INVALID
        place[0] = b"invalid argument"
        return OK

    def cuInit(self, flags):
        return OK

    def cuDeviceGetCount(self, place):
        place._obj.value = len(self.chips)
        return OK

    def cuDeviceGet(self, place, number):
        place._obj.value = 10 + number  # a device is not its number
        return OK

    def cuDeviceGetAttribute(self, place, attribute, device):
        place._obj.value = divmod(self.chips[device - 10], 10)[attribute == cuda.MINOR]
        return OK

    def cuLibraryLoadData(self, place, code, *options):
        assert code.endswith(b"\0")
        assert options == (None, None, 0, None, None, 0)
        place._obj.value = 77
        return self.answer

    def cuLibraryGetKernel(self, place, library, name):
        assert (library.value, name) == (77, b"kernel")
        place._obj.value = KERNEL
        return OK

    def cuDevicePrimaryCtxGetState(self, device, flags, active):
        active._obj.value = device - 10 in self.in_use
        return OK

    def cuDevicePrimaryCtxRetain(self, place, device):
        place._obj.value = 100 + device
        self.log.append(("retain", device))
        return OK

    def cuDevicePrimaryCtxRelease_v2(self, device):
        self.log.append(("release", device))
        return OK

    def cuCtxPushCurrent_v2(self, context):
        self.current.append(context.value)
        return OK

    def cuCtxPopCurrent_v2(self, place):
        place._obj.value = self.current.pop()
        return OK

    def cuKernelGetFunction(self, place, kernel):
        assert kernel.value == KERNEL
        self.log.append(("load", self.current[-1] - 100))
        return OK


CACHED = (cuda.chip, cuda.load_kernel, pairs_native._target, walk_native._target)


def forget():
    for cached in CACHED:
        cached.cache_clear()
    programs._targets.clear()
    forget_warnings()


@pytest.fixture
def driver(monkeypatch):
    """The driver that stands in, and the handlers registered meanwhile, by name."""
    stand_in = Driver()
    owners = []

    def register(name, handler, platform, owner):
        assert platform == "CUDA"
        owners.append(owner)
        stand_in.handlers[name] = handler
        return name

    monkeypatch.setattr(cuda, "_driver", lambda: stand_in)
    monkeypatch.setattr(cuda, "register", register)
    forget()
    yield stand_in
    forget()


def inverse_dynamics(lanes=5, rows=3):
    """The target of RNEA, and a call of it."""
    program = rnea_lanes(False, False).program
    target = programs.program_target(program, "float32", 700, (rows,) * 4)
    assert target is not None
    tables = [np.zeros((rows, loop.columns), np.int32) for loop in program.loops]
    constants = [np.zeros((rows, loop.constants.num_leaves), np.float32) for loop in program.loops]
    inputs = [np.zeros((lanes, rows), np.float32) for _ in range(3)]
    frame = Frame([*tables, *constants, *inputs], [np.zeros((lanes, rows), np.float32), np.zeros(1, np.float32)])
    return target[0], frame, inputs


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_walks_and_pairs(driver, dtype):
    names = [
        walk_native._target(outward_walks(CellPlan(RNEA, False), 0).reduce(False), dtype),
        walk_native._target(inward_walks(CellPlan(FACTORS, False), 1).walk(True, 2, False), dtype),
        pairs_native._target(ENTRIES, dtype),
    ]
    assert set(names) == set(driver.handlers)
    assert all(driver.handlers.values())


def test_programs(driver):
    program = rnea_lanes(False, False).program
    for widths, reach in (((32,) * 4, Access.TILE), ((400,) * 4, Access.COLUMNS)):
        kernel = programs.program_kernel(program, np.dtype(np.float32), 700, widths)
        assert kernel.reach is reach
        assert ".entry kernel(" in kernel.assembly.text
        assert not kernel.global_scratch


def test_a_launch_goes_to_the_stream_that_xla_names(driver):
    name, frame, inputs = inverse_dynamics(lanes=300)
    for stream in (5, 6):
        frame.stream = stream
        assert frame.call(driver.handlers[name]) is None
        kernel, grid, block, _, on, values = driver.launches.pop()
        assert (kernel, grid, block, on) == (KERNEL, 3, 128, stream)
        first = ctypes.cast(values[0], ctypes.POINTER(POINTER))[0]
        assert first == inputs[0].ctypes.data


@pytest.mark.parametrize(("code", "words"), [(INVALID, "invalid argument"), (NO_WORDS, "unknown")])
def test_a_launch_that_fails_is_an_error(driver, code, words):
    name, frame, _ = inverse_dynamics()
    driver.answer = code
    assert frame.call(driver.handlers[name]) == (
        13,
        f"kinetree: the launch of a kernel failed: {words} (CUDA error {code})",
    )
    driver.answer = OK
    assert frame.call(driver.handlers[name]) is None


def test_without_a_stream_nothing_is_launched(driver):
    name, frame, _ = inverse_dynamics()
    frame.stream = None
    assert frame.call(driver.handlers[name]) == (3, "no stream")
    assert not driver.launches


def test_a_kernel_is_loaded_on_every_device_in_use_and_runs_on_the_oldest(driver):
    driver.chips, driver.in_use = (90, 86, 100), (0, 2)
    assert cuda.chip() == 86
    assert cuda.load_kernel(Assembly("name", "text")) == KERNEL
    assert driver.log == [(what, device) for device in (10, 12) for what in ("retain", "load", "release")]
    assert not driver.current


def test_a_chip_that_can_not_run_it_falls_back_and_says_so(driver):
    driver.answer = INVALID
    program = rnea_lanes(False, False).program
    targets = (
        lambda: pairs_native._target(ENTRIES, "float32"),
        lambda: walk_native._target(outward_walks(CellPlan(RNEA, False), 0).reduce(False), "float32"),
        lambda: programs.program_target(program, "float32", 700, (3,) * 4),
    )
    for target in targets:
        with pytest.warns(RuntimeWarning, match="cuLibraryLoadData failed: invalid argument"):
            assert target() is None
        assert target() is None  # told once
