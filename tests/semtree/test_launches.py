from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np
import pytest

from strategies.plans import SIZE, binary, buffer
from tileir.core.dtype import DType
from tileir.core.errors import ParseError, VerifyError
from tileir.core.json.codec import from_json, to_json
from tileir.core.ops import Op
from tileir.core.text.span import Span
from tileir.semtree.check.verifier import verify_program
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.ir import Branch, Buffer, BufferRole, Launch, Loop, ParamAccess, Program, While
from tileir.semtree.launches import (
    MAX_NESTED_WORKS,
    accesses,
    executed,
    has_conditions,
    launches,
    runs,
    used_buffers,
    with_buffers,
    with_launches,
)
from tileir.semtree.text.parser import parse_program
from tileir.semtree.text.printer import to_text
from tileir.semtree.transform.in_place import reuse_in_place, share_kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.semtree.ir import Work

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
    assert list(executed(WORKS, dict[str, bool]().__getitem__)) == [A, *3 * [B, C, B, C, B], WORKS[2]]
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
    unrolled_program = attrs.evolve(PROGRAM, works=tuple(executed(WORKS, dict[str, bool]().__getitem__)))
    np.testing.assert_array_equal(run_program(PROGRAM, {"x": x})["out"], run_program(unrolled_program, {"x": x})["out"])


@pytest.mark.parametrize("work", [Loop(0, (B,)), Loop(2, ()), Loop(While("go"), ()), Branch("go", ())])
def test_loops_and_branches_without_anything_to_run_are_refused(work: Work) -> None:
    with pytest.raises(VerifyError, match="TIL551"):
        verify_program(attrs.evolve(PROGRAM, works=(A, work)))


def test_what_is_repeated_is_checked() -> None:
    with pytest.raises(VerifyError, match="TIL557"):
        verify_program(attrs.evolve(PROGRAM, works=(Loop(2, (B,)), *WORKS)))
    with pytest.raises(VerifyError, match="TIL556"):
        verify_program(attrs.evolve(PROGRAM, works=(A, Loop(2, (Launch(5, ()),)))))


def test_repetitions_are_not_nested_without_end() -> None:
    work: Work = B
    for depth in range(MAX_NESTED_WORKS + 1):
        work = Loop(2, (work,)) if depth % 2 else Branch("go", (B,), (work,))
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


GO = Buffer("go", DType.BOOL, (1,), BufferRole.TEMPORARY)
GIVEN = Buffer("given", DType.BOOL, (1,), BufferRole.INPUT)
NOT = parse_program("program { kernel not(out bool b[1], in bool a[1]) grid(1) { b[0] = a[0] == false; } }").kernels[0]
STOP = Launch(2, ("go", "given"))


def decided(*works: Work, buffers: Sequence[Buffer] = (GO, GIVEN)) -> Program:
    return Program((*PROGRAM.kernels, NOT), (*PROGRAM.buffers, *buffers), works)


OUT = Launch(0, ("x", "x", "out"))
WHILE = Loop(While("go"), (Launch(0, ("t", "x", "u")), STOP))
BRANCH = Branch("given", (B, Loop(2, (C,))), (Launch(1, ("x", "x", "u")),))


def test_walks_see_loops_on_conditions_and_both_ways_of_branches() -> None:
    program = decided(A, STOP, WHILE, BRANCH, Launch(1, ("u", "t", "out")))
    assert list(launches(program.works)) == [A, STOP, *WHILE.works, B, C, *BRANCH.otherwise, program.works[-1]]
    assert list(used_buffers((WHILE, Branch("given", (A,))))) == ["go", "t", "x", "u", "go", "given", "given", *"xxt"]
    assert dict(accesses(program, (WHILE,)))["t"] is ParamAccess.READ
    assert ("given", ParamAccess.READ) in accesses(program, (BRANCH,))
    assert runs(program) == (1 + 1 + 1 + 2, 1 + 1, 1 + 1)
    assert has_conditions(program.works)
    assert has_conditions((Loop(2, (BRANCH,)),))
    assert not has_conditions(WORKS)


def test_names_of_conditions_are_replaced_as_well() -> None:
    renamed = with_buffers((A, WHILE, Loop(2, (BRANCH,))), {"go": "stop", "given": "go", "t": "v"})
    assert set(used_buffers(renamed)) == {"x", "u", "v", "stop", "go"}
    assert with_buffers((A, WHILE, BRANCH), {"nobody": "knows"})[1] is WHILE


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("turns", [0, 1, 3])
def test_what_runs_is_decided_when_it_is_its_turn(given: bool, turns: int) -> None:
    held = iter([True] * turns + [False])
    found = list(executed((WHILE, BRANCH), lambda name: given if name == "given" else next(held)))
    assert found == [*turns * WHILE.works, *((B, C, C) if given else BRANCH.otherwise)]


def test_text_and_json_of_conditions_come_back() -> None:
    given = attrs.evolve(GIVEN, name="while")
    works = with_buffers((A, STOP, OUT, WHILE, BRANCH, Branch("given", (OUT,))), {"given": "while"})
    program = decided(*works, buffers=(GO, given))
    verify_program(program)
    text = to_text(program)
    assert "  while (go) {\n    launch 0(t, x, u);\n    launch 2(go, `while`);\n  }\n" in text
    assert "  if (`while`) {\n    launch 0(t, x, u);\n    repeat 2 {\n" in text
    assert "  } else {\n    launch 1(x, x, u);\n  }\n" in text
    assert parse_program(text) == program
    assert from_json(to_json(program), Program) == program


@pytest.mark.parametrize(
    ("text", "underlined"),
    [
        ("while go { }", "go"),
        ("while (go { }", "{"),
        ("if (go) { launch 0(a); } otherwise { }", "otherwise"),
        ("repeat go { }", "go"),
        ("while (go) { kernel }", "kernel"),
    ],
)
def test_faults_in_the_text_are_found(text: str, underlined: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_program(f"program {{ {text} }}")
    (fault,) = caught.value.diagnostics
    assert fault.code == "TIL102"
    assert isinstance(fault.span, Span)
    assert fault.span.text == underlined


@pytest.mark.parametrize(
    ("works", "code", "words"),
    [
        ((OUT, Branch("nobody", (A,))), "TIL201", "condition 'nobody' is no buffer"),
        ((OUT, Loop(While("nobody"), (A,))), "TIL201", "condition 'nobody' is no buffer"),
        ((OUT, Branch("x", (A,))), "TIL559", "one bool, not of 1000 f32"),
        ((OUT, Branch("long", (A,))), "TIL559", "one bool, not of 2 bool"),
        ((OUT, STOP, Loop(While("go"), (A,))), "TIL559", "nothing in the loop on the condition 'go' writes it"),
        ((OUT, Loop(While("given"), (STOP,))), "TIL559", "nothing in the loop on the condition 'given' writes it"),
        ((OUT, A, WHILE), "TIL557", "condition 'go' may be read before"),
        ((OUT, STOP, WHILE), "TIL557", "buffer 't' may be read before"),
        ((OUT, Branch("given", (A,)), B), "TIL557", "buffer 't' may be read before"),
        ((OUT, Branch("given", (), (A,)), B), "TIL557", "buffer 't' may be read before"),
        ((OUT, STOP, Loop(While("go"), (A, STOP)), B), "TIL557", "buffer 't' may be read before"),
        ((Branch("given", (OUT,)),), "TIL557", "output 'out' is not written on every way"),
        ((OUT, Branch("given", (Launch(7, ()),))), "TIL556", "no kernel number 7"),
        ((OUT, Branch("given", (), (Launch(0, ("x",)),))), "TIL556", "takes 3 buffers"),
    ],
)  # fmt: skip
def test_mistakes_about_conditions_are_told(works: tuple[Work, ...], code: str, words: str) -> None:
    long = Buffer("long", DType.BOOL, (2,), BufferRole.INPUT)
    with pytest.raises(VerifyError) as caught:
        verify_program(decided(*works, buffers=(GO, GIVEN, long)))
    assert [fault.code for fault in caught.value.diagnostics] == [code]
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "works",
    [
        (Branch("given", (A, OUT), (OUT, A)), B),
        (A, Branch("given", (Launch(0, ("t", "x", "u")),)), B, OUT),
        (Loop(2, (A, OUT)), B),
        (A, STOP, WHILE, OUT),
        (STOP, Loop(While("go"), (Branch("given", (A,), (A,)), B, STOP)), OUT),
    ],
)
def test_what_is_written_on_every_way_can_be_read(works: tuple[Work, ...]) -> None:
    verify_program(decided(*works))


def test_a_condition_keeps_its_memory_and_follows_it() -> None:
    flags = [Buffer(name, DType.BOOL, (1,), BufferRole.TEMPORARY) for name in ("f", "g")]
    first, second = Launch(2, ("f", "given")), Launch(2, ("g", "f"))
    works = (OUT, first, second, Branch("g", (OUT,)))
    reused = reuse_in_place(decided(*works, buffers=(*flags, GIVEN)))
    assert reused.works[-1] == Branch("f", (Launch(0, OUT.arguments),))
    verify_program(reused)
    kept = decided(*works, Branch("f", (OUT,)), buffers=(*flags, GIVEN))
    assert reuse_in_place(kept) is kept


def test_equal_kernels_are_shared_on_both_ways() -> None:
    again = attrs.evolve(PROGRAM.kernels[0], name="again")
    program = decided(OUT, Branch("given", (Launch(3, OUT.arguments),), (Launch(3, OUT.arguments),)))
    shared = share_kernels(attrs.evolve(program, kernels=(*program.kernels, again)))
    assert {launch.kernel for launch in launches(shared.works)} == {0}
