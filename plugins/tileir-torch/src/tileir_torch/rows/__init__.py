"""Rows: which function of Tile's operation library serves an operation of ATen."""
