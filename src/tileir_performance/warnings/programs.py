"""Compiler warnings about legal but suspicious programs; computed on request only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tileir.core import Diagnostic, with_short_traceback
from tileir.driver.calls.arguments import bind, is_number, split, tensor_types
from tileir.driver.compilation import Request
from tileir.driver.programs import Source, described
from tileir.runtime.plans.plan import MemoryUse
from tileir.semtree import ir as sem
from tileir.tile.checks.unused import allowed, in_order
from tileir.tile.ir import Function, Statement
from tileir_performance.warnings.accesses import warnings_for_types

MOST_TIMES: Final = 16
"""How many times the bytes of inputs and outputs temporaries may take before that is worth a warning."""

LEAST_BYTES: Final = 1 << 20
"""Temporaries below this are nobody's trouble."""


@with_short_traceback
def warnings_of(source: Source, arguments: Any = None, *, every: bool = False) -> tuple[Diagnostic, ...]:
    """Return warnings about a program, in the order of its text; those that need types only where these are given.

    ``[[allow(TIL412)]]`` before a statement silences a warning of it.

    Args:
        source: A Tile function, its text, its JSON or its file; about programs of later stages there is nothing to say.
        arguments: What describes the inputs, as for :func:`tileir.compile`, or the arguments themselves.
        every: Whether to tell of each access that is outside for some indices, too, although that may well be meant.

    Raises:
        TileError: The program is wrong, or does not fit the arguments.

    """
    program, arguments = described(source, arguments)
    if not isinstance(program, Function):
        return ()
    found = program.warnings
    if arguments is None:
        return found
    types = tensor_types(program, arguments)
    values = bind([parameter.name for parameter in program.inputs], *split(arguments))
    pairs = zip(program.inputs, values, strict=True)
    numbers = {parameter.name: value for parameter, value in pairs if is_number(value)}
    return in_order((*found, *warnings_for_types(program, types, numbers, every=every)), every=every)


def warnings_of_compiled(
    request: Request, memory: MemoryUse, kernels: Callable[[], sem.Program]
) -> tuple[Diagnostic, ...]:
    """Return warnings about a program for the types that it was compiled for, and about what its kernels take."""
    program = request.program
    if not isinstance(program, Function):
        return ()
    found = (*program.warnings, *warnings_for_types(program, request.types))
    large = memory.peak >= LEAST_BYTES and memory.peak > MOST_TIMES * (memory.inputs + memory.outputs)
    return in_order((*found, *memory_warnings(program, memory, kernels()))) if large else in_order(found)


def memory_warnings(program: Function, memory: MemoryUse, kernels: sem.Program) -> tuple[Diagnostic, ...]:
    """Return the warning about temporaries that take so much, with the statement of the largest.

    Args:
        program: What was compiled.
        memory: What a call of it takes.
        kernels: What became of it.

    """
    passed = memory.inputs + memory.outputs
    largest = max(
        (buffer for buffer in kernels.buffers if buffer.role is sem.BufferRole.TEMPORARY),
        key=lambda buffer: buffer.elements * buffer.dtype.itemsize,
    )
    statement = _statement(program, largest.name)
    if statement is not None and "TIL721" in allowed(statement.attributes):
        return ()
    takes = f"temporaries take {_size(memory.peak)}, {memory.peak // max(1, passed)} times what inputs and outputs do"
    what = f"the largest is {list(largest.shape)} of {largest.dtype.value}"
    advice = "sum over its indices where it is made, or make it of fewer"
    span = None if statement is None else statement.name_span or statement.span
    name = "" if statement is None else f", for {statement.name!r}"
    return (Diagnostic("TIL721", f"{takes}; {what}{name}: {advice}", span),)


def _statement(program: Function, buffer: str) -> Statement | None:
    """Return the statement that a temporary is called after: passes and lowering add endings to names."""
    named = [s for s in program.statements if buffer == s.name or buffer.startswith(f"{s.name}_")]
    return max(named, key=lambda statement: len(statement.name), default=None)


def _size(count: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} bytes"
