"""Simplification of kernels, with equal results."""
