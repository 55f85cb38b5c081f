"""Vector lanes, and grids for kernels that have none."""
