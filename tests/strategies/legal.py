"""Operations and conversions on each dtype that a back end has, or that a row expresses by others."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

from fuzz.semtree.kernel_values import allowed_ops
from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.semtree.check.verifier import verify
from tileir.semtree.ir import (
    Apply,
    Assign,
    Bitcast,
    Cast,
    Const,
    Expr,
    KernelFunction,
    Param,
    ParamAccess,
    Reduce,
    Subscript,
    Type,
)
from tileir.semtree.legalise.legaliser import legalise
from tileir.semtree.rewrite import mentions, statements, walk

if TYPE_CHECKING:
    from collections.abc import Collection

    from tileir.semtree.legalise.capabilities import Capabilities

LANES: Final = (1, 4)
COMPARISONS: Final = tuple(op for op in Op if op.info.compares)
COMPUTED: Final = tuple(dtype for dtype in DType if not dtype.is_storage)


def assert_legal(dtype: DType, expr: Expr, capabilities: Capabilities) -> None:
    """Legalise a kernel that computes an expression of ``given``; nothing is left that the back end lacks."""
    params = (Param("given", dtype, 8, ParamAccess.READ), Param("result", expr.type.dtype, 8, ParamAccess.WRITE))
    store = Assign(Subscript("result", Const(0, Type(DType.I64)), expr.type), expr)
    kernel = KernelFunction("k", params, (store,))
    verify(kernel)
    made = legalise(kernel, capabilities)
    verify(made)
    for node in (node for stmt in statements(made.body) for root in mentions(stmt) for node in walk(root)):
        here = capabilities.of_lanes(node.type.lanes)
        match node:
            case Apply(op=op, args=args) if op is not Op.COND:
                assert (op, args[0].type.dtype) in here.operations
            case Cast(operand=operand, type=kind):
                assert (operand.type.dtype, kind.dtype) in here.casts
            case Bitcast(operand=operand, type=kind):
                assert here.valued.isdisjoint((operand.type.dtype, kind.dtype))
            case Reduce(op=op, operand=operand):
                assert (op, operand.type.dtype) in capabilities.of_lanes(operand.type.lanes).reductions


def given(dtype: DType, lanes: int) -> Subscript:
    """Return what is read."""
    return Subscript("given", Const(0, Type(DType.I64)), Type(dtype, lanes))


def assert_operations(dtype: DType, expanded: Collection[Op], capabilities: Capabilities) -> None:
    """Legalise every operation on a dtype that is not expanded before."""
    for op, lanes in product((*allowed_ops(dtype), *COMPARISONS), LANES):
        if op not in expanded:
            assert_legal(dtype, Apply(op, (given(dtype, lanes),) * op.info.arity), capabilities)


def assert_conversions(source: DType, capabilities: Capabilities) -> None:
    """Legalise every conversion of a dtype, by value and of its bits."""
    for target, lanes in product(DType, LANES):
        assert_legal(source, Cast(given(source, lanes), Type(target, lanes)), capabilities)
        if target.bits == source.bits:
            assert_legal(source, Bitcast(given(source, lanes), Type(target, lanes)), capabilities)


def assert_merges(dtype: DType, capabilities: Capabilities) -> None:
    """Legalise every operation that merges lanes."""
    for op in (Op.ADD, Op.MUL, Op.MAX, Op.MIN):
        assert_legal(dtype, Reduce(op, given(dtype, 4)), capabilities)
