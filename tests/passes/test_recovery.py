"""Pipelines with a pass that fails."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, ClassVar

import attrs
import pytest

from strategies.passes import program_of
from tileir.core.errors import TileError, VerifyError, fail
from tileir.passes.base import NOT_REPEATED, Named, map_kernels, run, run_at_once
from tileir.passes.recovery import Skipped, run_without_failing
from tileir.stripe.ir import Block, Program

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.passes.base import Pass

COPY = """
block [i:4]:4 ( // copy
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

    def __call__(self, program: Program) -> Program:
        return map_kernels(program, lambda kernel: attrs.evolve(kernel, tags=kernel.tags.add("marked")))


@attrs.frozen
class Forget:
    name: ClassVar[str] = "forget"

    def __call__(self, program: Program) -> Program:
        return map_kernels(program, lambda kernel: attrs.evolve(kernel, statements=kernel.statements[1:]))


@attrs.frozen
class Raise:
    error: Callable[[], Exception]
    name: ClassVar[str] = "raise"

    def __call__(self, program: Program) -> Program:
        def spoil(_: Block) -> Block:
            raise self.error()

        return map_kernels(program, spoil)


@attrs.frozen
class Wrong:
    name: ClassVar[str] = "wrong"

    def __call__(self, program: Program) -> Program:  # noqa: ARG002  the name is part of what a pass is
        return None  # type: ignore[return-value]


def test_passes_that_fail_are_left_out() -> None:
    failing = (Forget(), Mark(), Named("mine", Raise(lambda: KeyError("k"))), Wrong())
    after, skipped = run_without_failing(failing, PROGRAM)
    assert after == Mark()(PROGRAM)
    illegal, raised, wrong = skipped
    assert illegal.label == "forget"
    assert "TIL508" in illegal.problem
    assert "copy" in illegal.problem
    assert raised == Skipped("mine", "it failed with KeyError: 'k', in the kernel 'copy', raised by the pass 'mine'")
    assert "returned a value of type NoneType" in wrong.problem


@attrs.frozen
class Once:
    """A pass with a defect that shows the first time only."""

    step: Program | Exception
    seen: list[Program] = attrs.field(factory=list, eq=False)
    name: ClassVar[str] = "once"

    def __call__(self, program: Program) -> Program:
        self.seen.append(program)
        if len(self.seen) > 1:
            return program
        if isinstance(self.step, Exception):
            raise self.step
        return self.step


@pytest.mark.parametrize("wrong", [KeyError("k"), Forget()(PROGRAM)], ids=["raises", "illegal"])
def test_a_failure_that_is_not_repeated_is_told(wrong: Program | Exception) -> None:
    kind = KeyError if isinstance(wrong, Exception) else VerifyError
    with pytest.raises(kind) as caught:
        run_at_once((Mark(), Once(wrong)), PROGRAM)
    assert NOT_REPEATED in caught.value.__notes__
    after, (told,) = run_without_failing((Mark(), Once(wrong)), PROGRAM)
    assert after == Mark()(PROGRAM)
    assert told.label is None
    assert str(told).startswith(f"{kind.__name__}: ")
    assert str(told).endswith(NOT_REPEATED)


def test_a_lack_of_memory_is_raised_at_once() -> None:
    with pytest.raises(MemoryError):
        run_at_once((Once(MemoryError()),), PROGRAM)


def test_nothing_is_left_out_of_pipelines_that_work() -> None:
    assert run_without_failing((Mark(), Mark()), PROGRAM) == (Mark()(PROGRAM), ())


def test_refusals_remain() -> None:
    with pytest.raises(TileError, match="needs 5 KiB"):
        run_without_failing((Mark(), Raise(lambda: fail("TIL548", "it needs 5 KiB"))), PROGRAM)


def test_a_lack_of_memory_is_no_fault_of_a_pass() -> None:
    with pytest.raises(MemoryError):
        run_without_failing((Raise(MemoryError),), PROGRAM)


def test_the_program_itself_must_be_valid() -> None:
    with pytest.raises(VerifyError):
        run_without_failing((Mark(),), Forget()(PROGRAM))


def test_what_a_pass_raises_names_the_pass_and_the_kernel() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run((Mark(), Named("mine", Raise(ZeroDivisionError))), PROGRAM)
    assert caught.value.__notes__ == ["in the kernel 'copy'", "raised by the pass 'mine'"]


def test_a_pass_must_return_a_program() -> None:
    with pytest.raises(TileError, match="'wrong' returned a value of type NoneType: return a Program") as caught:
        run((Wrong(),), PROGRAM)
    assert [fault.code for fault in caught.value.diagnostics] == ["TIL549"]


def test_a_lowered_program_is_checked_where_a_pass_fails() -> None:
    assert run_without_failing((Mark(), Mark()), PROGRAM, lowered=True) == (Mark()(PROGRAM), ())
    after, (left_out,) = run_without_failing((Forget(), Mark()), PROGRAM, lowered=True)
    assert after == Mark()(PROGRAM)
    assert left_out.label == "forget"


@pytest.mark.parametrize("step", [Mark(), Raise(lambda: KeyError("k"))], ids=["works", "raises"])
def test_a_fault_of_the_lowering_is_none_of_a_pass(step: Pass) -> None:
    with pytest.raises(VerifyError):
        run_without_failing((step,), Forget()(PROGRAM), lowered=True)


def test_a_pass_that_fails_leaves_nothing_of_its_callers() -> None:
    """A traceback that is kept has the locals of all of them, such as the arrays of a call that compiles."""

    class Held:
        pass

    def call() -> weakref.ref[Held]:
        held = Held()
        run_without_failing([Raise(lambda: IndexError("for a test"))], PROGRAM)
        return weakref.ref(held)

    gc.collect()
    gc.disable()
    try:
        assert call()() is None
    finally:
        gc.enable()
