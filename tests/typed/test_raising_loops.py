from __future__ import annotations

from hypothesis import given

from strategies.effort import examples
from strategies.loops import arguments, assert_same, functions
from tileir.tile.checks.verifier import verify
from tileir.tile.text.parser import parse
from tileir.tile.text.printer import to_text
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Function, TensorType
from tileir.typed.raising.raising import raise_to_tile


@examples(50)
@given(functions())
def test_loops_come_back_from_tile(function: Function) -> None:
    raised = raise_to_tile(function)
    verify(raised)
    text = to_text(raised)
    assert parse(text) == raised
    assert to_text(parse(text)) == text
    again = infer(raised, {value.name: TensorType(value.dtype, value.shape) for value in function.inputs})
    given = arguments(function)
    assert_same(interpret(again, given), interpret(function, given))
