"""Type inference: from Tile functions to dtypes and shapes."""
