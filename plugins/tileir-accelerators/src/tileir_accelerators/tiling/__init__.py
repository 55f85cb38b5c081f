"""Tiling, unrolling and ordering of loops by a cost model."""
