"""Common view of programs of all stages: their origin, their arguments, and their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeGuard, assert_never

from tileir.core import ArgumentError, Diagnostic, DType
from tileir.driver.calls.arguments import bind as bound, is_number, split, tensor_type, tensor_types
from tileir.driver.frontends import frontend_of
from tileir.driver.function_cache import KnownFunction
from tileir.semtree.ir import BufferRole, Program as SemProgram
from tileir.stripe.ir import Program as StripeProgram
from tileir.tile.ir import Function as TileFunction
from tileir.typed.ir import Function as TypedFunction, Shape, TensorType
from tileir.typed.numbers import passed_numbers

Program: TypeAlias = TileFunction | TypedFunction | StripeProgram | SemProgram
"""A program at one of its stages."""

WrittenProgram: TypeAlias = Program | str | bytes | Path
"""A program, its text or JSON, or the file that has one of these."""

Compilable: TypeAlias = Program | KnownFunction
"""A program, or a known function from the cache on disk; see :mod:`tileir.driver.function_cache`."""

Source: TypeAlias = WrittenProgram | KnownFunction | Callable[..., Any]
"""A program in one of these forms, or a function of Python to be traced."""

_STAGES: Final[Mapping[type[Program], tuple[str, str]]] = MappingProxyType(
    {
        TileFunction: ("tile", "a Tile function"),
        TypedFunction: ("typed", "a typed function"),
        StripeProgram: ("stripe", "a Stripe program"),
        SemProgram: ("sem", "a program of the semtree"),
    }
)
"""Names of programs by class: in options, and in sentences."""


def is_python(source: object) -> TypeGuard[Callable[..., Any]]:
    """Return whether it is a Python function, to be traced."""
    return callable(source) and not isinstance(source, TileFunction)


def described(source: object, arguments: Any) -> tuple[Program, Any]:
    """Return the program of ``source``, and the description of its inputs; like :func:`described_origin`."""
    origin, arguments = described_origin(source, arguments)
    return made(origin), arguments


def described_origin(source: object, arguments: Any) -> tuple[Compilable, Any]:
    """Return the program of ``source``, or a known function, and the description of its inputs.

    For a Python function, which is traced, a description in the structure of its arguments becomes one of inputs.

    Raises:
        TileError: As :func:`program_of`.
    """
    if is_python(source):
        from tileir.driver.tracing.functions import program_for  # few programs are Python functions

        return program_for(source, arguments)
    return origin_of(source), arguments


def origin_of(source: object) -> Compilable:
    """Return :func:`program_of` of a source, but keep known functions, which front ends may return for files."""
    frontend = frontend_of(source) if isinstance(source, Path) else None
    if frontend is not None and isinstance(source, Path):
        return frontend.load(source)
    return source if isinstance(source, KnownFunction) else program_of(source)


def made(origin: Compilable) -> Program:
    """Return the program itself; known functions are made."""
    return origin.function if isinstance(origin, KnownFunction) else origin


def framed(origin: Compilable) -> Program:
    """Return a program or frame with the inputs and outputs of the program."""
    return origin.frame if isinstance(origin, KnownFunction) else origin


def program_of(source: object) -> Program:
    """Return the program of ``source``, its text, JSON or file; the text determines its stage.

    Hand-made programs are verified; Tile functions are when they get their types. A Python function is traced for its
    declared arguments.

    Raises:
        ParseError: The text is wrong.
        VerifyError: The program breaks a rule of its stage.
        TileError: TIL601 or TIL602, the JSON is wrong; TIL901, the file cannot be read.
        ArgumentError: TIL707, it is none of these.
    """
    if isinstance(source, TileFunction | KnownFunction):
        return made(source)
    if isinstance(source, TypedFunction | StripeProgram | SemProgram):
        from tileir.driver.texts import verify  # programs lowered from Tile need no check

        verify(source)
        return source
    if isinstance(source, str | bytes | Path):
        from tileir.driver.texts import parse_any

        return parse_any(source)
    if callable(source):
        from tileir.driver.tracing.functions import python_function  # few programs are Python functions

        return python_function(source).trace()
    message = (
        f"pass a function, a program of Stripe or of the semtree, the text of one, or the pathlib.Path of its file,"
        f" not a value of type {type(source).__name__}"
    )
    raise ArgumentError.of("TIL707", message)


def function_of(source: object) -> TileFunction:
    """Return the Tile function of ``source``; a typed function is raised to Tile.

    Raises:
        TileError: As :func:`program_of`; TIL532, the typed function has an operation that Tile cannot express.
        ArgumentError: TIL712, it is a program of a later stage.
    """
    program = program_of(source)
    if isinstance(program, TileFunction):
        return program
    if isinstance(program, TypedFunction):
        from tileir.typed.raising.raising import raise_to_tile

        return raise_to_tile(program)
    message = f"this takes functions of Tile, or typed ones: of {stage_name(program)} there is no way back to Tile"
    raise ArgumentError.of("TIL712", message)


def refuse_semtree(program: Program) -> None:
    """Refuse a program that is already scheduled.

    Raises:
        ArgumentError: TIL712.
    """
    if isinstance(program, SemProgram):
        message = (
            "the kernels of a program of the semtree are scheduled already, so that nothing is left to choose: pass the"
            " Tile function, the typed function or the Stripe program that they are made of"
        )
        raise ArgumentError.of("TIL712", message)


def refuse_schedules(program: Compilable, target: object, passes: object = None) -> None:
    """Refuse a target or passes for a program of the semtree, which is compiled as it is.

    Raises:
        ArgumentError: TIL712.
    """
    if isinstance(program, SemProgram) and (target is not None or passes):
        why = (
            "a target has nothing to schedule in it: leave it out"
            if target is not None
            else "passes do not apply: leave them out"
        )
        message = (
            f"a program of the semtree is compiled as it stands, and {why}, or pass the Tile function, the typed"
            " function or the Stripe program that it is made of"
        )
        raise ArgumentError.of("TIL712", message)


def stage_name(program: Program) -> str:
    """Return the description of a program's stage."""
    return _STAGES[type(program)][1]


def stage_of(program: Compilable) -> str:
    """Return the short name of a program's stage."""
    return _STAGES[type(framed(program))][0]


def input_names(origin: Compilable) -> tuple[str, ...]:
    """Return the names of a program's arguments, in order; numbers of a typed function after its arrays."""
    program = framed(origin)
    match program:
        case TileFunction():
            return tuple(tensor.name for tensor in program.inputs)
        case TypedFunction():
            return (*(value.name for value in program.inputs if value.number is None), *passed_numbers(program))
        case StripeProgram():
            return program.inputs
        case SemProgram():
            return _buffers(program, BufferRole.INPUT)
        case _:
            assert_never(program)


def output_names(origin: Compilable) -> tuple[str, ...]:
    """Return the names of the results of a program, in order."""
    program = framed(origin)
    match program:
        case TileFunction():
            return tuple(output.name for output in program.outputs)
        case TypedFunction() | StripeProgram():
            return program.outputs
        case SemProgram():
            return _buffers(program, BufferRole.OUTPUT)
        case _:
            assert_never(program)


def size_of(program: Program) -> tuple[int, str]:
    """Return the size of a program and its unit: statements, operations or kernels."""
    match program:
        case TileFunction():
            return len(program.statements), "statement"
        case TypedFunction():
            return len(program.operations), "operation"
        case StripeProgram() | SemProgram():
            return len(program.kernels), "kernel"
        case _:
            assert_never(program)


def types_of(origin: Compilable, description: object) -> dict[str, TensorType]:
    """Return the type of each input of a program.

    Tile functions take their types from the description; programs of later stages have types, which it may omit but
    must not contradict. Only numbers of a typed function have to be described.

    Raises:
        ArgumentError: As :func:`tileir.driver.calls.arguments.tensor_types`; TIL713, the program has another type.
    """
    program = framed(origin)
    if isinstance(program, TileFunction):
        return tensor_types(program, description)
    own = _own_types(program)
    positional, named = split((description,) if isinstance(description, str) else description)
    names = input_names(program)
    if not positional and not named.keys() - set(names):
        named = {**{name: kind for name, kind in own.items() if kind is not None}, **named}
    values = bound(names, positional, named)
    found = {name: tensor_type(name, value) for name, value in zip(names, values, strict=True)}
    given = dict(zip(names, values, strict=True))
    faults = [
        f"{name!r} is {kind} in {stage_name(program)}, and was described as {found[name]}"
        for name, kind in own.items()
        if kind is not None and found[name] != kind and not is_number(given[name])
    ]
    if faults:
        raise ArgumentError(Diagnostic("TIL713", fault) for fault in faults)
    return {name: found[name] if own[name] is None else own[name] or found[name] for name in names}


def _own_types(program: TypedFunction | StripeProgram | SemProgram) -> dict[str, TensorType | None]:
    """Return the types that a program has; None for numbers, which adapt."""
    known: Mapping[str, tuple[DType, Shape]]
    match program:
        case TypedFunction():
            known = {value.name: (value.dtype, value.shape) for value in program.inputs if value.number is None}
        case StripeProgram():
            shapes = {each.name: each.shape for each in program.memory}
            known = {name: (shapes[name].dtype, shapes[name].sizes) for name in program.inputs}
        case SemProgram():
            buffers = (buffer for buffer in program.buffers if buffer.role is BufferRole.INPUT)
            known = {buffer.name: (buffer.dtype, buffer.shape) for buffer in buffers}
    return {name: TensorType(*known[name]) if name in known else None for name in input_names(program)}


def _buffers(program: SemProgram, role: BufferRole) -> tuple[str, ...]:
    return tuple(buffer.name for buffer in program.buffers if buffer.role is role)
