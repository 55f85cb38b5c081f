from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir
from tileir.core.dtype import DType
from tileir.core.errors import ArgumentError, TileError
from tileir.driver.calls.arguments import bind, check_options, tensor_type, tensor_types
from tileir.runtime.interface import Options
from tileir.tile.text.parser import parse
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from collections.abc import Callable


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
        ("f32[2,3]", TensorType(DType.F32, (2, 3))),
        (" bf16[ 4 , 5 ] ", TensorType(DType.BF16, (4, 5))),
        ("i8[]", TensorType(DType.I8, ())),
        ("i8", TensorType(DType.I8, ())),
        (DType.F32, TensorType(DType.F32, ())),
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
    assert tensor_types(parse("function (A, B) -> (O) { O = A + B; }"), {"B": ("i8", (3,)), "A": (2,)}) == expected
    assert tensor_types(parse("function (A, B) -> (O) { O = A + B; }"), [(2,), ("i8", (3,))]) == expected


def test_options_must_be_options() -> None:
    check_options(None)
    check_options(Options(threads=1))
    with pytest.raises(ArgumentError) as caught:
        check_options({"threads": 1})
    assert caught.value.diagnostics[0].code == "TIL707"


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ("f31[2]", "'A': 'f31' is not a dtype; did you mean 'f32'?"),
        ("f31", "'A': 'f31' is not a dtype; did you mean 'f32'?"),
        ("f32[2,,3]", "'A': write sizes as in f32[3, 4]"),
        ("f32[2 3]", "'A': write sizes as in f32[3, 4]"),
        ("f32[N]", "'A' is described by 'f32[N]'; write a dtype and sizes, such as 'f32[2, 3]', or 'f32[]'"),
        ("", "'A' is described by ''; write a dtype and sizes"),
    ],
)
def test_texts_that_are_no_types(description: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(message)):
        tensor_type("A", description)


def test_a_lone_text_or_dtype_describes_the_first_input() -> None:
    assert tensor_types(parse("function (A) -> (O) { O = A; }"), "f16[2]") == {"A": TensorType(DType.F16, (2,))}
    assert tensor_types(parse("function (A) -> (O) { O = A; }"), DType.F16) == {"A": TensorType(DType.F16, ())}


def test_tensor_types_take_names_of_dtypes_and_any_sequence_of_sizes() -> None:
    sizes: list[int] = np.array([2, 3]).tolist()
    assert TensorType("f32", sizes) == TensorType(DType.F32, (2, 3))
    assert type(TensorType(DType.F32, np.array([2])).shape[0]) is int
    for dtype, shape, message in (
        ("f31", (), "'f31' is not a dtype; did you mean 'f32'?"),
        ("f32", 3, "3 is not a shape; write a tuple of sizes"),
        ("f32", (2.5,), "(2.5,) is not a shape; write a tuple of sizes"),
        ("f32", ("N",), "('N',) is not a shape; write a tuple of sizes"),
    ):
        with pytest.raises(TileError, match=re.escape(message)):
            TensorType(dtype, shape)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"'A' is described by f32\[-1\]; sizes are not negative"):
        tensor_type("A", TensorType(DType.F32, (-1,)))


@pytest.mark.parametrize("value", [3, np.int32(3), np.array(3, np.int8), TensorType(DType.I64, (), value=3)])
def test_integers_are_known_where_sizes_are_computed_from_them(value: object) -> None:
    function = parse("function (A[N], S, B) -> (O) { O[i : S] = +(A[i]); P = A * B; }")
    types = tensor_types(function, [(4,), value, 3])
    assert [types[name].value for name in "ASB"] == [None, 3, None]


@pytest.mark.parametrize("value", [3.0, True, np.array([3]), ("i32", ()), "i32[]"])
def test_nothing_but_an_integer_is_known(value: object) -> None:
    function = parse("function (A[N], S) -> (O) { O[i : S] = +(A[i]); }")
    assert tensor_types(function, [(4,), value])["S"].value is None


@pytest.mark.parametrize(
    "call",
    [
        lambda context: tileir.compile(ADDED, [(3,)], context=context),
        lambda context: tileir.jit(ADDED, context=context),
        lambda context: tileir.explain(ADDED, [(3,)], context=context),
        lambda context: tileir.tune(ADDED, [(3,)], context=context),
        lambda context: tileir.stepper(ADDED, {}, {}, context=context),
        lambda context: tileir.to_device(np.ones(3), context=context),
        lambda context: tileir.memory(context=context),
    ],
)
def test_what_is_no_context_is_told(call: Callable[[Any], object]) -> None:
    for wrong in ("llvm.0", 3, ""):
        with pytest.raises(tileir.ArgumentError, match=r"context is a tileir\.Context, not a value of type"):
            call(wrong)


def test_functions_of_python_are_told_what_to_do() -> None:
    with pytest.raises(tileir.ArgumentError, match="nothing says what 'x' of"):
        tileir.compile(lambda x: x, None)


ADDED = "function (A) -> (B) { B = A + 1; }"


def test_inputs_that_declare_types_need_no_description() -> None:
    function = parse("function (A: f32[4, 3], B: i32[M], S: f16[], N: i32[]) -> (C) { C = reshape(A * S, 12 / N, N); }")
    wanted = {"A": TensorType("f32", (4, 3)), "B": TensorType("i32", (2,)), "S": TensorType("f16", ())}
    found = tensor_types(function, {"B": "i32[2]", "N": 4})
    assert {name: found[name] for name in wanted} == wanted
    assert found["N"].value == 4
    assert tensor_types(function, {"A": "f32[5, 3]", "B": "i32[2]", "N": 4})["A"].shape == (5, 3)  # refused later
    with pytest.raises(ArgumentError) as caught:
        tensor_types(function, {"A": "f32[4, 3]"})
    assert messages(caught) == [("TIL705", "input 'B' is missing"), ("TIL705", "input 'N' is missing")]
