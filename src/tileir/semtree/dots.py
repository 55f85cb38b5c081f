"""Dot products in each lane: their definition in other expressions, and their instructions."""

from __future__ import annotations

from typing import Final

from tileir.core.fragments import FRAGMENTS
from tileir.core.ops import Op
from tileir.semtree.ir import Apply, Cast, Dot, Expr, Shuffle


def fragment_of(dot: Dot) -> str:
    """Return the name of the fragment that computes a dot product; empty if the table has none."""
    dtypes = (dot.left.type.dtype, dot.right.type.dtype, dot.total.type.dtype)
    return _NAMES.get((dtypes, (1, dot.total.type.lanes, dot.terms)), "")


_NAMES: Final = {(row.dtypes, row.mnk): row.name for row in FRAGMENTS.values() if row.is_dot}


def plain_dot(dot: Dot) -> Expr:
    """Return the definition of a dot product: sequential products of lanes picked by shuffles."""
    kind, terms = dot.total.type, dot.terms
    result = dot.total
    for term in range(terms):
        lanes = tuple(range(term, terms * kind.lanes, terms))
        picked = (Shuffle((factor,), lanes) for factor in (dot.left, dot.right))
        a, b = (one if one.type == kind else Cast(one, kind) for one in picked)
        if kind.dtype.is_float:
            result = Apply(Op.FMA, (a, b, result))
        else:
            result = Apply(Op.ADD, (result, Apply(Op.MUL, (a, b))))
    return result
