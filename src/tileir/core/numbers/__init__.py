"""The arithmetic of every stage: operations on arrays, integers as Tile divides them, and ranges of integers."""
