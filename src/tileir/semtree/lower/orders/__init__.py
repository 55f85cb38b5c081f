"""Lowering of the special ``order``: keys become words, sorted by networks, digits, or a buffer for the first few."""
