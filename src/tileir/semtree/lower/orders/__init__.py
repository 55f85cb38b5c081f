"""The special ``order``: keys become words, which networks, digits, or a buffer for the first few sort."""
