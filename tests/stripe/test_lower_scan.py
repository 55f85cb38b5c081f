from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np
import pytest
from hypothesis import given

from strategies.effort import examples
from strategies.loops import arguments, assert_same, functions
from tileir.core.dtype import DType
from tileir.core.errors import VerifyError
from tileir.stripe.check.verifier import verify
from tileir.stripe.flattening import with_entry
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Block, Direction, Index, Special
from tileir.stripe.lower.lowering import lower
from tileir.stripe.text.parser import parse as parse_stripe
from tileir.stripe.text.printer import to_text
from tileir.tile.text.parser import parse
from tileir.typed import interpreter
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.stripe.ir import Program
    from tileir.typed.ir import Function


@examples(60)
@given(functions())
def test_loops_compute_what_they_mean(function: Function) -> None:
    program = lower(function)
    verify(program)
    assert parse_stripe(to_text(program)) == program
    given = arguments(function)
    assert_same(interpret(program, given), interpreter.interpret(function, given))


TEXT = """function (A[N], Xs[T, N]) -> (H, Ys) {
  S = scan(A; Xs) reverse function (A[N], X[N]) -> (B, Y) { B = A + X; Y = A * X; };
  H = element(S, 0);
  Ys = element(S, 1);
}"""


def program() -> Program:
    types = {"A": TensorType(DType.F32, (2,)), "Xs": TensorType(DType.F32, (3, 2))}
    return lower(infer(parse(TEXT), types))


def loop_of(program: Program) -> Block:
    (loop,) = (block for block in program.main.blocks if "loop" in block.tags)
    return loop


def test_kernels_of_a_step_do_not_depend_on_the_index() -> None:
    loop = loop_of(program())
    body, *copies = loop.statements
    assert isinstance(body, Block)
    assert "body" in body.tags
    assert [index.range for index in loop.indices] == [3]
    assert all(index.affine is None for kernel in body.blocks for index in kernel.indices)
    assert [(copy.inputs, copy.outputs) for copy in copies if isinstance(copy, Special)] == [
        (("next_step",), ("step",)),
        (("B",), ("S_0",)),
    ]


RESHAPED = """function (A[N], Xs[T, N]) -> (H, Y) {
  S = scan(A; Xs) function (A[N], X[N]) -> (B) { B = A + X; };
  H = reshape(S, 1, N);
  Y = H * 2;
}"""


def test_what_a_loop_keeps_may_be_a_result_of_another_shape() -> None:
    types = {"A": TensorType(DType.F32, (2,)), "Xs": TensorType(DType.F32, (3, 2))}
    whole = lower(infer(parse(RESHAPED), types))
    verify(whole)
    assert parse_stripe(to_text(whole)) == whole
    arrays = {"A": np.array([1, 2], np.float32), "Xs": np.arange(6, dtype=np.float32).reshape(3, 2)}
    found = interpret(whole, arrays)
    np.testing.assert_array_equal(found["H"], [[7, 11]])
    np.testing.assert_array_equal(found["Y"], [[14, 22]])


def parallel(loop: Block) -> Block:
    return attrs.evolve(loop, indices=(Index("step", 3),))


def without_body(loop: Block) -> Block:
    return attrs.evolve(loop, statements=loop.statements[1:])


def with_a_kernel(loop: Block) -> Block:
    return attrs.evolve(loop, statements=(*loop.statements, loop.blocks[0].blocks[-1]))


def copied_elsewhere(loop: Block) -> Block:
    (x,) = (view.name for view in loop.refinements if view.direction is Direction.NONE and view.name == "X")
    return attrs.evolve(loop, statements=(*loop.statements, Special("copy", (x,), ("Y",))))


def with_a_copy_in_a_step(loop: Block) -> Block:
    body, *copies = loop.statements
    assert isinstance(body, Block)
    return attrs.evolve(loop, statements=(attrs.evolve(body, statements=(*body.statements, copies[0])), *copies))


@pytest.mark.parametrize("change", [parallel, without_body, with_a_kernel, copied_elsewhere, with_a_copy_in_a_step])
def test_other_blocks_with_the_tag_of_loops_are_refused(change: Callable[[Block], Block]) -> None:
    good = program()
    loop = loop_of(good)
    statements = tuple(change(loop) if statement is loop else statement for statement in good.main.statements)
    main = attrs.evolve(good.main, statements=statements)
    with pytest.raises(VerifyError, match="TIL501"):
        verify(with_entry(good, attrs.evolve(good.entry, statements=(main,))))
