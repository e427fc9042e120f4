"""Large batches shared with helpers: the same bits as one thread alone, whoever comes, and whoever does not."""

import ctypes
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import kinetree as kt
from kinetree.lanes import tuning
from kinetree.lanes.cpu import direct, helpers, shared, threads
from kinetree.lanes.cpu.helpers import call_helpers
from kinetree.lanes.cpu.host import vector_width

FUNCTIONS = (kt.inverse_dynamics, kt.forward_dynamics)
ASLEEP = 3 * tuning.HELPER_AWAKE_NS / 1e9  # seconds after which nobody is awake

pytestmark = [
    pytest.mark.cpu,
    pytest.mark.skipif(not direct.available(), reason="no direct calls in this interpreter"),
]


@pytest.fixture(autouse=True)
def several_threads():
    """Whatever the machine has, there are helpers."""
    kt.set_threads(3)
    yield
    kt.set_threads(None)


@pytest.fixture(scope="module")
def arm():
    return kt.auto_tree(7, 1, 0.3)


def states(model, lanes, dtype=np.float64):
    return tuple(np.random.default_rng(lanes).uniform(-2, 2, (3, lanes, model.nv)).astype(dtype))


def alone(function, model, *given):
    """By one thread, a few states at a time."""
    return np.concatenate([function(model, *(x[k : k + 50] for x in given)) for k in range(0, len(given[0]), 50)])


def builtin(model, function=kt.inverse_dynamics, dtype=np.float64):
    """What answers plain calls; None from it sends them the ordinary way."""
    function(model, *states(model, 1, dtype))
    return vars(model)[f"_{function.__name__}_{np.dtype(dtype).name}"][()]


def least_lanes(model):
    """The smallest batch that is shared."""
    turns = builtin(model).__self__[1][direct.TURNS // 8]
    return int(-(-tuning.SHARED_MIN_TURNS // turns))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_same_bits_as_one_thread(function, special, dtype, arm):
    model = kt.specialize(arm) if special else arm
    call, least = builtin(model, function, dtype), least_lanes(model)
    call_helpers()
    for lanes in (least - 1, least, least + 1, least + 13, 3 * least + 7):
        given = states(model, lanes, dtype)
        found = call(*given)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, alone(function, model, *given))


@pytest.mark.parametrize("n", [40, 300])  # parts of several blocks, and of one
def test_large_trees(n):
    model = kt.auto_tree(n, 1.5, 0.3)
    given = states(model, least_lanes(model) + 3)
    call_helpers()
    for function in FUNCTIONS:
        np.testing.assert_array_equal(builtin(model, function)(*given), alone(function, model, *given))


def test_parts_are_whole_blocks_of_much_work():
    for dtype in (np.float32, np.float64):
        width = vector_width(np.dtype(dtype))
        for turns in (1, 14, 100, tuning.PART_MIN_TURNS, 10 * tuning.PART_MIN_TURNS):
            lanes = shared.part_lanes(turns, width)
            assert lanes % width == 0
            assert lanes * turns >= tuning.PART_MIN_TURNS
            assert (lanes - width) * turns < tuning.PART_MIN_TURNS


def test_the_ordinary_path_counts_helpers_and_the_builtin_calls_them(arm):
    given = states(arm, least_lanes(arm))
    assert builtin(arm)(*given) is None
    first = kt.inverse_dynamics(arm, *given)
    assert threads.helper_count.value == 2
    for _ in range(50):
        np.testing.assert_array_equal(builtin(arm)(*given), first)


def test_helpers_really_take_part():
    code = """
import ctypes, threading, time
import numpy as np
import kinetree as kt
from kinetree.lanes.cpu.helpers import BUSY, CELL, STATE, team
kt.set_threads(2)
model = kt.auto_tree(30, 1, 0.3)
given = np.ones((3, 100_000, 30))
kt.inverse_dynamics(model, *given)
state, seen, over = ctypes.c_int64.from_address(team() + CELL + STATE), [], False
def watch():
    while not over:
        seen.append(state.value)
        time.sleep(1e-4)
watcher = threading.Thread(target=watch)
watcher.start()
for _ in range(200):
    kt.inverse_dynamics(model, *given)
    if BUSY in seen:
        break
over = True
watcher.join()
assert BUSY in seen
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has sets of processors")
def test_helpers_stay_off_the_processor_of_their_caller(arm):
    mine = os.sched_getaffinity(0)
    if len(mine) < 2:
        pytest.skip("one processor only")
    given = states(arm, least_lanes(arm))
    where, cell = ctypes.CDLL(None).sched_getcpu, helpers.team() + helpers.CELL

    def keeps_off() -> bool:
        """Whether the first helper keeps off the processor that this thread was on during a whole call."""
        before = where()
        kt.inverse_dynamics(arm, *given)
        if not before == where() == ctypes.c_int32.from_address(cell + helpers.AWAY).value - 1:
            return False
        helper = ctypes.c_int64.from_address(cell + helpers.THREAD).value
        assert os.sched_getaffinity(helper) == mine - {before}
        return True

    assert any(keeps_off() for _ in range(1000))
    time.sleep(ASLEEP)
    assert any(keeps_off() for _ in range(1000))


def test_awake_and_asleep(arm):
    given = states(arm, least_lanes(arm))
    first = kt.inverse_dynamics(arm, *given)
    for pause in (0, 0, ASLEEP, 0, ASLEEP / 6, ASLEEP / 3, ASLEEP / 2, ASLEEP, ASLEEP):
        time.sleep(pause)
        np.testing.assert_array_equal(builtin(arm)(*given), first)


def test_any_number_of_threads_at_any_time(arm):
    given = states(arm, 2 * least_lanes(arm))
    wanted = alone(kt.inverse_dynamics, arm, *given)
    call = builtin(arm)
    for count in (2, 1, 6, 3, 1, 2, None):
        kt.set_threads(count)
        assert (call(*given) is None) == (count != 1)  # one thread needs no helpers, so none have to be counted
        np.testing.assert_array_equal(kt.inverse_dynamics(arm, *given), wanted)
        np.testing.assert_array_equal(call(*given), wanted)
        assert threads.helper_count.value == threads.threads() - 1
    started = helpers._started
    for count in (6, 2, 4, 6):
        kt.set_threads(count)
        assert call_helpers() == count - 1
    assert helpers._started == started  # those that slept were called again


def test_the_number_of_the_environment(arm, monkeypatch):
    monkeypatch.setenv("KINETREE_THREADS", "4")
    kt.set_threads(None)
    kt.inverse_dynamics(arm, *states(arm, least_lanes(arm)))
    assert threads.helper_count.value == 3


def test_many_callers_at_once(arm):
    lanes = least_lanes(arm)
    given = [states(arm, lanes + k) for k in range(6)]
    wanted = [alone(kt.inverse_dynamics, arm, *x) for x in given]
    counts = iter([2, 5, 1, 3] * 15)

    def work(k):
        for turn in range(60):
            if k == 0:
                kt.set_threads(next(counts))
            if turn % 20 == k:
                time.sleep(ASLEEP)
            if not np.array_equal(kt.inverse_dynamics(arm, *given[k]), wanted[k]):
                return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(6)))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("place", [0, -300, -1])
def test_what_is_not_finite_goes_the_ordinary_way(value, place, arm):
    q, qd, qdd = states(arm, least_lanes(arm) + 5)
    call_helpers()
    qdd[place, 3] = value
    assert builtin(arm)(q, qd, qdd) is None
    found = kt.inverse_dynamics(arm, q, qd, qdd)
    assert not np.isfinite(found[place]).all()
    others = np.arange(len(q)) != place % len(q)
    assert np.isfinite(found[others]).all()
    with pytest.raises(ValueError, match="must be finite"):
        kt.forward_dynamics(arm, q, qd, qdd)


FORK = """
import os, sys, threading, warnings
import numpy as np
import kinetree as kt
from kinetree.lanes.cpu import threads
warnings.simplefilter("ignore")
kt.set_threads(3)
model, over = kt.auto_tree(7, 1, 0.3), False
given = np.random.default_rng(0).standard_normal((3, 9000, 7))
wanted = kt.inverse_dynamics(model, *given)
def right():
    return np.array_equal(kt.inverse_dynamics(model, *given), wanted)
def work():
    while not over:
        assert right()
worker = threading.Thread(target=work)
worker.start()
codes = []
for _ in range(5):
    assert right()
    child = os.fork()
    if not child:
        fresh = threads.helper_count.value == threads.UNKNOWN
        os._exit(0 if fresh and all(right() for _ in range(20)) and threads.helper_count.value == 2 else 1)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
over = True
worker.join()
assert right()
sys.exit(max(codes))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_has_helpers_of_its_own():
    assert subprocess.run([sys.executable, "-c", FORK], check=False, timeout=120).returncode == 0


@pytest.mark.parametrize("pause", [0, ASLEEP])
def test_a_process_ends_with_helpers_awake_or_asleep(pause):
    code = f"""
import time
import numpy as np
import kinetree as kt
kt.set_threads(4)
kt.inverse_dynamics(kt.auto_tree(7, 1, 0.3), *np.ones((3, 9000, 7)))
time.sleep({pause})
"""
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0
