"""Attention whose keys several groups share, and what brings the parts together, always in the same order.

A part has results r and the logarithm l of the sum of its weights. Its share of the result is r / sum(2^(k - l)), where
k are the logarithms of all parts: with the greatest exponents no part comes in, and none overflows beyond that.
"""

from __future__ import annotations

import math
from typing import Final

import attrs

from tileir.core.arithmetic import rounded
from tileir.core.dtype import DType
from tileir.core.ops import Aggregation, Op
from tileir.core.text.names import NameScope
from tileir.passes.fusion.attention_backward import Kernels
from tileir.passes.fusion.attention_match import Attention
from tileir.poly.affine import Affine
from tileir.stripe import ir as stripe
from tileir.stripe.attending import ATTEND, Attending

_WIDE: Final = DType.F32

_BASE: Final = rounded(math.log(2.0), _WIDE)

_LEAST: Final = -(2.0**100)
"""Stands for the logarithm of a part of which a query sees nothing, where minus infinity is no number to subtract."""


def in_parts(
    found: Attention,
    plan: Attending,
    outer: tuple[stripe.Index, ...],
    matrices: list[stripe.Refinement],
    names: NameScope,
) -> Kernels:
    """Return a kernel of attention in parts and two that merge these; they take names for temporaries.

    Args:
        found: The attention.
        plan: Its tiles.
        outer: The indices that number matrices.
        matrices: Views of queries, keys, values and the result.
        names: Names that are taken in the program.

    """
    assert plan.parts is not None  # it is split
    inner = NameScope.of(index.name for index in found.kernel.indices)
    part, other = (stripe.Index(inner.fresh(word), plan.parts) for word in ("part", "other"))
    plain = tuple(attrs.evolve(index, binding=None) for index in outer)
    rows, columns = (found.kernel.index(name) for name in (found.rows, found.columns))
    lead = [Affine.index(index.name) for index in (*outer, part)]
    tensors = _Tensors(tuple(index.range for index in outer), plan.parts, rows.range, columns.range, names)
    results, logs, sums, total = (
        tensors.made(f"{found.queries.source}_{word}", *axes)
        for word, axes in (("parts", "pse"), ("logs", "ps"), ("shares", "ps"), ("merged", "se"))
    )
    row, column, at = (Affine.index(name) for name in (rows.name, columns.name, other.name))
    whole = tuple(
        _view(memory, (*lead[:-1], *[Affine()] * count), stripe.Direction.OUT, free=count)
        for memory, count in ((results, 3), (logs, 2))
    )
    special = stripe.Special(
        ATTEND, tuple(v.name for v in matrices[:3]), tuple(v.name for v in whole), plan.parameters()
    )
    comments = tuple(dict.fromkeys(found.kernel.comments))
    attend = stripe.Block(found.kernel.name, outer, (), (*matrices[:3], *whole), (special,), comments)
    shares = stripe.Block(
        f"{found.kernel.name}_shares", (*plain, part, rows, other), (), (
            _view(logs, (*lead, row), stripe.Direction.IN, "own"),
            _view(logs, (*lead[:-1], at, row), stripe.Direction.IN, "each"),
            _sum(sums, (*lead, row)),
        ), _SHARES, comments,
    )  # fmt: skip
    merge = stripe.Block(
        f"{found.kernel.name}_merged", (*plain, rows, columns, part), (), (
            _view(results, (*lead, row, column), stripe.Direction.IN, "part"),
            _view(sums, (*lead, row), stripe.Direction.IN, "share"),
            _sum(total, (*lead[:-1], row, column)),
        ), _MERGES, comments,
    )  # fmt: skip
    store = attrs.evolve(found.results, name="result", direction=stripe.Direction.OUT, aggregation=None)
    converted = () if store.shape.dtype is _WIDE else (stripe.Convert("sum", "result", store.shape.dtype),)
    convert = stripe.Block(
        f"{found.kernel.name}_result", (*plain, rows, columns), (),
        (_view(total, (*lead[:-1], row, column), stripe.Direction.IN, "sum"), store),
        (stripe.Load("sum", "sum"), *converted, stripe.Store("result" if converted else "sum", "result")), comments,
    )  # fmt: skip
    return Kernels({0: (attend, shares, merge, convert)}, (results, logs, sums, total))


_SHARES: Final = (
    stripe.Load("own", "own"),
    stripe.Load("each", "each"),
    stripe.Constant("least", _WIDE, _LEAST),
    stripe.Constant("base", _WIDE, _BASE),
    stripe.Intrinsic(Op.MAX, ("own", "least"), "from", _WIDE),
    stripe.Intrinsic(Op.SUB, ("each", "from"), "less", _WIDE),
    stripe.Intrinsic(Op.MUL, ("less", "base"), "exponent", _WIDE),
    stripe.Intrinsic(Op.EXP, ("exponent",), "power", _WIDE),
    stripe.Store("power", "sum"),
)
"""What a part adds to a sum of powers: its own, and each other's, beside the greatest."""

_MERGES: Final = (
    stripe.Load("part", "part"),
    stripe.Load("share", "share"),
    stripe.Intrinsic(Op.DIV, ("part", "share"), "term", _WIDE),
    stripe.Store("term", "sum"),
)
"""What a part adds to a result: its own, by its share."""


@attrs.frozen
class _Tensors:
    """Allocates temporaries in f32, by letters for their last axes."""

    outer: tuple[int, ...]
    parts: int
    rows: int
    columns: int
    names: NameScope

    def made(self, name: str, *axes: str) -> stripe.Refinement:
        """Return memory with the axes of outer indices, and parts, rows and columns."""
        sizes = {"p": self.parts, "s": self.rows, "e": self.columns}
        return stripe.allocation(self.names.fresh(name), _WIDE, (*self.outer, *(sizes[axis] for axis in axes)))


def _view(
    memory: stripe.Refinement,
    access: tuple[Affine, ...],
    direction: stripe.Direction,
    name: str | None = None,
    *,
    free: int = 0,
) -> stripe.Refinement:
    """Return the view of one element, or of all along the last ``free`` axes."""
    last = len(memory.shape.dims) - free
    dims = tuple(dim if n >= last else attrs.evolve(dim, size=1) for n, dim in enumerate(memory.shape.dims))
    shape = attrs.evolve(memory.shape, dims=dims)
    return stripe.Refinement(name or memory.name, direction, memory.name, access, shape)


def _sum(memory: stripe.Refinement, access: tuple[Affine, ...]) -> stripe.Refinement:
    return attrs.evolve(_view(memory, access, stripe.Direction.OUT, "sum"), aggregation=Aggregation.SUM)
