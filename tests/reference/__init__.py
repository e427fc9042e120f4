"""Helpers for the tests: reference data, a slow and exact oracle, generated trees. NumPy only, free of kinetree."""

from . import dense, generate, spatial_v2

__all__ = ["dense", "generate", "spatial_v2"]
