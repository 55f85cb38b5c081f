"""Temporaries that lie in what they are copied to: copies of several parts go, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.passes import assert_same_meaning, program_of, programs
from tileir import evaluate, ops
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.passes.base import run
from tileir.passes.rewrites.write_through import WriteThrough
from tileir.semtree.interpret.interpreter import run_program
from tileir.stripe.check.verifier import verify
from tileir.stripe.ir import Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.builder import FunctionBuilder
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType


def joined(shapes: list[tuple[int, ...]], axis: int, *, more: str = "", dtype: DType = DType.F32) -> Program:
    """Return a concatenation; ``more`` says what else is made of the parts, or of the whole."""
    builder = FunctionBuilder()
    inputs = [
        builder.input(f"X{number}", *(f"X{number}_{place}" for place in range(len(shape))))
        for number, shape in enumerate(shapes)
    ]
    whole = ops.concatenate(inputs, axis)
    results = {"Y": whole}
    if more == "read":
        results["Z"] = whole * 2.0
    if more == "half":
        results["Z"] = ops.concatenate(inputs[:4], axis)
    if more == "twice":
        results["Z"] = ops.concatenate([whole, *inputs], axis)
    types = {f"X{number}": TensorType(dtype, shape) for number, shape in enumerate(shapes)}
    return lower(infer(builder.build(**results), types))


@pytest.mark.parametrize(("parts", "copies"), [(3, 0), (5, 1), (9, 2), (17, 5), (24, 8)])
def test_each_element_is_copied_once(parts: int, copies: int) -> None:
    program = joined([(3, 2)] * parts, 1)
    after = run((WriteThrough(),), program)
    assert len(program.main.blocks) - len(after.main.blocks) == copies
    assert len(after.memory) == len(after.inputs) + len(after.outputs)
    assert_same_meaning(program, after)


def test_a_chain_without_copies_stays() -> None:
    program = joined([(3, 2)] * 4, 1)
    assert run((WriteThrough(),), program) is program


@pytest.mark.sampled(6)
@pytest.mark.parametrize("sizes", ["12", "6, 2", "1, 12", "2, 6", "2, 6, 1", "2, 2, 3"])
@pytest.mark.parametrize("copy", ["O[i, j : 2, 6] = *(T[i, j]);", "O[i, j + 1 : 2, 8] = =(T[i, j]);"])
def test_a_temporary_that_is_read_with_other_axes(sizes: str, copy: str) -> None:
    """Its neighbours along an axis are not those along an axis of the output."""
    indices = ", ".join("ijk"[: sizes.count(",") + 1])
    text = f"""function (A[N, M]) -> (R, O) {{
        T[i, 2*j : 2, 6] = +(A[i, k] * A[i, j]);
        V = reshape(T, {sizes});
        R[] = >(V[{indices}] * V[{indices}]);
        {copy}
    }}"""
    arrays = {"A": np.arange(1, 7, dtype=np.int32).reshape(2, 3)}
    compiled = compile_stages(parse(text), {"A": TensorType(DType.I32, (2, 3))}, Target(vector_bytes=64))
    results = run_program(compiled.sem, arrays)
    for output, right in zip(("R", "O"), evaluate(text, arrays), strict=True):
        np.testing.assert_array_equal(results[output], right)


def test_an_output_that_is_written_meanwhile_is_left_alone() -> None:
    shapes = {"A": (4,), "B": (4,), "Z": (8,), "T": (8,), "Y": (8,)}
    blocks = [
        f"""block [i:{size}]:{size} (
            in {source}[i] fp32:I(1):(1):4 B
            out {into}[i + {start}]:assign fp32:I(1):(1):4 B
        ) {{
          0: $x = load({source})
          1: {into} = store($x)
        }}"""
        for source, into, start, size in (("A", "T", 0, 4), ("Z", "Y", 0, 8), ("B", "T", 4, 4), ("T", "Y", 0, 8))
    ]
    program = program_of(blocks, shapes, ("Y",))
    assert run((WriteThrough(),), program) is program


def grown(rows: int, layers: int, *, new_first: bool) -> Program:
    """Return layers that each add two channels to all before them, as those of DenseNet do."""
    builder = FunctionBuilder()
    x, w = builder.input("X", "N", "C", "L"), builder.input("W", "K", "L", "M")
    for layer in range(layers):
        y = ops.relu(x[:, :2] * float(layer + 1) + ops.sum(x, 1, keepdims=True)) @ w[layer : layer + 1]
        x = ops.concatenate([y, x] if new_first else [x, y], 1)
    types = {"X": TensorType(DType.F32, (rows, 3, 4)), "W": TensorType(DType.F32, (layers, 4, 4))}
    return lower(infer(builder.build(Y=ops.sum(x * 2.0, 1)), types))


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("new_first", [False, True])
def test_channels_that_layers_add_lie_in_one_tensor(rows: int, new_first: bool) -> None:
    program = grown(rows, 4, new_first=new_first)
    after = run((WriteThrough(),), program)
    assert len(program.main.blocks) - len(after.main.blocks) == 3  # what the first layer copies is an input
    verify(after)
    assert_same_meaning(program, after)


@st.composite
def concatenations(draw: st.DrawFn) -> Program:
    rank, parts = draw(st.integers(1, 3)), draw(st.integers(2, 21))
    axis = draw(st.integers(0, rank - 1))
    sizes = [draw(st.integers(1, 4)) for _ in range(rank)]
    shapes = [(*sizes[:axis], draw(st.integers(1, 4)), *sizes[axis + 1 :]) for _ in range(parts)]
    dtype = draw(st.sampled_from((DType.F32, DType.I8, DType.F64)))
    kinds = ("", "half", "twice", "read") if dtype.is_float else ("", "half", "twice")
    return joined(shapes, axis, more=draw(st.sampled_from(kinds)), dtype=dtype)


@given(concatenations())
@examples(60)
def test_concatenations_keep_their_meaning(program: Program) -> None:
    after = run((WriteThrough(),), program)
    verify(after)
    assert_same_meaning(program, after)


@given(programs(12))
@examples(60)
def test_programs_keep_their_meaning(program: Program) -> None:
    after = run((WriteThrough(),), program)
    verify(after)
    assert_same_meaning(program, after)
