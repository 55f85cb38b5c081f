"""Quotients in f32 by the reciprocal of a divisor that they share: the bits of divisions, for all numbers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.semtree.interpret.interpreter import run
from tileir.semtree.ir import (
    Apply,
    Assign,
    Broadcast,
    Const,
    Declare,
    Expr,
    For,
    If,
    KernelFunction,
    Param,
    ParamAccess,
    Subscript,
    Type,
    Var,
)
from tileir.semtree.rewrite import statements
from tileir_cuda.emit.shared_divisors import by_shared_reciprocals

Array = np.ndarray[Any, Any]

INDEX: Final = Type(DType.I64)
ROW: Final = 512
DIVISORS: Final = 48


def kernel_of(
    lanes: int = 8, *, dtype: DType = DType.F32, target: str = "q", steady: bool = True, alone: bool = True
) -> KernelFunction:
    """Return a kernel that divides each row of ``x`` by an element of ``y``."""
    place, number, kind = Var("i", INDEX), Var("j", INDEX), Type(dtype, lanes)
    divisor, copy = Var("divisor", Type(dtype)), Var("copy", Type(dtype))
    whole = Apply(Op.ADD, (Apply(Op.MUL, (number, Const(ROW, INDEX))), place))
    seen: Expr = copy if steady else Subscript("y", number, Type(dtype))
    shared = Broadcast(seen, lanes) if lanes > 1 else seen
    value = Apply(Op.DIV, (Subscript("x", whole, kind), shared))
    inner = For(
        place,
        Const(0, INDEX),
        Const(ROW, INDEX),
        lanes,
        (Declare(copy, divisor), Assign(Subscript(target, whole, kind), value)),
    )
    outer = For(
        number,
        Const(0, INDEX),
        Const(DIVISORS, INDEX),
        1,
        (Declare(divisor, Subscript("y", number, Type(dtype))), inner),
    )
    params = (
        Param(
            "x", dtype, DIVISORS * ROW, ParamAccess.READ if target == "q" else ParamAccess.READ_WRITE, no_alias=alone
        ),
        Param("y", dtype, DIVISORS, ParamAccess.READ),
        Param("q", dtype, DIVISORS * ROW, ParamAccess.WRITE, no_alias=alone),
    )
    return KernelFunction("k", params, (outer,))


def numbers(random: np.random.Generator, size: int, spread: int, around: int = 0) -> Array:
    """Return numbers of all digits, some of few, with exponents up to ``spread`` from one."""
    digits = random.integers(0, 1 << 23, size) & random.choice([-1, -1, -1 << 12, -1 << 20], size)
    near = random.choice([0, (1 << 23) - 1], size) ^ random.integers(0, 8, size)
    digits = np.where(random.integers(0, 4, size) == 0, near, digits)
    exponents = np.clip(127 + around + random.integers(-spread, spread + 1, size), 0, 255)
    sign = random.integers(0, 2, size) << 31
    return np.asarray(sign | exponents << 23 | digits, np.uint32).view(np.float32)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("divided", "dividing"), [(2, 3), (2, 18), (40, 30), (128, 64), (128, 128)])
@pytest.mark.parametrize("lanes", [4, 8])
def test_quotients_are_the_bits_of_divisions(lanes: int, divided: int, dividing: int) -> None:
    """Also those of subnormal numbers, zeros of either sign, infinities and NaN: rows with such are divided."""
    random = np.random.default_rng(divided * 1000 + dividing * 10 + lanes)
    x, y = numbers(random, DIVISORS * ROW, divided), numbers(random, DIVISORS, dividing)
    y = np.where(random.integers(0, 4, DIVISORS) > 0, np.abs(y), y)
    x[: ROW * 8 : 7] = 0.0
    x[ROW * 8 : ROW * 10 : 64] = -0.0
    x[ROW * 10 + 5] = np.inf
    x[ROW * 11 + 5] = np.nan
    x[ROW * 12 + 5] = 1e-42
    wanted, found = np.zeros_like(x), np.zeros_like(x)
    kernel = kernel_of(lanes)
    changed = by_shared_reciprocals(kernel)
    assert changed is not kernel
    run(kernel, [x, y, wanted])
    run(changed, [x, y, found])
    same = (wanted.view(np.uint32) == found.view(np.uint32)) | (np.isnan(wanted) & np.isnan(found))
    wrong = np.flatnonzero(~same)
    assert not wrong.size, (x[wrong[0]], y[wrong[0] // ROW])


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("dividend", "divisor"),
    [(-126, 2), (-123, 2), (-118, 2), (-104, 2), (-100, 2), (0, 125), (0, -123), (120, -8), (0, 0)],
)
def test_rows_at_the_ends_of_the_range(dividend: int, divisor: int) -> None:
    random = np.random.default_rng(abs(dividend))
    x, y = numbers(random, DIVISORS * ROW, 2, dividend), np.abs(numbers(random, DIVISORS, 2, divisor))
    wanted, found = np.zeros_like(x), np.zeros_like(x)
    run(kernel_of(), [x, y, wanted])
    run(by_shared_reciprocals(kernel_of()), [x, y, found])
    np.testing.assert_array_equal(wanted, found)


def test_rows_of_usual_numbers_are_not_divided_again() -> None:
    """Zeros among them are usual, as masked scores give them; so they would be wrong if products were."""
    random = np.random.default_rng(0)
    x, y = numbers(random, DIVISORS * ROW, 40), np.abs(numbers(random, DIVISORS, 15))
    x[::5] = 0.0
    changed = by_shared_reciprocals(kernel_of())
    loops = [stmt for stmt in statements(changed.body) if isinstance(stmt, If)]
    assert len(loops) == 2
    again = loops[1]
    emptied = KernelFunction(changed.name, changed.params, _without(changed.body, again))
    wanted, found = np.zeros_like(x), np.zeros_like(x)
    run(changed, [x, y, wanted])
    run(emptied, [x, y, found])
    np.testing.assert_array_equal(wanted, found)


def _without(stmts: Any, gone: If) -> Any:
    (outer,) = stmts
    return (For(outer.counter, outer.begin, outer.end, outer.step, tuple(s for s in outer.body if s is not gone)),)


@pytest.mark.parametrize(
    "kernel",
    [
        kernel_of(dtype=DType.F64),
        kernel_of(dtype=DType.F16),
        kernel_of(1),
        kernel_of(2),
        kernel_of(target="x"),
        kernel_of(steady=False),
        kernel_of(alone=False),
    ],
    ids=[
        "f64",
        "f16",
        "elements",
        "few lanes",
        "a loop that reads what it sets",
        "a divisor from memory",
        "results in place",
    ],
)
def test_other_divisions_stay(kernel: KernelFunction) -> None:
    changed = by_shared_reciprocals(kernel)
    assert not any(isinstance(stmt, If) for stmt in statements(changed.body))
