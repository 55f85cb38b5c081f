"""Legality of kernels."""
