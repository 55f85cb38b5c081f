"""Integers of Python: division by the definition of Tile and its kernels, and counts for cost models."""

from __future__ import annotations


def quotient(left: int, right: int) -> int:
    """Return a quotient that is truncated; 0 if the divisor is 0."""
    if right == 0:
        return 0
    size = abs(left) // abs(right)
    return size if (left < 0) == (right < 0) else -size


def remainder(left: int, right: int) -> int:
    """Return the remainder of :func:`quotient`, with the sign of ``left``; 0 if the divisor is 0."""
    return 0 if right == 0 else left - right * quotient(left, right)


def network_comparisons(size: int) -> int:
    """Return the greatest number of comparisons of a bitonic network that sorts ``size`` elements."""
    steps = max(0, size - 1).bit_length()
    return -(-size // 2) * (steps * (steps + 1) // 2)
