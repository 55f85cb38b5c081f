"""Attention as kernels of groups of threads: forward, backward, and in roles."""
