"""Integers of Python: division as Tile and its kernels define it, and counts that costs are made of."""

from __future__ import annotations


def quotient(left: int, right: int) -> int:
    """Return a quotient that is truncated; 0 where the divisor is 0."""
    if right == 0:
        return 0
    size = abs(left) // abs(right)
    return size if (left < 0) == (right < 0) else -size


def remainder(left: int, right: int) -> int:
    """Return what :func:`quotient` leaves, with the sign of ``left``; 0 where the divisor is 0."""
    return 0 if right == 0 else left - right * quotient(left, right)


def network_comparisons(size: int) -> int:
    """Return how many pairs a bitonic network compares at most to sort so many elements."""
    steps = max(0, size - 1).bit_length()
    return -(-size // 2) * (steps * (steps + 1) // 2)
