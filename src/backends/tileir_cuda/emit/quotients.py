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
"""

from __future__ import annotations

from typing import Final

from tileir.core import DType, NameScope, Op, rewritten, schema
from tileir.semtree.analysis.effects import census
from tileir.semtree.functions.draft import Draft, Term, fma, where
from tileir.semtree.ir import Apply, Broadcast, Expr, KernelFunction, Stmt
from tileir.semtree.rewrite import kernel_names, map_bodies, map_expr, with_body

_FEW_LANES: Final = 4
"""Vectors with fewer lanes are divided: a reciprocal is a division itself.

Nor do loops over single elements share a reciprocal: rows of 1024 x 50257 took a tenth longer with it (NVIDIA H200,
softmax in f16), whose threads then store all their elements at once.
"""

_TINY: Final = 2.0**-60
"""What the second part of an exact reciprocal is, beside the first: too little to be seen, but with its sign.

An infinite dividend times zero would be NaN.
"""

_SCALE: Final = 2.0**64
_LEAST: Final = 2.0**-126
_MOST: Final = 2.0**126
"""The numbers whose reciprocals are normal numbers of f32, and what others are multiplied or divided by."""


def by_reciprocals(kernel: KernelFunction) -> KernelFunction:
    """Replace divisions of vectors of f16 and bf16 by numbers that their lanes share."""
    narrow = (DType.F16, DType.BF16)
    if all(op is not Op.DIV or dtype not in narrow or n < _FEW_LANES for op, dtype, n in census(kernel).operations):
        return kernel
    return with_body(kernel, _replaced(kernel.body, NameScope.of(kernel_names(kernel))))


def _replaced(stmts: tuple[Stmt, ...], names: NameScope) -> tuple[Stmt, ...]:
    def visit(stmt: Stmt) -> tuple[Stmt, ...]:
        draft = Draft(names)
        own = schema.map_operands(lambda root: map_expr(lambda expr: _multiplied(expr, draft), root), stmt)
        return (*draft.statements, map_bodies(lambda body: _replaced(body, names), own))

    return rewritten(stmts, visit)


def _multiplied(expr: Expr, draft: Draft) -> Expr:
    match expr:
        case Apply(op=Op.DIV, args=(dividend, Broadcast(operand=divisor, lanes=lanes))) if lanes >= _FEW_LANES:
            factors = {DType.F16: _parts, DType.BF16: _scaled}.get(expr.type.dtype)
        case _:
            return expr
    if factors is None:
        return expr
    number = draft.let("divisor", Term(divisor).cast(DType.F32))
    first, second = (Term(Broadcast(factor.expr, lanes)) for factor in factors(number, draft))
    wide = draft.let("wide", Term(dividend).cast(DType.F32))
    result = wide * first * second if factors is _scaled else fma(wide, first, wide * second)
    return result.cast(expr.type.dtype).expr


def _parts(divisor: Term, draft: Draft) -> tuple[Term, Term]:
    """Return the reciprocal rounded towards zero, and what is missing: both have the same sign."""
    nearest = draft.let("nearest", 1.0 / divisor)
    too_large = fma(-divisor, nearest, 1.0) < 0.0
    high = draft.let("high", where(too_large, (nearest.bits - 1).real, nearest))
    rest = draft.let("rest", fma(-divisor, high, 1.0))
    return high, draft.let("low", where(rest > 0.0, rest * high, high * _TINY))


def _scaled(divisor: Term, draft: Draft) -> tuple[Term, Term]:
    """Return a power of two, and the reciprocal of the divisor times it."""
    size = draft.let("size", abs(divisor))
    scale = draft.let("scale", where(size < _LEAST, _SCALE, where(size > _MOST, divisor.of(1 / _SCALE), 1.0)))
    return scale, draft.let("reciprocal", 1.0 / (divisor * scale))
