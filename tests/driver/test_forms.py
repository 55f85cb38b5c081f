"""Everything that has a text is printed, read back and checked by one function each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import numpy as np
import pytest
from hypothesis import given

import tileir
from strategies.effort import examples
from strategies.tile import Case, cases
from tileir.core.errors import ArgumentError, ParseError, TileError, VerifyError
from tileir.core.targets.generic_hardware import generic_hardware
from tileir.core.targets.target_file import target_called
from tileir.core.targets.target_names import names_of_targets
from tileir.driver.forms import STAGES
from tileir.passes.pipelines.catalog import PASSES, parse_pipeline
from tileir.passes.pipelines.resolution import pipeline_for
from tileir.passes.schedules.scripted import Scripted, with_scripts
from tileir.schedule.script import Pattern, Script
from tileir.schedule.steps.loops import Split
from tileir.semtree.ir import KernelFunction
from tileir.stripe.ir import Block, Program as StripeProgram

if TYPE_CHECKING:
    from tileir.passes.base import Pass

PROGRAM = "function (A[M, K], B[K, N]) -> (C) { S[i, j : M, N] = +(A[i, k] * B[k, j]); C = S * 0.5; }"
PROGRAMS = ("tile", "typed", "stripe", "sem")


@pytest.fixture(scope="module")
def executable() -> tileir.Executable:
    return tileir.compile(PROGRAM, [("f32", (4, 5)), ("f32", (5, 6))])


def read(text: str | bytes, stage: str) -> Any:
    """Read a text of any stage, which the overloads do not tell here."""
    parse: Any = tileir.parse
    return parse(text, "here", stage=stage)


@pytest.mark.parametrize("stage", PROGRAMS)
def test_programs_of_each_stage(executable: tileir.Executable, stage: str) -> None:
    program = getattr(executable, stage)
    tileir.verify(program)
    text = tileir.to_text(program)
    for read_as in (stage, "any"):
        assert read(text, read_as) == program
        assert read(tileir.to_json(program).decode(), read_as) == program


@examples(50)
@given(cases(functions=True))
def test_generated_programs_of_each_stage(case: Case) -> None:
    executable = tileir.compile(case.function, case.types)
    for stage in (*PROGRAMS, "scheduled"):
        program = getattr(executable, stage)
        assert read(tileir.to_text(program), "any") == program
        tileir.verify(program)


def test_parts_of_programs(executable: tileir.Executable) -> None:
    block, kernel = executable.stripe.kernels[0].block, executable.sem.kernels[0]
    assert isinstance(block, Block)
    assert isinstance(kernel, KernelFunction)
    assert read(tileir.to_text(kernel), "kernel") == kernel
    assert read(tileir.to_text(block), "block") == block
    tileir.verify(kernel)


@pytest.mark.parametrize("name", names_of_targets())
def test_targets_that_come_with_tileir(name: str) -> None:
    file = target_called(name)
    assert attrs.evolve(read(tileir.to_text(file), "target"), builtin=True) == file
    tileir.verify(file)
    target = attrs.evolve(tileir.Target(), pipeline=name)
    assert read(tileir.to_text(target), "target") == target
    passes = pipeline_for(target)
    assert read(tileir.to_text(passes), "pipeline") == passes
    tileir.verify(passes)


def test_each_pass_of_the_catalogue() -> None:
    for kind in PASSES:
        step = kind()
        assert read(tileir.to_text(step), "pipeline") == (step,)
        tileir.verify(step)
    assert read('[{"fuse": {}}]', "pipeline") == parse_pipeline("fuse")


def test_hardware() -> None:
    model = generic_hardware(tileir.Target())
    assert read(tileir.to_text(model), "hardware") == model
    tileir.verify(model)
    with pytest.raises(VerifyError, match="TIL544"):
        tileir.verify(attrs.evolve(model, clock_mhz=-1.0))


def test_formulas() -> None:
    formula = read("blurred = gaussian(sigma=2)\nmedian\n", "formula")
    assert read(tileir.to_text(formula), "formula") == formula
    tileir.verify(formula)
    with pytest.raises(VerifyError):
        read("no_such_function\n", "formula")


def test_scripts() -> None:
    script = Script((Split("i", 8, ("block", "row")),), Pattern(loops=("i", "j")))
    text = tileir.to_text(script)
    assert text == "script{steps=(split{loop=i,by=8,into=(block,row)}),match={loops=(i,j)}}"
    assert read(text, "script") == script
    assert read(text, "pipeline") == (Scripted.of(script),)
    tileir.verify(script)
    assert with_scripts(tileir.Target(), script) == with_scripts(tileir.Target(), Scripted.of(script))


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("text", ["", "?", "function", "program", "{", "[", "script{", "{}", "0: block"])
def test_every_stage_refuses_what_is_none(stage: str, text: str) -> None:
    if (stage, text) in {("pipeline", "")}:
        return  # no passes
    with pytest.raises(TileError):
        read(text, stage)


@pytest.mark.parametrize("stage", PROGRAMS)
def test_what_bytes_say_is_read_as_their_text_is(executable: tileir.Executable, stage: str) -> None:
    program = getattr(executable, stage)
    for each in (stage, "any"):
        assert read(tileir.to_json(program), each) == program
        assert read(tileir.to_text(program).encode(), each) == program
    assert tileir.parse(b"fuse, thread", stage="pipeline") == tileir.parse("fuse, thread", stage="pipeline")


@pytest.mark.parametrize(
    ("section", "fault"),
    [
        ('"settings": {"thraeds": 256}', "TIL602.*no key 'thraeds'; did you mean threads"),
        ('"settings": {"max_mem": 0}', "TIL602.*a whole number from 1 on, not 0"),
        ('"facts": {"local_byts": 1}', "TIL602.*no key 'local_byts'; did you mean local_bytes"),
        ('"passes": [{"name": "acumulate"}]', "TIL541.*did you mean accumulate"),
    ],
)
def test_all_sections_of_a_target_are_verified(section: str, fault: str) -> None:
    wrong = tileir.parse(f'{{"name": "mine", {section}}}', stage="target")
    with pytest.raises(TileError, match=f"(?s){fault}"):
        tileir.verify(wrong)


@pytest.mark.parametrize("stage", PROGRAMS)
def test_another_stage_is_told(executable: tileir.Executable, stage: str) -> None:
    for other in PROGRAMS[1:]:
        if other == stage:
            continue
        with pytest.raises(ParseError, match=f"stage='{other}'"):
            read(tileir.to_text(getattr(executable, other)), stage)
        with pytest.raises(TileError, match="TIL602"):
            read(tileir.to_json(getattr(executable, other)).decode(), stage)


def test_what_is_wrong_is_told() -> None:
    with pytest.raises(ArgumentError, match="there is no stage 'tyle'; did you mean tile"):
        read("", "tyle")
    with pytest.raises(ArgumentError, match="TIL707"):
        tileir.parse(3, stage="any")  # type: ignore[call-overload]
    with pytest.raises(TileError, match="TIL601"):
        tileir.parse(b"\xff\xfe", stage="pipeline")
    with pytest.raises(ParseError, match="this is no script"):
        tileir.parse("fuse,thread", stage="script")
    for call in (tileir.to_text, tileir.verify):
        for value in (3, "text", None, object(), [], np.zeros(3), [3]):
            if isinstance(value, list) and not value:
                continue  # a pipeline without passes
            with pytest.raises(ArgumentError, match="TIL707"):
                call(value)  # type: ignore[arg-type]


def test_texts_and_files_are_parsed_before_they_are_verified() -> None:
    for text in ("function (A) -> (B) { B = A; }", b"{}", Path("mine.json")):
        with pytest.raises(ArgumentError, match=r"TIL707.*: pass what tileir\.parse makes of it"):
            tileir.verify(text)  # type: ignore[arg-type]


def test_verifying_tells_the_faults_of_hand_made_nodes(executable: tileir.Executable) -> None:
    for stage, field in (("typed", "operations"), ("stripe", "kernels"), ("sem", "kernels")):
        broken = attrs.evolve(getattr(executable, stage), **{field: ()})
        with pytest.raises(VerifyError):
            tileir.verify(broken)
    with pytest.raises(VerifyError):
        tileir.verify(attrs.evolve(executable.tile, statements=()))
    with pytest.raises(TileError, match="TIL541"):
        tileir.verify(attrs.evolve(tileir.Target(), pipeline="no_such_pass"))


@attrs.frozen
class Misspelt:
    """A pass of somebody who means ``for_target``."""

    name: ClassVar[str] = "misspelt"

    def __call__(self, program: StripeProgram) -> StripeProgram:
        """Do nothing."""
        return program

    def for_targets(self) -> Pass:
        """Nobody calls this."""
        return self


def test_parts_of_passes_that_nobody_would_find_are_told() -> None:
    with pytest.raises(VerifyError, match="did you mean 'for_target'"):
        tileir.verify([Misspelt()])


def test_long_arrays_are_passed() -> None:
    weights = np.arange(300, dtype=np.float32)
    bound = tileir.bind("function (A[N], W[N]) -> (B) { B = A * W; }", {"W": weights})
    typed = tileir.compile(bound, [(300,)]).typed
    assert tileir.parse(tileir.to_text(bound), arrays=[weights]) == bound
    assert tileir.parse(tileir.to_text(typed), stage="typed", arrays=[weights]) == typed
    assert tileir.parse(tileir.to_text(typed), stage="any", arrays=[weights]) == typed


def test_only_texts_of_tile_have_functions_by_name() -> None:
    typed = tileir.to_text(tileir.compile("function (A) -> (B) { B = A + 1; }", ["f32[2]"]).typed)
    for text in (typed, tileir.to_json(tileir.parse("function f(A) -> (B) { B = A; }")).decode()):
        with pytest.raises(tileir.ArgumentError) as caught:
            tileir.parse(text, stage="any", entry="f")
        assert caught.value.diagnostics[0].code == "TIL206"
    for wrong in ({"entry": 3}, {"folder": 3}):
        with pytest.raises(tileir.ArgumentError) as caught:
            tileir.parse("function (A) -> (B) { B = A; }", **wrong)  # type: ignore[call-overload]
        assert caught.value.diagnostics[0].code == "TIL707"
