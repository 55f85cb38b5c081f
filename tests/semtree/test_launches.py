from __future__ import annotations

import attrs
import numpy as np
import pytest

from strategies.plans import SIZE, binary, buffer
from tileir.core.codec import from_json, to_json
from tileir.core.errors import ParseError, VerifyError
from tileir.core.ops import Op
from tileir.semtree.in_place import reuse_in_place
from tileir.semtree.interpreter import run_program
from tileir.semtree.ir import BufferRole, Launch, Loop, Program
from tileir.semtree.launches import MAX_REPEATS, launches, runs, unrolled, with_launches
from tileir.semtree.parser import parse_program
from tileir.semtree.printer import to_text
from tileir.semtree.sharing import share_kernels
from tileir.semtree.verifier import verify_program

A, B, C = Launch(0, ("x", "x", "t")), Launch(0, ("t", "x", "u")), Launch(0, ("u", "x", "t"))
WORKS = (A, Loop(3, (B, Loop(2, (C, B)))), Launch(1, ("u", "t", "out")))
PROGRAM = Program(
    (binary(Op.ADD), binary(Op.MUL)),
    (
        buffer("x", BufferRole.INPUT),
        buffer("t", BufferRole.TEMPORARY),
        buffer("u", BufferRole.TEMPORARY),
        buffer("out", BufferRole.OUTPUT),
    ),
    WORKS,
)


def test_walks() -> None:
    assert list(launches(WORKS)) == [A, B, C, B, WORKS[2]]
    assert list(unrolled(WORKS)) == [A, *3 * [B, C, B, C, B], WORKS[2]]
    assert runs(PROGRAM) == (16, 1)
    assert with_launches(WORKS, lambda launch: launch) is WORKS
    assert list(launches(with_launches(WORKS, lambda _: A))) == 5 * [A]


def test_text_and_json_come_back() -> None:
    verify_program(PROGRAM)
    text = to_text(PROGRAM)
    assert "  repeat 3 {\n    launch 0(t, x, u);\n    repeat 2 {\n" in text
    assert parse_program(text) == PROGRAM
    assert from_json(to_json(PROGRAM), Program) == PROGRAM


def test_repeated_launches_run_one_time_after_the_other() -> None:
    x = np.arange(SIZE, dtype=np.float32)
    unrolled_program = attrs.evolve(PROGRAM, works=tuple(unrolled(WORKS)))
    np.testing.assert_array_equal(run_program(PROGRAM, {"x": x})["out"], run_program(unrolled_program, {"x": x})["out"])


@pytest.mark.parametrize("works", [(A, Loop(0, (B,))), (A, Loop(2, ()))])
def test_repetitions_of_nothing_are_refused(works: tuple[Launch | Loop, ...]) -> None:
    with pytest.raises(VerifyError, match="TIL551"):
        verify_program(attrs.evolve(PROGRAM, works=works))


def test_what_is_repeated_is_checked() -> None:
    with pytest.raises(VerifyError, match="TIL557"):
        verify_program(attrs.evolve(PROGRAM, works=(Loop(2, (B,)), *WORKS)))
    with pytest.raises(VerifyError, match="TIL556"):
        verify_program(attrs.evolve(PROGRAM, works=(A, Loop(2, (Launch(5, ()),)))))


def test_repetitions_are_not_nested_without_end() -> None:
    work: Launch | Loop = B
    for _ in range(MAX_REPEATS + 1):
        work = Loop(2, (work,))
    deep = attrs.evolve(PROGRAM, works=(A, work))
    with pytest.raises(VerifyError, match="TIL551"):
        verify_program(deep)
    with pytest.raises(ParseError, match="TIL103"):
        parse_program(to_text(deep))


def test_memory_of_what_is_repeated_is_not_given_away_before_the_end() -> None:
    program = attrs.evolve(PROGRAM, works=(A, Loop(2, (B,)), Launch(1, ("u", "t", "out"))))
    assert reuse_in_place(program) is program


def test_places_reach_into_repetitions() -> None:
    chain = (Launch(0, ("x", "x", "u")), Launch(1, ("u", "u", "t")), Loop(2, (Launch(0, ("t", "x", "out")),)))
    reused = reuse_in_place(attrs.evolve(PROGRAM, works=(chain[0], Launch(1, ("u", "x", "t")), chain[2])))
    assert list(launches(reused.works))[-1].arguments == ("u", "x", "out")
    assert [b.name for b in reused.buffers] == ["x", "u", "out"]


def test_equal_kernels_are_shared_where_they_are_repeated() -> None:
    kernels = (binary(Op.ADD), attrs.evolve(binary(Op.ADD), name="again"))
    works = (A, Loop(2, (attrs.evolve(B, kernel=1),)), Launch(1, ("u", "t", "out")))
    shared = share_kernels(attrs.evolve(PROGRAM, kernels=kernels, works=works))
    assert {launch.kernel for launch in launches(shared.works)} == {0}
