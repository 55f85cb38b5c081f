"""Windows with strides over axes that programs divide by residues: values are brute force's, no copy is left."""

from __future__ import annotations

from itertools import product
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from tileir import ops
from tileir.core import Aggregation, DType
from tileir.tile.builder import FunctionBuilder, Tensor
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Contraction, Function, TensorType
from tileir.typed.simplify.preparation import prepared
from tileir.typed.verifier import verify

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Arrays: TypeAlias = dict[str, Array]

SIZES = st.tuples(st.integers(1, 3), st.integers(1, 7), st.integers(1, 8))  # groups, a side, another one
WINDOWS = st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(0, 2))  # a window, its step, padding


def outputs(size: int, window: int, step: int, padding: int) -> int:
    return (size + 2 * padding - window) // step + 1


def copies(function: Function) -> int:
    contractions = (each for each in function.operations if isinstance(each, Contraction))
    return sum(each.aggregation is Aggregation.ASSIGN for each in contractions)


def checked(made: Tensor, builder: FunctionBuilder, values: Arrays, wanted: Array) -> Function:
    types = {name: TensorType(DType.F32, array.shape) for name, array in values.items()}
    graph = infer(builder.build(O=made), types)
    whole = prepared(graph, divides=False)
    verify(whole)
    for function in (whole, prepared(graph)):
        np.testing.assert_array_equal(interpret(function, values)["O"], wanted)
    return whole


def arrays(groups: int, sides: tuple[int, int], window: tuple[int, int], step: int, padding: int, each: int) -> Arrays:
    rng = np.random.default_rng(sum(sides) + 7 * step)
    ends = tuple(outputs(size, size_of, step, padding) for size, size_of in zip(sides, window, strict=True))
    shapes = {"X": (2, groups, *sides), "G": (2, groups * each, *ends), "W": (groups * each, 1, *window)}
    return {name: rng.integers(-3, 4, shape).astype(np.float32) for name, shape in shapes.items()}


@given(sizes=SIZES, window=WINDOWS, each=st.integers(1, 2))
@examples(20)
def test_gradients_with_strides_are_those_of_brute_force(
    sizes: tuple[int, int, int], window: tuple[int, int, int], each: int
) -> None:
    groups, *rest = sizes
    size, step, padding = window
    sides = (max(rest[0], size), max(rest[1], size))
    values = arrays(groups, sides, (size, size), step, padding, each)
    x, g, w = (values[name] for name in "XGW")
    by_data, by_weights = np.zeros(x.shape), np.zeros(w.shape)
    for k, p, q, i, j in product(range(groups * each), range(g.shape[2]), range(g.shape[3]), range(size), range(size)):
        y, z, c = step * p + i - padding, step * q + j - padding, k // each
        if 0 <= y < sides[0] and 0 <= z < sides[1]:
            by_data[:, c, y, z] += g[:, k, p, q] * w[k, 0, i, j]
            by_weights[k, 0, i, j] += (x[:, c, y, z] * g[:, k, p, q]).sum()
    named: dict[str, Any] = {"stride": (step, step), "padding": (padding, padding), "groups": groups}
    builder = FunctionBuilder()
    made = ops.conv_transpose(builder.input("G", *"NKPQ"), builder.input("W", *"KEIJ"), output_size=sides, **named)
    checked(made, builder, {"G": g, "W": w}, by_data)
    builder = FunctionBuilder()
    made = ops.conv_weight_gradient(builder.input("X", *"NCHV"), builder.input("G", *"NKPQ"), (size, size), **named)
    checked(made, builder, {"X": x, "G": g}, by_weights)


@pytest.mark.parametrize("kind", ["data", "weights"])
@pytest.mark.parametrize(("size", "step"), [(3, 2), (5, 2), (2, 3)])
def test_no_copy_is_left(kind: str, size: int, step: int) -> None:
    builder, side = FunctionBuilder(), 12
    end = outputs(side, size, step, 1)
    g = builder.input("G", *"NKPQ")
    named: dict[str, Any] = {"stride": (step, step), "padding": (1, 1), "groups": 3}
    shapes = {"G": (2, 3, end, end), "W": (3, 1, size, size), "X": (2, 3, side, side)}
    if kind == "data":
        made = ops.conv_transpose(g, builder.input("W", *"KEIJ"), output_size=(side, side), **named)
    else:
        made = ops.conv_weight_gradient(builder.input("X", *"NCHV"), g, (size, size), **named)
    function = builder.build(O=made)
    types = {value.name: TensorType(DType.F32, shapes[value.name]) for value in function.inputs}
    graph = infer(function, types)
    assert copies(prepared(graph)) == 1
    assert copies(prepared(graph, divides=False)) == 0


@pytest.mark.parametrize(
    "text",
    [
        "T[r, o : 2, 8] = +(Y[o] * W[r]); O[2 * q + r : 16] = =(T[r, q]);",
        "T[r, o + t : 2, 9] = +(Y[o] * W[r + 2 * t]); O[2 * q - r : 18] = =(T[r, q]);",
        "T[r, o + t : 2, 9] = +(Y[o] * W[r + 2 * t]); P[2 * q + r : 18] = =(T[r, q]); S[] = +(T[r, q]); O = P + S;",
    ],
    ids=["no windows", "residues that go backwards", "what others read, too"],
)
def test_other_copies_stay(text: str) -> None:
    source = tileir.parse(f"function (Y[N], W[K]) -> (O) {{ {text} }}")
    graph = infer(source, {"Y": TensorType(DType.F32, (8,)), "W": TensorType(DType.F32, (3,))})
    values = {"Y": np.arange(8, dtype=np.float32), "W": np.arange(1, 4, dtype=np.float32)}
    found = [interpret(prepared(graph, divides=divides), values)["O"] for divides in (False, True)]
    np.testing.assert_array_equal(found[0], found[1])
    assert copies(prepared(graph, divides=False)) == copies(prepared(graph)) > 0
