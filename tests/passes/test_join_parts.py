"""Copies into parts of one tensor run as one kernel, whose rows threads share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from strategies.passes import assert_same_meaning, program_of, programs
from strategies.pipelines import cpu
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.passes.base import run
from tileir.passes.regions.join_parts import JoinParts
from tileir.passes.schedules.vectors.thread import Thread
from tileir.passes.schedules.vectors.vectorise import Vectorise
from tileir.stripe.blocks import Binding
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Program
from tileir.stripe.lower.lowering import lower
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir.typed.simplify.preparation import prepared

if TYPE_CHECKING:
    from collections.abc import Mapping

STEPS = (Vectorise(vector_bytes=16), Thread())


def copy(name: str, rows: int, columns: int, *, row: int = 0, column: int = 0, width: int = 24, step: int = 1) -> str:
    return f"""block [i:{rows}, j:{columns}]:{rows * columns} (
        in {name}[i, j] fp32:I(1, 1):({columns}, 1):4 B
        out Y[{step}*i + {row}, j + {column}]:assign fp32:I(1, 1):({width}, 1):4 B
    ) {{
      0: $x = load({name})
      1: Y = store($x)
    }}"""


def scheduled(copies: list[str], shapes: Mapping[str, tuple[int, ...]]) -> Program:
    return run(STEPS, program_of(copies, dict(shapes), ("Y",)))


def grids(program: Program) -> list[list[int]]:
    return [[i.range for i in kernel.indices if i.binding is Binding.GRID] for kernel in program.main.blocks]


def test_rows_are_shared_by_all_parts() -> None:
    shapes = {"A": (9, 8), "B": (9, 16), "Y": (9, 24)}
    program = scheduled([copy("A", 9, 8), copy("B", 9, 16, column=8)], shapes)
    after = run((JoinParts(most_bytes=0),), program)
    assert (len(grids(program)), grids(after)) == (2, [[9]])
    verify(after)
    assert_same_meaning(program, after)


@pytest.mark.parametrize(("most_bytes", "expected"), [(1 << 16, [[]]), (0, [[4, 6], [5, 6]])])
def test_few_rows_of_their_own_are_copied_by_one_thread(most_bytes: int, expected: list[list[int]]) -> None:
    shapes = {"A": (4, 24), "B": (5, 24), "Y": (9, 24)}
    program = scheduled([copy("A", 4, 24), copy("B", 5, 24, row=4)], shapes)
    after = run((JoinParts(most_bytes=most_bytes),), program)
    assert grids(after) == expected
    assert_same_meaning(program, after)


def test_few_rows_of_much_are_left_to_more_threads() -> None:
    shapes = {"A": (4, 8), "B": (4, 16), "Y": (4, 24)}
    program = scheduled([copy("A", 4, 8), copy("B", 4, 16, column=8)], shapes)
    assert run((JoinParts(most_bytes=0),), program) is program
    assert len(JoinParts(most_bytes=0, least_rows=4)(program).main.blocks) == 1


def test_rows_that_are_not_the_same_are_not_shared() -> None:
    shapes = {"A": (4, 24), "B": (4, 24), "Y": (8, 24)}
    every_second = [copy("A", 4, 24), copy("B", 4, 24, step=2)]
    program = run(STEPS, program_of([copy("A", 4, 24, row=4), *every_second], shapes, ("Y",)))
    assert len(run((JoinParts(most_bytes=0),), program).main.blocks) == 3


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sizes", [(40, 16, 16), (9, 30, 21), (12, 18, 40)])
@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_borders_are_copied_with_the_plane_that_they_belong_to(
    mode: Literal["reflect", "edge", "wrap"], sizes: tuple[int, int, int]
) -> None:
    """Middle, sides and corners of a plane lie between each other in memory, and may be read at computed places."""
    builder = tileir.FunctionBuilder()
    x = builder.input("X", "C", "H", "W")
    function = builder.build(Y=tileir.ops.pad(x, ((0, 0), (3, 3), (3, 3)), mode=mode))
    types = {"X": TensorType(DType.F32, sizes)}
    target = Target(vector_bytes=64, vector_registers=32, threads=2, shuffles=True)
    program = run(cpu(target), lower(prepared(infer(function, types))))
    assert grids(program) == [[sizes[0]]]
    image = np.arange(math.prod(sizes), dtype=np.float32).reshape(sizes)
    (found,) = interpret(program, {"X": image}).values()
    np.testing.assert_array_equal(found, np.pad(image, ((0, 0), (3, 3), (3, 3)), mode=mode))


def test_rows_that_begin_elsewhere_are_not_shared() -> None:
    shapes = {"A": (9, 24), "B": (9, 24), "Y": (11, 24)}
    program = scheduled([copy("A", 9, 24, row=2), copy("B", 9, 24), copy("A", 9, 24, row=2)], shapes)
    after = run((JoinParts(most_bytes=0),), program)
    assert_same_meaning(program, after)


@st.composite
def parts(draw: st.DrawFn) -> Program:
    """Copies into one tensor, some on top of others, and some after each other."""
    rows, count = draw(st.integers(1, 12)), draw(st.integers(2, 6))
    shapes: dict[str, tuple[int, ...]] = {"Z": (rows + 4, 24), "Y": (rows + 4, 24)}
    copies = [copy("Z", rows + 4, 24)]
    for number in range(count):
        height, width = draw(st.sampled_from((rows, rows, max(1, rows - 1)))), draw(st.integers(1, 17))
        name = f"X{number}"
        shapes[name] = (height, width)
        row, column = draw(st.sampled_from((0, 0, 0, 2))), draw(st.integers(0, 24 - width))
        copies.append(copy(name, height, width, row=row, column=column))
    return program_of(copies, shapes, ("Y",))


@given(parts(), st.sampled_from((0, 64, 1 << 16)))
@examples(60)
def test_parts_keep_their_meaning(program: Program, most_bytes: int) -> None:
    after = run((*STEPS, JoinParts(most_bytes=most_bytes, least_rows=2)), program)
    verify(after)
    assert_same_meaning(program, after)


@given(programs(12), st.sampled_from((0, 1 << 16)))
@examples(60)
def test_programs_keep_their_meaning(program: Program, most_bytes: int) -> None:
    after = run((*STEPS, JoinParts(most_bytes=most_bytes, least_rows=2)), program)
    verify(after)
    assert_same_meaning(program, after)
