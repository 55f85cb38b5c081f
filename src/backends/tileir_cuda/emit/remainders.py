"""Exact remainders of floats as functions of LLVM IR, and exact quotients by shared reciprocals.

LLVM computes ``frem`` for NVIDIA GPUs as ``x - trunc(x / y) * y``, which loses all digits for large quotients. This is
the long division of the significands instead, a bit at a time, as in C libraries.

Quotients of f16 or bf16 vectors by a scalar become products with its reciprocal, bit for bit equal to divisions for all
values. A division in f32 is a dozen instructions and a call for rare values; here it is done once, and each lane costs
two products.

Two parts of a reciprocal in f32 hold about 48 digits of it, so that a quotient of f16 can only be wrong within 2^-47 of
the middle between two f16. But a middle times a divisor has at most 23 digits, so other quotients are further away; and
a quotient that is a middle, which is below the normal numbers, is a number of f32, and found exactly. (N. Brisebarre,
J.-M. Muller and S. K. Raina, "Accelerating correctly rounded floating-point division when the divisor is known in
advance", 2004, have proofs for quotients in the divisor's own format.) Quotients of bf16 have so few digits that one
part suffices; but its exponents are those of f32, so dividends are scaled if the reciprocal would not be a normal
number.

For example, ``f16x8 q = x / broadcast<8>(y);`` becomes, after the computation of ``high`` and ``low`` of ``y``::

    f32x8 wide = cast<f32x8>(x);
    f16x8 q = cast<f16x8>(fma(wide, broadcast<8>(high), wide * broadcast<8>(low)));

Quotients of f32 that are only rounded to f16 or bf16 use both parts, too: they are the nearest numbers of f32 unless
the exact quotient is within 2^-46 of the middle between two, which the following rounding rarely shows. Divisors are
scaled so that both parts are normal numbers, and dividends with them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterator
from typing import Final

from tileir.core import DType, NameScope, Op
from tileir.semtree.analysis.effects import assigned_variables, census
from tileir.semtree.functions.draft import Draft, Term, fma, where, with_drafts
from tileir.semtree.ir import Apply, Broadcast, Cast, Declare, Expr, KernelFunction, Type, Var
from tileir.semtree.rewrite import expressions, kernel_names, statements, walk, with_body
from tileir_llvm.emit.spelling import REGISTER, constant

_FEW_LANES: Final = 4
"""Vectors with fewer lanes are divided: a reciprocal is a division itself.

Nor do loops over single elements share a reciprocal: rows of 1024 x 50257 took a tenth longer with it (NVIDIA H200,
softmax in f16), whose threads then store all their elements at once.
"""

_TINY: Final = 2.0**-60
"""Factor between the second part of an exact reciprocal and the first: too small to matter, except for the sign.

An infinite dividend times zero would be NaN.
"""

_NARROW: Final = (DType.F16, DType.BF16)

_SCALE: Final = 2.0**64
_LEAST: Final = 2.0**-126
_MOST: Final = 2.0**126
"""Limit of numbers with normal reciprocals in f32, and scale of other numbers."""


def by_reciprocals(kernel: KernelFunction, *, rounded: bool = True) -> KernelFunction:
    """Replace divisions of vectors by scalars, if quotients are f16 or bf16.

    Args:
        kernel: The kernel.
        rounded: Whether to include quotients of f32 that are only rounded to these.
    """
    dtypes = {dtype for op, dtype, lanes in census(kernel).operations if op is Op.DIV and lanes >= _FEW_LANES}
    wide = _only_rounded(kernel) if rounded and DType.F32 in dtypes else frozenset()
    if not wide and dtypes.isdisjoint(_NARROW):
        return kernel
    names = NameScope.of(kernel_names(kernel))
    return with_body(kernel, with_drafts(kernel.body, names, lambda expr, draft: _multiplied(expr, wide, draft)))


def _only_rounded(kernel: KernelFunction) -> frozenset[Expr]:
    """Return the quotients of f32 that are only read by casts to f16 and bf16, directly or by variables."""
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
    """Return the reciprocal rounded towards zero, and its error: both have one sign."""
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
    """Return a power of two for divisors below ``least`` or above ``most``; 1 for others."""
    size = draft.let("size", abs(divisor))
    return where(size < least, _SCALE, where(size > most, divisor.of(1 / _SCALE), 1.0))


_SIGNIFICANDS: Final = {DType.F32: 23, DType.F64: 52}
"""Stored bits of the significand."""


def remainders(text: str, prefix: str) -> Iterator[str]:
    """Yield the definitions of the functions that a module calls, named ``prefix`` and a type."""
    for dtype in _SIGNIFICANDS:
        if f"@{prefix}.f{dtype.bits}(" in text:
            yield _remainder(dtype, f"{prefix}.f{dtype.bits}")


_FUNCTION: Final = """define internal {kind} @{name}({kind} %x, {kind} %y) #1 {{
entry:
  %bits.x = bitcast {kind} %x to {whole}
  %bits.y = bitcast {kind} %y to {whole}
  %sign = and {whole} %bits.x, {sign}
  %size.x = and {whole} %bits.x, {size}
  %size.y = and {whole} %bits.y, {size}
  %zero = icmp eq {whole} %size.y, 0
  %endless = icmp uge {whole} %size.x, {infinity}
  %none = icmp ugt {whole} %size.y, {infinity}
  %either = or i1 %zero, %endless
  %undefined = or i1 %either, %none
  br i1 %undefined, label %invalid, label %valid
invalid:
  ret {kind} {nan}
valid:
  %less = icmp ult {whole} %size.x, %size.y
  br i1 %less, label %same, label %divide
same:
  ret {kind} %x
divide:
{divide_x}
{divide_y}
  %distance = sub {whole} %exponent.x, %exponent.y
  br label %step
step:
  %rest = phi {whole} [ %significand.x, %divide ], [ %doubled, %next ]
  %left = phi {whole} [ %distance, %divide ], [ %fewer, %next ]
  %fits = icmp uge {whole} %rest, %significand.y
  %difference = sub {whole} %rest, %significand.y
  %reduced = select i1 %fits, {whole} %difference, {whole} %rest
  %last = icmp eq {whole} %left, 0
  br i1 %last, label %finish, label %next
next:
  %doubled = shl {whole} %reduced, 1
  %fewer = sub {whole} %left, 1
  br label %step
finish:
  %exact = icmp eq {whole} %reduced, 0
  br i1 %exact, label %nothing, label %something
nothing:
  %signed.zero = bitcast {whole} %sign to {kind}
  ret {kind} %signed.zero
something:
  %zeros = call {whole} @llvm.ctlz.{whole}({whole} %reduced, i1 true)
  %shift = sub {whole} %zeros, {lead}
  %aligned = shl {whole} %reduced, %shift
  %exponent = sub {whole} %exponent.y, %shift
  %normal = icmp sgt {whole} %exponent, 0
  br i1 %normal, label %usual, label %small
usual:
  %fraction = and {whole} %aligned, {fraction}
  %high = shl {whole} %exponent, {stored}
  %packed = or {whole} %fraction, %high
  br label %signed
small:
  %missing = sub {whole} 1, %exponent
  %subnormal = lshr {whole} %aligned, %missing
  br label %signed
signed:
  %size = phi {whole} [ %packed, %usual ], [ %subnormal, %small ]
  %result = or {whole} %size, %sign
  %value = bitcast {whole} %result to {kind}
  ret {kind} %value
}}
declare {whole} @llvm.ctlz.{whole}({whole}, i1)
"""


def _remainder(dtype: DType, name: str) -> str:
    """Return a function for the remainder of its first operand by the second, with the sign of the first."""
    bits, stored = dtype.bits, _SIGNIFICANDS[dtype]
    whole, sign, lead = f"i{bits}", 1 << bits - 1, bits - 1 - stored  # leading zeros before the implicit bit
    return _FUNCTION.format(
        name=name,
        kind=REGISTER[dtype],
        whole=whole,
        stored=stored,
        lead=lead,
        sign=sign,
        size=sign - 1,
        fraction=(1 << stored) - 1,
        infinity=((1 << lead) - 1) << stored,
        nan=constant(math.nan, Type(dtype)),
        divide_x=_normalised("x", whole, stored, lead),
        divide_y=_normalised("y", whole, stored, lead),
    )


def _normalised(name: str, whole: str, stored: int, lead: int) -> str:
    """Return instructions for the significand with its implicit bit, and the exponent, of a finite number above 0."""
    implicit = 1 << stored
    return f"""  %stored.{name} = lshr {whole} %size.{name}, {stored}
  %fraction.{name} = and {whole} %size.{name}, {implicit - 1}
  %subnormal.{name} = icmp eq {whole} %stored.{name}, 0
  %zeros.{name} = call {whole} @llvm.ctlz.{whole}({whole} %size.{name}, i1 true)
  %shift.{name} = sub {whole} %zeros.{name}, {lead}
  %shifts.{name} = select i1 %subnormal.{name}, {whole} %shift.{name}, {whole} 0
  %moved.{name} = shl {whole} %fraction.{name}, %shifts.{name}
  %implied.{name} = or {whole} %fraction.{name}, {implicit}
  %significand.{name} = select i1 %subnormal.{name}, {whole} %moved.{name}, {whole} %implied.{name}
  %raised.{name} = sub {whole} 1, %shift.{name}
  %exponent.{name} = select i1 %subnormal.{name}, {whole} %raised.{name}, {whole} %stored.{name}"""
