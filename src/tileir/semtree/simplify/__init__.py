"""Kernels made smaller without changing what they compute."""
