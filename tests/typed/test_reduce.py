"""Tuple reductions of typed functions: their meaning, rules, texts and derivatives."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import attrs
import numpy as np
import pytest
from hypothesis import given

import tileir
from strategies.effort import examples
from strategies.tuple_reductions import TupleCase, assert_components, tuple_cases
from tileir.core.combines import Combine
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.tile.builder import FunctionBuilder
from tileir.tile.builder_functions import gradient, jvp, reduce
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Reduce, TensorType
from tileir.typed.raising.raising import raise_to_tile
from tileir.typed.text.printer import to_text
from tileir.typed.verifier import check_function, verify

if TYPE_CHECKING:
    from typing import Any


@examples(200)
@given(tuple_cases())
def test_components_are_those_of_numpy(case: TupleCase) -> None:
    function = case.function
    verify(function)
    assert_components(case, tuple(interpret(function, {"X": case.data}).values()))


@examples(50)
@given(tuple_cases())
def test_tile_says_the_same(case: TupleCase) -> None:
    raised = raise_to_tile(case.function)
    assert tileir.parse(tileir.to_text(raised)) == raised
    again = infer(raised, {"X": TensorType(case.dtype, case.data.shape)})
    before, after = (interpret(each, {"X": case.data}) for each in (case.function, again))
    for old, new in zip(before.values(), after.values(), strict=True):
        assert (old.dtype, old.shape, old.tobytes()) == (new.dtype, new.shape, new.tobytes())  # NaN is itself, too


def typed(text: str, *shape: int) -> Any:
    return infer(tileir.parse(text), {"X": TensorType(DType.F32, shape)})


TEXT = "function (X[N, M]) -> (O) { S = reduce_argmax(X, 1); O = element(S, 1); }"


def test_text() -> None:
    assert "S_1: i32[3] = reduce_argmax(X, 1): 1" in to_text(typed(TEXT, 3, 4))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("function (X[N, M]) -> (O) { O = element(reduce_argmax(X, 2), 1); }", "TIL314"),
        ("function (X[N, M]) -> (O) { O = element(reduce_argmax(X, 1, 1), 1); }", "TIL310"),
        ("function (X[N, M]) -> (O) { O = element(reduce_argmax(X, 1, -1), 1); }", "TIL310"),
        ("function (X[N, M]) -> (O) { O = element(reduce_argmax(X, 1), 2); }", "TIL314"),
        ("function (X[N, M]) -> (O) { O = 1 + reduce_argmax(X, 1); }", "TIL309"),
    ],
)
def test_mistakes(text: str, code: str) -> None:
    with pytest.raises(TileError) as caught:
        typed(text, 3, 4)
    assert caught.value.diagnostics[0].code == code


def test_there_are_so_many_combines() -> None:
    x = FunctionBuilder().input("X", "N")
    with pytest.raises(TileError, match="a combine is one of argmax, argmin"):
        reduce("argbest", x)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"axes": (2,)}, r"reduces along \[2\] of a tensor of rank 2"),
        ({"axes": (1, 0)}, r"reduces along \[1, 0\] of a tensor of rank 2"),
        ({"shape": (4,)}, r"has shape \[4\], not \[3\]"),
        ({"result": 2}, "is component 2 of a state of 2"),
        ({"dtype": DType.F32}, "has dtype f32, not i32"),
    ],
)
def test_the_verifier_knows_the_rules(change: dict[str, Any], message: str) -> None:
    function = typed(TEXT, 3, 4)
    (operation,) = (each for each in function.operations if isinstance(each, Reduce) and each.name == "S_1")
    wrong = attrs.evolve(operation, **change)
    operations = tuple(wrong if each is operation else each for each in function.operations)
    fault, *_ = check_function(attrs.evolve(function, operations=operations))
    assert re.search(message, fault.message)


@pytest.mark.parametrize("size", [0, 1])
def test_short_axes(size: int) -> None:
    function = typed(TEXT, 3, size)
    (found,) = interpret(function, {"X": np.ones((3, size), np.float32)}).values()
    assert found.tolist() == [0, 0, 0]


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize(("combine", "number"), [(c, n) for c in Combine for n in range(c.components)])
def test_derivatives(combine: Combine, number: int, axes: tuple[int, ...]) -> None:
    """Against differences, both ways; the difference quotient of an extremum is right where nothing ties."""
    if combine.is_extremum and number == 1:
        return
    generator = np.random.default_rng(3)
    x, direction = (generator.standard_normal((3, 4, 5)) for _ in range(2))
    builder = FunctionBuilder()
    given, along = builder.input("X", "A", "B", "C"), builder.input("D", "A", "B", "C")
    part = reduce(combine, given, *axes)[number]
    weighted = part * part * 0.5 + part
    function = builder.build(Y=weighted, G=gradient(weighted, given), T=jvp(weighted, given, along))
    types = {name: TensorType(DType.F64, x.shape) for name in ("X", "D")}
    typed_function = infer(function, types)

    def outputs(at: Any) -> list[Any]:
        return list(interpret(typed_function, {"X": at, "D": direction}).values())

    step = 1e-6
    _, pulled, pushed = outputs(x)
    difference = (outputs(x + step * direction)[0] - outputs(x - step * direction)[0]) / (2 * step)
    np.testing.assert_allclose(pushed, difference, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose((pulled * direction).sum(), difference.sum(), rtol=1e-6, atol=1e-6)
