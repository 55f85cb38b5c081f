"""Wrong passes are found, with the kernel, the element and small shapes; right ones are not."""

from __future__ import annotations

from typing import ClassVar

import attrs
import pytest

from tileir.core.dtype import DType
from tileir.core.target import Target
from tileir.driver.checking.check import check_passes
from tileir.passes.accumulate import Accumulate
from tileir.passes.base import map_kernels, with_kernels
from tileir.stripe.ir import Block, Direction, Program
from tileir.typed.ir import TensorType

SUM = "function (A[N, M]) -> (O) { T = tanh(A); O[i : N] = +(T[i, j]); }"
SIZES = {"A": TensorType(DType.F32, (12, 30))}


@attrs.frozen
class DropLastTerm:
    """Leaves out the last value of every index that is summed over."""

    name: ClassVar[str] = "drop_last_term"

    def __call__(self, program: Program) -> Program:
        return map_kernels(program, self._shortened, ("contraction",))

    def _shortened(self, kernel: Block) -> Block:
        indices = tuple(attrs.evolve(i, range=i.range - 1) if i.name == "j" else i for i in kernel.indices)
        return attrs.evolve(kernel, indices=indices)


@attrs.frozen
class LeaveGap:
    """Lets the first kernel write less, so that others read what nothing has written."""

    name: ClassVar[str] = "leave_gap"

    def __call__(self, program: Program) -> Program:
        first, *others = program.main.blocks
        indices = tuple(attrs.evolve(index, range=index.range - 1) for index in first.indices)
        shorter = attrs.evolve(first, indices=indices)
        return with_kernels(program, (shorter, *others))


@attrs.frozen
class Overwrite:
    """Takes the aggregation from results, so that the order of points decides."""

    name: ClassVar[str] = "overwrite"

    def __call__(self, program: Program) -> Program:
        return map_kernels(program, self._plain)

    def _plain(self, kernel: Block) -> Block:
        views = tuple(
            attrs.evolve(r, aggregation=None) if r.direction is Direction.OUT else r for r in kernel.refinements
        )
        return attrs.evolve(kernel, refinements=views)


@attrs.frozen
class Fail:
    """Raises what no pass should."""

    name: ClassVar[str] = "fail"

    def __call__(self, program: Program) -> Program:
        raise KeyError(program.outputs[0])


def test_a_right_pipeline_gives_no_finding() -> None:
    assert check_passes(SUM, SIZES, "cpu", target=Target()) is None


def test_a_wrong_pass_is_named_with_kernel_element_and_shapes() -> None:
    finding = check_passes(SUM, SIZES, (Accumulate(reqs=("none",)), DropLastTerm()), target=Target())
    assert finding is not None
    assert (finding.step, finding.number) == ("drop_last_term", 2)
    assert finding.kernel == "kernel_1(T)"
    assert finding.difference is not None
    assert finding.difference.output == "O"
    assert finding.types["A"].shape == (1, 2)
    assert str(finding).splitlines()[0] == "pass 2, 'drop_last_term', changes what the program computes"
    assert "inputs: A=f32[1, 2]" in str(finding)


def test_a_read_of_undefined_memory_is_found() -> None:
    finding = check_passes(SUM, SIZES, (LeaveGap(),), target=Target())
    assert finding is not None
    assert finding.difference is not None
    assert finding.difference.after == "undefined"


def test_a_result_that_depends_on_the_order_of_points_is_found() -> None:
    finding = check_passes(
        "function (A[N]) -> (O) { O[] = >(A[i]); }", {"A": TensorType(DType.F32, (9,))}, (Overwrite(),), target=Target()
    )
    assert finding is not None
    assert finding.step == "overwrite"


def test_a_pass_that_raises_is_named() -> None:
    finding = check_passes(SUM, SIZES, (Fail(),), target=Target())
    assert finding is not None
    assert finding.problem == "KeyError: 'O'"
    assert str(finding).startswith("pass 1, 'fail', fails: KeyError")


def test_a_program_that_the_verifier_refuses_is_told() -> None:
    @attrs.frozen
    class Unscoped:
        name: ClassVar[str] = "unscoped"

        def __call__(self, program: Program) -> Program:
            return map_kernels(program, lambda kernel: attrs.evolve(kernel, refinements=()))

    finding = check_passes(SUM, SIZES, (Unscoped(),), target=Target())
    assert finding is not None
    assert finding.difference is None
    assert "TIL50" in finding.problem


def test_a_stage_behind_the_passes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from tileir.driver.checking import checker

    monkeypatch.setattr(checker, "simplify", lambda kernel: attrs.evolve(kernel, body=kernel.body[:-1]))
    finding = check_passes(SUM, SIZES, (Accumulate(),), target=Target())
    assert finding is not None
    assert finding.step == "semtree simplify"
    assert str(finding).startswith("stage 'semtree simplify' changes")
