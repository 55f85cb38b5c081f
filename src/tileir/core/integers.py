"""Division of Python's integers as Tile and its kernels define it."""

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
