"""Quotients of vectors of f16 or bf16 by a number that their lanes share: products with its reciprocal.

They are the same bits as those of divisions, for all values. A division in f32 is a dozen instructions and a call for
rare values; here it is done once, and each lane costs two products.

Two parts of a reciprocal in f32 hold about 48 digits of it, so that a quotient of f16 can be wrong only where it is
within 2^-47 of the middle between two f16. But such a middle times a divisor has at most 23 digits, so that a quotient
which is no middle is further away; and one that is a middle, as only results below the normal numbers may be, is a
number of f32, and found as it is. (N. Brisebarre, J.-M. Muller and S. K. Raina, "Accelerating correctly rounded
floating-point division when the divisor is known in advance", 2004, have proofs for quotients in the divisor's own
format.) Quotients of bf16 have so few digits that one part is enough; but its exponents are those of f32, so dividends
are scaled where the reciprocal alone would be no normal number.

For example, ``f16x8 q = x / broadcast<8>(y);`` becomes, behind what computes ``high`` and ``low`` of ``y``::

    f32x8 wide = cast<f32x8>(x);
    f16x8 q = cast<f16x8>(fma(wide, broadcast<8>(high), wide * broadcast<8>(low)));

Quotients of f32 that are only rounded to f16 or bf16 come from both parts, too: they are the nearest numbers of f32
unless the exact quotient is within 2^-46 of the middle between two, which the rounding behind rarely shows. Divisors
are scaled so that both parts are normal numbers, and dividends with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from typing import Final

from tileir.core import DType, NameScope, Op, rewritten, schema
from tileir.semtree.analysis.effects import assigned_variables, census
from tileir.semtree.functions.draft import Draft, Term, fma, where
from tileir.semtree.ir import Apply, Broadcast, Cast, Declare, Expr, KernelFunction, Stmt, Var
from tileir.semtree.rewrite import expressions, kernel_names, map_bodies, map_expr, statements, walk, with_body

_FEW_LANES: Final = 4
"""Vectors with fewer lanes are divided: a reciprocal is a division itself.

Nor do loops over single elements share a reciprocal: rows of 1024 x 50257 took a tenth longer with it (NVIDIA H200,
softmax in f16), whose threads then store all their elements at once.
"""

_TINY: Final = 2.0**-60
"""What the second part of an exact reciprocal is, beside the first: too little to be seen, but with its sign.

An infinite dividend times zero would be NaN.
"""

_NARROW: Final = (DType.F16, DType.BF16)

_SCALE: Final = 2.0**64
_LEAST: Final = 2.0**-126
_MOST: Final = 2.0**126
"""The numbers whose reciprocals are normal numbers of f32, and what others are multiplied or divided by."""


def by_reciprocals(kernel: KernelFunction, *, rounded: bool = True) -> KernelFunction:
    """Replace divisions of vectors by numbers that their lanes share, where quotients are f16 or bf16.

    Args:
        kernel: The kernel.
        rounded: Whether quotients of f32 count that are only rounded to these.

    """
    dtypes = {dtype for op, dtype, lanes in census(kernel).operations if op is Op.DIV and lanes >= _FEW_LANES}
    wide = _only_rounded(kernel) if rounded and DType.F32 in dtypes else frozenset()
    if not wide and dtypes.isdisjoint(_NARROW):
        return kernel
    return with_body(kernel, _replaced(kernel.body, wide, NameScope.of(kernel_names(kernel))))


def _only_rounded(kernel: KernelFunction) -> frozenset[Expr]:
    """Return the quotients of f32 that nothing but casts to f16 and bf16 reads, under a name or as they are."""
    read, rounded = Counter[Expr](), Counter[Expr]()
    named: list[Declare] = []
    for stmt in statements(kernel.body):
        nodes = [node for root in expressions(stmt) for node in walk(root)]
        read.update(node for node in nodes if isinstance(node, Var) or _is_wide(node))
        rounded.update(node.operand for node in nodes if isinstance(node, Cast) and node.type.dtype in _NARROW)
        if isinstance(stmt, Declare) and _is_wide(stmt.value):
            named.append(stmt)
    changed = assigned_variables(kernel.body)
    for each in named:
        if each.variable.name not in changed and read[each.variable] == rounded[each.variable]:
            rounded[each.value] += 1
    return frozenset(node for node, count in read.items() if _is_wide(node) and rounded[node] == count)


def _is_wide(expr: Expr) -> bool:
    return isinstance(expr, Apply) and expr.op is Op.DIV and expr.type.dtype is DType.F32


def _replaced(stmts: tuple[Stmt, ...], wide: Container[Expr], names: NameScope) -> tuple[Stmt, ...]:
    def visit(stmt: Stmt) -> tuple[Stmt, ...]:
        draft = Draft(names)
        own = schema.map_operands(lambda root: map_expr(lambda expr: _multiplied(expr, wide, draft), root), stmt)
        return (*draft.statements, map_bodies(lambda body: _replaced(body, wide, names), own))

    return rewritten(stmts, visit)


def _multiplied(expr: Expr, wide: Container[Expr], draft: Draft) -> Expr:
    match expr:
        case Apply(op=Op.DIV, args=(dividend, Broadcast(operand=divisor, lanes=lanes))) if lanes >= _FEW_LANES:
            number = draft.let("divisor", Term(divisor).cast(DType.F32))
        case _:
            return expr

    def shared(factor: Term) -> Term:
        return Term(Broadcast(factor.expr, lanes))

    x = Term(dividend)
    if expr.type.dtype is DType.F16:
        high, low = map(shared, _parts(number, draft))
        x = draft.let("wide", x.cast(DType.F32))
    elif expr.type.dtype is DType.BF16:
        scale, reciprocal = map(shared, _scaled(number, draft))
        return (draft.let("wide", x.cast(DType.F32)) * scale * reciprocal).cast(DType.BF16).expr
    elif expr in wide:
        scale = draft.let("scale", _scale(number, 1 / _SCALE, _SCALE, draft))
        high, low = map(shared, _parts(draft.let("scaled", number * scale), draft))
        x = draft.let("wide", x * shared(scale))
    else:
        return expr
    return fma(x, high, x * low).cast(expr.type.dtype).expr


def _parts(divisor: Term, draft: Draft) -> tuple[Term, Term]:
    """Return the reciprocal rounded towards zero, and what is missing: both have the same sign."""
    nearest = draft.let("nearest", 1.0 / divisor)
    too_large = fma(-divisor, nearest, 1.0) < 0.0
    high = draft.let("high", where(too_large, (nearest.bits - 1).real, nearest))
    rest = draft.let("rest", fma(-divisor, high, 1.0))
    return high, draft.let("low", where(rest > 0.0, rest * high, high * _TINY))


def _scaled(divisor: Term, draft: Draft) -> tuple[Term, Term]:
    """Return a power of two, and the reciprocal of the divisor times it."""
    scale = draft.let("scale", _scale(divisor, _LEAST, _MOST, draft))
    return scale, draft.let("reciprocal", 1.0 / (divisor * scale))


def _scale(divisor: Term, least: float, most: float, draft: Draft) -> Term:
    """Return a power of two for divisors below ``least``, and above ``most``; 1 for others."""
    size = draft.let("size", abs(divisor))
    return where(size < least, _SCALE, where(size > most, divisor.of(1 / _SCALE), 1.0))
