"""Meaning of kernels: the interpreter."""
