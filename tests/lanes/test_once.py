"""Things made once: by one of many threads, side by side with others, and after a fork."""

import gc
import os
import threading
import time
import weakref

import pytest

from kinetree.lanes.kept.once import Once, OncePerOwner, once


def together(count, work):
    """Run `work(k)` on so many threads that begin at the same time; returns the results."""
    barrier, results = threading.Barrier(count), [None] * count

    def body(k):
        barrier.wait()
        results[k] = work(k)

    threads = [threading.Thread(target=body, args=(k,), daemon=True) for k in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
        assert not t.is_alive(), "a thread hangs"
    return results


def test_all_threads_get_the_one_that_was_made():
    made = []

    @once
    def slow(key):
        time.sleep(0.02)
        made.append(key)
        return object()

    results = together(8, lambda k: slow(k % 2))
    assert sorted(made) == [0, 1]
    assert len(set(map(id, results))) == 2
    assert slow(0) is results[0]


def test_other_things_are_made_meanwhile_and_one_may_ask_for_another():
    waiting, kept = threading.Event(), Once()

    def slow():
        assert waiting.wait(30)
        return kept.get("inner", lambda: 1) + 1

    results = together(3, lambda k: kept.get("outer", slow) if k else kept.get("other", waiting.set))
    assert results[1:] == [2, 2]


def test_a_failure_is_not_kept():
    kept, calls = Once(), []

    def fail():
        calls.append(1)
        raise RuntimeError("no")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="no"):
            kept.get("key", fail)
    assert len(calls) == 2
    assert kept.get("key", lambda: 3) == 3


def test_keywords_and_clearing():
    calls = []

    @once
    def function(a, b=0):
        """Its text."""
        calls.append((a, b))
        return a + b

    assert function(1, b=2) == function(1, b=2) == 3
    assert function.__name__ == "function"
    assert len(calls) == 1
    function.cache_clear()
    assert function(1, b=2) == 3
    assert len(calls) == 2


def test_what_belongs_to_an_owner_goes_with_it():
    class Owner:
        pass

    class Thing:
        pass

    kept, owners = OncePerOwner(), [Owner()]
    things = together(8, lambda k: kept.get(owners[0], "thing", Thing))
    assert len(set(map(id, things))) == 1
    seen = weakref.ref(things[0])
    things.clear()
    gc.collect()
    assert seen() is not None
    owners.clear()
    gc.collect()
    assert seen() is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_a_child_does_not_wait_for_a_thread_of_its_parent():
    kept, begun, end = Once(), threading.Event(), threading.Event()

    def slow():
        begun.set()
        end.wait(60)
        return 1

    thread = threading.Thread(target=lambda: kept.get("key", slow), daemon=True)
    thread.start()
    begun.wait(60)
    child = os.fork()
    if child == 0:
        os._exit(0 if kept.get("key", lambda: 2) == 2 else 1)
    deadline = time.monotonic() + 30
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    if ended[0] == 0:
        os.kill(child, 9)
        os.waitpid(child, 0)
    end.set()
    thread.join()
    assert ended == (child, 0)
