"""What a single expression may look like, given that its operands are right: shared by verifier and parser."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final, assert_never

from tileir.core import DType, Op, fits, rounded
from tileir.core.nodes.schema import choices
from tileir.semtree.ir import (
    Apply,
    Bitcast,
    Broadcast,
    Cast,
    Const,
    Dot,
    Expr,
    GridIndex,
    GridLevel,
    KernelFunction,
    Ramp,
    Reduce,
    Shuffle,
    Subscript,
    Type,
    Var,
)
from tileir.stripe.bindings import MAX_LANES

MAX_DEPTH: Final = 128
MAX_NESTING: Final = 64

REDUCTIONS: Final = frozenset(choices(Reduce, "op"))


def expression_faults(expr: Expr, kernel: KernelFunction) -> Iterable[str]:
    """Return what is wrong with one node; its operands, and the number of them, are right.

    Only the facts of ``kernel`` are looked at: its grid, its group and its index type.
    """
    lanes = expr.type.lanes
    if not 1 <= lanes <= MAX_LANES:
        return (f"a vector has 1 to {MAX_LANES} lanes, not {lanes}",)
    match expr:
        case Var():
            return ()
        case Const():
            return _const_faults(expr)
        case Apply():
            return _apply_faults(expr)
        case Subscript(offset=offset):
            return _offset_faults(offset.type, lanes)
        case Shuffle():
            return _shuffle_faults(expr)
        case Broadcast(operand=operand):
            return () if operand.type.lanes == 1 else (f"only a scalar can be broadcast, not {operand.type}",)
        case Ramp():
            return _ramp_faults(expr)
        case Cast(operand=operand, type=kind):
            return _cast_faults(operand.type, kind)
        case GridIndex():
            return _grid_index_faults(expr, kernel)
        case Bitcast(operand=operand, type=kind):
            return _bitcast_faults(operand.type, kind)
        case Reduce(op=op, operand=operand):
            return _reduce_faults(op, operand.type.dtype)
        case Dot():
            return _dot_faults(expr)
        case _:
            assert_never(expr)


def _const_faults(const: Const) -> Iterator[str]:
    value, dtype = const.value, const.type.dtype
    wanted = bool if dtype.is_bool else int if dtype.is_integer else float
    if type(value) is not wanted:
        yield f"a constant of {const.type} holds a Python {wanted.__name__}, not {value!r}"
    elif dtype.is_integer and not fits(value, dtype):
        yield f"{value} is out of the range of {dtype.value}"
    elif dtype.is_float and not math.isnan(value) and rounded(value, dtype) != value:
        yield f"{value!r} is not a value of {dtype.value}: round it first"


def _grid_index_faults(expr: GridIndex, kernel: KernelFunction) -> Iterator[str]:
    extents = kernel.grid if expr.level is GridLevel.GROUP else kernel.group
    if not 0 <= expr.axis < len(extents):
        yield f"axis {expr.axis} does not exist: the {expr.level.value} coordinate has {len(extents)}"
    if expr.type != Type(kernel.index):
        yield f"a grid coordinate has the kernel's index type {kernel.index.value}, not {expr.type}"


def _apply_faults(expr: Apply) -> Iterator[str]:
    op, kind = expr.op, expr.args[-1].type
    rest = expr.args
    if op is Op.COND:
        test, *rest = expr.args  # type: ignore[assignment]  # a list serves as well as a tuple
        if not test.type.dtype.is_bool or test.type.lanes != kind.lanes:
            yield f"the condition of {kind} is bool of as many lanes, not {test.type}"
    if any(arg.type is not kind and arg.type != kind for arg in rest):
        yield f"the operands of {op.value} differ in type: {', '.join(str(arg.type) for arg in rest)}"
    yield from _domain_faults(op, kind.dtype)


def _domain_faults(op: Op, dtype: DType) -> Iterator[str]:
    if not op.works_on(dtype):
        yield f"{op.value} is not defined for {dtype.value}"


def _reduce_faults(op: Op, dtype: DType) -> Iterator[str]:
    if op in REDUCTIONS:
        yield from _domain_faults(op, dtype)
    else:
        yield f"lanes are merged by add, mul, max or min, not by {op.value}"


def _shuffle_faults(expr: Shuffle) -> Iterator[str]:
    kind = expr.operands[0].type
    if any(operand.type is not kind and operand.type != kind for operand in expr.operands):
        yield f"the operands of shuffle differ in type: {', '.join(str(operand.type) for operand in expr.operands)}"
        return
    known = kind.lanes * len(expr.operands)
    wrong = [lane for lane in expr.lanes if not 0 <= lane < known]
    if wrong:
        yield f"the operands of shuffle have {known} lanes, counted from 0: there is no lane {wrong[0]}"


def _dot_faults(expr: Dot) -> Iterator[str]:
    left, right, total = expr.left.type, expr.right.type, expr.total.type
    yield from _domain_faults(Op.MUL, total.dtype)
    if left.lanes != right.lanes or left.lanes % total.lanes:
        yield f"the factors of dot have as many lanes, a multiple of those of {total}: not {left} and {right}"


def _offset_faults(offset: Type, lanes: int) -> Iterator[str]:
    if not offset.dtype.is_integer:
        yield f"an offset is an integer, not {offset}"
    elif offset.lanes not in (1, lanes):
        yield f"an offset of {offset.lanes} lanes cannot address {lanes} elements"


def _cast_faults(source: Type, target: Type) -> Iterator[str]:
    if source.lanes != target.lanes:
        yield f"a cast keeps the number of lanes: {source} cannot become {target}"


def _bitcast_faults(source: Type, target: Type) -> Iterator[str]:
    if source.lanes != target.lanes or source.dtype.bits != target.dtype.bits:
        yield f"a bitcast keeps lanes and bits: {source} cannot become {target}"
    elif source.dtype.is_bool != target.dtype.is_bool:
        yield "a bitcast neither reads nor makes a bool"


def _ramp_faults(expr: Ramp) -> Iterator[str]:
    base = expr.base.type
    if base.lanes != 1 or not base.dtype.is_integer:
        yield f"a ramp starts at a scalar integer, not at {base}"
    elif not fits(expr.stride, base.dtype):
        yield f"the stride {expr.stride} is out of the range of {base.dtype.value}"
