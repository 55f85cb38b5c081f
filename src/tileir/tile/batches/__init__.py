"""Batching: each statement of a function, computed for several examples at once."""
