from __future__ import annotations

from typing import ClassVar

import attrs
import pytest

from strategies.passes import program_of
from tileir.core.errors import VerifyError
from tileir.passes.base import expand_kernels, map_kernels, run
from tileir.stripe.ir import Block, Program, Tags

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
    assert {"marked", "twice", "kernel"} == {name for name, _ in tags(after).items}
    assert seen == [("mark", False), ("mark", True)]


def tags(program: Program) -> Tags:
    return program.main.blocks[0].tags


def test_the_guilty_pass_is_named() -> None:
    with pytest.raises(VerifyError) as caught:
        run((Mark(), Forget(), Mark("late")), PROGRAM)
    assert any("forget" in note for d in caught.value.diagnostics for note in d.notes)


def test_the_program_itself_is_verified_first() -> None:
    with pytest.raises(VerifyError) as caught:
        run((), Forget()(PROGRAM))
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
