"""LLVM has each operation and conversion on each dtype, or a row expresses it by what it has."""

from __future__ import annotations

from itertools import product
from typing import Final

import pytest

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.semtree.expansions import EXPANDED
from tileir.semtree.ir import (
    Apply,
    Assign,
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
from tileir.semtree.verifier import verify
from tileir.testing.generated.kernel_values import allowed_ops
from tileir_llvm.capabilities import CAPABILITIES

LANES: Final = (1, 4)
COMPARISONS: Final = tuple(op for op in Op if op.info.compares)


def legal(dtype: DType, expr: Expr) -> None:
    """Legalise a kernel that computes an expression of ``given``; nothing is left that LLVM lacks."""
    params = (Param("given", dtype, 8, ParamAccess.READ), Param("result", expr.type.dtype, 8, ParamAccess.WRITE))
    store = Assign(Subscript("result", Const(0, Type(DType.I64)), expr.type), expr)
    kernel = KernelFunction("k", params, (store,))
    verify(kernel)
    made = legalise(kernel, CAPABILITIES)
    verify(made)
    for node in (node for stmt in statements(made.body) for root in mentions(stmt) for node in walk(root)):
        here = CAPABILITIES.of_lanes(node.type.lanes)
        match node:
            case Apply(op=op, args=args) if op is not Op.COND:
                assert (op, args[0].type.dtype) in here.operations
            case Cast(operand=operand, type=kind):
                assert (operand.type.dtype, kind.dtype) in here.casts


def given(dtype: DType, lanes: int) -> Subscript:
    return Subscript("given", Const(0, Type(DType.I64)), Type(dtype, lanes))


@pytest.mark.parametrize("dtype", [dtype for dtype in DType if not dtype.is_storage], ids=str)
def test_operations(dtype: DType) -> None:
    for op, lanes in product((*allowed_ops(dtype), *COMPARISONS), LANES):
        if op not in EXPANDED:
            legal(dtype, Apply(op, (given(dtype, lanes),) * op.info.arity))


@pytest.mark.parametrize("source", DType, ids=str)
def test_conversions(source: DType) -> None:
    for target, lanes in product(DType, LANES):
        legal(source, Cast(given(source, lanes), Type(target, lanes)))


@pytest.mark.parametrize("dtype", [dtype for dtype in DType if dtype.is_float and not dtype.is_storage], ids=str)
def test_merged_lanes(dtype: DType) -> None:
    for op in (Op.ADD, Op.MUL, Op.MAX, Op.MIN):
        legal(dtype, Reduce(op, given(dtype, 4)))
