"""Rewrites of values and memory that keep the loops of kernels."""
