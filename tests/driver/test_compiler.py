from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import numpy as np
import pytest

import tileir
from tileir.core.dtype import DType
from tileir.core.errors import ParseError, TileError, VerifyError
from tileir.core.process.cancellation import CancelledError, cancelled_if
from tileir.core.targets.target import Target
from tileir.driver import compiler
from tileir.driver.compiler import compile_stages
from tileir.passes.pipelines import pipeline, resolution
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.runtime.interface import Options
from tileir.semtree.lower import lowering
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from pathlib import Path

    from tileir.semtree.ir import KernelFunction, Program
    from tileir.stripe.ir import Program as StripeProgram

TOTAL = "function (A[N]) -> (O) { O[] = +(A[i]); }"
TYPES = {"A": TensorType(DType.F32, (1 << 20,))}


def test_a_pipeline_is_passes_or_text_or_json_or_a_name() -> None:
    steps = parse_pipeline("accumulate")
    expected = compile_stages(TOTAL, TYPES, Target(), passes=steps)
    for passes in ("accumulate", "plain", pipeline.to_json(steps)):
        assert compile_stages(TOTAL, TYPES, Target(), passes=passes) == expected


def test_kernels_are_checked_as_they_leave_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "interleave", lambda kernel: attrs.evolve(kernel, operations=-1))
    with pytest.raises(VerifyError, match="number of operations"):
        compile_stages(TOTAL, TYPES, Target())


def test_an_illegal_lowering_is_told_where_simplifying_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> Program:
        program = lowering.lower(*arguments)
        return attrs.evolve(program, kernels=tuple(attrs.evolve(each, operations=-1) for each in program.kernels))

    def refuse(_: KernelFunction) -> KernelFunction:
        raise AssertionError

    monkeypatch.setattr(compiler, "lower_to_semtree", broken)
    monkeypatch.setattr(compiler, "simplify_kernel", refuse)
    with pytest.raises(VerifyError, match="number of operations"):
        compile_stages(TOTAL, TYPES, Target())


def test_a_wrong_pipeline_is_underlined() -> None:
    with pytest.raises(ParseError) as caught:
        tileir.compile(TOTAL, [(8,)], passes="accumulate,thred")
    assert [(fault.code, fault.underlined) for fault in caught.value.diagnostics] == [("TIL541", "thred")]


def test_a_program_that_is_not_scheduled_is_refused() -> None:
    with pytest.raises(TileError, match="run the pass accumulate") as caught:
        tileir.compile(TOTAL, [(8,)], passes=())
    assert caught.value.diagnostics[0].code == "TIL502"


def test_programs_are_dumped_after_each_pass() -> None:
    names: list[str] = []
    compile_stages(TOTAL, TYPES, Target(), passes="accumulate,thread", dump=lambda name, _: names.append(name))
    assert names == ["accumulate", "thread"]


@attrs.frozen
class _Fail:
    """A pass that cannot treat any program."""

    name: ClassVar[str] = "fail"

    def __call__(self, program: StripeProgram) -> StripeProgram:
        raise KeyError(program.inputs[0])


def test_a_pass_that_fails_costs_a_warning_where_nobody_named_it(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = resolution.pipeline_for(tileir.default_context().device().target)
    monkeypatch.setattr(resolution, "pipeline_for", lambda _: (*steps[:3], _Fail(), *steps[3:]))
    array = np.ones(8, np.float32)
    with pytest.warns(tileir.SkippedPassWarning) as caught:
        assert tileir.compile(TOTAL, [array])(array) == 8
    (warning,) = caught
    for part in ("the pass 'fail' was left out: it failed with KeyError: 'A'", "please report it", "A=f32[8]"):
        assert part in str(warning.message)
    with pytest.raises(KeyError) as raised:
        tileir.compile(TOTAL, [array], passes=(*steps, _Fail()))
    assert raised.value.__notes__ == ["raised by the pass 'fail'"]


def test_a_program_that_a_pass_was_left_out_of_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = resolution.pipeline_for(tileir.default_context().device().target)
    array = np.ones(8, np.float32)
    with tileir.Context(disk_cache=tileir.DiskCache(tmp_path / "cache")) as context:
        with monkeypatch.context() as patched:
            patched.setattr(resolution, "pipeline_for", lambda _: (_Fail(), *steps))
            with pytest.warns(tileir.SkippedPassWarning):
                tileir.compile(TOTAL, [array], context=context)
        assert tileir.compile(TOTAL, [array], context=context).scheduled == tileir.compile(TOTAL, [array]).scheduled


def test_one_thread_gets_the_schedule_of_one_thread() -> None:
    alone = tileir.compile(TOTAL, [(1 << 20,)], options=Options(threads=1))
    assert (
        alone.scheduled
        == compile_stages(TOTAL, TYPES, attrs.evolve(tileir.default_context().device().target, threads=1)).scheduled
    )


def test_a_compilation_that_is_given_up_stops_between_passes_and_leaves_nothing_behind() -> None:
    context = tileir.Context(disk_cache=None)
    summed = tileir.jit(TOTAL, context=context)
    array = np.ones(100, np.float32)
    asked = 0
    for most in (0, 3, 20, 40):

        def given_up(most: int = most) -> bool:
            nonlocal asked
            asked += 1
            return asked > most

        asked = 0
        with pytest.raises(CancelledError), cancelled_if(given_up):
            summed(array)
        assert asked == most + 1, "it stops at once, also where pipelines go on after faults"
    assert summed(array) == 100
