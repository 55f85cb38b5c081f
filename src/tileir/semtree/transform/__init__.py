"""Transformations of kernels for a device: layout of arrays, in-place results, threads, expansions."""
