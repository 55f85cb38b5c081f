from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs
import pytest

from strategies.passes import program_of
from tileir.core.errors import VerifyError
from tileir.passes import base
from tileir.passes.analysis.dependences import ComputeDeps
from tileir.passes.base import Pass, expand_kernels, is_plain, map_kernels, run, run_at_once
from tileir.stripe.ir import Block, Load, Program, Tags

if TYPE_CHECKING:
    from collections.abc import Callable

COPY = """
block [i:4]:4 (
  in I[i] fp32:I(1):(1):4 B
  out O[i] fp32:I(1):(1):4 B
) {
  0: $x = load(I)
  1: O = store($x)
}
"""
PROGRAM = program_of([COPY], {"I": (4,), "O": (4,)})
AGAIN = Load("O", "y")


@attrs.frozen
class Mark:
    name: ClassVar[str] = "mark"
    tag: str = "marked"

    def __call__(self, program: Program) -> Program:
        return map_kernels(program, lambda kernel: attrs.evolve(kernel, tags=kernel.tags.add(self.tag)))


@attrs.frozen
class Forget:
    name: ClassVar[str] = "forget"

    def __call__(self, program: Program) -> Program:
        return map_kernels(program, lambda kernel: attrs.evolve(kernel, statements=kernel.statements[1:]))


@attrs.frozen
class Nothing:
    name: ClassVar[str] = "nothing"

    def __call__(self, program: Program) -> Program:
        return map_kernels(program, lambda kernel: kernel)


def test_passes_run_in_order_and_each_is_dumped() -> None:
    seen: list[tuple[str, bool]] = []
    after = run((Mark(), Mark("twice")), PROGRAM, dump=lambda name, p: seen.append((name, "twice" in tags(p))))
    assert {"marked", "twice"} == {name for name, _ in tags(after).items}
    assert seen == [("mark", False), ("mark", True)]


def tags(program: Program) -> Tags:
    return program.main.blocks[0].tags


@attrs.frozen
class ReadBack:
    name: ClassVar[str] = "read_back"

    def __call__(self, program: Program) -> Program:
        return map_kernels(program, lambda kernel: attrs.evolve(kernel, statements=(*kernel.statements, AGAIN)))


@attrs.frozen
class Fail:
    name: ClassVar[str] = "fail"

    def __call__(self, program: Program) -> Program:
        (kernel,) = program.main.blocks
        raise KeyError(len(kernel.statements))


@pytest.mark.parametrize("apply", [run, run_at_once])
@pytest.mark.parametrize("later", [Mark("late"), Fail()])
def test_the_guilty_pass_is_named(apply: Callable[[tuple[Pass, ...], Program], Program], later: Pass) -> None:
    with pytest.raises(VerifyError) as caught:
        apply((Mark(), Forget(), later), PROGRAM)
    assert any("forget" in note for d in caught.value.diagnostics for note in d.notes)


def test_what_a_pass_raises_is_raised() -> None:
    with pytest.raises(KeyError):
        run_at_once((Mark(), Fail()), PROGRAM)


def test_order_that_a_pass_computes_is_what_it_is_with_checks_after_each() -> None:
    for passes in ((ComputeDeps(),), (ComputeDeps(), Mark()), (ComputeDeps(), ReadBack(), Mark())):
        assert run_at_once(passes, PROGRAM) == run(passes, PROGRAM)
    assert any(statement.deps for statement in run_at_once((ComputeDeps(),), PROGRAM).main.blocks[0].statements)


def test_what_did_not_change_is_not_searched_for_order(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[Program] = []

    def noted(program: Program, since: Program | None = None) -> bool:
        searched.append(program)
        return is_plain(program, since)

    monkeypatch.setattr(base, "is_plain", noted)
    marked = run_at_once((Nothing(), Mark(), Nothing()), PROGRAM)
    assert [program is marked for program in searched] == [False, True]


@pytest.mark.parametrize("apply", [run, run_at_once])
def test_the_program_itself_is_verified_first(apply: Callable[[tuple[Pass, ...], Program], Program]) -> None:
    with pytest.raises(VerifyError) as caught:
        apply((), Forget()(PROGRAM))
    assert all(d.notes == () for d in caught.value.diagnostics)


def test_verification_can_be_left_out() -> None:
    assert run((Forget(),), PROGRAM, verify=False).main.blocks[0].statements != PROGRAM.main.blocks[0].statements


def test_what_does_not_change_stays_itself() -> None:
    assert run((Nothing(),), PROGRAM) is PROGRAM


def test_kernels_are_selected_by_all_tags() -> None:
    def never(_: Block) -> Block:
        raise AssertionError

    assert map_kernels(PROGRAM, never, ("kernel", "conv")) is PROGRAM
    assert expand_kernels(PROGRAM, lambda _: (), ("kernel", "all")).main.statements == ()
