"""Robot files, and the conventions of other libraries."""

from .converters import Mujoco, Pinocchio
from .load import load, load_with_report
from .mjcf import from_mujoco_model
from .report import NotModelled, Report

__all__ = ["Mujoco", "NotModelled", "Pinocchio", "Report", "from_mujoco_model", "load", "load_with_report"]
