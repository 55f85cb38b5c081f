"""A number that is passed means what it would mean if it were written in the text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.inference.numbers import number_type
from tileir.typed.ir import Constant, TensorType
from tileir.typed.numbers import input_values, passed_numbers

if TYPE_CHECKING:
    from tileir.typed.ir import Function

EXPRESSIONS = [
    *("N", "K", "-N", "N + 1", "N * K", "K / 3", "mod(K, 3)", "1 / K", "max(N, K)", "K < 2 ? N : K", "N < K", "K << 2"),
    *("as_i8(N) + K", "as_f32(N) * 2", "as_bool(N) ? 1 : K", "exp(N)", "N * 1000", "recip(K)", "sign(N)", "~K"),
    *("as_i8(K) < 3 ? as_i8(N) : 4", "round(N) + K", "as_like(N, K)", "K & 6", "logical_and(N, K)"),
]
NUMBERS = [(0.5, 3), (-2.75, 0), (300.0, 7), (1e-9, -1), (2, 5), (True, 3)]


def typed(text: str, dtype: DType, **numbers: float) -> Function:
    types = {"A": TensorType(dtype, (2,))}
    for name, number in numbers.items():
        kind = number_type(number)
        assert kind is not None
        types[name] = kind
    return infer(parse(text), types)


def outcome_of_literals(expression: str, dtype: DType, n: float, k: int) -> tuple[Any, ...]:
    """Return the dtype and value of the constant beside A, or the code of the error."""
    for name, number in (("N", n), ("K", k)):
        written = "as_bool(1)" if number is True else f"({number!r})"
        expression = expression.replace(name, written)
    try:
        function = typed(f"function (A) -> (O) {{ O = A * ({expression}); }}", dtype)
    except TileError as error:
        return tuple(found.code for found in error.diagnostics)
    constants = {operation.name: operation for operation in function.operations if isinstance(operation, Constant)}
    (beside,) = constants.values()
    return beside.dtype, repr(beside.value)


def outcome_of_passing(expression: str, dtype: DType, n: float, k: int) -> tuple[Any, ...]:
    text = f"function (A, N, K) -> (O) {{ O = A * ({expression}); }}"
    try:
        function = typed(text, dtype, N=n, K=k)
        values = input_values(function, {"A": None, "N": n, "K": k})
    except TileError as error:
        return tuple("TIL303" if found.code == "TIL701" else found.code for found in error.diagnostics)
    ((value, array),) = [(v, a) for v, a in zip(function.inputs, values, strict=True) if v.number is not None]
    assert set(passed_numbers(function)) <= {"N", "K"}
    return value.dtype, repr(array.item())  # type: ignore[attr-defined]


@pytest.mark.sampled(51)
@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize("dtype", [DType.F16, DType.F64, DType.I8, DType.I64])
def test_passing_is_writing(expression: str, dtype: DType) -> None:
    for n, k in NUMBERS:
        if "<<" in expression and k < 0:
            continue
        assert outcome_of_passing(expression, dtype, n, k) == outcome_of_literals(expression, dtype, n, k), (n, k)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("N", "input 'N' is 300, which i8 cannot hold"),
        ("K * 100 + 1", "a number computed from 'K' is 301, which i8 cannot hold"),
        ("K * N - N", "a number computed from 'N', 'K' is 600, which i8 cannot hold"),
    ],
)
def test_what_does_not_fit_tells_what_it_is_made_of(expression: str, message: str) -> None:
    function = typed(f"function (A, N, K) -> (O) {{ O = A + ({expression}); }}", DType.I8, N=300, K=3)
    with pytest.raises(TileError) as caught:
        input_values(function, {"A": None, "N": 300, "K": 3})
    (found,) = caught.value.diagnostics
    advice = "; that is the dtype of what it meets, so pass less or cast that"
    assert (found.code, found.message) == ("TIL701", message + advice)
    assert found.underlined == ("" if expression == "N" else expression)
