"""Kernels rewritten for a device: layout of arrays, in-place results, threads, expansions."""
