"""The area of all operations: each has a row, oracles know units and slopes, and what is wrong is found."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from fuzz import operations_wide
from fuzz.recording import Recorded
from fuzz.wide.closeness import compare, sensitivity, unit, wide
from fuzz.wide.row import Row
from fuzz.wide.slopes import slope
from fuzz.wide.table import NONE, ROWS
from tileir import ops
from tileir.core.dtype import DType

LONG = np.longdouble


def test_every_operation_has_a_row() -> None:
    assert {*ROWS} | {*NONE} == {*ops.__all__}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ROWS)
def test_every_row_makes_cases_that_an_oracle_takes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations_wide, "ROWS", {name: ROWS[name]})
    for number in range(12):
        case = operations_wide.make(Recorded.seeded(f"rows/{number}"))
        for flavour, seed in case["sets"]:
            inputs = [wide(a) for a in operations_wide._arrays(case, flavour, seed).values()]
            try:
                operations_wide._oracle(ROWS[name], case)(inputs)
            except ValueError:
                continue  # it refuses, and so must we


def test_units_in_the_last_place() -> None:
    values = np.array([1, 1.5, 2, -3, 0, 1e-9], LONG)
    np.testing.assert_array_equal(unit(DType.F16, values), [2**-10, 2**-10, 2**-9, 2**-9, 2**-24, 2**-24])
    assert unit(DType.BF16, np.array([1.0], LONG)) == 2**-7


@pytest.mark.parametrize(
    ("found", "wanted", "right"),
    [
        (np.float16(1), LONG(1 + 2**-11), True),
        (np.float16(1), LONG(1 + 2**-10) + LONG(2**-20), False),
        (np.float16(np.inf), LONG(65520), True),
        (np.float16(np.inf), LONG(60000), False),
        (np.float16(-np.inf), LONG(65520), False),
        (np.float32(np.nan), LONG(0), False),
        (np.float32(np.nan), LONG(np.nan), True),
        (np.int8(-128), np.int64(128), True),
        (np.int32(3), np.int64(4), False),
    ],
)
def test_what_is_close(found: Any, wanted: Any, right: bool) -> None:
    arguments = "result", np.asarray(found), np.asarray(wanted)
    if right:
        compare(*arguments, units=4, terms=0.0, exact=False)
    else:
        with pytest.raises(AssertionError, match="result is"):
            compare(*arguments, units=4, terms=0.0, exact=False)


@pytest.mark.parametrize(
    ("found", "wanted", "right"),
    [
        (np.inf, 3e38, True),
        (np.nan, 3e38, True),
        (np.nan, -np.inf, True),
        (np.inf, -np.inf, False),
        (2e38, 3e38, False),
        (2e38, np.inf, False),
        (np.inf, np.nan, False),
    ],
)
def test_sums_that_overflow_are_infinite_or_nan_and_no_other_number(found: float, wanted: float, right: bool) -> None:
    arguments = "result", np.array([found], np.float32), np.array([wanted], LONG)
    with nullcontext() if right else pytest.raises(AssertionError, match="result is"):
        compare(*arguments, units=4, terms=0.0, exact=False, overflows=np.array([True]))


def test_some_elements_have_to_be_met_exactly() -> None:
    found, wanted = np.array([1, 1], np.float32), np.array([1, 1 + 2**-23], LONG)
    compare("result", found, wanted, units=4, terms=0.0, exact=np.array([True, False]))
    with pytest.raises(AssertionError, match="result is"):
        compare("result", found, wanted, units=4, terms=0.0, exact=np.array([False, True]))


def test_steepness_is_that_of_denormal_weights_as_well() -> None:
    weight = np.array([LONG(2) ** -149], LONG)
    found = slope(lambda v: [3 * v[0]], [np.ones(1, LONG)], 0, [weight], pointwise=True)
    np.testing.assert_allclose(found.steepness.astype(float), [3])


def test_closeness_is_free_only_where_both_sides_are_rounded_to_one_number() -> None:
    holds = ROWS["isclose"].holds
    assert holds is not None
    one, tiny = np.ones(1, LONG), np.full(1, 5 * LONG(2) ** -149)
    for answer in (True, False):  # in f32 an eighth of 6 denormals is 1
        holds([np.array([answer])], tiny, tiny + LONG(2) ** -149, rtol=0.125, atol=0.0)
    with pytest.raises(AssertionError, match="closeness is"):
        holds([np.array([False])], one, one + 1, rtol=0.0, atol=1.0)  # equal, and exact
    with pytest.raises(AssertionError, match="closeness is"):
        holds([np.array([True])], one, one + 1, rtol=0.0, atol=1 - 2.0**-20)


@pytest.mark.parametrize("manner", ["lower", "higher", "nearest"])
def test_quantiles_that_are_elements_are_met_exactly(manner: str) -> None:
    holds = ROWS["quantile"].holds
    assert holds is not None
    x = np.array([1.0, 2.0], LONG)
    right = LONG(2 if manner == "higher" else 1)
    holds([np.asarray(right, np.float32)], x, 0.5, 0, manner)
    with pytest.raises(AssertionError, match="it is"):
        holds([np.nextafter(np.float32(right), np.float32(9))], x, 0.5, 0, manner)


def test_terms_that_cancel_are_allowed_for() -> None:
    (change,) = sensitivity(lambda x: [x[0] - 1], [np.array([1.0, 1.0 + 2**-20], LONG)])
    assert (change >= 1).all()


def test_differences_of_two_elements_change_in_one_of_many_trials() -> None:
    near = np.array([1.0, 1.0 + 2**-20], LONG)
    (change,) = sensitivity(lambda x: [x[0][:1] - x[0][1:]], [near], trials=12)
    assert (change >= 1).all()


def test_infinities_have_no_terms_and_warn_of_nothing() -> None:
    x = np.array([np.inf, -np.inf, np.nan, 1.0], LONG)
    with np.errstate(all="raise"):
        (change,) = sensitivity(lambda v: [v[0] + 1], [x])
    np.testing.assert_array_equal(change[:3], 0)
    assert 1 <= change[3] <= 4


def test_slopes_of_products_and_kinks() -> None:
    x = np.array([0.5, 0.0, -2.0], LONG)
    square = slope(lambda v: [v[0] ** 3], [x], 0, [np.array([1.0, 1.0, 0.5], LONG)], pointwise=True)
    np.testing.assert_allclose(square.value.astype(float), [0.75, 0, 6], atol=1e-9)
    whole = slope(lambda v: [np.abs(v[0])], [x], 0, [np.ones(3, LONG)], pointwise=False)
    np.testing.assert_array_equal(whole.smooth, [True, False, True])
    np.testing.assert_allclose(whole.value.astype(float)[[0, 2]], [1, -1], atol=1e-9)


@pytest.mark.parametrize("function", [np.sqrt, np.arcsin, np.log, lambda x: np.sqrt(np.abs(x))])
def test_infinite_slopes_have_no_multiple_by_zero(function: Any) -> None:
    ends = np.array([1.0 if function is np.arcsin else 0.0, 0.25], LONG)
    zero = np.zeros(2, LONG)
    with np.errstate(all="ignore"):
        found = slope(lambda v: [function(v[0])], [ends], 0, [zero], pointwise=True)
    np.testing.assert_array_equal(found.smooth, [False, True])
    kink = slope(lambda v: [np.abs(v[0])], [np.zeros(2, LONG)], 0, [zero], pointwise=True)
    np.testing.assert_array_equal(kink.smooth, [True, True])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["sum", "sort", "tanh", "take"])
def test_a_wrong_operation_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row = ROWS[name]

    def wrong(*arguments: Any, **options: Any) -> Any:
        return row.oracle(*arguments, **options) + 1

    monkeypatch.setattr(operations_wide, "ROWS", {name: Row(name, row.draw, wrong, row.dtypes)})
    cases = [operations_wide.make(Recorded.seeded(f"wrong/{number}")) for number in range(6)]
    faults = 0
    for case in cases:
        try:
            operations_wide.check(case)
        except (AssertionError, TypeError):  # of bools nothing is subtracted
            faults += 1
    assert faults >= 3
