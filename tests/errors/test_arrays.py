"""Wrong arrays at the public functions: each gives an error with a code that says what to change, or works."""

from __future__ import annotations

import array as stdlib_array
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

import tileir

if TYPE_CHECKING:
    from collections.abc import Callable

PRODUCT = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
INCREMENT = "function (A) -> (O) { O = A + 1; }"
BOTH = "function (A, B) -> (S, D) { S = A + B; D = A - B; }"
MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4)


def by_jit(text: str, *values: Any) -> Any:
    return tileir.jit(text)(*values)


def by_evaluation(text: str, *values: Any) -> Any:
    return tileir.evaluate(text, values)


def by_name(text: str, *values: Any) -> Any:
    names = [tensor.name for tensor in tileir.parse(text).inputs]
    return tileir.jit(text)(**dict(zip(names, values, strict=True)))


def compiled(text: str, *values: Any) -> Any:
    return tileir.compile(text, values)(*values)


each_way = pytest.mark.parametrize("run", [by_jit, by_name, by_evaluation, compiled])


def codes(run: Callable[[], object]) -> list[str]:
    with pytest.raises(tileir.TileError) as caught:
        run()
    assert all(d.message for d in caught.value.diagnostics)
    return [d.code for d in caught.value.diagnostics]


@each_way
@pytest.mark.parametrize(
    "value",
    [
        None,
        [1.0, 2.0],
        {"a": 1},
        "text",
        b"bytes",
        1j,
        1 << 70,
        np.float32,
        np.array([None, 1]),
        np.array(["a", "b"]),
        np.array([b"a"]),
        np.str_("a"),
        np.zeros(3, np.complex64),
        np.zeros(3, np.longdouble),
        np.zeros(2, "M8[D]"),
        np.zeros(2, "m8[s]"),
        np.zeros(2, [("a", "f4")]),
        np.zeros(2, [("a", "f4")]).view(np.recarray),
        np.ma.masked_array(MATRIX, MATRIX > 5),
        np.ma.masked,
    ],
    ids=lambda value: f"{type(value).__name__}-{getattr(value, 'dtype', '')}",
)
def test_what_is_no_array_of_numbers_is_refused(run: Callable[..., Any], value: object) -> None:
    assert codes(lambda: run(INCREMENT, value)) == ["TIL702"]


@pytest.mark.sampled(18)
@each_way
@pytest.mark.parametrize(
    "value",
    [
        MATRIX.T,
        MATRIX[::-1, ::2],
        MATRIX.astype(">f4"),
        np.broadcast_to(np.float32(2), (5, 3)),
        np.zeros((0, 4), np.float32),
        np.zeros((3, 0), np.float32),
        np.zeros((1,) * 32, np.float32),
        np.ma.masked_array(MATRIX),
        MATRIX.view(np.matrix),
        np.frombuffer(bytes(25), np.uint8)[1:].view(np.float32),
        np.float32(3),
        np.asarray(2.5, np.float64),
        memoryview(b"bytes"),
        MATRIX.data[::-1],
        stdlib_array.array("d", [1, 2]),
    ],
    ids=lambda value: f"{type(value).__name__}-{np.asarray(value).dtype}-{np.asarray(value).shape[:3]}",
)
def test_unusual_arrays_work(run: Callable[..., Any], value: Any) -> None:
    plain = np.array(value, np.asarray(value).dtype.newbyteorder("="))
    result = run(INCREMENT, value)
    assert result.dtype == plain.dtype
    np.testing.assert_array_equal(result, plain + plain.dtype.type(1))


@each_way
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((MATRIX, MATRIX), ["TIL304"]),
        ((MATRIX, MATRIX[0]), ["TIL305"]),
        ((MATRIX[0], MATRIX.T[None]), ["TIL305", "TIL305"]),
        ((MATRIX, np.float32(1)), ["TIL305"]),
    ],
    ids=["dims", "rank", "both ranks", "number"],
)
def test_arrays_that_do_not_go_together(run: Callable[..., Any], values: Any, expected: list[str]) -> None:
    assert codes(lambda: run(PRODUCT, *values)) == expected


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_number_of_arrays(count: int) -> None:
    values = [MATRIX] * count
    expected = ["TIL705"] * (1 if count else 2)
    assert codes(lambda: tileir.jit(BOTH)(*values)) == expected
    assert codes(lambda: tileir.evaluate(BOTH, values)) == expected
    assert codes(lambda: tileir.compile(BOTH, values)) == expected
    assert codes(lambda: tileir.compile(BOTH, (MATRIX, MATRIX))(*values)) == expected


@pytest.mark.parametrize(
    "named",
    [{"A": MATRIX, "C": MATRIX}, {"A": MATRIX}, {"A": MATRIX, "B": MATRIX, "C": MATRIX}],
    ids=["other name", "missing", "too many"],
)
def test_wrong_names(named: dict[str, Any]) -> None:
    assert set(codes(lambda: tileir.jit(BOTH)(**named))) == {"TIL705"}
    assert set(codes(lambda: tileir.evaluate(BOTH, named))) == {"TIL705"}
    assert set(codes(lambda: tileir.compile(BOTH, named))) == {"TIL705"}


@pytest.mark.parametrize(
    "shape",
    [(float("nan"), 2), (2.0, 3), (-1, 2), (True, 3), ("2",), (None,), (10**30,), (1 << 40, 1 << 40), (1 << 61,)],
    ids=str,
)
def test_impossible_shapes(shape: tuple[Any, ...]) -> None:
    found = codes(lambda: tileir.compile(INCREMENT, [shape]))
    assert set(found) <= {"TIL405", "TIL702"}


@pytest.mark.parametrize(
    ("out", "expected"),
    [
        (np.zeros((4, 3), np.float32), "TIL701"),
        (np.zeros(12, np.float32), "TIL701"),
        (np.zeros((0,), np.float32), "TIL701"),
        (np.zeros((3, 4), np.float64), "TIL701"),
        (np.zeros((3, 4), np.complex64), "TIL701"),
        (np.zeros((3, 4), object), "TIL701"),
        (np.zeros((3, 4), ">f4"), "TIL701"),
        (np.zeros((3, 4), np.float32, order="F"), "TIL703"),
        (np.zeros((3, 8), np.float32)[:, ::2], "TIL703"),
        (np.broadcast_to(np.float32(0), (3, 4)), "TIL703"),
        (np.ma.masked_array(np.zeros((3, 4), np.float32), MATRIX > 5), "TIL703"),
        ([[0.0] * 4] * 3, "TIL705"),
        ([None], "TIL703"),
        ("text", "TIL703"),
        (3, "TIL703"),
        ([], "TIL705"),
        ([MATRIX.copy(), MATRIX.copy()], "TIL705"),
        ({}, "TIL705"),
        ({"P": MATRIX.copy()}, "TIL705"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value,
)
def test_a_wrong_out_is_refused_and_left_alone(out: Any, expected: str) -> None:
    before = np.array(out) if isinstance(out, np.ndarray) else None
    assert expected in codes(lambda: tileir.jit(INCREMENT)(MATRIX, out=out))
    if before is not None:
        np.testing.assert_array_equal(np.array(out), before)


def test_outs_may_touch_but_not_overlap() -> None:
    memory = np.zeros(8, np.float32)
    both = tileir.jit(BOTH)
    assert codes(lambda: both(MATRIX[0], MATRIX[1], out=(memory[:4], memory[3:7]))) == ["TIL704"]
    assert codes(lambda: both(MATRIX[0], MATRIX[1], out={"S": memory[:4], "D": memory[:4]})) == ["TIL704"]
    both(MATRIX[0], MATRIX[1], out=(memory[:4], memory[4:]))
    np.testing.assert_array_equal(memory, [*(MATRIX[0] + MATRIX[1]), *(MATRIX[0] - MATRIX[1])])


@pytest.mark.parametrize("start", range(4))
def test_an_out_that_overlaps_an_input_gets_the_right_result(start: int) -> None:
    memory = np.arange(16, dtype=np.float32)
    source, target = memory[:12].reshape(3, 4), memory[start : start + 12].reshape(4, 3)
    expected = source.T.copy()
    transpose = tileir.jit("function (A[M, N]) -> (O) { O[j, i : N, M] = =(A[i, j]); }")
    assert transpose(source, out=target) is target
    np.testing.assert_array_equal(target, expected)


class Scalar:
    """A number of Arrow."""

    def as_py(self) -> float:
        """Return it."""
        return 1.0


class Sparse:
    """A matrix of SciPy that is mostly zero."""

    def toarray(self) -> Any:
        """Return all of it."""
        return MATRIX


class Lacking:
    """An array of Arrow with nulls, which NumPy would see as NaN."""

    null_count = 1

    def fill_null(self, value: float) -> Any:
        """Return it with a number in the place of each."""
        return np.full(3, value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return it for NumPy."""
        return np.full(3, np.nan)


class Bits:
    """Booleans of Arrow, eight to a byte: DLPack cannot describe them."""

    def __dlpack__(self, **_: Any) -> Any:
        """Refuse."""
        raise TypeError("Bit-packed boolean data type not supported by DLPack.")

    def __dlpack_device__(self) -> Any:
        """Say that they are on the host."""
        return 1, 0

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return bytes."""
        return np.array([True, False])


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        ([1.0], r"numpy\.asarray"),
        (b"abc", r"numpy\.frombuffer"),
        (1j, "its real and its imaginary part"),
        (Fraction(1, 2), r"pass float\(\.\.\.\)"),
        (Decimal(1), r"pass float\(\.\.\.\)"),
        (Scalar(), r"what its method as_py\(\) returns"),
        (Sparse(), r"make it dense first, by its method toarray\(\)"),
        (Lacking(), r"missing elements; fill them first, with fill_null"),
        (np.ma.masked_array([1.0], [True]), r"missing elements; fill them first, with filled"),
        ((each for each in (1.0, 2.0)), r"numpy\.array\(list\(\.\.\.\)\)"),
        (None, "of type NoneType; pass an array"),
        ("text", "of type str; pass an array"),
        (np.ones(1, ml_dtypes.float8_e4m3fnuz), "elements of type float8_e4m3fnuz; convert it"),
    ],
    ids=lambda each: type(each).__name__ if not isinstance(each, str) else each[:12],
)
def test_refusals_say_what_fits(value: Any, advice: str) -> None:
    with pytest.raises(tileir.ArgumentError, match=advice) as caught:
        tileir.jit(INCREMENT)(value)
    assert [d.code for d in caught.value.diagnostics] == ["TIL702"]


def test_what_dlpack_cannot_describe_is_converted_and_never_written_to() -> None:
    same = tileir.jit("function (A) -> (B) { B = A; }")
    np.testing.assert_array_equal(same(Bits()), [True, False])
    with pytest.raises(tileir.ArgumentError, match=r"not Bits: .*Bit-packed") as caught:
        same(Bits(), out=Bits())
    assert [d.code for d in caught.value.diagnostics] == ["TIL703"]


def test_outputs_of_another_type_are_not_to_be_converted() -> None:
    with pytest.raises(tileir.ArgumentError, match=r"pass one that numpy\.empty\(\.\.\., 'float32'\) makes"):
        tileir.jit(INCREMENT)(MATRIX, out=MATRIX.astype(">f4"))
