"""Rules of partitioned programs and of collectives."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

from tileir.core import ArgumentError, VerifyError
from tileir.typed.sharding.interpreter import interpret_partitioned
from tileir.typed.sharding.partitioned import verify
from tileir.typed.sharding.text import parse

TEXT = """\
partition over x=2 {
  A at [x 0:2 2:3]
  S_part at [] sharing [i: x 0:2 2:3]
  B_all at [0:3]
}
function (
  A: f32[3],
) -> (S, B_all) {
  S_part: f32[] = [] +(A[i])
  S: f32[] = all_reduce(S_part) over x from [] to [] by add
  B_all: f32[3] = all_gather(A) over x from [x 0:2 2:3] to [0:3]
}
"""


def test_a_program_that_keeps_the_rules() -> None:
    program = parse(TEXT)
    verify(program)
    results = interpret_partitioned(program, {"A": np.array([1, 2, 4], "f4")})
    assert results["S"] == 7
    assert results["B_all"].tolist() == [1, 2, 4]
    assert list(program.graph().successors("A")) == ["S_part", "B_all"]
    assert "partition over x=" in program._repr_html_()


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("A at [x", "A at [y", "TIL533", "'A' is cut along 'y', which the mesh x=2 does not have"),
        ("A at [x 0:2 2:3]", "A at [x 0:2]", "TIL533", "'A' has 1 intervals for 2 ranks"),
        ("A at [x 0:2 2:3]", "A at [x 0:2 2:4]", "TIL533", "'A' has places x 0:2 2:4 on an axis of size 3"),
        ("A at [x 0:2 2:3]", "A at [0:3]", "TIL533", "'B_all' expects 'A' to be laid out otherwise"),
        ("A at [x 0:2 2:3]", "A at []", "TIL533", "'A' has a placement with 0 splits and 1 axes"),
        ("B_all at [0:3]", "B_all at [0:2]", "TIL533", "'B_all' is laid out otherwise than its collective says"),
        ("-> (S,", "-> (S_part,", "TIL533", "'S_part' is a result, and ranks have parts of an aggregate of it"),
        ("all_gather", "halo", "TIL533", "'B_all' is called halo, and is all_gather"),
        ("by add", "", "TIL531", "'S' merges by one aggregation or combine"),
        ("to [0:3]", "to [0:3] by max", "TIL531", "'B_all' merges by one aggregation or combine"),
        ("to [0:3]", "to []", "TIL531", "'B_all' needs a split of each of its axes"),
        ("to [0:3]", "to [0:4]", "TIL531", "'B_all' has a split with places outside of its axis"),
        ("B_all: f32[3]", "B_all: f32[4]", "TIL531", "'B_all' is one of its inputs itself, but has another dtype"),
        ("by add", "of reduce_argmax: 1", "TIL531", "'S' is component 1 of 1 inputs"),
    ],
)
def test_broken_rules(old: str, new: str, code: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(VerifyError) as caught:
        verify(parse(TEXT.replace(old, new, 1)))
    first = caught.value.diagnostics[0]
    assert first.code == code
    assert message in first.message


def test_every_value_has_a_placement() -> None:
    program = parse(TEXT)
    program = attrs.evolve(program, placements=program.placements[1:])
    with pytest.raises(VerifyError, match=r"TIL533.*one placement for each value"):
        verify(program)


def test_inputs_that_are_missing() -> None:
    with pytest.raises(ArgumentError, match=r"TIL701.*input 'A' has no array"):
        interpret_partitioned(parse(TEXT), {})
