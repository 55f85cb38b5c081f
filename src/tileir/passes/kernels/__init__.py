"""Kernels taken apart, changed and put together: what the passes over them share."""
