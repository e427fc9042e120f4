"""Addresses that are kept as long as their arrays live."""

import numpy as np

from kinetree.lanes.cpu.addresses import _kept, address, addresses


def test_addresses_are_those_of_the_arrays_and_die_with_them():
    arrays = [np.arange(3.0), np.arange(8).reshape(2, 4)[1], np.zeros((2, 0))]
    keys = [id(x) for x in arrays]
    for _ in range(2):
        assert [address(x) for x in arrays] == [x.ctypes.data for x in arrays]
    assert list(addresses(arrays))[:2] == [x.ctypes.data for x in arrays[:2]]
    assert len(addresses(())) == 1
    assert all(key in _kept for key in keys)
    del arrays
    assert not any(key in _kept for key in keys)
