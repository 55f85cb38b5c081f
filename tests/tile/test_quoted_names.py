"""Names in quotes: any text that can be printed, from what is written to results and errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from strategies.tile_parts import Parts
from tileir.core.errors import ArgumentError, ParseError, TileError, VerifyError
from tileir.core.json.codec import from_json, to_json
from tileir.tile.builder import FunctionBuilder
from tileir.tile.checks.verifier import verify
from tileir.tile.ir import Assignment, Function, Input, Name, Output
from tileir.tile.text.parser import parse
from tileir.tile.text.printer import to_text
from tileir.typed.inference.inference import infer
from tileir.typed.raising.raising import raise_to_tile
from tileir.typed.tensor_type import TensorType

HARD = 'we "ird" \\ /* n*/;}{//'
NAMES = st.text(st.characters(exclude_categories=("C", "Z"), include_characters=' "\\;{}'), min_size=1, max_size=12)
TEXT = """\
function ("gpu_0/data_0": f32["batch size", 3], "2nd": f32[]) -> ("out/0", "ü") {
  [[pid("node '/layer1/conv'")]] "out/0"[i : "batch size"] = +("gpu_0/data_0"[i, j]);
  "ü" = "gpu_0/data_0" * "2nd";
}
"""


@examples(200)
@given(NAMES, NAMES, NAMES, NAMES)
def test_any_names_read_back(tensor: str, dim: str, other: str, label: str) -> None:
    if len({tensor, dim, other}) < 3:
        return
    f = FunctionBuilder()
    x = f.input(tensor, dim)
    with f.label(label):
        y = f.let(other, x + 1)
    function = f.build(y)
    assert parse(to_text(function)) == function
    assert from_json(to_json(function), Function) == function


def test_texts_read_back() -> None:
    function = parse(TEXT)
    assert to_text(function) == TEXT
    assert [each.name for each in function.inputs] == ["gpu_0/data_0", "2nd"]
    assert function.statements[0].attributes[0].parameters == ("node '/layer1/conv'",)


def test_quotes_are_kept_only_where_they_are_needed() -> None:
    text = to_text(parse('function ("A", "b", "C D") -> ("O") { "O" = "A" + "b" + "C D"; }'))
    assert text == 'function (A, #b, "C D") -> (O) {\n  O = A + #b + "C D";\n}\n'


@pytest.mark.parametrize("device", [each.id for each in tileir.devices()])
def test_calls_by_name(device: str) -> None:
    text = TEXT.replace('"2nd"', '"we \\"ird\\" \\\\ /* n*/;}{//"')
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    sums, products = tileir.jit(text, device=device)(**{"gpu_0/data_0": array, HARD: 2.0})
    np.testing.assert_array_equal(sums, array.sum(1))
    np.testing.assert_array_equal(products, array * 2)
    both = tileir.compile(text, {"gpu_0/data_0": array, HARD: "f32[]"}, device=device)
    assert both.outputs == ("out/0", "ü")
    np.testing.assert_array_equal(both(array, np.float32(3))[1], array * 3)


def test_names_that_are_spelt_alike_stay_apart() -> None:
    text = 'function ("a/b", #a_b, "a b") -> ("o/", "o ", #o_) { "o/" = "a/b"; "o " = #a_b; #o_ = "a b"; }'
    found = tileir.evaluate(text, [np.full(2, value) for value in (1.0, 2.0, 3.0)])
    np.testing.assert_array_equal(found, [[1, 1], [2, 2], [3, 3]])


def test_names_in_loops() -> None:
    text = """function ("x/s"[T, N], "h 0"[N]) -> ("last/h") {
      "last/h" = scan("h 0"; "x/s") function ("h t"[N], "x t"[N]) -> ("h/next") { "h/next" = "h t" * 2 + "x t"; };
    }"""
    assert parse(to_text(parse(text))) == parse(text)
    array = np.arange(6, dtype=np.float64).reshape(3, 2)
    right = np.zeros(2)
    for row in array:
        right = right * 2 + row
    np.testing.assert_array_equal(tileir.evaluate(text, [array, np.zeros(2)]), right)


def test_errors_name_what_was_written() -> None:
    executable = tileir.compile(TEXT, {"gpu_0/data_0": "f32[2, 3]", "2nd": "f32[]"})
    with pytest.raises(ArgumentError, match="input 'gpu_0/data_0'"):
        executable(np.ones((2, 4), np.float32), np.float32(1))
    with pytest.raises(TileError, match="input 'gpu_0/data_0' has rank 2"):
        tileir.evaluate(TEXT, [np.ones(3, np.float32), 1.0])
    with pytest.raises(ArgumentError, match="input '2nd' is missing"):
        tileir.evaluate(TEXT, {"gpu_0/data_0": np.ones((2, 3), np.float32)})


def test_typed_functions_come_back() -> None:
    typed = infer(parse(TEXT), {"gpu_0/data_0": TensorType("f32", (2, 3)), "2nd": TensorType("f32", ())})
    assert tileir.parse(tileir.to_text(typed), stage="typed") == typed
    raised = raise_to_tile(typed)
    assert [each.name for each in raised.inputs] == ["gpu_0/data_0", "2nd"]
    assert parse(to_text(raised)) == raised


def test_other_stages_read_back() -> None:
    executable = tileir.compile(TEXT, {"gpu_0/data_0": "f32[2, 3]", "2nd": "f32[]"})
    for program in (executable.stripe, executable.scheduled, executable.sem):
        assert tileir.parse(tileir.to_text(program), stage="any") == program


def test_derivatives_of_inputs_with_such_names() -> None:
    derived = tileir.gradient('function ("x/0"[N]) -> (L) { L[] = +("x/0"[i] * "x/0"[i]); }')
    assert [each.name for each in derived.outputs] == ["Dx/0"]
    np.testing.assert_array_equal(tileir.evaluate(derived, np.array([1.0, 2.0])), [2.0, 4.0])


@pytest.mark.parametrize(
    ("text", "underlined"),
    [
        ('function ("A\n") -> (O) { O = A; }', '"'),
        ('function ("A) -> (O) { O = A; }', '"'),
        ('function ("") -> (O) { O = 1; }', '""'),
        ('function ("a\\n") -> (O) { O = 1; }', '"'),
        ('function ("a\x07") -> (O) { O = 1; }', '"a\x07"'),
        (f'function ("{1001 * "a"}") -> (O) {{ O = 1; }}', f'"{1001 * "a"}"'),
    ],
)
def test_what_is_no_name(text: str, underlined: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text)
    first = caught.value.diagnostics[0]
    assert (first.code, first.underlined) == ("TIL101", underlined)


def test_recovery_passes_over_quotes() -> None:
    with pytest.raises(ParseError) as caught:
        parse('function ("a;b", A) -> (O) { B = A ! "a;b" + "}" ; O = "c}" + ; }')
    assert [(fault.code, fault.underlined) for fault in caught.value.diagnostics] == [("TIL101", "!"), ("TIL102", ";")]


@pytest.mark.parametrize("name", ["", "a\n", "\x00", "a" * 1001])
def test_the_verifier_and_the_builder_refuse_the_same_names(name: str) -> None:
    with pytest.raises(TileError) as caught:
        Parts().f.input(name)
    assert caught.value.diagnostics[0].code == "TIL211"
    with pytest.raises(VerifyError) as refused:
        verify(Function((Input(name),), (Output("O"),), (Assignment("O", Name(name)),)))
    assert [fault.code for fault in refused.value.diagnostics] == ["TIL211"]
