"""Rewrites of values and memory that preserve the loops of kernels."""
