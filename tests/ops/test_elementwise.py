"""Elementwise functions and activations: what is refused, dtypes, and accuracy where formulas could lose it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import mpmath  # type: ignore[import-untyped]  # it has no types
import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.operations import fault_of, run
from tileir import ops
from tileir.core.dtype import DType
from tileir.tile.builder_functions import gradient, jvp, stop_gradient

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.tile.builder import Tensor


@pytest.mark.parametrize(
    ("attempt", "code", "message"),
    [
        (lambda x: ops.clip(x), "TIL217", "clip needs a bound: low, high or both"),
        (lambda x: ops.cast(x, "float"), "TIL206", "there is no element type 'float'"),
        (
            lambda x: ops.gelu(x, approximate="erf"),
            "TIL217",
            "approximate is one of 'none', 'tanh', 'sigmoid', not 'erf'",
        ),
        (lambda x: ops.cast(x, "i8", saturate=True), "TIL217", "saturate is for casts to floats; clip"),
        (lambda x: ops.bit_cast(x, "float"), "TIL206", "there is no element type 'float'"),
        (lambda x: ops.bit_cast(x, "bool"), "TIL217", "bits cannot be read as bool"),
        (lambda x: ops.prelu(x, x), "TIL217", "the weight is a scalar or a vector; this one has rank 2"),
        (lambda x: ops.prelu(x, ops.sum(x, 0), axis=2), "TIL314", "the axis is 2"),
        (lambda x: ops.glu(x, axis=2), "TIL314", "the axis is 2"),
        (lambda _: ops.maximum(1, 2), "TIL215", "at least one argument is a tensor or dimension"),
    ],
)
def test_mistakes(attempt: Callable[[Tensor], object], code: str, message: str) -> None:
    x = tileir.FunctionBuilder().input("X", "A", "B")
    found = fault_of(lambda: attempt(x), __file__)
    assert found[0] == code
    assert message in found[1]


def test_halves_of_an_odd_axis_are_refused() -> None:
    assert fault_of(lambda: run(lambda x: ops.glu(x), np.ones((2, 3))), __file__)[0] == "TIL312"


MAGNITUDES = st.floats(-300, 300).flatmap(lambda exponent: st.sampled_from([1, -1]).map(lambda s: s * 10**exponent))


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("log1p", -0.9, 1e300),
        ("expm1", -1e300, 700),
        ("asinh", -1e300, 1e300),
        ("acosh", 1, 1e300),
        ("atanh", -0.99, 0.99),
    ],
)
@given(x=MAGNITUDES)
def test_nothing_is_lost_near_0(name: str, low: float, high: float, x: float) -> None:
    point = np.clip(x, low, high)
    reference = {"asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh}.get(name) or getattr(np, name)
    np.testing.assert_allclose(run(getattr(ops, name), np.array(point)), reference(point), rtol=2e-15)


@pytest.mark.parametrize(
    "name",
    ["asin", "asinh", "atan", "atanh", "erf", "expm1", "log1p", "sin", "sinh", "softsign", "sqrt", "tan", "tanh"],
)
def test_zeros_keep_their_signs(name: str) -> None:
    assert np.signbit(run(getattr(ops, name), np.array([-0.0, 0.0]))).tolist() == [True, False]


@pytest.mark.parametrize("name", ["asinh", "atanh"])
def test_inverses_of_odd_functions_have_their_slope_at_0(name: str) -> None:
    operation = getattr(ops, name)
    slopes = run(lambda t: gradient(operation(t), t), np.array([-0.0, 0.0]))
    curvatures = run(lambda t: gradient(gradient(operation(t), t), t), np.array([-0.0, 0.0]))
    assert (slopes.tolist(), curvatures.tolist()) == ([1, 1], [0, 0])


@pytest.mark.parametrize("fast_math", [False, True])
def test_numbers_are_divided_by_the_least_ones(fast_math: bool) -> None:
    f = tileir.FunctionBuilder()
    x, y = f.input("X", "N"), f.input("Y", "N")
    values = np.array([0, 1e-45, -1e-45, 2e-39, 1.5, -3], np.float32)
    left, right = (each.ravel() for each in np.meshgrid(values, values))
    program = f.build(Q=ops.floor_divide(x, y))
    found = tileir.jit(program, "llvm", options=tileir.Options(fast_math=fast_math))(left, right)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(np.isnan(found), (left == 0) & (right == 0))


@pytest.mark.parametrize(
    ("name", "x", "expected"),
    [
        ("expm1", -12.0, math.exp(-12)),
        ("elu", -12.0, math.exp(-12)),
        ("log1p", 1e-4, 1 / 1.0001),
        ("log1p", -1.0, math.inf),
    ],
)
def test_gradients_lose_nothing_either(name: str, x: float, expected: float) -> None:
    f = tileir.FunctionBuilder()
    text = f.build(Y=getattr(ops, name)(f.input("X", "N")))
    gradient = tileir.vjp(text, np.array([x], np.float32), {"Y": np.float32(1)})["X"]
    assert gradient.tolist() == [pytest.approx(expected, rel=3e-7)]


def test_gradient_of_softplus_is_short() -> None:
    f = tileir.FunctionBuilder()
    gradient = tileir.gradient(f.build(Y=ops.softplus(f.input("X", "N"))), arguments=((3,),))
    assert "log" not in tileir.to_text(gradient)


def test_small_ends_of_softplus_stay() -> None:
    x = np.array([-80, -40, -20], np.float32)
    np.testing.assert_allclose(run(ops.softplus, x), np.exp(x.astype(np.float64)), rtol=1e-6)
    np.testing.assert_allclose(run(ops.log_sigmoid, -x), -np.exp(x.astype(np.float64)), rtol=1e-6)


def test_nan_stays_nan() -> None:
    x = np.array([np.nan])
    for name in (
        "relu6",
        "elu",
        "gelu",
        "softplus",
        "hard_sigmoid",
        "mish",
        "log1p",
        "expm1",
        "asinh",
        "softsign",
        "soft_shrink",
        "hard_shrink",
    ):
        assert np.isnan(run(getattr(ops, name), x)).all(), name
    for build in (
        lambda t: ops.clip(t, 0, 1),
        lambda t: ops.logaddexp(t, 1),
        lambda t: ops.hypot(t, 1),
        lambda t: ops.threshold(t, 1, 5),
        lambda t: ops.heaviside(t, 3),
    ):
        assert np.isnan(run(build, x)).all()


@pytest.mark.parametrize(
    ("build", "dtype", "result"),
    [
        (ops.relu, np.int8, np.int8),
        (lambda x: ops.relu(x, alpha=0.5), np.float16, np.float16),
        (lambda x: ops.clip(x, 0, 1), np.int16, np.int16),
        (ops.gelu, np.float16, np.float16),
        (ops.gelu, np.int32, np.float32),
        (ops.softplus, np.int32, np.float32),
        (ops.softsign, np.int32, np.float32),
        (ops.reciprocal, np.int32, np.float32),
        (ops.log1p, np.int32, np.float32),
        (ops.remainder, np.int32, np.int32),
        (ops.heaviside, np.float16, np.float16),
        (ops.floor_divide, np.int64, np.int64),
        (ops.isfinite, np.int32, np.bool_),
        (ops.logical_xor, np.float32, np.bool_),
        (ops.elu, np.float16, np.float16),
    ],
)
def test_dtypes(build: Callable[..., Tensor], dtype: Any, result: Any) -> None:
    x = np.ones(2, dtype)
    two = build in (ops.remainder, ops.heaviside, ops.floor_divide, ops.logical_xor)
    assert run(build, *([x, x] if two else [x])).dtype == result


@pytest.mark.parametrize(
    ("name", "numpy"),
    [
        ("remainder", np.mod),
        ("floor_divide", np.floor_divide),
        ("fmod", np.fmod),
        ("atan2", np.arctan2),
        ("hypot", np.hypot),
        ("copysign", np.copysign),
        ("logaddexp", np.logaddexp),
        ("xlogy", lambda x, y: x * np.log(y)),
        ("maximum", np.maximum),
        ("pow", np.power),
        ("isclose", np.isclose),
        ("logical_and", np.logical_and),
        ("logical_xor", np.logical_xor),
        ("greater_equal", np.greater_equal),
    ],
)
def test_either_of_two_may_be_a_number(name: str, numpy: Callable[..., Any]) -> None:
    operation, x = getattr(ops, name), np.array([0.5, 3.0])
    np.testing.assert_allclose(run(lambda t: operation(t, 2), x), numpy(x, 2))
    np.testing.assert_allclose(run(lambda t: operation(2, t), x), numpy(2, x))


def test_numbers_keep_narrow_dtypes() -> None:
    for build in (lambda t: ops.remainder(t, 2), lambda t: ops.floor_divide(t, 2), lambda t: ops.copysign(t, -1)):
        assert run(build, np.array([3], np.int8)).dtype == np.int8


def test_gradients_are_scaled() -> None:
    f = tileir.FunctionBuilder()
    x, scale = f.input("X", "N"), f.scalar("S")
    function = f.build(Y=ops.scale_gradient(x, -0.5) * 2, Z=ops.scale_gradient(x, scale))
    point = np.array([1.0, 2.0])
    results = tileir.evaluate(function, X=point, S=np.array(3.0))
    np.testing.assert_array_equal(results, [point * 2, point])
    for name, slope in {"Y": -1, "Z": 3}.items():
        gradient = tileir.vjp(function, {"X": point, "S": np.array(3.0)}, {name: np.ones(2)}, wrt=["X"])
        np.testing.assert_array_equal(gradient["X"], [slope, slope])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    "operation",
    [
        lambda x: ops.clip(x, -0.1, 0.1),
        lambda x: ops.copysign(0.1, x),
        lambda x: ops.full_like(x, 0.1),
        lambda x: ops.hard_tanh(x, -0.1, 0.1),
        lambda x: ops.leaky_relu(x * 0 - 1, negative_slope=0.1),
        lambda x: ops.masked_fill(x, x == x, 0.1),
        lambda x: ops.maximum(0.1, ops.minimum(x, 0.1)),
        lambda x: ops.pad(x, 1, value=0.1),
        lambda x: ops.threshold(x, 100, 0.1),
        lambda x: ops.where(x == 100, x, 0.1),
    ],
)
def test_numbers_have_the_digits_of_the_tensor(operation: Any, dtype: type) -> None:
    x: Any = np.array([-3, 5], dtype)
    result = run(operation, x)
    assert result.dtype == dtype
    assert np.isin(np.abs(result), [dtype(0.1), 3, 5]).all()
    assert dtype(0.1) in np.abs(result)


def sinc_slope(x: float) -> float:
    """The derivative of ``sin(π x) / (π x)``: up to 1 of the angle its series, whose terms fall off."""
    angle = math.pi * x
    if abs(angle) >= 1:
        return math.pi * (math.cos(angle) - math.sin(angle) / angle) / angle
    terms = ((-1) ** k * 2 * k * angle ** (2 * k - 1) / math.factorial(2 * k + 1) for k in range(1, 16))
    return math.pi * math.fsum(terms)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_gradient_of_sinc_keeps_its_digits_near_zero(dtype: type[np.floating]) -> None:
    builder = tileir.FunctionBuilder()
    x = builder.input("X", "N")
    program = builder.build(G=gradient([ops.sinc(x)], x), H=gradient([gradient([ops.sinc(x)], x)], x))
    sizes = np.concatenate([np.geomspace(1e-12, 0.4, 40), [0.3183, 0.3184]])
    places = np.concatenate([sizes, -sizes, [0.0]]).astype(dtype)
    for once, twice in (tileir.evaluate(program, [places]), tileir.jit(program, "llvm")(places)):
        bound = 16 * float(np.finfo(dtype).eps)
        np.testing.assert_allclose(once, [sinc_slope(float(x)) for x in places], rtol=bound, atol=0)
        small = np.abs(places) < 1e-9
        np.testing.assert_allclose(twice[small], -(np.pi**2) / 3, rtol=bound)
        assert np.abs(twice).max() < 1.01 * np.pi**2 / 3


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_length_of_what_is_infinite_is_infinite(dtype: type[np.floating]) -> None:
    values = np.array([0, 3, np.inf, -np.inf, np.nan], dtype)
    x, y = (each.ravel() for each in np.meshgrid(values, values))
    builder = tileir.FunctionBuilder()
    program = builder.build(O=ops.hypot(builder.input("X", "N"), builder.input("Y", "N")))
    wanted = np.hypot(x, y).astype(dtype)
    for found in (tileir.evaluate(program, [x, y]), tileir.jit(program, "llvm")(x, y)):
        np.testing.assert_allclose(found, wanted, rtol=2 * float(np.finfo(dtype).eps))


@given(x=st.floats(), low=st.floats(-3, 3), high=st.floats(-3, 3))
def test_a_high_bound_below_the_low_one_wins(x: float, low: float, high: float) -> None:
    np.testing.assert_array_equal(run(lambda x: ops.clip(x, low, high), np.array(x)), np.clip(x, low, high))


@pytest.mark.sampled(18)
@pytest.mark.parametrize(
    ("name", "ends", "slopes"),
    [
        ("sqrt", [0.0], [np.inf]),
        ("rsqrt", [0.0], [-np.inf]),
        ("log", [0.0], [np.inf]),
        ("log2", [0.0], [np.inf]),
        ("log10", [0.0], [np.inf]),
        ("log1p", [-1.0], [np.inf]),
        ("reciprocal", [0.0], [-np.inf]),
        ("asin", [-1.0, 1.0], [np.inf, np.inf]),
        ("acos", [-1.0, 1.0], [-np.inf, -np.inf]),
        ("acosh", [1.0], [np.inf]),
        ("atanh", [-1.0, 1.0], [np.inf, np.inf]),
        ("logit", [0.0, 1.0], [np.inf, np.inf]),
    ],
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_slopes_at_ends_of_domains_are_infinite(name: str, ends: list[float], slopes: list[float], dtype: type) -> None:
    x: Any = np.array(ends, dtype)
    for weight in (1, -2, 0):
        found = run(lambda x, weight=weight: gradient(ops.sum(getattr(ops, name)(x)) * weight, x), x)
        np.testing.assert_array_equal(found, np.multiply(slopes, weight) if weight else np.full(x.shape, np.nan))


@pytest.mark.parametrize(
    ("name", "low", "high", "derivative"),
    [
        ("acosh", 1 + 1e-9, 1e150, lambda x: 1 / (mpmath.sqrt(x - 1) * mpmath.sqrt(x + 1))),
        ("atanh", -1 + 1e-12, 1 - 1e-12, lambda x: 1 / ((1 - x) * (1 + x))),
        ("logit", 1e-300, 1 - 1e-12, lambda p: 1 / (p * (1 - p))),
    ],
)
def test_slopes_near_ends_of_domains(name: str, low: float, high: float, derivative: Callable[[Any], Any]) -> None:
    near = 10.0 ** np.arange(-12, 0)
    x = np.unique(np.clip(np.concatenate([low + near, high - near, [low, high, 0.5, 1.5, 2.0, 3.0]]), low, high))
    found = run(lambda x: gradient(ops.sum(getattr(ops, name)(x)), x), x)
    with mpmath.workdps(40):
        wanted = [float(derivative(mpmath.mpf(float(each)))) for each in x]
    np.testing.assert_allclose(found, wanted, rtol=8 * np.finfo(float).eps)


@pytest.mark.parametrize(
    ("name", "x", "y", "slopes"),
    [
        ("hypot", 0.0, 0.0, (0.0, 0.0)),
        ("hypot", 3.0, -4.0, (0.6, -0.8)),
        ("hypot", 2.0, np.inf, (0.0, 1.0)),
        ("hypot", -np.inf, 2.0, (-1.0, 0.0)),
        ("atan2", 0.0, 0.0, (0.0, 0.0)),
        ("atan2", 3.0, 4.0, (0.16, -0.12)),
        ("atan2", 2.0, -np.inf, (0.0, 0.0)),
        ("pow", 0.0, -2.0, (-np.inf, -np.inf)),
        ("pow", 0.0, 0.0, (0.0, 0.0)),
        ("pow", 0.0, 2.0, (0.0, 0.0)),
    ],
)
def test_slopes_of_pairs_at_special_points(name: str, x: float, y: float, slopes: tuple[float, float]) -> None:
    arrays = np.array([x]), np.array([y])
    found = run(lambda x, y: gradient(ops.sum(getattr(ops, name)(x, y)), x, y), *arrays)
    np.testing.assert_allclose(np.ravel(found), slopes, rtol=1e-15)


_PATTERNED: Final = [dtype for dtype in DType if not dtype.is_bool]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("source", _PATTERNED, ids=lambda dtype: dtype.value)
def test_bits_are_those_in_memory(source: DType) -> None:
    same = [dtype for dtype in _PATTERNED if dtype.bits == source.bits]
    bits = np.random.default_rng(0).integers(0, 256, 77 * source.itemsize, np.uint8).view(source.numpy)
    f = tileir.FunctionBuilder()
    x = f.input("X", "N")
    function = f.build(**{f"Y{number}": ops.bit_cast(x, dtype) for number, dtype in enumerate(same)})
    for device in (None, "llvm"):
        found = tileir.evaluate(function, X=bits) if device is None else tileir.jit(function, device)(X=bits)
        for result, dtype in zip(found, same, strict=True):
            assert result.dtype == dtype.numpy
            assert result.tobytes() == bits.tobytes()


def test_bits_are_computed_with_inside_of_kernels() -> None:
    x = np.random.default_rng(0).normal(size=100).astype(np.float32)
    f = tileir.FunctionBuilder()
    above = ops.bit_cast(ops.bit_cast(f.input("X", "N") * 2.0, "i32") + 1, DType.F32)
    function = f.build(Y=above * 3.0)
    wanted = np.nextafter(x * 2, np.where(x > 0, np.inf, -np.inf), dtype=np.float32) * np.float32(3)
    np.testing.assert_array_equal(tileir.evaluate(function, X=x), wanted)
    np.testing.assert_array_equal(tileir.jit(function, "llvm")(X=x), wanted)
    assert tileir.parse(tileir.to_text(function)) == function


@pytest.mark.parametrize("forward", [False, True])
def test_bits_have_no_derivative(forward: bool) -> None:
    def moved(y: Tensor, x: Tensor) -> Tensor:
        return jvp(y, x, 1.0) if forward else gradient(ops.sum(y), x)

    def through_bits(x: Tensor) -> Tensor:
        return moved(ops.bit_cast(ops.bit_cast(x, "i32") + 1, "f32"), x)

    code, message = fault_of(lambda: run(through_bits, np.ones(3, np.float32)), __file__)
    assert code == "TIL335"
    assert message == "the bits of a number have no derivative; where none is meant, read those of stop_gradient(…)"

    def negated(x: Tensor) -> Tensor:
        return moved(x * (2 * (ops.bit_cast(stop_gradient(x), "i32") >> 31) + 1), x)

    np.testing.assert_array_equal(run(negated, np.array([3, -2], np.float32)), [1, -1])


def test_bits_of_another_width_or_of_bool_are_refused() -> None:
    for array in (np.ones(3, np.float16), np.ones(3, bool)):
        with pytest.raises(tileir.TileError, match=r"TIL302.* cast it to a dtype of 32 bits first"):
            run(lambda x: ops.bit_cast(x, "i32"), array)


@pytest.mark.parametrize("dtype", [dtype for dtype in DType if dtype.is_float])
def test_saturating_casts_keep_numbers_finite(dtype: DType) -> None:
    x = np.array([1.3, -0.2, 300, 450, 500, -1e6, 7e4, 1e39, -np.inf, np.inf, np.nan], np.float64)
    found = run(lambda x: ops.cast(x, dtype, saturate=True), x)
    largest = float(ml_dtypes.finfo(dtype.numpy).max)  # type: ignore[no-untyped-call]
    wanted = np.clip(x, -largest, largest).astype(np.float64 if dtype is DType.F64 else np.float32).astype(dtype.numpy)
    np.testing.assert_array_equal(found.astype(np.float64), wanted.astype(np.float64))
