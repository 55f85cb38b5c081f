"""The arithmetic of every stage: operations on arrays, Tile's integer division, and ranges of integers."""
