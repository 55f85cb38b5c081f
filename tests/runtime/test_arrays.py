from __future__ import annotations

import array as stdlib_array
from typing import Any

import numpy as np
import pytest

from tileir.core.dtype import DType
from tileir.core.errors import ArgumentError
from tileir.runtime.arrays import (
    TensorSpec,
    check_inputs,
    check_outputs,
    fit_as_they_are,
    formats_of,
    to_array,
    unaliased,
)

MATRIX = TensorSpec("A", DType.F32, (2, 3))
VECTOR = TensorSpec("v", DType.I8, (4,))
NUMBER = TensorSpec("n", DType.F64, ())


class Interfaced:
    """Memory behind ``__array_interface__`` alone."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.array.__array_interface__


class Exporter:
    """Memory behind DLPack alone."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class Elsewhere(Exporter):
    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("the memory is on a graphics card")


def codes(error: pytest.ExceptionInfo[ArgumentError]) -> list[str]:
    return [diagnostic.code for diagnostic in error.value.diagnostics]


def ones(shape: tuple[int, ...] = (2, 3), dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.ones(shape, dtype)


def test_a_fitting_array_is_passed_on_itself() -> None:
    array = ones()
    assert check_inputs([MATRIX], [array])[0] is array or np.shares_memory(check_inputs([MATRIX], [array])[0], array)


@pytest.mark.parametrize("wrapper", [Interfaced, Exporter, memoryview])
def test_memory_of_others_is_shared(wrapper: Any) -> None:
    array = ones()
    assert np.shares_memory(check_inputs([MATRIX], [wrapper(array)])[0], array)


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
        np.arange(12, dtype=np.float32).reshape(2, 6)[:, ::2],
        np.arange(6, dtype=np.float32).reshape(2, 3)[::-1, ::-1],
        np.broadcast_to(np.float32(7), (2, 3)),
        np.arange(6).reshape(2, 3).astype(">f4"),
        np.frombuffer(b"\0" + bytes(range(24)), np.uint8)[1:].view(np.float32).reshape(2, 3),
    ],
    ids=["fortran", "stepped", "reversed", "broadcast", "big-endian", "misaligned"],
)
def test_unusual_inputs_work(array: np.ndarray[Any, Any]) -> None:
    (checked,) = check_inputs([MATRIX], [array])
    assert checked.flags.c_contiguous
    assert checked.dtype == np.float32
    np.testing.assert_array_equal(checked, array.astype(np.float32))


def test_numbers_are_converted_to_the_tensors_type() -> None:
    (checked,) = check_inputs([NUMBER], [0.1])
    assert checked.shape == ()
    assert checked[()] == 0.1
    assert check_inputs([TensorSpec("n", DType.BF16, ())], [3])[0].dtype == DType.BF16.numpy
    assert check_inputs([TensorSpec("n", DType.F64, ())], [np.float64(0.5)])[0][()] == 0.5


@pytest.mark.parametrize(("dtype", "value"), [(DType.I8, 300), (DType.I32, 0.5), (DType.F16, 1e6), (DType.BOOL, 2)])
def test_numbers_that_do_not_fit_are_refused(dtype: DType, value: float) -> None:
    with pytest.raises(ArgumentError) as error:
        check_inputs([TensorSpec("n", dtype, ())], [value])
    assert codes(error) == ["TIL701"]


def test_empty_arrays_work() -> None:
    (checked,) = check_inputs([TensorSpec("A", DType.F32, (0, 3))], [ones((0, 3))])
    assert checked.shape == (0, 3)


def test_arrays_that_fit_as_they_are_need_nothing() -> None:
    formats = formats_of([TensorSpec("A", DType.F32, (2, 3)), TensorSpec("n", DType.I64, ())])
    one = np.asarray(1)
    assert fit_as_they_are([ones((2, 3)), one], formats)
    assert fit_as_they_are((ones((2, 3)), one), formats)
    for other in (ones((3, 2)), ones((2, 3)).astype(np.float64), ones((2, 6))[:, ::2], [[1.0] * 3] * 2, None):
        assert not fit_as_they_are([other, one], formats)
    assert not fit_as_they_are([ones((2, 3)).astype(">f4"), one], formats)
    assert not fit_as_they_are([np.ma.masked_array(ones((2, 3))), one], formats)
    assert not fit_as_they_are([ones((2, 3))], formats)
    assert not fit_as_they_are([ones((2, 3)), one, one], formats)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (ones((3, 2)), r"has shape \(3, 2\); it must be \(2, 3\)"),
        (ones((6,)), "has 1 dimensions"),
        (ones(dtype=np.float64), "elements of type f64, where f32 is needed"),
        (ones(dtype=np.int32), "elements of type i32"),
        (np.float32(1), "has 0 dimensions"),
    ],
)
def test_misfits_say_what_to_change(value: object, text: str) -> None:
    with pytest.raises(ArgumentError, match=text) as error:
        check_inputs([MATRIX], [value])
    assert codes(error) == ["TIL701"]


@pytest.mark.parametrize(
    "value",
    [
        [[1.0]],
        None,
        "text",
        1j,
        ones(dtype=np.complex64),
        np.array([object()]),
        np.array(["a"]),
        np.zeros(2, [("a", "f4")]),
        np.ma.masked,
        np.ma.masked_array(ones(), np.eye(2, 3, dtype=bool)),
        b"text",
        1 << 70,
        Elsewhere(ones()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_array_is_refused(value: object) -> None:
    with pytest.raises(ArgumentError) as error:
        to_array("A", value)
    assert codes(error) == ["TIL702"]


class Refusing(Exporter):
    """Memory whose owner, or NumPy, refuses to share it."""

    def __init__(self, device: tuple[int, int], reason: Exception) -> None:
        super().__init__(ones())
        self.device = device
        self.reason = reason

    def __dlpack__(self, **options: Any) -> Any:
        raise self.reason

    def __dlpack_device__(self) -> Any:
        return self.device


@pytest.mark.parametrize(
    ("value", "ending"),
    [
        (
            Refusing((2, 0), BufferError("Unsupported device")),
            "(Unsupported device); move it to the host's memory first",
        ),
        (Refusing((1, 0), RuntimeError("it has gradients, use detach()")), "(it has gradients, use detach())"),
        (Refusing((1, 0), BufferError("it has nulls")), "(it has nulls)"),
        (Refusing((1, 0), BufferError("Unsupported dtype in DLTensor.")), "f8e5m2, f16, bf16, f32, f64"),
        (Refusing((1, 0), ZeroDivisionError("oops")), "Refusing cannot be shared with NumPy (oops)"),
    ],
)
def test_advice_on_refused_memory_fits_the_reason(value: object, ending: str) -> None:
    with pytest.raises(ArgumentError) as error:
        to_array("A", value)
    assert codes(error) == ["TIL702"]
    assert error.value.diagnostics[0].message.endswith(ending)


def test_buffers_of_python_are_arrays() -> None:
    assert to_array("A", stdlib_array.array("h", [1, 2])).tolist() == [1, 2]
    assert to_array("A", bytearray(b"ab")).dtype == np.uint8


class Framed:
    """A table that makes an array of itself where it is asked to."""

    def __array__(self, *_: object, **__: object) -> Any:
        return ones()


def test_what_makes_an_array_of_itself_is_one() -> None:
    assert to_array("A", Framed()).shape == (2, 3)


def test_all_faults_are_reported_at_once() -> None:
    with pytest.raises(ArgumentError) as error:
        check_inputs([MATRIX, VECTOR, NUMBER], [ones((1,), np.int8), None, 1.0])
    assert codes(error) == ["TIL701", "TIL701", "TIL702"]


def test_a_wrong_number_of_arrays() -> None:
    for check in (check_inputs, check_outputs):
        with pytest.raises(ArgumentError, match=r"0 .* were passed; there are 2: A, v") as error:
            check([MATRIX, VECTOR], [])
        assert codes(error) == ["TIL705"]


def read_only() -> np.ndarray[Any, Any]:
    array = ones()
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (read_only(), "TIL703"),
        (np.asfortranarray(ones()), "TIL703"),
        (ones((2, 6))[:, ::2], "TIL703"),
        (np.zeros(25, np.uint8)[1:].view(np.float32).reshape(2, 3), "TIL703"),
        (np.ma.masked_array(ones(), np.eye(2, 3, dtype=bool)), "TIL703"),
        ([[1.0]], "TIL703"),
        (ones((3, 2)), "TIL701"),
        (ones(dtype=np.float64), "TIL701"),
        (ones().astype(">f4"), "TIL701"),
    ],
)
def test_outputs_that_cannot_be_written_in_place(value: object, code: str) -> None:
    with pytest.raises(ArgumentError) as error:
        check_outputs([MATRIX], [value])
    assert codes(error) == [code]


def test_outputs_must_not_overlap() -> None:
    memory = np.zeros(9, np.float32)
    parts = [memory[:6].reshape(2, 3), memory[3:].reshape(2, 3)]
    with pytest.raises(ArgumentError) as error:
        check_outputs([MATRIX, TensorSpec("B", DType.F32, (2, 3))], parts)
    assert codes(error) == ["TIL704"]


def test_inputs_that_share_memory_with_an_output_are_copied() -> None:
    shared, alone = ones(), ones()
    first, second = unaliased([shared, alone], [shared])
    assert not np.shares_memory(first, shared)
    assert second is alone


def test_a_scalar_output_is_an_array_without_axes() -> None:
    out = np.zeros((), np.float64)
    assert check_outputs([NUMBER], [out])[0] is out


def test_python_numbers_choose_a_type() -> None:
    assert to_array("n", 1).dtype == np.int32
    assert to_array("n", 1 << 40).dtype == np.int64
    assert to_array("n", 0.5).dtype == np.float32
    assert to_array("n", True).dtype == np.bool_


def test_structures_are_refused_with_the_name_of_a_field() -> None:
    pairs: Any = np.zeros(3, [("x", "f4"), ("y", "i4")])
    for value in (pairs, memoryview(pairs)):
        with pytest.raises(ArgumentError, match=r"structures of x, y as elements; .* such as array\['x'\]"):
            to_array("A", value)
    assert to_array("A", pairs["x"]).dtype == np.float32
