"""First calls from many threads at once; stress.py does the same for as many processes as one likes."""

from tests.lanes.stress import failures


def test_eight_threads_make_first_calls():
    assert list(failures(1, cold_every=1)) == []
