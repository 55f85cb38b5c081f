"""Partition by residues: a domain in which a residue makes many points invalid becomes a domain for each residue.

The terms of an output of ``2*y + j`` depend on its parity: for a window of three there are two steps in one case and
one in the other, and a single box has two for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import prod
from typing import Final

from tileir.poly.affine import Affine
from tileir.poly.bounds import Domain, flattened
from tileir.poly.box import enclose
from tileir.poly.constraint import system

_MOST_RESIDUES: Final = 8
_MOST_PARTS: Final = 16
_SHARE: Final = 0.8
"""Greatest ratio of the points of all parts to those of the box."""


def partition(domain: Domain) -> tuple[Domain, ...]:
    """Return domains that together have the points of ``domain``, and write disjoint elements.

    Each fixes some residues of the output. ``domain`` itself is the only one if that saves little.
    """
    ranges = dict(domain.ranges)
    residues = [name for name, _ in domain.ranges if _matters(domain, name, ranges)]
    if not residues or prod(ranges[name] for name in residues) > _MOST_PARTS:
        return (domain,)
    parts = []
    for values in product(*(range(ranges[name]) for name in residues)):
        part = _fixed(domain, dict(zip(residues, values, strict=True)))
        if part is not None:
            parts.append(part)
    points = sum(prod(size for _, size in part.ranges) for part in parts)
    return tuple(parts) if points <= _SHARE * prod(ranges.values()) else (domain,)


def _matters(domain: Domain, name: str, ranges: Mapping[str, int]) -> bool:
    """Return whether elements of the output determine an index that decides which terms they have."""
    written = {i for polynomial in domain.accesses[0] for i in polynomial.indices}
    tested = any(name in c.indices and written.isdisjoint(set(c.indices) - {name}) for c in domain.constraints)
    return tested and ranges[name] <= _MOST_RESIDUES and any(_tells(p, name, ranges[name]) for p in domain.accesses[0])


def _tells(polynomial: Affine, name: str, size: int) -> bool:
    """Return whether a polynomial determines ``name``: other steps are multiples of its step times its size."""
    step = abs(int(polynomial.coefficient(name)))
    others = [abs(int(c)) for i, c in polynomial.terms if i != name]
    return step > 0 and all(c % (step * size) == 0 for c in others)


def _fixed(domain: Domain, values: Mapping[str, int]) -> Domain | None:
    """Return the part of the domain in which some indices have these values; None if it is empty."""
    accesses = tuple(tuple(p.substitute(values) for p in access) for access in domain.accesses)
    left = [(name, size) for name, size in domain.ranges if name not in values]
    conditions: list[tuple[Affine, int | None]] = [(Affine.index(name), size) for name, size in left]
    conditions += [(c.substitute(values), None) for c in domain.constraints]
    normal = system([name for name, _ in left], conditions)
    bounded = None if normal is None else enclose(normal)
    return None if bounded is None else flattened(bounded.box, bounded.rows, accesses)
