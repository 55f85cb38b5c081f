"""Fusion of blocks: the conditions for joining them, and the blocks that come of it."""
