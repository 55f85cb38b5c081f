"""Analyses of kernels: effects, integer ranges, uniformity, order of elements."""
