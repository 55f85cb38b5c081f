"""Checks of programs as a whole: memory, constants, kernels, and the works that launch them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import assert_never

from tileir.core.dtype import DType
from tileir.core.errors import Diagnostic
from tileir.stripe.ir import Branch, Direction, Launch, Loop, Program, Refinement, While, Work
from tileir.stripe.lower.kernel_table import is_laid_out
from tileir.stripe.tags import LIFETIMES, PLACES
from tileir.stripe.works import MAX_LOOPS, depth_of, launches, parts, uses_of


def check_program(program: Program) -> Iterator[Diagnostic]:
    """Check everything but what blocks hold."""
    memory = {each.name: each for each in program.memory}
    yield from _check_memory(program)
    yield from _check_interface(program, memory)
    yield from _check_buffers(program, memory)
    yield from _check_kernels(program)
    yield from _check_works(program, memory)
    if all(0 <= launch.kernel < len(program.kernels) for launch in launches(program.works)):
        yield from _check_content(program)


def can_nest(program: Program) -> bool:
    """Return whether a program can be shown as nested blocks: its launches have kernels, and these what they need."""
    kernels = program.kernels
    return depth_of(program.works) <= MAX_LOOPS and all(
        0 <= launch.kernel < len(kernels) and len(launch.arguments) == len(kernels[launch.kernel].parameters)
        for launch in launches(program.works)
    )


def _check_memory(program: Program) -> Iterator[Diagnostic]:
    for name, times in Counter(each.name for each in program.memory).items():
        if times > 1:
            yield Diagnostic("TIL503", f"refinement {name!r} is defined twice in the memory of the program")
    for each in program.memory:
        if each.direction is not Direction.NONE:
            yield _fault(f"{each.name!r} of the entry block must be an allocation")
        if taken := [word for word in LIFETIMES if word in each.tags]:
            yield _fault(f"{each.name!r} must not have the tag {taken[0]}, which text makes of parameters and results")


def _check_interface(program: Program, memory: Mapping[str, Refinement]) -> Iterator[Diagnostic]:
    """Parameters and results are memory of the program, each named once."""
    seen: set[str] = set()
    for name in (*program.inputs, *program.outputs):
        if name in seen:
            yield _fault(f"{name!r} is named twice among the parameters and results: copy it to a result of its own")
        seen.add(name)
        if name not in memory:
            yield _fault(f"the entry block has no allocation for {name!r}, a parameter or result")


def _check_buffers(program: Program, memory: Mapping[str, Refinement]) -> Iterator[Diagnostic]:
    """Each constant has its content, and no other memory has one."""
    seen: set[str] = set()
    for buffer in program.buffers:
        refinement = memory.get(buffer.name)
        if refinement is None or not refinement.constant or buffer.name in seen:
            yield _fault(f"the buffer {buffer.name!r} needs one constant allocation of its own in the entry block")
            continue
        seen.add(buffer.name)
        size = refinement.shape.elements * refinement.shape.dtype.itemsize
        if len(buffer.data) != size:
            yield _fault(f"the buffer {buffer.name!r} must hold {size} bytes, not {len(buffer.data)}")
    for name, refinement in memory.items():
        if refinement.constant and name not in seen:
            yield _fault(f"the constant {name!r} has no buffer with its content")


def _check_kernels(program: Program) -> Iterator[Diagnostic]:
    """Kernels are all different, and see nothing but their parameters."""
    first: dict[object, int] = {}
    alike = Counter(kernel.head for kernel in program.kernels)
    for number, kernel in enumerate(program.kernels):
        if alike[kernel.head] > 1 and first.setdefault(kernel.form, number) != number:
            yield _fault(f"the kernels {first[kernel.form]} and {number} are equal: launch the first of them twice")
        block, known = kernel.block, [parameter.name for parameter in kernel.parameters]
        if block.name or block.comments or block.deps:
            yield _fault(f"kernel {number} must have no name, comments and dependencies: its launches have")
        if taken := [word for word in PLACES if word in block.tags]:
            yield _fault(f"kernel {number} must not have the tag {taken[0]}, by which text says where blocks stand")
        if len(set(known)) != len(known):
            yield _fault(f"kernel {number} has two parameters of one name")
        for view in block.refinements:
            if view.direction is not Direction.NONE and view.source not in known:
                yield _fault(f"{view.name!r} of kernel {number} views {view.source!r}, which is none of its parameters")


def _check_works(program: Program, memory: Mapping[str, Refinement]) -> Iterator[Diagnostic]:
    """Works launch kernels on memory that is as their parameters say; without recursion, as nothing bounds nesting."""
    pending: list[tuple[Work, str, int]] = [(work, f"work {n}", 0) for n, work in enumerate(program.works)]
    while pending:
        work, place, depth = pending.pop()
        if depth > MAX_LOOPS:
            yield _fault(f"loops and branches are nested deeper than {MAX_LOOPS}")
            return
        match work:
            case Launch():
                yield from _check_launch(program, work, memory, place)
            case Loop():
                yield from _check_loop(work, memory, place)
            case Branch():
                yield from _check_condition(work.condition, memory, place)
            case _:
                assert_never(work)
        inner = [each for held in parts(work) for each in held]
        pending.extend((each, f"work {number} of {place}", depth + 1) for number, each in enumerate(inner))


def _check_launch(
    program: Program, launch: Launch, memory: Mapping[str, Refinement], place: str
) -> Iterator[Diagnostic]:
    if not 0 <= launch.kernel < len(program.kernels):
        yield _fault(f"{place} launches kernel {launch.kernel}, of {len(program.kernels)}")
        return
    parameters = program.kernels[launch.kernel].parameters
    if len(parameters) != len(launch.arguments):
        yield _fault(f"{place} launches a kernel of {len(parameters)} parameters on {len(launch.arguments)} arguments")
        return
    if len(set(launch.arguments)) != len(launch.arguments):
        yield _fault(f"{place} names memory twice: a kernel that sees it twice has one parameter for it")
    for parameter, name in zip(parameters, launch.arguments, strict=True):
        if name not in memory:
            yield Diagnostic("TIL503", f"{place} launches a kernel on {name!r}, which the program does not allocate")
        elif not is_laid_out(memory[name], parameter):
            yield _fault(f"{name!r}, an argument of {place}, is not laid out as the parameter {parameter.name!r}")


def _check_loop(loop: Loop, memory: Mapping[str, Refinement], place: str) -> Iterator[Diagnostic]:
    if isinstance(loop.times, While):
        yield from _check_condition(loop.times.memory, memory, place)
        if not loop.works:
            yield _fault(f"{place} does nothing while a condition holds: it would not end")
    elif loop.times < 1:
        yield _fault(f"{place} is a loop of {loop.times} steps: it needs one or more")
    named = [name for carry in loop.carries for name in (carry.kept, carry.made)]
    if len(set(named)) != len(named):
        yield _fault(f"{place} names memory twice among what its steps keep and make")
    for carry in loop.carries:
        kept, made = memory.get(carry.kept), memory.get(carry.made)
        if kept is None or made is None or not kept.shape.holds_what(made.shape):
            yield _fault(f"{place} carries {carry.made!r} to {carry.kept!r}: both must be memory of the same elements")


def _check_condition(name: str, memory: Mapping[str, Refinement], place: str) -> Iterator[Diagnostic]:
    shape = memory[name].shape if name in memory else None
    if shape is None or shape.dtype is not DType.BOOL or shape.elements != 1:
        yield _fault(f"the condition {name!r} of {place} must be memory that holds one bool")


def _check_content(program: Program) -> Iterator[Diagnostic]:
    """Nothing writes parameters and constants, and what is read has been written by something."""
    given = {*program.inputs, *(buffer.name for buffer in program.buffers)}
    for name in uses_of(program.kernels, program.works).written:
        if name in given:
            yield _fault(f"the main block must not write {name!r}, a parameter or constant")


def _fault(message: str) -> Diagnostic:
    return Diagnostic("TIL501", message)
