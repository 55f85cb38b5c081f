"""Operations on f32 and f64, as :mod:`tileir.core.numbers.arithmetic` defines them; narrower floats are widened."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tileir.core import DType, Op
from tileir.semtree.ir import Type
from tileir_llvm.emit.memory import joined, lane_of
from tileir_llvm.emit.spelling import FLOAT_COMPARISON, constant, register, suffix
from tileir_llvm.emit.text import FunctionText, Value

_INSTRUCTIONS: Final[Mapping[Op, str]] = MappingProxyType(
    {Op.NEG: "fneg", Op.ADD: "fadd", Op.SUB: "fsub", Op.MUL: "fmul", Op.DIV: "fdiv", Op.MOD: "frem"}
)

_INTRINSICS: Final[Mapping[Op, str]] = MappingProxyType(
    {
        Op.ABS: "fabs",
        Op.SQRT: "sqrt",
        Op.FLOOR: "floor",
        Op.CEIL: "ceil",
        Op.ROUND: "roundeven",
        Op.TRUNC: "trunc",
        Op.MAX: "maximum",
        Op.MIN: "minimum",
        Op.FMA: "fma",
    }
)

NATIVE: Final = frozenset({*_INSTRUCTIONS, *_INTRINSICS, *FLOAT_COMPARISON, Op.IDENT, Op.COND})
"""Float operations that :func:`apply_float` supports; all others are expanded before."""


def apply_float(out: FunctionText, op: Op, args: tuple[Value, ...]) -> Value:
    """Compute an operation of :data:`NATIVE`, or an exponential that is rounded to f16, on floats of one type."""
    if op is Op.IDENT:
        return args[0]
    kind = args[0].type
    if op in FLOAT_COMPARISON:
        comparison = f"fcmp {FLOAT_COMPARISON[op]} {register(kind)} {args[0].text}, {args[1].text}"
        return Value(out.pure(comparison), kind.with_dtype(DType.BOOL))
    if op in (Op.MAX, Op.MIN) and not out.module.extrema:
        return _extremum(out, op, *args)
    if op is Op.MOD and out.module.remainder:
        return _by_function(out, f"{out.module.remainder}.{suffix(Type(kind.dtype))}", args)
    if op is Op.EXP:
        return _by_function(out, out.module.exponential, args)
    spelt = register(kind)
    if op in _INSTRUCTIONS:
        instruction = f"{_INSTRUCTIONS[op]} {_flags(out.module.float_flags, op, args)}{spelt}"
        return Value(out.pure(f"{instruction} {', '.join(arg.text for arg in args)}"), kind)
    function = f"llvm.{_INTRINSICS[op]}.{suffix(kind)}"
    operands = tuple((spelt, arg.text) for arg in args)
    return Value(out.call(spelt, function, *operands, flags=out.module.float_flags), kind)


def _flags(flags: str, op: Op, args: tuple[Value, ...]) -> str:
    """Return the valid fast-math flags of an operation, of those of its module.

    The rounding of differences, and of sums with a constant, is often intended: log1p divides by the rounded excess of
    1 + x over 1, adding and subtracting 1.5 · 2**digits rounds, and a - (a + b) + b is the rounding error of a sum.
    Reassociation would remove it. A product minus itself is zero or NaN, but fused it would be the product's error.
    """
    if op is Op.SUB or (op is Op.ADD and not all(arg.text.startswith("%") for arg in args)):
        flags = flags.replace("reassoc ", "")
    if op is Op.SUB and args[0].text == args[1].text:
        flags = flags.replace("contract ", "")
    return flags


def _by_function(out: FunctionText, name: str, args: tuple[Value, ...]) -> Value:
    """Return the results of a function of the module for each lane."""
    element, lanes = Type(args[0].type.dtype), args[0].type.lanes
    spelt = register(element)
    each = [args] if lanes == 1 else [tuple(lane_of(out, arg, lane) for arg in args) for lane in range(lanes)]
    operands = (", ".join(f"{spelt} {arg.text}" for arg in one) for one in each)
    results = [Value(out.pure(f"call {spelt} @{name}({given})"), element) for given in operands]
    return results[0] if lanes == 1 else joined(out, results)


def _extremum(out: FunctionText, op: Op, left: Value, right: Value) -> Value:
    """Return the larger or smaller operand, or a NaN if one of them is.

    A comparison with a NaN is false, which selects the right operand, so that only the left needs a test. Its NaN is
    replaced by a constant: LLVM would merge both selections if that were the left operand, and processors have an
    instruction for the first selection alone.
    """
    kind = register(left.type)
    bools = register(left.type.with_dtype(DType.BOOL))
    better = out.pure(f"fcmp {'ogt' if op is Op.MAX else 'olt'} {kind} {left.text}, {right.text}")
    chosen = out.pure(f"select {bools} {better}, {kind} {left.text}, {kind} {right.text}")
    is_nan = out.pure(f"fcmp uno {kind} {left.text}, {left.text}")
    nan = constant(math.nan, left.type)
    return Value(out.pure(f"select {bools} {is_nan}, {kind} {nan}, {kind} {chosen}"), left.type)
