"""Which blocks may be joined, and the blocks that come of it."""
