"""Kernels whose groups have many threads: what they share, stage and merge."""
