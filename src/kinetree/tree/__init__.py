"""Trees: their facts, the layouts of schedules, rootfix and leaffix."""

from .fix import arrange, inward, leaffix, outward, restore, rootfix
from .layout import Layout, layout
from .operator import InwardRecursion, MissingProperty, OutwardRecursion
from .picked import pick
from .stacked import take
from .topology import Tree

__all__ = [
    "InwardRecursion",
    "Layout",
    "MissingProperty",
    "OutwardRecursion",
    "Tree",
    "arrange",
    "inward",
    "layout",
    "leaffix",
    "outward",
    "pick",
    "restore",
    "rootfix",
    "take",
]
