"""Loops tiled, unrolled and ordered by a cost model."""
