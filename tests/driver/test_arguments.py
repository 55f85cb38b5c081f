from __future__ import annotations

import numpy as np
import pytest

from tileir.core.dtype import DType
from tileir.core.errors import ArgumentError
from tileir.driver.arguments import bind, check_options, tensor_type, tensor_types
from tileir.runtime.interface import Options
from tileir.typed.ir import TensorType


def messages(caught: pytest.ExceptionInfo[ArgumentError]) -> list[tuple[str, str]]:
    return [(d.code, d.message) for d in caught.value.diagnostics]


def test_values_bind_by_position_and_by_name() -> None:
    assert bind(("A", "B"), (1, 2), {}) == [1, 2]
    assert bind(("A", "B"), (1,), {"B": 2}) == [1, 2]
    assert bind(("A", "B"), (), {"B": 2, "A": 1}) == [1, 2]


def test_all_faults_of_binding_are_reported_at_once() -> None:
    with pytest.raises(ArgumentError) as caught:
        bind(("Image", "Kernel"), (1,), {"Image": 2, "Kernal": 3})
    assert messages(caught) == [
        ("TIL705", "input 'Image' is given twice: by position and by name"),
        ("TIL705", "there is no input 'Kernal'; did you mean 'Kernel'?"),
        ("TIL705", "input 'Kernel' is missing"),
    ]


def test_too_many_values_are_refused() -> None:
    with pytest.raises(ArgumentError) as caught:
        bind(("A",), (1, 2), {})
    assert messages(caught) == [("TIL705", "2 values were passed by position; the inputs are A")]


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ((3, 4), TensorType(DType.F32, (3, 4))),
        ((), TensorType(DType.F32, ())),
        ((DType.I8, (2,)), TensorType(DType.I8, (2,))),
        (("bf16", (2, 3)), TensorType(DType.BF16, (2, 3))),
        ((np.float64, ()), TensorType(DType.F64, ())),
        (TensorType(DType.BOOL, (1,)), TensorType(DType.BOOL, (1,))),
        (np.zeros((2, 5), np.uint16), TensorType(DType.U16, (2, 5))),
        (2.5, TensorType(DType.F64, (), weak=True)),
        (7, TensorType(DType.I32, (), weak=True)),
        (1 << 31, TensorType(DType.I64, (), weak=True)),
        ((1 << 64) - 1, TensorType(DType.U64, (), weak=True)),
        (True, TensorType(DType.BOOL, (), weak=True)),
        (np.float32(2.5), TensorType(DType.F32, ())),
        (np.array(2.5), TensorType(DType.F64, ())),
    ],
)
def test_types_are_described_in_several_ways(description: object, expected: TensorType) -> None:
    assert tensor_type("A", description) == expected


@pytest.mark.parametrize("description", [("f33", (2,)), (np.complex64, (2,)), (1.5, 2), ([[1]], 2), "A", None])
def test_other_descriptions_are_refused(description: object) -> None:
    with pytest.raises(ArgumentError) as caught:
        tensor_type("A", description)
    assert caught.value.diagnostics[0].code == "TIL702"


def test_descriptions_come_by_name_or_in_order() -> None:
    expected = {"A": TensorType(DType.F32, (2,)), "B": TensorType(DType.I8, (3,))}
    assert tensor_types(["A", "B"], {"B": ("i8", (3,)), "A": (2,)}) == expected
    assert tensor_types(["A", "B"], [(2,), ("i8", (3,))]) == expected


def test_options_must_be_options() -> None:
    check_options(None)
    check_options(Options(threads=1))
    with pytest.raises(ArgumentError) as caught:
        check_options({"threads": 1})
    assert caught.value.diagnostics[0].code == "TIL707"
