"""Blocks that write again what an instruction before them may have got wrong, under a test of what is there."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from tileir.core import NameScope, Op
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.lower.views import OffsetBuilder, View
from tileir.stripe import ir as stripe


def under_test(
    block: stripe.Block,
    views: Mapping[str, View],
    body: list[sem.Stmt],
    offsets: OffsetBuilder,
    names: NameScope,
) -> list[sem.Stmt]:
    """Return the statements of a block, under a test if it repairs: whether what it writes adds up to no number.

    It does where an element is none, and where infinities of both signs are among them: these are written again in
    vain.
    """
    if not isinstance(block.instruction, stripe.Repair):
        return body
    (view,) = (views[r.name] for r in block.refinements if r.direction.writes)
    terms = [_element(view, place, offsets) for place in product(*(range(dim.size) for dim in view.shape.dims))]
    while len(terms) > 1:  # side by side rather than one after the other
        pairs = [sem.Apply(Op.ADD, (one, other)) for one, other in zip(terms[::2], terms[1::2], strict=False)]
        terms = [*pairs, *terms[2 * len(pairs) :]]
    total = sem.Var(names.fresh("all"), sem.Type(view.shape.dtype))
    return [sem.Declare(total, terms[0]), sem.If(sem.Apply(Op.CMP_NE, (total, total)), tuple(body))]


def _element(view: View, place: tuple[int, ...], offsets: OffsetBuilder) -> sem.Expr:
    step = sum(n * dim.stride for n, dim in zip(place, view.shape.dims, strict=True))
    return sem.Subscript(view.array, offsets.scalar(view.offset + Affine.constant(step)), sem.Type(view.shape.dtype))
