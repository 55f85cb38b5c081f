"""Text forms of programs of all stages and their parts, scripts, pipelines, targets and hardware models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, overload

import numpy as np

from tileir.core import (
    ArgumentError,
    ArrayValue,
    Diagnostic,
    HardwareModel,
    ParseError,
    Target,
    VerifyError,
    attrs,
    with_short_traceback,
)
from tileir.driver import texts
from tileir.driver.calls.arguments import check_kind
from tileir.driver.frontends import frontend_of
from tileir.driver.programs import made
from tileir.semtree.ir import KernelFunction, Program as SemProgram
from tileir.stripe.ir import Block, Program as StripeProgram
from tileir.tile.ir import Function as TileFunction
from tileir.typed.ir import Function as TypedFunction

if TYPE_CHECKING:
    from tileir.core.array_value import Array
    from tileir.core.targets.target_file import TargetFile
    from tileir.driver.programs import Program
    from tileir.driver.tracing.functions import PythonFunction
    from tileir.passes.base import Pass
    from tileir.schedule.script import Script
    from tileir.typed.sharding.partitioned import Partitioned
    from tileir_formula.ir import Formula

    Form: TypeAlias = (
        Program
        | Partitioned
        | Block
        | KernelFunction
        | Script
        | Pass
        | Sequence[Pass]
        | Target
        | TargetFile
        | HardwareModel
        | Formula
        | PythonFunction[..., Any]
    )

STAGES: Final = (*texts.STAGES, "any", "partitioned", "block", "kernel", "script", "pipeline", "target", "hardware")
"""Kinds of text beside installed languages; ``any`` is a program of the stage that the text determines."""


@with_short_traceback
def to_text(node: Form) -> str:
    """Return the text of a program or a part of one, a script, a pass or several, a target, or a hardware model.

    :func:`parse` reads it back. Constant arrays of more than 256 elements appear as digests.

    Args:
        node: A program of Tile, typed, of Stripe or of the semtree; a partitioned one; a Python function whose
            arguments are declared; a block of Stripe, a kernel of the semtree; a
            :class:`~tileir.schedule.script.Script`; a pass, or a sequence of them; a :class:`tileir.Target`, a target
            file, a hardware model, or a node of an installed language, such as a formula.

    Raises:
        ArgumentError: TIL707, it is something else.
    """
    match node:
        case TileFunction():
            from tileir.tile.text.printer import to_text as tile_text

            return tile_text(node)
        case TypedFunction():
            from tileir.typed.text.printer import to_text as typed_text

            return typed_text(node)
        case StripeProgram() | Block():
            from tileir.stripe.text.printer import to_text as stripe_text

            return stripe_text(node)
        case SemProgram() | KernelFunction():
            from tileir.semtree.text.printer import to_text as semtree_text

            return semtree_text(node)
        case HardwareModel():
            from tileir.core.targets.hardware_json import to_json as hardware_text

            return hardware_text(node)
        case Target():
            return _target_text(node)
        case _ if callable(node) and hasattr(node, "python"):
            from tileir.driver.programs import program_of

            return to_text(program_of(node))
        case _:
            return _schedule_text(node)


def _target_text(target: Target) -> str:
    """Return the facts of a device as readable JSON."""
    import json

    from tileir.core.json.codec import to_json

    return json.dumps(json.loads(to_json(target)), indent=2) + "\n"


def _schedule_text(node: object) -> str:
    """Return the text of a script, pipeline, target or hardware model."""
    from tileir.core.targets.target_file import TargetFile
    from tileir.driver.languages import language_of
    from tileir.passes.pipelines.pipeline import to_text as pipeline_text
    from tileir.passes.schedules.scripted import Scripted
    from tileir.schedule.script import Script
    from tileir.typed.sharding.partitioned import Partitioned

    if isinstance(node, TargetFile):
        return node.text
    if isinstance(node, Partitioned):
        return str(node)
    if isinstance(node, Script):
        return pipeline_text((Scripted.of(node),))
    passes = _passes(node)
    if passes is not None:
        return pipeline_text(passes)
    language = language_of(node)
    if language is not None:
        return language.to_text(node)
    message = (
        "text is there of programs, blocks, kernels, scripts, passes, targets and hardware models, not of a value of"
        f" type {type(node).__name__}"
    )
    raise ArgumentError.of("TIL707", message)


def _passes(node: object) -> tuple[Pass, ...] | None:
    """Return the passes of a pass, or of a sequence of them; None for anything else."""
    found = tuple(node) if isinstance(node, tuple | list) else (node,)
    return found if all(map(_is_pass, found)) else None


def _is_pass(value: object) -> bool:
    return attrs.has(type(value)) and callable(value) and isinstance(getattr(value, "name", None), str)


@overload
def parse(
    text: str | bytes | Path,
    name: str = ...,
    *,
    stage: Literal["tile"] = ...,
    arrays: Iterable[ArrayValue | Array] = ...,
    entry: str | None = ...,
    folder: str | Path | None = ...,
) -> TileFunction: ...
@overload
def parse(
    text: str | bytes | Path, name: str = ..., *, stage: Literal["typed"], arrays: Iterable[ArrayValue | Array] = ...
) -> TypedFunction: ...
@overload
def parse(
    text: str | bytes | Path,
    name: str = ...,
    *,
    stage: Literal["any"],
    arrays: Iterable[ArrayValue | Array] = ...,
    entry: str | None = ...,
    folder: str | Path | None = ...,
) -> Program: ...
@overload
def parse(
    text: str | bytes | Path,
    name: str = ...,
    *,
    stage: Literal["partitioned"],
    arrays: Iterable[ArrayValue | Array] = ...,
) -> Partitioned: ...
@overload
def parse(text: str | bytes | Path, name: str = ..., *, stage: Literal["stripe"]) -> StripeProgram: ...
@overload
def parse(text: str | bytes | Path, name: str = ..., *, stage: Literal["sem"]) -> SemProgram: ...
@overload
def parse(text: str | bytes | Path, name: str = ..., *, stage: Literal["block"]) -> Block: ...
@overload
def parse(text: str | bytes | Path, name: str = ..., *, stage: Literal["kernel"]) -> KernelFunction: ...
@overload
def parse(text: str | bytes | Path, name: str = ..., *, stage: Literal["script"]) -> Script: ...
@overload
def parse(text: str | bytes | Path, name: str = ..., *, stage: Literal["pipeline"]) -> tuple[Pass, ...]: ...
@overload
def parse(text: str | bytes | Path, name: str = ..., *, stage: Literal["target"]) -> TargetFile | Target: ...
@overload
def parse(text: str | bytes | Path, name: str = ..., *, stage: Literal["hardware"]) -> HardwareModel: ...
@overload
def parse(text: str | bytes | Path, name: str = ..., *, stage: Literal["formula"]) -> Formula: ...
@overload
def parse(text: str | bytes | Path, name: str = ..., *, stage: str) -> object: ...


@with_short_traceback
def parse(
    text: str | bytes | Path,
    name: str = "",
    *,
    stage: str = "tile",
    arrays: Iterable[ArrayValue | Array] = (),
    entry: str | None = None,
    folder: str | Path | None = None,
) -> object:
    """Read a text, by default of a Tile function, and verify the result.

    Args:
        text: Output of :func:`to_text`, or handwritten text: ``function (inputs) -> (outputs) { statements }``. JSON of
            programs, also as bytes, and bundles are accepted. Alternatively the file that has it,
            ``Path("layers.tile:softmax")`` for one of several functions in it, or a file of a front end.
        name: Name of the text in errors; by default that of the file.
        stage: ``tile``, ``typed``, ``stripe`` or ``sem`` for a program of that stage, ``any`` for the stage that the
            text determines; ``partitioned`` for a result of :func:`tileir.partition`; ``block`` of Stripe, ``kernel``
            of the semtree; ``script``, ``pipeline``, ``target`` or ``hardware``; or the name of an installed language,
            such as ``formula``.
        arrays: Arrays that a Tile or typed text names by digests alone, as printed texts name long constants.
        entry: Name of one of several functions of a Tile text; by default the unnamed one, or else the last.
        folder: Folder from which a Tile text imports files; by default that of its file.

    Raises:
        ParseError: The text does not follow the grammar; one diagnostic for each fault.
        VerifyError: The result breaks a rule; one diagnostic for each fault.
        TileError: TIL601 or TIL602, JSON is wrong; TIL603, a bundle is; TIL901, the file cannot be read; TIL702, arrays
            are not supported; TIL230, an import is missing; TIL541 to TIL547, passes and targets.
        BackendError: TIL811 or TIL812, the language cannot be loaded.
        ArgumentError: TIL707, it is not a text, or there is no such stage; TIL206, it has no such function.
    """
    check_kind("name", name, str | Path, "what errors call the text")
    check_kind("stage", stage, str, "the name of a stage")
    check_kind("entry", entry, str | None, "the name of a function")
    check_kind("folder", folder, str | Path | None, "the folder from which files are imported")
    arrays = _arrays_of(arrays)
    place = None if folder is None else Path(folder)
    if isinstance(text, Path):
        frontend = frontend_of(text) if stage in ("tile", "any") else None
        if frontend is not None:
            return made(frontend.load(text))
        text, named = texts.file_and_entry(text)
        entry, place, name = entry or named, place or text.parent, name or str(text)
    name = name or "<text>"
    text = _text_of(text)
    if isinstance(text, bytes):
        return _bundled(text, name, stage)
    if stage == "any" or stage in texts.STAGES:
        return texts.parse_stage(text, stage, name, arrays, entry=entry, folder=place)
    if stage == "partitioned":
        from tileir.typed.sharding import text as partitioned_text, verifier as partitioned

        program = partitioned_text.parse(text, name, arrays=arrays)
        partitioned.verify(program)
        return program
    return _other(text, stage, name)


def _other(text: str, stage: str, name: str) -> object:
    match stage:
        case "block" | "kernel":
            return _part(text, stage, name)
        case "script":
            return _script(text, name)
        case "pipeline":
            return _pipeline(text, name)
        case "target":
            return _target(text, name)
        case "hardware":
            from tileir.core.targets.hardware_json import from_json

            return from_json(text, name)
        case _:
            from tileir.driver.languages import language_called

            language = language_called(stage, STAGES)
            node = language.parse(text, name)
            language.verify(node)
            return node


def _arrays_of(arrays: object) -> tuple[ArrayValue | Array, ...]:
    """Return the arrays that a text may name."""
    found = tuple(arrays) if isinstance(arrays, Iterable) and not isinstance(arrays, np.ndarray) else (arrays,)
    if isinstance(arrays, np.ndarray) or not all(isinstance(each, np.ndarray | ArrayValue) for each in found):
        message = "arrays is a sequence of arrays of NumPy or of constants"
        raise ArgumentError.of("TIL707", f"{message}, not a value of type {type(arrays).__name__}")
    return found


def _text_of(source: object) -> str | bytes:
    """Return the text of a source, or the bytes of a bundle; refuses other types, for untyped callers."""
    if isinstance(source, Path):
        return texts.read(source)
    if isinstance(source, bytes):
        return source if texts.is_bundle(source) else texts.decoded(source)
    if isinstance(source, str):
        return source
    message = (
        "text is read from a str, from bytes, or from the pathlib.Path of its file, not from a value of type"
        f" {type(source).__name__}"
    )
    raise ArgumentError.of("TIL707", message)


def _bundled(data: bytes, name: str, stage: str) -> TileFunction:
    """Return the program of a bundle."""
    from tileir.driver.bundles import read

    if stage not in ("any", "tile"):
        raise ArgumentError.of(
            "TIL707", f"{name} is a bundle, which holds a program of Tile; leave stage={stage!r:.64} out"
        )
    return read(data, name)


def _part(text: str, stage: Literal["block", "kernel"], name: str) -> Block | KernelFunction:
    """Return a part of a program; blocks are only verified as parts of programs."""
    if stage == "block":
        from tileir.stripe.text.parser import parse_block

        return parse_block(text, name)
    from tileir.semtree.text.parser import parse_kernel

    kernel = parse_kernel(text, name)
    verify(kernel)
    return kernel


def _pipeline(text: str, name: str) -> tuple[Pass, ...]:
    from tileir.passes.pipelines import pipeline
    from tileir.passes.pipelines.resolution import passes_called

    if text.lstrip().startswith(("[", "//")):
        return pipeline.from_json(text, passes_called, name)
    return pipeline.parse(text, passes_called, name)


def _script(text: str, name: str) -> Script:
    from tileir.passes.schedules.scripted import Scripted

    passes = _pipeline(text, name)
    if len(passes) == 1 and isinstance(passes[0], Scripted):
        return passes[0].script
    message = f"this is no script but a pipeline of {len(passes)} passes: write script{{steps=(…)}}, or read a pipeline"
    raise ParseError.of("TIL102", message)


def _target(text: str, name: str) -> TargetFile | Target:
    """Return a target file, or the facts of a device, as their format tells."""
    from tileir.core.json.codec import format_of, from_json
    from tileir.core.targets.target_file import load

    return from_json(text, Target) if f'"{format_of(Target)}"' in text else load(text, name)


@with_short_traceback
def verify(node: Form) -> None:
    """Verify a program, a kernel, a script, passes, a target or a hardware model by its rules.

    Results of :func:`parse` and the passes are valid; hand-built objects may not be.

    Args:
        node: As for :func:`to_text`, except blocks, which are only verified as parts of programs.

    Raises:
        VerifyError: It breaks rules; one diagnostic for each fault.
        TileError: TIL541 to TIL547 and TIL602, a target breaks rules.
        ArgumentError: TIL707, it is something else.
    """
    match node:
        case TileFunction() | TypedFunction() | StripeProgram() | SemProgram():
            texts.verify(node)
        case KernelFunction():
            from tileir.semtree.check.verifier import verify as verify_kernel

            verify_kernel(node)
        case HardwareModel():
            from tileir.core.targets.hardware_verifier import verify as verify_hardware

            verify_hardware(node)
        case Target():
            _verify_target(node)
        case _:
            _verify_schedule(node)


def _verify_target(target: Target) -> None:
    """Instantiate a target file for its own facts."""
    from tileir.core.targets.target_file import hardware_of, with_facts
    from tileir.passes.pipelines.resolution import pipeline_for

    with_facts(target)
    hardware_of(target)
    pipeline_for(target)


def _verify_schedule(node: object) -> None:
    from tileir.core.protocols import mistakes
    from tileir.core.targets.target_file import TargetFile
    from tileir.driver.languages import language_of
    from tileir.passes.base import Pass, unnamed
    from tileir.passes.offers import OFFERS
    from tileir.schedule.script import Script
    from tileir.typed.sharding.partitioned import Partitioned

    if isinstance(node, Partitioned):
        from tileir.typed.sharding.verifier import verify

        verify(node)
        return
    if isinstance(node, Script):
        return  # the classes of steps check their fields
    if isinstance(node, TargetFile):
        if all(parameter.default is not None for parameter in node.parameters):  # the others have no value to check
            _verify_target(attrs.evolve(Target(), pipeline=node.text))
        return
    passes = _passes(node)
    if passes is None:
        language = language_of(node)
        if language is not None:
            language.verify(node)
            return
        message = f"there are no rules for a value of type {type(node).__name__}"
        if isinstance(node, str | bytes | Path):
            message += ": pass what tileir.parse makes of it"
        raise ArgumentError.of("TIL707", message)
    faults = [fault for step in passes for fault in mistakes(unnamed(step), Pass, OFFERS)]
    if faults:
        raise VerifyError(Diagnostic("TIL541", fault) for fault in faults)
