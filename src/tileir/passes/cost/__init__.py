"""Cost of programs on a machine: counted from the blocks as they stand, before or after any pass."""
