"""The conformance kit of extensions: passes, schedules, targets, operations, commands and others.

Each check raises an ``AssertionError`` that describes the fault. ``python -m tileir.testing --extension pass NAME``
runs the check of an installed extension of that kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tileir import FunctionBuilder, compile as compile_for_device, evaluate
from tileir.core import Target, TileError, nearest
from tileir.core.extensions import EXTENSIONS, Kind
from tileir.core.protocols import wrong_offer
from tileir.core.targets.target_file import load, target_called
from tileir.driver.distribution.engines import engine_called
from tileir.driver.frontends import Frontend
from tileir.driver.languages import wrong_language
from tileir.driver.listings import wrong_listing
from tileir.driver.targets import TargetChoice
from tileir.ops.shared.installed import wrong_operation
from tileir.passes.base import Pass
from tileir.passes.pipelines import pipeline
from tileir.passes.pipelines.installed import schedule_of, wrong_pass, wrong_schedule
from tileir.passes.pipelines.resolution import passes_called
from tileir.tile.ir import Function
from tileir_testing.checking.check import check_passes
from tileir_testing.gradients import check_gradients
from tileir_testing.transports import check_transport

PROGRAMS: Final[tuple[tuple[str, Mapping[str, tuple[int, ...]]], ...]] = (
    ("function (A, B) -> (C) { C = A * B + 1; }", {"A": (5, 3), "B": (3,)}),
    ("function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }", {"A": (5, 4), "B": (4, 7)}),
    ("function (A[M, N]) -> (S, T) { S[i : M] = +(A[i, j]); T = S * 2; }", {"A": (6, 9)}),
    ("function (A[M, N]) -> (S) { E = exp(A); R[i, 0 : M, 1] = +(E[i, j]); S = E / R; }", {"A": (3, 8)}),
    ("function (A[N], F[K]) -> (O) { O[x : N] = +(A[x + k - 1] * F[k]); }", {"A": (9,), "F": (3,)}),
    ("function (A[M, N]) -> (O) { O[j, i : N, M] = >(A[i, j]); }", {"A": (4, 5)}),
    ("function (A[N]) -> (O) { O[i : N] = +(A[k]), i - k < N; }", {"A": (7,)}),
    ("function (A[N]) -> (O) { O = A + 1; }", {"A": (0,)}),
    ("function (A[]) -> (O) { O = A * A; }", {"A": ()}),
    ("function (S, X) -> (O) { O = scan(S; X) function (A, B) -> (C) { C = A * 2 + B; }; }", {"S": (3,), "X": (4, 3)}),
)
"""Programs of each kind that passes see, with the shapes of their inputs."""


def check_pass(kind: type[Pass], name: str | None = None, steps: Sequence[Pass] | None = None) -> None:
    """Check a class of passes: its form, its text, and that programs keep their meaning.

    Args:
        kind: The class.
        name: The name of its entry point; by default that of the class.
        steps: Passes of the class to check, with options; by default one with default options.
    """
    fault = wrong_pass(kind, getattr(kind, "name", "") if name is None else name)
    assert fault is None, f"the pass {fault}"
    for step in steps or (kind(),):
        text = pipeline.to_text((step,))
        assert pipeline.parse(text, (kind,)) == (step,), f"{text} is not read back as the pass that was printed"
        check_step(step)


def check_step(step: Pass) -> None:
    """Check that a pass keeps the meaning of programs, by interpreters on numbers that are added up exactly."""
    accumulate = pipeline.parse("accumulate", passes_called)  # without it no program can be lowered to kernels
    for text, shapes in PROGRAMS:
        for passes in ((step, *accumulate), (step, step, *accumulate), (*accumulate, step)):
            finding = check_passes(text, shapes, passes, target=Target())
            assert finding is None, f"{finding}\n  program: {text}"


def check_schedule(offer: object) -> None:
    """Check a schedule: its form, and that scheduled kernels compute equal results."""
    fault = wrong_schedule(offer)
    assert fault is None, f"the schedule {fault}"
    check_step(schedule_of(offer))


def check_target(text: str) -> None:
    """Check a target file whose parameters have defaults: its form, and that passes keep the meaning of programs."""
    try:
        file = load(text)
        choice = TargetChoice(text, tuple((p.name, p.default) for p in file.parameters if p.default is not None))
        missing = [p.name for p in file.parameters if p.default is None]
        assert not missing, f"the target cannot be used without {', '.join(missing)}: give defaults"
        for program, shapes in PROGRAMS:
            finding = check_passes(program, shapes, target=choice.applied(Target()))
            assert finding is None, f"{finding}\n  program: {program}"
    except TileError as error:
        raise AssertionError(f"the target file is wrong: {error}") from error


def check_operation(
    operation: Callable[..., Any],
    *arrays: np.ndarray[Any, Any],
    expected: Callable[..., Any] | None = None,
    tolerance: float = 1e-6,
) -> None:
    """Check an operation on arrays: its values, and its gradients against finite differences.

    Args:
        operation: A function over one tensor of the builder for each array; a tensor, or several.
        arrays: Its arguments; floats of 64 bits.
        expected: The operation on NumPy arrays.
        tolerance: Of values and gradients.
    """
    fault = wrong_operation(operation)
    assert fault is None, f"the operation {fault}"
    function = _function_of(operation, arrays)
    found = evaluate(function, list(arrays))
    results = found if isinstance(found, tuple) else (found,)
    if expected is not None:
        wanted = expected(*arrays)
        for value, right in zip(results, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
            np.testing.assert_allclose(value, right, rtol=tolerance, atol=tolerance)
    if any(array.dtype.kind == "f" for array in arrays):
        check_gradients(function, list(arrays), tolerance=tolerance)


def _function_of(operation: Callable[..., Any], arrays: Sequence[np.ndarray[Any, Any]]) -> Function:
    builder = FunctionBuilder()
    tensors = []
    for number, array in enumerate(arrays):
        dims = [f"X{number}_{axis}" for axis in range(array.ndim)]
        tensors.append(builder.input(f"X{number}", *dims) if dims else builder.scalar(f"X{number}"))
    made = operation(*tensors)
    outputs = made if isinstance(made, tuple) else (made,)
    return builder.build(**{f"Y{number}": output for number, output in enumerate(outputs)})


def check_listing(make: Callable[..., Any]) -> None:
    """Check a form of listings: it gives a text for any program, equal for equal programs."""
    fault = wrong_listing(make)
    assert fault is None, f"the listing {fault}"
    for text, shapes in PROGRAMS[:3]:
        executable = compile_for_device(text, dict(shapes))
        first, again = make(executable), make(executable)
        assert isinstance(first, str), f"the listing is a {type(first).__name__}, not a text"
        assert first == again, "the listing of one executable differs from call to call"


def check_command(command: object) -> None:
    """Check a command: it has a help page."""
    from click.testing import CliRunner

    from tileir_cli.extensions import wrong_command

    fault = wrong_command(command)
    assert fault is None, f"the command {fault}"
    result = CliRunner().invoke(command, ["--help"])  # type: ignore[arg-type]  # it is checked
    assert result.exit_code == 0, f"--help fails: {result.output}"


def check_language(language: Any, *texts: str) -> None:
    """Check a language: its form, and that texts parse, verify, print, and parse again as equals.

    Args:
        language: The object of the entry point.
        texts: Valid texts of the language.
    """
    fault = wrong_language(getattr(language, "name", ""))(language)
    assert fault is None, f"the language {fault}"
    for text in texts:
        node = language.parse(text, "<text>")
        assert isinstance(node, language.kinds), f"kinds lacks {type(node).__name__}, of which {text!r} is one"
        language.verify(node)
        again = language.parse(language.to_text(node), "<printed>")
        assert again == node, f"{text!r} is not read back as the node that was printed"


def check_installed(kind: Kind, name: str, ranks: int = 2) -> None:
    """Check the extension of that kind and name of an installed distribution.

    Args:
        kind: Its kind.
        name: The name of its entry point; ``inprocess``, which needs none, is a transport, too.
        ranks: The number of ranks, for transports.

    Raises:
        BackendError: TIL811 or TIL812, it cannot be loaded.
        ValueError: There is none.
    """
    if kind is Kind.TRANSPORT:
        check_transport(engine_called(name), ranks)
        return
    if name not in EXTENSIONS.entries(kind):
        raise ValueError(f"no distribution offers the {kind.noun} {name!r}{nearest(name, EXTENSIONS.names(kind))}")
    offer: Any = EXTENSIONS.get(kind, name, lambda _: None)
    match kind:
        case Kind.PASS:
            check_pass(offer, name)
        case Kind.SCHEDULE:
            check_schedule(offer)
        case Kind.TARGET:
            check_target(target_called(name).text)
        case Kind.OPERATION:
            fault = wrong_operation(offer)
            assert fault is None, f"the operation {fault}"
        case Kind.LISTING:
            check_listing(offer)
        case Kind.COMMAND:
            check_command(offer)
        case Kind.LANGUAGE:
            fault = wrong_language(name)(offer)
            assert fault is None, f"the language {fault}"
        case Kind.FRONTEND:
            fault = wrong_offer(Frontend, name)(offer)
            assert fault is None, f"the front end {fault}"
