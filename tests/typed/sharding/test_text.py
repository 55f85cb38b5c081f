"""Partitioned programs as text and JSON, and faults of such texts."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from strategies.contractions import contractions
from strategies.derivatives import types_of
from strategies.effort import examples
from strategies.sharded import assert_partitioned, partitioned
from strategies.stencils import Stencils, stencils
from strategies.tile import cases
from tileir.core import ParseError, TileError, from_json, to_json
from tileir.tile.text.parser import parse as parse_tile
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir.typed.sharding.mesh import CollectiveKind
from tileir.typed.sharding.partitioned import Partitioned
from tileir.typed.sharding.text import parse, to_text
from tileir.typed.sharding.verifier import verify


@examples(40)
@given(contractions(), st.data())
def test_text_and_json_are_read_back(case: Any, data: st.DataObject) -> None:
    function = infer(parse_tile(case.text), {n: TensorType(case.dtype, shape) for n, shape in case.shapes.items()})
    program = data.draw(partitioned(function))
    assert parse(to_text(program)) == program
    assert from_json(to_json(program), Partitioned) == program
    assert str(program) == to_text(program)


CHANGED = re.compile(r"(?<![\w.])\d+(?![\w.])|\b[xy]\b|" + "|".join(kind.value for kind in CollectiveKind))
"""Words of a text that say where values are, and how they are moved."""


def changed(text: str, data: st.DataObject) -> str:
    """Return a text with another number, axis or collective somewhere, more often among the places of values."""
    found = list(CHANGED.finditer(text))
    head = [each for each in found if each.start() < text.index("function (")]
    often = data.draw(st.integers(0, 2)) > 0
    match = data.draw(st.sampled_from(head if head and often else found))
    word = match[0]
    if word.isdigit():
        new = str(max(0, int(word) + data.draw(st.sampled_from((-2, -1, 1, 2)))))
    else:
        new = data.draw(st.sampled_from("xyz" if word in "xy" else [kind.value for kind in CollectiveKind]))
    return text[: match.start()] + new + text[match.end() :]


@pytest.mark.sampled(0)
@examples(1500)
@given(st.one_of(cases(largest_size=5), stencils(4)), st.data())
def test_a_changed_text_is_refused_or_means_the_same(case: Any, data: st.DataObject) -> None:
    """The verifier passes no program whose ranks lack something, or count it twice."""
    if isinstance(case, Stencils):
        program = case.program
    else:
        program = data.draw(partitioned(infer(case.function, types_of(case.inputs))))
    try:
        other = parse(changed(to_text(program), data))
        verify(other)
    except TileError:
        return
    if [value.shape for value in other.function.inputs] == [value.shape for value in program.function.inputs]:
        assert_partitioned(other, other.function, case.inputs)


TEXT = """\
partition over x=2 {
  A at [x 0:2 2:3]
  S_part at [] sharing [i: x 0:2 2:3]
}
function (
  A: f32[3],
) -> (S) {
  S_part: f32[] = [] +(A[i])
  S: f32[] = all_reduce(S_part) over x from [] to [] by add
}
"""


def test_a_program_is_printed_as_it_is_written() -> None:
    assert to_text(parse(TEXT)) == TEXT


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("x=2 {", "x=0 {", "TIL351", "the axis 'x' of a mesh has 0 ranks"),
        ("x=2 {", "x=2, x=3 {", "TIL351", "two axes of a mesh are called 'x'"),
        ("A at", "A in", "TIL102", "expected 'at'"),
        ("[x 0:2 2:3]\n", "[x 0:2 2]\n", "TIL102", "expected ':'"),
        ("sharing [i: x", "sharing [i x", "TIL102", "expected ':'"),
        ("all_reduce(S_part) over x", "all_reduce(S_part) along x", "TIL102", "expected 'over'"),
    ],
)
def test_faults_of_texts(old: str, new: str, code: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(TEXT.replace(old, new, 1))
    first = caught.value.diagnostics[0]
    assert first.code == code
    assert message in first.message
