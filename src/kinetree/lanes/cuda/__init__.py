"""Kernels on an NVIDIA GPU."""
