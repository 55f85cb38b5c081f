"""The number system of checks: a field where floats depend on arguments, and plain numbers elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from tileir.core.dtype import DType
from tileir.core.numbers import arithmetic
from tileir.core.ops import Aggregation, Op
from tileir_testing.checking import fields
from tileir_testing.checking.check import EXACT, Array, differing, shown

F32 = DType.F32


def some(count: int, seed: int = 0) -> Array:
    return EXACT.random(F32, (count,), np.random.default_rng(seed))


def known(value: float, dtype: DType = F32) -> Array:
    return EXACT.constant(value, dtype)


def run(op: Op, *args: Array, dtype: DType = F32) -> Array:
    return EXACT.apply(op, dtype, *args)


def same(left: Array, right: Array) -> bool:
    return not differing(*np.broadcast_arrays(left, right)).any()


def test_the_moduli_fit_each_other() -> None:
    assert (fields.P - 1) % fields.Q == 0
    assert pow(fields.GENERATOR, fields.Q, fields.P) == 1
    assert fields.P * fields.SHIFT < 2**53


def test_sums_and_products_do_not_depend_on_their_order() -> None:
    a, b, c = (some(50, seed) for seed in range(3))
    assert same(run(Op.ADD, run(Op.ADD, a, b), c), run(Op.ADD, a, run(Op.ADD, b, c)))
    assert same(run(Op.MUL, run(Op.ADD, a, b), c), run(Op.FMA, a, c, run(Op.MUL, b, c)))
    assert same(run(Op.DIV, run(Op.MUL, a, b), b), a)
    assert not same(run(Op.SUB, a, b), run(Op.SUB, b, a))


def test_rescaled_exponentials() -> None:
    a, b, c = (some(50, seed) for seed in range(3))

    def exp(left: Array, right: Array) -> Array:
        return run(Op.EXP, run(Op.SUB, left, right))

    assert same(run(Op.MUL, exp(a, b), exp(b, c)), exp(a, c))
    assert same(run(Op.EXP, run(Op.SUB, known(-np.inf), a)), known(0.0))
    assert same(run(Op.SIGMOID, a), run(Op.DIV, known(1.0), run(Op.ADD, known(1.0), run(Op.EXP, run(Op.NEG, a)))))


def test_order_agrees_with_negation() -> None:
    a, b = some(50), some(50, 1)
    assert same(run(Op.NEG, run(Op.MAX, a, b)), run(Op.MIN, run(Op.NEG, a), run(Op.NEG, b)))
    assert same(run(Op.ABS, a), run(Op.ABS, run(Op.NEG, a)))
    assert same(run(Op.MAX, a, known(-np.inf)), a)
    assert same(run(Op.MIN, known(np.inf), a), a)
    less = EXACT.apply(Op.CMP_LT, DType.BOOL, a, b)
    assert np.array_equal(less, EXACT.apply(Op.CMP_GT, DType.BOOL, b, a))


@pytest.mark.parametrize("value", [0.1, 1 / 3, 0.5, 2.0**-30, 7.0, 0.044715, -12.25])
def test_a_literal_is_the_same_in_all_dtypes(value: float) -> None:
    assert same(run(Op.MUL, known(value), some(4)), run(Op.MUL, known(value, DType.F64), some(4)))


def test_what_is_known_is_folded_as_the_compiler_does() -> None:
    """A constant that the compiler computed and the steps to it meet an argument as the same number."""
    folded = known(float(arithmetic.apply(Op.EXP, np.asarray(2.0, np.float32))))
    assert same(run(Op.MUL, run(Op.EXP, known(2.0)), some(4)), run(Op.MUL, folded, some(4)))
    assert same(run(Op.MUL, run(Op.MUL, known(0.1), known(3.0)), some(4)), run(Op.MUL, known(0.3), some(4)))


def test_zero_times_anything_is_the_known_zero() -> None:
    assert same(run(Op.TANH, run(Op.MUL, some(4), known(0.0))), known(0.0))


def test_undefined_memory_shows_and_spreads() -> None:
    nan = known(float("nan"))
    assert differing(some(1), run(Op.ADD, some(1), nan)).all()
    assert differing(some(1), run(Op.MAX, some(1), nan)).all()


@pytest.mark.parametrize("aggregation", [Aggregation.SUM, Aggregation.PROD, Aggregation.MAX, Aggregation.MIN])
def test_merging_many_at_one_place_is_merging_one_after_the_other(aggregation: Aggregation) -> None:
    values, places = some(40), np.random.default_rng(1).integers(0, 5, 40)
    start = some(5, 3)
    out = start.copy()
    EXACT.merge_at(aggregation, F32, out, places, values)
    assert aggregation.op is not None
    for place, value in zip(places, values, strict=True):
        start[place] = EXACT.apply(aggregation.op, F32, start[place], value)
    assert same(out, start)


def test_conversions() -> None:
    a = some(20)
    assert EXACT.cast(a, DType.F16) is a
    assert np.array_equal(EXACT.cast(a, DType.I32), EXACT.cast(EXACT.cast(a, DType.F64), DType.I32))
    assert EXACT.cast(a, DType.BOOL).all()
    assert EXACT.cast(known(2.75), DType.I8) == 2
    assert same(EXACT.cast(np.arange(3, dtype=np.int32), F32), np.array([known(0), known(1), known(2)]))


def test_powers() -> None:
    a = some(9)
    assert same(run(Op.POW, a, known(2.0)), run(Op.MUL, a, a))
    assert same(run(Op.POW, a, known(-1.0)), run(Op.DIV, known(1.0), a))
    assert not same(run(Op.POW, a, known(0.5)), a)


def test_a_product_of_matrices() -> None:
    left, right = some(6).reshape(2, 3), some(6, 1).reshape(3, 2)
    first = EXACT.product(left, right, DType.F32)[1, 0]
    terms = run(Op.MUL, left[1], right[:, 0])
    assert same(first, run(Op.ADD, run(Op.ADD, terms[0], terms[2]), terms[1]))


def test_numbers_as_messages_show_them() -> None:
    assert shown(known(0.25).item()) == "0.25"
    assert shown(known(float("nan")).item()) == "undefined"
    assert shown(some(1)[0].item()).endswith(f"(mod {fields.P})")
    assert shown(7) == "7"
