"""Quotients by reciprocals: the bits of divisions, for every dividend, and only where lanes share a divisor."""

from __future__ import annotations

from typing import Any, Final

import attrs
import numpy as np
import pytest

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.semtree.interpret.interpreter import run
from tileir.semtree.ir import (
    Apply,
    Assign,
    Broadcast,
    Cast,
    Const,
    Declare,
    Expr,
    For,
    KernelFunction,
    Param,
    ParamAccess,
    Stmt,
    Subscript,
    Type,
    Var,
)
from tileir.semtree.rewrite import distinct_nodes
from tileir_cuda.emit.remainders import by_reciprocals

Array = np.ndarray[Any, Any]

ALL: Final = 1 << 16
LANES: Final = 512
DIVISORS: Final = 24
NARROW: Final = [DType.F16, DType.BF16]


def kernel_of(dtype: DType, *, lanes: int = LANES, shared: bool = True) -> KernelFunction:
    """Return a kernel that divides all of ``x`` by each element of ``y``, or by as many elements of it as ``x`` has."""
    index = Type(DType.I64)
    place, number = Var("i", index), Var("j", index)
    zero = Const(0, index)
    whole = Apply(Op.ADD, (Apply(Op.MUL, (number, Const(ALL, index))), place))
    divisor: Expr = Subscript("y", number, Type(dtype))
    divisor = Broadcast(divisor, lanes) if shared else Subscript("y", place, Type(dtype, lanes))
    value = Apply(Op.DIV, (Subscript("x", place, Type(dtype, lanes)), divisor))
    store = Assign(Subscript("q", whole, Type(dtype, lanes)), value)
    params = (
        Param("x", dtype, ALL, ParamAccess.READ),
        Param("y", dtype, DIVISORS if shared else ALL, ParamAccess.READ),
        Param("q", dtype, DIVISORS * ALL, ParamAccess.WRITE),
    )
    inner = For(place, zero, Const(ALL, index), lanes, (store,))
    return KernelFunction("k", params, (For(number, zero, Const(DIVISORS, index), 1, (inner,)),))


def divisors(dtype: DType, seed: int) -> Array:
    """Return numbers of either sign, among them those that are no numbers, and the ends of what is normal.

    The nearest reciprocal of 14 is too large, and with it alone quotients in the middle of two f16 are rounded up.
    """
    infinity = 0x7C00 if dtype is DType.F16 else 0x7F80
    least = 0x0400 if dtype is DType.F16 else 0x0080
    special = [0, 1, 3, least - 1, least, least + 1, infinity - 1, infinity, infinity + 1, 0x7E81, 0x4B00]
    drawn = np.random.default_rng(seed).integers(0, ALL, DIVISORS - len(special))
    signed = (np.array(special) | np.random.default_rng(seed + 1).integers(0, 2, len(special)) << 15).tolist()
    return np.array([*signed, *drawn], np.uint16).view(dtype.numpy)


def divides(kernel: KernelFunction) -> bool:
    return any(
        isinstance(node, Apply) and node.op is Op.DIV and node.type.dtype in NARROW for node in distinct_nodes(kernel)
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_products_are_the_bits_of_divisions(dtype: DType, seed: int) -> None:
    kernel = kernel_of(dtype)
    changed = by_reciprocals(kernel)
    assert divides(kernel)
    assert not divides(changed)
    dividends, others = np.arange(ALL, dtype=np.uint16).view(dtype.numpy), divisors(dtype, seed)
    wanted, found = (np.zeros(DIVISORS * ALL, dtype.numpy) for _ in range(2))
    run(kernel, [dividends, others, wanted])
    run(changed, [dividends, others, found])
    same = wanted.view(np.uint16) == found.view(np.uint16)
    both = np.isnan(wanted.astype(np.float32)) & np.isnan(found.astype(np.float32))
    wrong = np.flatnonzero(~(same | both))
    assert not wrong.size, (dividends[wrong[0] % ALL], others[wrong[0] // ALL])


@pytest.mark.parametrize(
    "kernel",
    [
        kernel_of(DType.F16, shared=False),
        kernel_of(DType.F16, lanes=2),
        kernel_of(DType.F32),
        kernel_of(DType.F64),
        kernel_of(DType.F8E4M3FN),
    ],
    ids=["divisor of each lane", "few lanes", "f32", "f64", "f8"],
)
def test_other_divisions_stay(kernel: KernelFunction) -> None:
    assert by_reciprocals(kernel) is kernel


def rounding_kernel(dtype: DType, stored: DType) -> KernelFunction:
    """Return a kernel that divides ``x`` of f32 by elements of ``y``, and rounds a named quotient to ``dtype``.

    It stores the quotient as f32 as well where ``stored`` says so.
    """
    kernel = kernel_of(DType.F32)
    place, type_ = Var("i", Type(DType.I64)), Type(DType.F32, LANES)
    quotient = Var("r", type_)

    def rounded(store: Stmt) -> tuple[Stmt, ...]:
        if not isinstance(store, Assign) or not isinstance(store.target, Subscript):
            return (store,)
        value = Cast(quotient, Type(dtype, LANES))
        whole = (Assign(Subscript("w", place, type_), quotient),) if stored is DType.F32 else ()
        return (Declare(quotient, store.value), Assign(attrs.evolve(store.target, type=value.type), value), *whole)

    (outer,) = kernel.body
    assert isinstance(outer, For)
    (inner,) = outer.body
    assert isinstance(inner, For)
    body = tuple(each for stmt in inner.body for each in rounded(stmt))
    x, y, q = kernel.params
    params = (x, y, attrs.evolve(q, dtype=dtype), Param("w", DType.F32, ALL, ParamAccess.WRITE))
    return attrs.evolve(kernel, params=params, body=(attrs.evolve(outer, body=(attrs.evolve(inner, body=body),)),))


def floats(count: int, seed: int) -> Array:
    """Return numbers of f32 of all sizes, and of sizes about 1, among them the ends of what is normal."""
    rng = np.random.default_rng(seed)
    special = np.array([0, 1, 3, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x3F800000], np.uint32)
    drawn = rng.integers(0, 1 << 32, count // 2, dtype=np.uint32)
    near = rng.integers(0x3A000000, 0x45000000, count - count // 2 - 2 * len(special), dtype=np.uint32)
    return np.concatenate([special, special | 1 << 31, near, drawn]).astype(np.uint32).view(np.float32)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_wide_quotients_that_are_rounded_are_those_of_divisions(dtype: DType, seed: int) -> None:
    kernel = rounding_kernel(dtype, dtype)
    changed = by_reciprocals(kernel)
    wide = [node for node in distinct_nodes(changed) if isinstance(node, Apply) and node.op is Op.DIV]
    assert {node.type.lanes for node in wide} == {1}
    assert by_reciprocals(kernel, rounded=False) is kernel
    dividends, others = floats(ALL, seed), floats(2 * DIVISORS, seed + 10)[seed % 2 :: 2]
    found = np.zeros(DIVISORS * ALL, dtype.numpy)
    run(changed, [dividends, others, found, np.zeros(ALL, np.float32)])
    with np.errstate(all="ignore"):
        wanted = (dividends[None, :] / others[:, None]).ravel().astype(dtype.numpy)
    same = wanted.view(np.uint16) == found.view(np.uint16)
    both = np.isnan(wanted.astype(np.float32)) & np.isnan(found.astype(np.float32))
    wrong = np.flatnonzero(~(same | both))
    assert not wrong.size, (dividends[wrong[0] % ALL], others[wrong[0] // ALL])


def test_wide_quotients_that_something_else_reads_stay() -> None:
    kernel = rounding_kernel(DType.F16, DType.F32)
    assert by_reciprocals(kernel) is kernel
