"""The exact remainder of floats as a function of LLVM IR.

LLVM computes ``frem`` for NVIDIA's cards as ``x - trunc(x / y) * y``, which loses all digits where the quotient is
large. This is the long division of the significands instead, a bit at a time, as C libraries do it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from tileir.core.dtype import DType
from tileir.semtree.ir import Type
from tileir_llvm.emit.spelling import REGISTER, constant

_SIGNIFICANDS: Final = {DType.F32: 23, DType.F64: 52}
"""Stored bits of the significand."""


def remainders(text: str, prefix: str) -> Iterator[str]:
    """Yield the definitions of the functions ``prefix`` and a type's name that a module calls."""
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
    """Return a function with the remainder of its first operand by the second, with the sign of the first."""
    bits, stored = dtype.bits, _SIGNIFICANDS[dtype]
    whole, sign, lead = f"i{bits}", 1 << bits - 1, bits - 1 - stored  # as many zeros are before the implicit bit
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
