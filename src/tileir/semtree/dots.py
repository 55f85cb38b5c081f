"""Sums of few products in each lane: what they mean in other expressions, and which ones an instruction computes."""

from __future__ import annotations

from tileir.core.ops import Op
from tileir.semtree.ir import Apply, Cast, Dot, Expr, Shuffle


def kind_of(dot: Dot) -> str:
    """Return the dtypes of a dot product as targets name them, such as ``u8_i8_i32``."""
    return "_".join(part.type.dtype.value for part in (dot.left, dot.right, dot.total))


def plain_dot(dot: Dot) -> Expr:
    """Return the definition of a dot product: one product after the other, of lanes picked by shuffles."""
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
