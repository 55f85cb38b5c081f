"""Programs of every stage are taken wherever a Tile function is: objects, text, JSON and files."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest
from hypothesis import given

import tileir
from strategies.effort import examples
from strategies.tile import Case, cases
from tileir.core.errors import ArgumentError, ParseError, TileError, VerifyError
from tileir.driver.programs import Program, function_of, output_names
from tileir.semtree.text.printer import to_text as semtree_text
from tileir.stripe.text.printer import to_text as stripe_text
from tileir.typed.ir import Constant
from tileir.typed.text.printer import to_text as typed_text
from tileir_cli import main as cli

if TYPE_CHECKING:
    from pathlib import Path

    from tileir.driver.executable import Executable

TEXT = "function (A[M, K], B[K, N]) -> (D, T) { C[i, j : M, N] = +(A[i, k] * B[k, j]); D = C * 2.0; T = C + 1.0; }"
ARRAYS = {
    "A": np.arange(12, dtype=np.float32).reshape(3, 4),
    "B": np.arange(20, dtype=np.float32).reshape(4, 5),
}
STAGES = ("tile", "typed", "stripe", "scheduled", "sem")


@pytest.fixture(scope="module")
def executable() -> Executable:
    return tileir.compile(TEXT, ARRAYS)


def _written(executable: Executable, stage: str) -> str:
    """Return the text of a stage."""
    program = getattr(executable, stage)
    if stage == "tile":
        return tileir.to_text(program)
    if stage == "typed":
        return typed_text(program)
    return semtree_text(program) if stage == "sem" else stripe_text(program)


def _same(found: Any) -> None:
    product = ARRAYS["A"] @ ARRAYS["B"]
    for array, right in zip(found, (product * 2, product + 1), strict=True):
        np.testing.assert_array_equal(array, right)


@pytest.mark.parametrize("stage", STAGES)
def test_each_stage_is_compiled_called_and_interpreted(executable: Executable, stage: str) -> None:
    program = getattr(executable, stage)
    described = ARRAYS if stage == "tile" else ()
    again = tileir.compile(program, described)
    assert (again.inputs, again.outputs) == (("A", "B"), ("D", "T"))
    assert getattr(again, "sem" if stage == "scheduled" else stage)
    _same(again(**ARRAYS))
    _same(tileir.jit(program)(*ARRAYS.values()))
    _same(tileir.evaluate(program, ARRAYS))
    _same(tileir.evaluate(program, tuple(ARRAYS.values())))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("stage", STAGES)
def test_each_stage_is_read_from_text_json_and_files(executable: Executable, stage: str, tmp_path: Path) -> None:
    text, json = _written(executable, stage), tileir.to_json(getattr(executable, stage))
    file, bare = tmp_path / "program.any", tmp_path / "program"
    file.write_text("// a comment\n\n" + text if not text.startswith("{") else text, encoding="utf-8")
    bare.write_bytes(json)
    for source in (text, json, json.decode(), file, bare):
        _same(tileir.compile(source, ARRAYS)(**ARRAYS))
        _same(tileir.evaluate(source, ARRAYS))


@examples(25)
@given(cases(functions=True))
def test_generated_programs_mean_the_same_from_each_stage(case: Case) -> None:
    executable = tileir.compile(case.function, case.types)
    for stage in STAGES:
        found = tileir.compile(getattr(executable, stage), case.types)(**case.inputs)
        case.check(dict(zip(executable.outputs, found if isinstance(found, tuple) else (found,), strict=True)))


@examples(25)
@given(cases())
def test_interpreters_of_generated_programs_agree(case: Case) -> None:
    executable = tileir.compile(case.function, case.types, passes="plain")
    for stage in ("typed", "stripe", "sem"):
        found = tileir.evaluate(getattr(executable, stage), case.inputs)
        case.check(dict(zip(executable.outputs, found if isinstance(found, tuple) else (found,), strict=True)))


def test_a_changed_typed_function_computes_what_it_says(executable: Executable) -> None:
    typed = executable.typed
    operations = tuple(
        attrs.evolve(each, value=3.0) if isinstance(each, Constant) and each.value == 2.0 else each
        for each in typed.operations
    )
    changed = attrs.evolve(typed, operations=operations)
    found = tileir.compile(changed)(**ARRAYS)
    np.testing.assert_array_equal(found[0], ARRAYS["A"] @ ARRAYS["B"] * 3)


def test_passes_are_applied_to_stripe_unless_none_are_named(executable: Executable) -> None:
    plain = tileir.compile(executable.stripe, passes="plain")
    assert plain.stripe == executable.stripe
    assert plain.scheduled != executable.scheduled
    assert tileir.compile(executable.stripe).scheduled == executable.scheduled
    kept = tileir.compile(executable.scheduled, passes=())
    assert kept.scheduled == executable.scheduled


def test_kernels_stay_as_they_are(executable: Executable) -> None:
    again = tileir.compile(executable.sem)
    assert again.sem is executable.sem
    assert again.remarks == ()
    assert again.listing()


def test_nothing_schedules_kernels_again(executable: Executable) -> None:
    """A target would be taken for what the kernels are scheduled for, and change nothing."""
    for use in (tileir.compile, tileir.jit):
        for target in ("fused", "nvidia-hopper", tileir.Target()):
            with pytest.raises(ArgumentError, match="nothing to schedule in it: leave it out, or pass") as caught:
                use(executable.sem, target=target)
            assert caught.value.diagnostics[0].code == "TIL712"
    with pytest.raises(ArgumentError, match="passes do not apply: leave them out, or pass the Tile function"):
        tileir.compile(executable.sem, passes="fused")
    assert tileir.compile(executable.sem, passes=()).sem is executable.sem
    for program in (executable.tile, executable.typed, executable.stripe):
        tileir.compile(program, ARRAYS, target="plain", passes=None)


@pytest.mark.parametrize(("stage", "absent"), [("typed", "tile"), ("stripe", "typed"), ("sem", "stripe")])
def test_stages_before_the_one_that_came_in_are_told_to_be_absent(
    executable: Executable, stage: str, absent: str
) -> None:
    again = tileir.compile(getattr(executable, stage))
    with pytest.raises(TileError, match="this came in as") as caught:
        getattr(again, absent)
    assert caught.value.diagnostics[0].code == "TIL712"


def test_numbers_of_a_typed_function_adapt() -> None:
    text = "function (V[N], Dt, K) -> (O) { O = V * Dt * K; }"
    typed = tileir.compile(text, {"V": ("f64", (2,)), "Dt": 0.1, "K": 2}).typed
    values = {"V": np.ones(2), "Dt": 0.3, "K": 3}
    expected = tileir.evaluate(text, values)
    np.testing.assert_array_equal(tileir.evaluate(typed, values), expected)
    np.testing.assert_array_equal(tileir.jit(typed)(**values), expected)
    np.testing.assert_array_equal(tileir.compile(typed, values)(**values), expected)
    with pytest.raises(ArgumentError, match="input 'Dt' is missing"):
        tileir.compile(typed)


@pytest.mark.parametrize("stage", ["typed", "stripe", "sem"])
def test_types_that_contradict_a_program_are_refused(executable: Executable, stage: str) -> None:
    program = getattr(executable, stage)
    assert tileir.compile(program, {"B": "f32[4, 5]"}).inputs == ("A", "B")
    for use in (tileir.compile, tileir.evaluate):
        with pytest.raises(
            ArgumentError, match=r"'A' is f32\[3, 4\] in .*, and was described as f32\[4, 4\]"
        ) as caught:
            use(program, (np.ones((4, 4), np.float32), ARRAYS["B"]))
        assert caught.value.diagnostics[0].code == "TIL713"
    with pytest.raises(ArgumentError, match="there is no input 'Z'"):
        tileir.compile(program, {"Z": "f32[3]"})


def test_costs_and_tuning_take_all_stages_that_passes_can_schedule(executable: Executable) -> None:
    expected = tileir.explain(TEXT, ARRAYS)
    for stage in ("typed", "stripe"):
        program = getattr(executable, stage)
        assert tileir.explain(program).kernels == expected.kernels
    assert tileir.tune(executable.stripe, time_limit=0.5, top=1).trials
    with pytest.raises(ArgumentError, match=r"nothing is left to choose: pass .* the Stripe program") as caught:
        tileir.tune(executable.sem)
    assert caught.value.diagnostics[0].code == "TIL712"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("stage", STAGES)
def test_costs_are_those_of_every_form_of_a_program(executable: Executable, tmp_path: Path, stage: str) -> None:
    program = getattr(executable, stage)
    text, data = tmp_path / "program.txt", tmp_path / "program.json"
    text.write_text(tileir.to_text(program), encoding="utf-8")
    data.write_bytes(tileir.to_json(program))
    expected = tileir.explain(program, ARRAYS)
    assert expected.kernels
    for source in (tileir.to_text(program), tileir.to_json(program), text, data):
        assert tileir.explain(source, ARRAYS).kernels == expected.kernels


def test_a_typed_function_is_a_function_of_tile_where_one_is_needed(executable: Executable) -> None:
    bound = tileir.bind(executable.typed, A=ARRAYS["A"])
    _same(tileir.evaluate(bound, [ARRAYS["B"]]))
    assert output_names(function_of(executable.typed)) == ("D", "T")
    with pytest.raises(ArgumentError, match="no way back to Tile"):
        tileir.bind(executable.stripe, A=ARRAYS["A"])


def test_a_stepper_takes_programs_of_each_stage() -> None:
    text = "function (W) -> (W2) { W2 = W * 2.0; }"
    executable = tileir.compile(text, [(2,)])
    for stage in STAGES:
        step = tileir.stepper(getattr(executable, stage), updates={"W": "W2"}, state={"W": np.ones(2, np.float32)})
        step(), step()
        np.testing.assert_array_equal(step.state["W"], [4, 4])


def test_programs_that_break_rules_are_refused(executable: Executable) -> None:
    broken: list[Program] = [
        attrs.evolve(executable.typed, outputs=("D", "T", "Q")),
        attrs.evolve(executable.stripe, outputs=("D", "T", "Q")),
        attrs.evolve(executable.sem, buffers=executable.sem.buffers[:-1]),
    ]
    for program in broken:
        for use in (tileir.compile, tileir.evaluate, tileir.jit):
            with pytest.raises(VerifyError):
                use(program)


@pytest.mark.parametrize(
    ("source", "code", "message"),
    [
        ("program.tile", "TIL707", "pass its pathlib.Path"),
        ("{", "TIL601", "this is not JSON"),
        ("{}", "TIL602", "format is None"),
        ('{"format": "tileir.tile.Name"}', "TIL602", "expected one of tileir.tile.Function"),
        (b"\xff\xfe", "TIL601", "no text in UTF-8"),
    ],
)
def test_what_is_no_program_is_told(source: str | bytes, code: str, message: str) -> None:
    with pytest.raises(TileError, match=message) as caught:
        tileir.compile(source)
    assert caught.value.diagnostics[0].code == code


def test_missing_files_and_faulty_ones_are_named(tmp_path: Path) -> None:
    with pytest.raises(TileError, match="cannot read"):
        tileir.compile(tmp_path / "absent.tile")
    faulty = tmp_path / "faulty.stripe"
    faulty.write_text("program (A) -> (B)\nnonsense\n", encoding="utf-8")
    with pytest.raises(ParseError, match=r"faulty.stripe:2"):
        tileir.compile(faulty)


def _run(*arguments: object) -> int:
    sys.argv = ["tileir", *map(str, arguments)]
    return cli.run()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("stage", STAGES)
def test_commands_take_files_of_all_stages(
    executable: Executable,
    stage: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", sys.argv)
    file, text = tmp_path / "program", _written(executable, stage)
    file.write_text(text, encoding="utf-8")
    for name, array in ARRAYS.items():
        np.save(tmp_path / f"{name}.npy", array)
    values = [f"{name}={tmp_path / name}.npy" for name in ARRAYS]
    types = [f"{name}=f32[{','.join(map(str, array.shape))}]" for name, array in ARRAYS.items()]
    for extra in ((), ("--interpret",)):
        assert _run("run", file, *values, *extra, "-o", tmp_path / "D.npy", "-o", tmp_path / "T.npy") == 0
        _same([np.load(tmp_path / f"{name}.npy") for name in ("D", "T")])
    assert _run("check", file) == 0
    assert "results D, T" in capsys.readouterr().out
    described = types if stage == "tile" else []
    assert _run("print", file, "--stage", "sem", *described) == 0
    assert capsys.readouterr().out.startswith("program {")
    if stage != "sem":
        assert _run("explain", file, *described) == 0
        assert "kernel" in capsys.readouterr().out
    assert _run("emit", file, *described) == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert _run("run", "-", *values) == 0
    assert "D: f32[3, 5]" in capsys.readouterr().out
