"""Expansions against exact values, against the definition on special ones, and inside kernels."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final

import attrs
import numpy as np
import pytest

from strategies.ulps import worst
from tileir.core.dtype import DType
from tileir.core.numbers.arithmetic import apply, cast
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
    If,
    KernelFunction,
    Param,
    ParamAccess,
    Ramp,
    Stmt,
    Subscript,
    Type,
    Var,
)
from tileir.semtree.rewrite import expressions, statements, walk
from tileir.semtree.transform.expansions import EXPANDED, LEAST_EXPONENT, ULP, expand_kernel

Array = np.ndarray[Any, Any]

LANES: Final = 512
FUNCTIONS: Final = sorted(EXPANDED, key=lambda op: op.value)
POINTS: Final = 1024


def kernel_of(op: Op, dtype: DType, size: int, lanes: int, exponent: float | None = None) -> KernelFunction:
    kind, index = Type(dtype, lanes), Var("i", Type(DType.I64))
    inputs = tuple(f"x{number}" for number in range(op.info.arity if exponent is None else 1))
    params = tuple(Param(name, dtype, size, ParamAccess.READ) for name in inputs)
    known = () if exponent is None else (Const.of(exponent, kind),)
    value = Apply(op, (*(Subscript(name, index, kind) for name in inputs), *known))
    body = Assign(Subscript("y", index, kind), value)
    zero, end = Const(0, index.type), Const(size, index.type)
    out = Param("y", dtype, size, ParamAccess.WRITE)
    return KernelFunction("k", (*params, out), (For(index, zero, end, lanes, (body,)),))


def evaluate(op: Op, *args: Array, lanes: int = LANES, exponent: float | None = None) -> Array:
    """Run the expansion on all elements, many at a time; of pow with a constant exponent where one is given."""
    dtype = DType.of(args[0].dtype)
    assert dtype is not None
    count = args[0].size
    padded = [np.resize(arg, -(-count // lanes) * lanes) for arg in args]
    out = np.zeros_like(padded[0])
    run(expand_kernel(kernel_of(op, dtype, out.size, lanes, exponent), frozenset()), [*padded, out])
    return out[:count]


def narrow(values: Array, dtype: DType) -> Array:
    return cast(np.asarray(values, np.float64), dtype)


def points(op: Op, dtype: DType, seed: int = 0) -> list[Array]:
    """Draw arguments over the whole domain, dense where the function bends, away from where the result ends."""
    random = np.random.default_rng(seed)
    double = dtype is DType.F64
    most = 700.0 if double else 87.0
    scales = random.uniform(-1000 if double else -120, 1000 if double else 120, POINTS)
    wide = np.exp2(scales) * random.choice([-1.0, 1.0], POINTS)
    small = random.uniform(-1.3, 1.3, POINTS)
    match op:
        case Op.LOG | Op.RSQRT:
            drawn = np.abs(np.concatenate([wide, small, 1 + small / 100]))
            return [narrow(drawn[drawn != 0], dtype)]
        case Op.ASIN | Op.ACOS:
            return [narrow(np.concatenate([small / 1.3, np.clip(wide, -1, 1)]), dtype)]
        case Op.SIN | Op.COS | Op.TAN:
            near = random.integers(1, 2**30, POINTS) * (np.pi / 2)
            return [narrow(np.concatenate([small, 30 * small, near, near / 2**12, wide]), dtype)]
        case Op.POW:
            base = np.concatenate([np.exp(4 * small), 1 + small / 10])
            return [narrow(base, dtype), narrow(random.uniform(-1, 1, base.size) * most / np.abs(np.log(base)), dtype)]
        case _:
            drawn = np.concatenate([small, 5 * small, 15 * small, most * small / 1.3, np.clip(wide, -most, most)])
            return [narrow(drawn, dtype)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
@pytest.mark.parametrize("op", FUNCTIONS)
def test_error_is_within_the_stated_bound(op: Op, dtype: DType) -> None:
    args = points(op, dtype)
    precision = 1300 if op in (Op.SIN, Op.COS, Op.TAN) else 120
    distance, where = worst(op, dtype, evaluate(op, *args), args, precision)
    assert distance <= ULP[op, dtype], where


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
@pytest.mark.parametrize("op", [Op.EXP, Op.SIGMOID])
def test_what_vanishes_is_no_product_that_underflows(op: Op, dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Masked scores are minus infinity, and some processors take a hundred times as long where a product underflows."""
    monkeypatch.setattr(np, "errstate", partial(np.errstate, under="raise"))
    least, normal = (-177.0, -80.0) if dtype is DType.F32 else (-1419.0, -700.0)
    gone = np.concatenate([-np.inf * np.ones(8), np.linspace(50 * least, least, 500)])
    assert not evaluate(op, narrow(gone, dtype)).any()
    assert np.isfinite(evaluate(op, narrow(np.linspace(normal, 60.0, 500), dtype))).all()
    with pytest.raises(FloatingPointError, match="underflow"):
        evaluate(op, narrow(np.linspace(1.2 * normal, normal, 500), dtype))


def test_powers_that_vanish_are_no_products_that_underflow(monkeypatch: pytest.MonkeyPatch) -> None:
    base = np.random.default_rng(0).uniform(0.1, 0.9, 500)
    logarithm = np.linspace(-50_000.0, -1419.0, 500)
    monkeypatch.setattr(np, "errstate", partial(np.errstate, under="raise"))
    assert not evaluate(Op.POW, base, logarithm / np.log(base)).any()


def test_powers_are_rounded_once_where_they_are_subnormal() -> None:
    exponent = np.arange(-1100.0, -1000.0)
    np.testing.assert_array_equal(evaluate(Op.POW, np.full(100, 2.0), exponent), np.ldexp(1.0, exponent.astype(int)))
    base = np.random.default_rng(0).uniform(0.1, 0.9, 500)
    args = [base, np.linspace(-744.0, -708.5, 500) / np.log(base)]
    found = evaluate(Op.POW, *args)
    assert np.all((found > 0) & (found < np.finfo(np.float64).tiny))
    distance, where = worst(Op.POW, DType.F64, found, args)
    assert distance <= ULP[Op.POW, DType.F64], where


@pytest.mark.parametrize("op", [Op.SIN, Op.COS, Op.TAN])
@pytest.mark.parametrize(
    ("angle", "dtype"), [(16367173 * 2.0**72, DType.F32), (6381956970095103 * 2.0**797, DType.F64)]
)
def test_angles_nearest_to_a_multiple_of_a_quarter_turn(op: Op, angle: float, dtype: DType) -> None:
    """They lose most bits in the reduction, of all numbers of their type (Muller, "Elementary Functions")."""
    args = [narrow(np.array([angle]), dtype)]
    distance, where = worst(op, dtype, evaluate(op, *args), args, precision=1300)
    assert distance <= ULP[op, dtype], where


WORST: Final = {
    Op.ACOS: (-0.501064, 1.2744),
    Op.ASIN: (0.5335205, 1.8933),
    Op.ATAN: (0.4262224, 1.8744),
    Op.COS: (27.21891, 1.4872),
    Op.COSH: (5.200064, 1.3453),
    Op.ERF: (1.0627456, 1.1214),
    Op.EXP: (5.1997986, 0.9091),
    Op.LOG: (1.4133185, 0.8399),
    Op.RSQRT: (5.997335e-08, 1.4903),
    Op.SIGMOID: (-4.157294, 2.4019),
    Op.SIN: (3.6651282, 1.4924),
    Op.SINH: (1.4302648, 1.6198),
    Op.TAN: (3.9169102, 3.1882),
    Op.TANH: (8.091549, 5.8557),
}
"""The f32 of 2^-24 <= |x| < 2^8 at which a function errs most, and by how much: ``benchmarks/ulps.py`` tried all."""


@pytest.mark.parametrize("op", WORST)
def test_the_worst_arguments_of_all_are_within_the_stated_bound(op: Op) -> None:
    argument, error = WORST[op]
    args = [np.array([argument], np.float32)]
    distance, where = worst(op, DType.F32, evaluate(op, *args), args)
    assert distance <= ULP[op, DType.F32], where
    assert distance == pytest.approx(error, abs=1e-3)


def test_the_worst_arguments_are_known_for_all_functions_of_one() -> None:
    assert {*WORST, Op.POW} == EXPANDED


SPECIAL: Final = [
    0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 4.0, -7.0, 20.0, 88.72284, 88.8,
    -87.4, -103.9, -104.5, 709.78, 709.8, -745.0, -746.0, -708.5, 1e-5, 9.02, 1e10, -1e10, 2.0**24 + 1, 2.0**53, 1e300,
]  # fmt: skip


def special_values(dtype: DType) -> Array:
    info = np.finfo(dtype.numpy)
    limits = [info.max, info.tiny, info.smallest_subnormal, np.nextafter(dtype.numpy.type(1), dtype.numpy.type(0))]
    return narrow(np.array([*SPECIAL, *limits, *(-limit for limit in limits)], np.float64), dtype)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
@pytest.mark.parametrize("op", FUNCTIONS)
def test_special_values_are_those_of_the_definition(op: Op, dtype: DType) -> None:
    values = special_values(dtype)
    args = [grid.ravel() for grid in np.meshgrid(*[values] * op.info.arity)]
    actual, expected = evaluate(op, *args), apply(op, *args)
    info = np.finfo(dtype.numpy)
    with np.errstate(all="ignore"):
        close = np.abs(actual - expected) <= np.maximum(np.abs(expected) * (5 * info.eps), 2 * info.smallest_subnormal)
    same = (actual == expected) & (np.signbit(actual) == np.signbit(expected))
    right = same | (np.isnan(actual) & np.isnan(expected)) | (close & np.isfinite(expected) & (expected != 0))
    assert right.all(), [(*(arg[i] for arg in args), actual[i], expected[i]) for i in np.flatnonzero(~right)[:5]]


EXPONENTS: Final = (
    1 / 3, float(np.nextafter(np.float32(1 / 3), np.float32(1))), -1 / 3, 2.4, 1 / 2.4, 0.5, -1.5, 1.0, 2.0, 3.0, 4.0,
    -4.0, 4.000001, 5.0, -7.0, 30.5, 1e-3, 1e10, 0.0, np.inf, -np.inf, np.nan,
)  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
@pytest.mark.parametrize("exponent", [e for e in EXPONENTS if e and abs(e) < 1e6])
def test_known_exponents_are_within_the_stated_bound(exponent: float, dtype: DType) -> None:
    random = np.random.default_rng(0)
    known = float(narrow(np.array(exponent), dtype))
    most = (1000.0 if dtype is DType.F64 else 120.0) / max(1.0, abs(known))
    base = np.exp2(np.concatenate([random.uniform(-most, most, POINTS), random.uniform(-0.6, 0.6, POINTS)]))
    values = narrow(base, dtype)
    distance, where = worst(
        Op.POW, dtype, evaluate(Op.POW, values, exponent=known), [values, np.full_like(values, known)]
    )
    assert distance <= ULP[Op.POW, dtype], where


@pytest.mark.sampled(29)
@pytest.mark.parametrize("dtype", [DType.F16, DType.F32, DType.F64])
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_special_values_by_known_exponents(exponent: float, dtype: DType) -> None:
    values = special_values(dtype)
    known = narrow(np.array(exponent), dtype)
    actual = evaluate(Op.POW, values, exponent=float(known))
    expected = apply(Op.POW, values, np.broadcast_to(known, values.shape))
    info = np.finfo(dtype.numpy)
    with np.errstate(all="ignore"):
        close = np.abs(actual - expected) <= np.maximum(np.abs(expected) * (2 * info.eps), info.smallest_subnormal)
    same = (actual == expected) & (np.signbit(actual) == np.signbit(expected))
    right = same | (np.isnan(actual) & np.isnan(expected)) | (close & np.isfinite(expected) & (expected != 0))
    assert right.all(), [(values[i], actual[i], expected[i]) for i in np.flatnonzero(~right)[:5]]


@pytest.mark.sampled(0)
def test_cube_roots_are_within_the_stated_bound_of_all_binades() -> None:
    """The worst of all arguments errs by 0.5854 units in the last place, at 3.8785e36."""
    bits = np.random.default_rng(0).integers(1, 0x7F800000, 20_000).astype(np.uint32)
    values = np.concatenate(
        [bits.view(np.float32), np.array([3.8785044e36, 8.0, 2.0**-60, 2.0**126, 2.0**-149], np.float32)]
    )
    third = float(np.float32(1 / 3))
    distance, where = worst(
        Op.POW, DType.F32, evaluate(Op.POW, values, exponent=third), [values, np.full_like(values, third)]
    )
    assert distance <= 0.5855, where


@pytest.mark.sampled(2)
@pytest.mark.parametrize("op", [Op.TANH, Op.ERF, Op.SIGMOID, Op.SIN, Op.COS])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
def test_bounded_functions_never_leave_their_range(op: Op, dtype: DType) -> None:
    values = narrow(np.linspace(-12, 12, 200_001), dtype)
    assert np.abs(evaluate(op, values, lanes=1024)).max() <= 1


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
def test_halves_are_computed_in_f32(dtype: DType) -> None:
    values = narrow(np.linspace(-5, 5, 512), dtype)
    expected = cast(evaluate(Op.TANH, cast(values, DType.F32)), dtype)
    assert np.array_equal(evaluate(Op.TANH, values), expected)


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
def test_the_error_function_of_halves_keeps_their_digits(dtype: DType) -> None:
    """Of all of them: within 0.51 units in the last place; of none it is none, and of zeros the same zero."""
    values = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    with np.errstate(invalid="ignore"):  # NumPy warns of what is no number
        found, wide = evaluate(Op.ERF, values, lanes=1024).astype(np.float64), values.astype(np.float64)
    assert np.array_equal(np.isnan(found), np.isnan(wide))
    known = np.isfinite(wide)
    expected = np.array([math.erf(value) for value in wide[known]])
    form = dtype.format
    units = np.ldexp(1.0, np.frexp(expected)[1] - 1 - form.fraction_bits)
    assert np.all(np.abs(found[known] - expected) <= 0.51 * np.maximum(units, form.smallest_subnormal))
    assert np.array_equal(np.signbit(found[known]), np.signbit(wide[known]))
    assert set(found[np.isinf(wide)]) == {-1.0, 1.0}


@pytest.mark.sampled(10)
@pytest.mark.parametrize("op", FUNCTIONS)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
def test_lanes_do_not_matter(op: Op, dtype: DType) -> None:
    args = [arg[:: arg.size // 16][:16] for arg in points(op, dtype)]
    assert np.array_equal(evaluate(op, *args, lanes=1), evaluate(op, *args, lanes=16))


F32: Final = Type(DType.F32)
X, Y = Var("a", F32), Var("b", F32)


def kernel(*body: Stmt) -> KernelFunction:
    params = (Param("p", DType.F32, 8, ParamAccess.READ_WRITE), Param("x", DType.F32, 8, ParamAccess.READ))
    first = Declare(X, Subscript("x", Const(0, Type(DType.I64)), F32))
    return KernelFunction("k", params, (first, *body))


def element(number: int) -> Subscript:
    return Subscript("p", Const(number, Type(DType.I64)), F32)


def exp(expr: Expr) -> Apply:
    return Apply(Op.EXP, (expr,))


def test_a_kernel_without_functions_is_returned_itself() -> None:
    plain = kernel(Assign(element(0), X))
    assert expand_kernel(plain, frozenset()) is plain


def test_native_operations_stay() -> None:
    native = kernel(Assign(element(0), exp(X)))
    assert expand_kernel(native, frozenset({Op.EXP})) is native


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F32])
def test_rounded_operations_stay_in_f32_where_the_result_is_in_f16(dtype: DType) -> None:
    kernel = kernel_of(Op.EXP, dtype, 8, 8)
    done = expand_kernel(kernel, frozenset(), rounded=frozenset({Op.EXP}))
    left = [n for s in statements(done.body) for root in expressions(s) for n in walk(root) if _is_exponential(n)]
    assert [node.type for node in left] == ([Type(DType.F32, 8)] if dtype is DType.F16 else [])


@pytest.mark.parametrize(("limit", "stays"), [(LEAST_EXPONENT, True), (-80.0, False)])
@pytest.mark.parametrize("lanes", [1, 4])
def test_exponentials_stay_in_bf16_where_they_are_zero_below_the_normal_numbers(
    limit: float, stays: bool, lanes: int
) -> None:
    wide, narrow = Type(DType.F32, lanes), Type(DType.BF16, lanes)
    x = Var("v", wide)
    constants = [Const.of(value, F32) for value in (limit, 0.0)]
    least, none = (Broadcast(each, lanes) if lanes > 1 else each for each in constants)
    flushed = Cast(Apply(Op.COND, (Apply(Op.CMP_LT, (x, least)), none, exp(x))), narrow)
    body = (Declare(x, Subscript("p", Const(0, Type(DType.I64)), wide)), Declare(Var("w", narrow), flushed))
    done = expand_kernel(kernel(*body), frozenset(), rounded=frozenset({Op.EXP}))
    found = [n for s in statements(done.body) for root in expressions(s) for n in walk(root)]
    assert (Cast(exp(x), narrow) in found) is stays
    assert any(isinstance(node, Apply) and node.op is Op.COND for node in found) is not stays


def _is_exponential(node: Expr) -> bool:
    return isinstance(node, Apply) and node.op is Op.EXP


def test_nested_functions_and_every_place_of_an_expression() -> None:
    i = Var("i", Type(DType.I64))
    offset = Cast(exp(Const(0.0, F32)), Type(DType.I64))
    condition = Apply(Op.CMP_LT, (exp(X), Const(100.0, F32)))
    body = (
        Declare(Y, exp(Apply(Op.SIN, (Apply(Op.ADD, (X, X)),)))),
        For(
            i,
            Const(0, i.type),
            offset,
            1,
            (If(condition, (Assign(Subscript("p", offset, F32), exp(Y)),), (Assign(Y, exp(Y)),)),),
        ),
        Assign(element(2), exp(exp(Y))),
        Assign(element(3), Apply(Op.POW, (Y, Const(2.0, F32)))),
    )
    expanded = expand_kernel(kernel(*body), frozenset())
    used = {node.op for stmt in statements(expanded.body) for root in expressions(stmt) for node in walk(root)
            if isinstance(node, Apply)}  # fmt: skip
    assert not used & EXPANDED
    p, x = np.zeros(8, np.float32), np.full(8, 0.25, np.float32)
    run(expanded, [p, x])
    y = np.exp(np.sin(0.5))
    assert p[1:4] == pytest.approx([np.exp(y), np.exp(np.exp(y)), y * y], rel=1e-6)


def test_equal_functions_of_a_statement_are_computed_once() -> None:
    once = expand_kernel(kernel(Assign(element(0), exp(X))), frozenset())
    twice = expand_kernel(kernel(Assign(element(0), Apply(Op.ADD, (exp(X), exp(X))))), frozenset())
    assert len(once.body) == len(twice.body)


def test_names_in_use_are_avoided() -> None:
    clash = Var("exp_x", F32)
    body = (Declare(clash, X), Assign(element(0), Apply(Op.ADD, (exp(clash), clash))))
    p = np.zeros(8, np.float32)
    run(expand_kernel(kernel(*body), frozenset()), [p, np.ones(8, np.float32)])
    assert p[0] == pytest.approx(np.e + 1, rel=1e-6)


def test_gathers_are_read_before_they_are_expanded() -> None:
    kind = Type(DType.F32, 4)
    lanes = Subscript("x", Ramp(Const(0, Type(DType.I64)), 2, 4), kind)
    source = kernel(Assign(Subscript("p", Const(0, Type(DType.I64)), kind), exp(lanes)))
    p = np.zeros(8, np.float32)
    run(attrs.evolve(expand_kernel(source, frozenset()), name="g"), [p, np.arange(8, dtype=np.float32)])
    assert p[:4] == pytest.approx(np.exp([0, 2, 4, 6]), rel=1e-6)
