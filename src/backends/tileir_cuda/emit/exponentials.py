"""Exponentials by the instruction for powers of two.

Its relative error is below 2^-22 (NVIDIA, "PTX ISA", ex2.approx). If a result is rounded to f16, the exponent may have
an error of 2^-24 of a number below 32, so 2^-19 of the result: f16 has 11 digits. Numbers below the normal range of f32
are 0 in f16. Otherwise the integer part of the exponent is split off first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from tileir.core import DType, Op, attrs
from tileir.semtree.functions.draft import Draft, Term, at_least, at_most, fma
from tileir.semtree.functions.formats import LN_2, format_of
from tileir.semtree.ir import Apply, Broadcast, Const, Expr, KernelFunction, Turn, Type
from tileir.semtree.legalise.capabilities import Capabilities, Support
from tileir.semtree.rewrite import distinct_nodes, map_expr, map_stmts, with_body
from tileir_llvm.emit.capabilities import CAPABILITIES as LLVM


def _with_instructions(of_lanes: Capabilities) -> Capabilities:
    """Return the capabilities of LLVM, remaining exponentials, casts of bf16, which keep subnormals, and turns."""
    own = {(DType.F32, DType.BF16): Support.TOTAL, (DType.BF16, DType.F32): Support.TOTAL}
    casts = MappingProxyType({**of_lanes.casts, **own})
    vectors = None if of_lanes.vectors is None else _with_instructions(of_lanes.vectors)
    exponential = {(Op.EXP, DType.F32): Support.TOTAL}
    hints = (*of_lanes.hints, Turn)
    return attrs.evolve(of_lanes.with_operations(exponential), casts=casts, vectors=vectors, hints=hints)


CAPABILITIES: Final = _with_instructions(LLVM)
"""Capabilities of cards."""

EXPONENTIAL: Final = "exponential.rounded"
"""Name of the function."""

ROUNDED: Final = frozenset({Op.EXP})
"""Operations that have the function."""

LN2: Final = float(np.float32(math.log(2.0)))
"""Factor of exponents that are for powers of two."""

_FUNCTION: Final = """define internal float @{name}(float %x) alwaysinline {{
  %result = call float @llvm.nvvm.ex2.approx.ftz.f(float %x)
  ret float %result
}}
declare float @llvm.nvvm.ex2.approx.ftz.f(float)
"""


def exponentials(text: str) -> Iterator[str]:
    """Yield the definition of the function, if a module calls it."""
    if f"@{EXPONENTIAL}(" in text:
        yield _FUNCTION.format(name=EXPONENTIAL)


def exp(draft: Draft, x: Term) -> Term:
    """Return exp in f32, for all numbers, in ten instructions.

    The exponent ``x / ln 2`` is ``n + r`` with ``r`` in [0, 1), as the error of a power of two is one unit in the last
    place of a number from 1 to 2, and two of one below. Besides 1.5 · 2^23, which rounds ``n``, 127 is added, so that
    shifting it left makes 2^n. ``n`` is clamped to exponents of f32; the rest in ``r`` overflows, or is rounded once.
    """
    form = format_of(x)
    magic = form.magic + form.bias
    high, low = form.parts(1 / LN_2, 2)
    x = draft.let("exp_x", x)
    whole = at_least(at_most(fma(x, high, -0.5), form.bias), 1 - form.bias)
    power = draft.let("exp_power", whole + magic)
    count = draft.let("exp_count", power - magic)
    rest = draft.let("exp_r", fma(x, low, fma(x, high, -count)))
    return (rest * LN2).apply(Op.EXP) * (power.bits << form.digits).real


OWN: Final[Mapping[Op, Callable[..., Term]]] = MappingProxyType({Op.EXP: exp})
"""Custom expansions of f32 operations."""


def in_base_two(kernel: KernelFunction) -> KernelFunction:
    """Return a kernel whose remaining exponentials are powers of two, which only the function here computes.

    Exponents that are a number times :data:`LN2` become that number; its error is below 2^-25 of it.
    """
    if not any(_is_left(node) for node in distinct_nodes(kernel)):
        return kernel

    def scaled(expr: Expr) -> Expr:
        if not isinstance(expr, Apply) or not _is_left(expr):
            return expr
        (exponent,) = expr.args
        match exponent:
            case Apply(op=Op.MUL, args=(power, Const(value=value) | Broadcast(operand=Const(value=value)))):
                if value == LN2:
                    return Apply(expr.op, (power,))
        factor = Const(1.0 / math.log(2.0), Type(DType.F32))
        return Apply(expr.op, (Apply(Op.MUL, (exponent, _in_lanes(factor, exponent.type.lanes))),))

    return with_body(kernel, map_stmts(lambda expr: map_expr(scaled, expr), kernel.body))


def _is_left(expr: Expr) -> bool:
    return isinstance(expr, Apply) and expr.op in ROUNDED and expr.type.dtype is DType.F32


def _in_lanes(value: Const, lanes: int) -> Expr:
    return value if lanes == 1 else Broadcast(value, lanes)
