"""Rules of partitioned programs and of collectives."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

from tileir.core import ArgumentError, VerifyError
from tileir.typed.sharding.interpreter import interpret_partitioned
from tileir.typed.sharding.text import parse
from tileir.typed.sharding.verifier import verify

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
        ("A at [x 0:2 2:3]", "A at [x 0:1 2:3]", "TIL533", "'S_part' reads 'A' at [x 0:2 2:3], and ranks have"),
        ("A at [x 0:2 2:3]", "A at [x 0:2 3:2]", "TIL533", "'A' has the places x 0:2 3:2, which are no intervals"),
        ("A at [x 0:2 2:3]", "A at [0:3]", "TIL533", "'B_all' expects 'A' to be laid out otherwise"),
        ("A at [x 0:2 2:3]", "A at []", "TIL533", "'A' has a placement with 0 splits and 1 axes"),
        ("B_all at [0:3]", "B_all at [0:2]", "TIL533", "'B_all' is laid out otherwise than its collective says"),
        ("-> (S,", "-> (S_part,", "TIL533", "'S_part' is an input or a result, and ranks have parts of an aggregate"),
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


MORE = """\
partition over x=2, y=2 {
  A at [x 0:2 2:4, 0:4]
  A_S at [x 0:3 1:4, 0:4]
  S at [x 0:2 2:4, 0:4]
  P at [x 0:2 2:4, 0:4] sharing [j: y 0:2 2:4]
  Q at [x 0:2 2:4, y 0:2 2:4]
  E at [x 0:2 2:4, 0:4]
  R_part at [x 0:2 2:4] sharing [d1: y 0:2 2:4]
  R_part_0 at [x 0:2 2:4] sharing [d1: y 0:2 2:4]
  R at [x 0:2 2:4]
  O at [x 0:2 2:4, 0:4]
}
function (
  A: f32[4, 4],
) -> (S, Q, E, R, O) {
  A_S: f32[4, 4] = halo(A) over x from [x 0:2 2:4, 0:4] to [x 0:3 1:4, 0:4]
  S: f32[4, 4] = [y, x] +(A_S[-1 + k + y, x]), k < 3
  P: f32[4, 4] = [i, k] +(A[i, j] * A[i, k])
  Q: f32[4, 4] = reduce_scatter(P) over y from [x 0:2 2:4, 0:4] to [x 0:2 2:4, y 0:2 2:4] by add
  E: f32[4, 4] = exp(A)
  R_part: f32[4] = reduce_argmax(A, 1): 0
  R_part_0: i32[4] = reduce_argmax(A, 1): 1
  R: f32[4] = all_reduce(R_part, R_part_0) over y from [x 0:2 2:4] to [x 0:2 2:4] of reduce_argmax: 0
  O: i32[4, 4] = argsort(A, 1)
}
"""


def test_parts_of_more_kinds() -> None:
    verify(parse(MORE))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("A_S at [x 0:3 1:4", "A_S at [x 0:2 2:4", "'A_S' is laid out otherwise than its collective says"),
        ("+(A_S[", "+(A[", "'S' reads 'A' at [x 0:3 1:4, 0:4], and ranks have [x 0:2 2:4, 0:4]"),
        ("exp(A)", "exp(P)", "'E' reads 'P', of which ranks have parts of an aggregate"),
        (
            "halo(A) over x",
            "halo(A) over y",
            "'A_S' is over other axes of the mesh than those along which places change",
        ),
        ("P) over y", "P) over x", "'Q' merges over other axes of the mesh than those along which ranks have parts"),
        ("by add", "by max", "'Q' merges 'P' otherwise than that is aggregated"),
        ("argmax: 0", "argmin: 0", "'R' merges 'R_part' otherwise than that is aggregated"),
        ("[j: y 0:2 2:4]", "[j: y 0:2 1:4]", "'P' shares terms y 0:2 1:4, some of which no rank has, or several"),
        ("[j: y 0:2 2:4]", "[j: y 0:2 3:4]", "'P' shares terms y 0:2 3:4, some of which no rank has, or several"),
        ("[j: y 0:2 2:4]", "[j: y 0:2 2:3]", "'P' shares terms y 0:2 2:3 of 4"),
        ("[j: y 0:2 2:4]", "[j: x 0:2 2:4]", "'P' is cut along 'x' twice"),
        ("[j: y", "[2*j: y", "'P' shares terms by 2*j, which no rank can"),
        ("[d1: y", "[d0: y", "'R_part' shares terms by d0, which no rank can"),
        ("O at [x 0:2 2:4, 0:4]", "O at [0:4, x 0:2 2:4]", "'O' is cut along axis 1 as x 0:2 2:4, which its operation"),
        (
            "O at [x 0:2 2:4, 0:4]",
            "O at [x 0:2 2:4, 0:3]",
            "'O' is cut along axis 1 as 0:3, which its operation cannot",
        ),
        ("E at [x 0:2 2:4, 0:4]", "E at [x 0:2 3:4, 0:4]", "'E' has no rank for some of its 4 places: x 0:2 3:4"),
        ("E at [x 0:2 2:4, 0:4]", "E at [x 0:2 2:4, 0:3]", "'E' has no rank for some of its 4 places: 0:3"),
        ("E at [x 0:2 2:4, 0:4]", "E at [0:4, 0:4]", "'E' reads 'A' at [0:4, 0:4], and ranks have [x 0:2 2:4, 0:4]"),
    ],
)
def test_parts_that_do_not_go_together(old: str, new: str, message: str) -> None:
    assert old in MORE
    with pytest.raises(VerifyError) as caught:
        verify(parse(MORE.replace(old, new, 1)))
    assert message in caught.value.diagnostics[0].message
    assert {each.code for each in caught.value.diagnostics} == {"TIL533"}


LOOP = """\
partition over x=2 {
  A at [x 0:2 2:4]
  H at [x 0:2 2:4]
}
function (
  A: f32[4],
) -> (H) {
  H_step = function (
    C: f32[4],
  ) -> (D) {
    D: f32[4] = exp(C)
  }
  H: f32[4] = scan H_step(A; ; ) 3 times: final 0
}
"""


def test_parts_of_loops() -> None:
    verify(parse(LOOP))
    with pytest.raises(VerifyError, match="'H' is laid out otherwise than its loop leaves it"):
        verify(parse(LOOP.replace("H at [x 0:2 2:4]", "H at [x 0:3 3:4]")))
    mixed = LOOP.replace("D: f32[4] = exp(C)", "D: f32[4] = [i] =(C[3 - i])").replace("H at [x 0:2 2:4]", "H at [0:4]")
    with pytest.raises(VerifyError, match="'H' runs on all ranks alike, and these have parts of 'A'"):
        verify(parse(mixed))


def test_every_value_has_a_placement() -> None:
    program = parse(TEXT)
    program = attrs.evolve(program, placements=program.placements[1:])
    with pytest.raises(VerifyError, match=r"TIL533.*one placement for each value"):
        verify(program)


def test_inputs_that_are_missing() -> None:
    with pytest.raises(ArgumentError, match=r"TIL701.*input 'A' has no array"):
        interpret_partitioned(parse(TEXT), {})
