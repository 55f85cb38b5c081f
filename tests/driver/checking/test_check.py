"""Wrong passes are found, with the kernel, the element and small shapes; right ones are not."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs
import pytest

import tileir
from strategies.stripe_works import ALL, add, copy, less, program
from tileir.core.dtype import DType
from tileir.core.errors import ArgumentError
from tileir.core.ops import Op
from tileir.core.targets.target import Target
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import map_kernels, with_kernels
from tileir.passes.pipelines.resolution import pipeline_for
from tileir.stripe.ir import Block, Branch, Carry, Direction, Intrinsic, Loop, Program, Work
from tileir.typed.ir import TensorType
from tileir_testing.checking.check import check_passes, check_program

if TYPE_CHECKING:
    from pathlib import Path

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


@pytest.mark.parametrize("name", ["A", '"/Div_output_0"'])
def test_a_right_pipeline_gives_no_finding(name: str) -> None:
    """Also where Stripe cannot spell the names of values."""
    text = SUM.replace("A[", f"{name}[").replace("(A)", f"({name})")
    assert check_passes(text, {name.strip('"'): SIZES["A"]}, "cpu", target=Target()) is None


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


@pytest.mark.sampled(0)
def test_programs_of_stripe_are_checked_as_they_are(tmp_path: Path) -> None:
    stripe = tileir.compile(SUM, SIZES, target=Target()).stripe
    file = tmp_path / "sum.stripe"
    file.write_text(tileir.to_text(stripe), encoding="utf-8")
    for source in (stripe, tileir.to_text(stripe), tileir.to_json(stripe), file):
        assert check_passes(source, passes="cpu", target=Target()) is None
        finding = check_passes(source, SIZES, (Accumulate(reqs=("none",)), DropLastTerm()), target=Target())
        assert finding is not None
        assert (finding.step, finding.number, finding.kernel) == ("drop_last_term", 2, "kernel_1(T)")
        assert finding.types["A"].shape == (12, 30)


def test_types_that_a_program_of_stripe_has_not_and_kernels_are_refused() -> None:
    executable = tileir.compile(SUM, SIZES, target=Target())
    with pytest.raises(ArgumentError, match=r"'A' is f32\[12, 30\] in a Stripe program"):
        check_passes(executable.stripe, {"A": "f32[3, 4]"}, target=Target())
    with pytest.raises(ArgumentError, match="nothing is left to choose") as caught:
        check_passes(executable.sem, target=Target())
    assert caught.value.diagnostics[0].code == "TIL712"


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
    from tileir_testing.checking import check

    monkeypatch.setattr(check, "simplify", lambda kernel: attrs.evolve(kernel, body=kernel.body[:-1]))
    finding = check_passes(SUM, SIZES, (Accumulate(),), target=Target())
    assert finding is not None
    assert finding.step == "semtree simplify"
    assert str(finding).startswith("stage 'semtree simplify' changes")


@attrs.frozen
class Subtracting:
    """Lets kernels subtract where they add."""

    name: ClassVar[str] = "subtracting"

    def __call__(self, program: Program) -> Program:
        return map_kernels(program, self._kernel)

    def _kernel(self, kernel: Block) -> Block:
        new = (
            attrs.evolve(s, op=Op.SUB) if isinstance(s, Intrinsic) and s.op is Op.ADD else s for s in kernel.statements
        )
        return attrs.evolve(kernel, statements=tuple(new))


@pytest.mark.parametrize(
    ("works", "kernel"),
    [
        ((copy("X", "K"), Branch("C", (add("X", "Y", "O"),), (add("Y", "X", "O"),))), "O"),
        ((Branch("C", (add("X", "Y", "K"), copy("K", "O")), (copy("X", "O"),)),), "K"),
        ((copy("X", "O"), Loop(3, (add("O", "Y", "M"),), (Carry("O", "M"),))), ""),
        ((Loop(3, (add("X", "Y", "K"),)), copy("K", "O")), "O"),
        ((copy("X", "O"), Loop(3, (copy("O", "K"), add("K", "Y", "O")))), ""),
    ],
)
def test_wrong_kernels_of_loops_and_branches_are_named(works: tuple[Work, ...], kernel: str) -> None:
    finding = check_program(program(less("Y", "C"), *works), (Subtracting(),))
    assert finding is not None
    assert (finding.kernel, finding.difference is None) == (kernel, False)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["counted", "branch", "one sided", "nested"])
def test_right_passes_are_found_right_on_loops_and_branches(name: str) -> None:
    assert check_program(ALL[name], pipeline_for(Target(pipeline="cpu")), Target()) is None
