"""Each row of the peephole table against the interpreter's definition of what it replaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.semtree_values import constants, same_content, special_values
from tileir.core.dtype import DType
from tileir.core.numbers import arithmetic
from tileir.core.ops import Op
from tileir.semtree.ir import Apply, Assign, Cast, Const, Subscript, Type, Var
from tileir_opencl.emit.peephole import Call, accumulation, call_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tileir.semtree.ir import Expr

Array = np.ndarray[Any, Any]

DEFINITIONS: Final[Mapping[str, Callable[..., Array]]] = {
    "clamp": lambda x, low, high: np.fmin(np.fmax(x, low), high),
    "rotate": lambda x, k: (x << k) | (x >> (np.array(x.dtype.itemsize * 8, x.dtype) - k)),
    "mad": lambda a, b, c: arithmetic.apply(Op.FMA, a, b, c),
    "rsqrt": lambda x: arithmetic.apply(Op.RSQRT, x),
    "native_rsqrt": lambda x: arithmetic.apply(Op.RSQRT, x),
}
"""Results of each function by the OpenCL specification; ``mad`` may fuse, and does so here."""

INTEGERS: Final = tuple(dtype for dtype in DType if dtype.is_integer)
FLOATS: Final = (DType.F16, DType.BF16, DType.F32, DType.F64)


def var(name: str, dtype: DType, lanes: int = 1) -> Var:
    return Var(name, Type(dtype, lanes))


def value_of(expr: Expr, variables: Mapping[str, Array]) -> Array:
    match expr:
        case Var(name=name):
            return variables[name]
        case Const(value=value, type=kind):
            return arithmetic.constant(value, kind.dtype)
        case Cast(operand=operand, type=kind):
            return arithmetic.cast(value_of(operand, variables), kind.dtype)
        case Apply(op=op, args=args):
            return arithmetic.apply(op, *(value_of(arg, variables) for arg in args))
        case _:
            raise AssertionError(expr)


def called(found: Call, variables: Mapping[str, Array]) -> Array:
    with np.errstate(all="ignore"):
        args = [value_of(arg, variables) for arg in found.args]
        return np.asarray(DEFINITIONS[found.function](*args)).astype(args[-1].dtype)


def prove(expr: Apply, variables: Mapping[str, Array], function: str, *, fast_math: bool = False) -> None:
    """Assert that a row takes the expression, and that its function computes the same on all values."""
    found = call_for(expr, fast_math=fast_math)
    assert found is not None
    assert found.function == function
    expected = np.asarray(value_of(expr, variables))
    assert same_content(np.broadcast_to(called(found, variables), expected.shape), expected)


@examples(100)
@given(data=st.data())
def test_clamp_of_integers(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(INTEGERS))
    kind = Type(dtype)
    limits = sorted((data.draw(constants(kind)) for _ in range(2)), key=lambda const: const.value)
    x, low, high = var("x", dtype), *limits
    for expr in (
        Apply(Op.MIN, (Apply(Op.MAX, (x, low)), high)),
        Apply(Op.MAX, (Apply(Op.MIN, (x, high)), low)),
    ):
        prove(expr, {"x": special_values(dtype)}, "clamp")


@examples(60)
@given(data=st.data())
def test_clamp_of_floats_that_were_integers(data: st.DataObject) -> None:
    dtype, source = data.draw(st.sampled_from(FLOATS)), data.draw(st.sampled_from(INTEGERS))
    finite = st.floats(-100, 100, width=16).map(lambda value: Const.of(value, Type(dtype)))
    low, high = sorted((data.draw(finite), data.draw(finite)), key=lambda const: const.value)
    x = Cast(var("x", source), Type(dtype))
    prove(Apply(Op.MIN, (Apply(Op.MAX, (x, low)), high)), {"x": special_values(source)}, "clamp")


@examples(60)
@given(data=st.data())
def test_rotations(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([DType.U8, DType.U16, DType.U32, DType.U64]))
    kind = Type(dtype)
    count = data.draw(st.integers(1, dtype.bits - 1))
    x = var("x", dtype)
    left = Apply(Op.BIT_LEFT, (x, Const(count, kind)))
    right = Apply(Op.BIT_RIGHT, (x, Const(dtype.bits - count, kind)))
    prove(Apply(Op.BIT_OR, (left, right)), {"x": special_values(dtype)}, "rotate")


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.value)
def test_accumulations(dtype: DType) -> None:
    kind = Type(dtype)
    a, b, total = var("a", dtype), var("b", dtype), var("t", dtype)
    expr = Apply(Op.FMA, (a, b, total))
    found = accumulation(Assign(total, expr))
    assert found == Call("mad", (a, b, total))
    x, y, z = (side.reshape(-1) for side in np.meshgrid(*[special_values(dtype)[::3]] * 3))
    variables = {"a": x, "b": y, "t": z}
    assert same_content(called(found, variables), value_of(expr, variables))
    element = Subscript("sums", var("i", DType.I32), kind)
    assert accumulation(Assign(element, Apply(Op.FMA, (a, b, element)))) is not None


def test_exact_products_stay_fused() -> None:
    a, b, c, total = (var(name, DType.F32) for name in "abct")
    assert accumulation(Assign(total, Apply(Op.FMA, (a, b, c)))) is None
    assert call_for(Apply(Op.FMA, (a, b, c)), fast_math=True) is None


def test_fast_rows_wait_for_fast_math() -> None:
    x, y, z = (var(name, DType.F32) for name in "xyz")
    one = Const(1.0, Type(DType.F32))
    for expr in (Apply(Op.ADD, (Apply(Op.MUL, (x, y)), z)), Apply(Op.DIV, (one, Apply(Op.SQRT, (x,))))):
        assert call_for(expr, fast_math=False) is None
        assert call_for(expr, fast_math=True) is not None


def test_sums_of_products_are_one_of_two_roundings() -> None:
    values = special_values(DType.F32)[::2]
    x, y, z = (side.reshape(-1) for side in np.meshgrid(values, values, values))
    a, b, c = (var(name, DType.F32) for name in "abc")
    variables = {"a": x, "b": y, "c": z}
    for expr in (Apply(Op.ADD, (Apply(Op.MUL, (a, b)), c)), Apply(Op.ADD, (c, Apply(Op.MUL, (a, b))))):
        found = call_for(expr, fast_math=True)
        assert found == Call("mad", (a, b, c))
        fused, plain = called(found, variables), value_of(expr, variables)
        size = np.abs(arithmetic.apply(Op.MUL, x, y))
        small = np.isfinite(fused) & np.isfinite(plain)
        assert np.all(np.abs(fused[small] - plain[small]) <= (size[small] + np.abs(z[small])) * 2.0**-23)


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=lambda dtype: dtype.value)
def test_reciprocal_square_roots_are_close(dtype: DType) -> None:
    x, one = var("x", dtype), Const(1.0, Type(dtype))
    expr = Apply(Op.DIV, (one, Apply(Op.SQRT, (x,))))
    found = call_for(expr, fast_math=True)
    assert found is not None
    values = {"x": special_values(dtype)}
    np.testing.assert_allclose(called(found, values), value_of(expr, values), rtol=2 * np.finfo(dtype.numpy).eps)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.value)
def test_a_nan_is_never_clamped(dtype: DType) -> None:
    kind = Type(dtype)
    x, low, high = var("x", dtype), Const(0.0, kind), Const(1.0, kind)
    assert call_for(Apply(Op.MIN, (Apply(Op.MAX, (x, low)), high)), fast_math=True) is None
    assert call_for(Apply(Op.MAX, (x, low)), fast_math=True) is None


def test_only_one_is_divided_by_roots() -> None:
    kind, x = Type(DType.F32), var("x", DType.F32)
    assert call_for(Apply(Op.DIV, (Const(2.0, kind), Apply(Op.SQRT, (x,)))), fast_math=True) is None


def test_crossed_limits_are_not_clamped() -> None:
    kind = Type(DType.I32)
    x, low, high = var("x", DType.I32), Const(5, kind), Const(3, kind)
    assert call_for(Apply(Op.MIN, (Apply(Op.MAX, (x, low)), high)), fast_math=False) is None


@pytest.mark.parametrize(
    ("dtype", "left", "right"), [(DType.I32, 8, 24), (DType.U32, 8, 23), (DType.U32, 0, 32)], ids=str
)
def test_other_shifts_are_no_rotation(dtype: DType, left: int, right: int) -> None:
    kind, x = Type(dtype), var("x", dtype)
    shifts = (Apply(Op.BIT_LEFT, (x, Const(left, kind))), Apply(Op.BIT_RIGHT, (x, Const(right, kind))))
    assert call_for(Apply(Op.BIT_OR, shifts), fast_math=False) is None
