"""Batches on several devices: each device runs a program on its own lanes.

XLA can not look into native code, so by default it would copy all lanes to every device. This module tells XLA that
lanes are independent: the first axis of lane arrays may be divided in any way; tables and constants are the same on all
devices.
"""

from collections.abc import Callable
from typing import Any

from jax._src.dispatch import prim_requires_devices_during_lowering  # JAX has no public name for this set
from jax.experimental.custom_partitioning import custom_partitioning
from jax.extend.core import Primitive
from jax.sharding import NamedSharding, PartitionSpec


def over_devices(local: Callable[..., list], shared: int, lane_arrays: int, outputs: int) -> Callable[..., list]:
    """The function `local(*shared, *lane arrays) -> outputs`, run by each device on its own lanes.

    Arguments:
        local: the function on one device.
        shared: how many arrays are the same for all lanes; each has two axes, like all the others. lane_arrays,
        outputs: how many arrays have lanes as their first axis.
    """

    def partition(mesh: Any, arguments: Any, results: Any) -> tuple:
        lanes = arguments[shared].sharding
        if isinstance(lanes, NamedSharding):
            divided = NamedSharding(mesh, PartitionSpec(lanes.spec[0] if lanes.spec else None, None))
            everywhere = NamedSharding(mesh, PartitionSpec(None, None))
        else:  # JAX could not name the axes of the mesh
            divided, everywhere = lanes, arguments[0].sharding if shared else lanes
        given = (everywhere,) * shared + (divided,) * lane_arrays
        return mesh, lambda *local_arrays: tuple(local(*local_arrays)), (divided,) * outputs, given

    def infer(mesh: Any, arguments: Any, results: Any) -> tuple:
        return partition(mesh, arguments, results)[2]

    def places(letter: str, count: int, first: str = "") -> list[str]:
        return [f"{first or f'{letter}first{k}'} {letter}second{k}" for k in range(count)]

    given = places("s", shared) + places("i", lane_arrays, "lanes")
    found = places("o", outputs, "lanes")
    own = [name for place in (*given, *found) for name in place.split() if name != "lanes"]
    divided = custom_partitioning(lambda *arrays: tuple(local(*arrays)))
    divided.def_partition(
        partition=partition,
        infer_sharding_from_operands=infer,
        sharding_rule=f"{', '.join(given)} -> {', '.join(found)}",
        need_replication_factors=tuple(own),
    )
    return lambda *arrays: list(divided(*arrays))


def knows_devices(primitive: Primitive) -> None:
    """Tell JAX that the lowering of the primitive, by `over_devices`, must know the devices."""
    prim_requires_devices_during_lowering.add(primitive)
