"""Passes and the functions that run them over a program and its kernels.

A pass is a frozen value with typed options, and a pure function of a program; it returns its argument itself when
there is nothing to do. Blocks that a pass rebuilds lose their ``deps``, which a scheduler computes last;
remaining stale ``deps`` are dropped here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Container, Iterable, Sequence
from typing import ClassVar, Final, Protocol

from tileir.core import Target, TileError, VerifyError, attrs, checkpoint, fail, rewritten
from tileir.passes.kernels.expansion import Outcome, expanded
from tileir.passes.loops import between_loops
from tileir.passes.offers import AliasedPass
from tileir.schedule.remarks import Refused, listener, refused, strongest
from tileir.stripe import (
    INSTRUCTIONS,
    KERNEL,
    MAIN,
    PLACES,
    Block,
    Buffer,
    Program,
    Refinement,
    Statement,
    sequential_works,
)
from tileir.stripe.check.verifier import diagnose, verify, verify as verify_program
from tileir.stripe.flattening import with_blocks, with_entry

_STALE: Final = frozenset({"TIL509", "TIL513", "TIL514"})
"""Verifier codes for stale dependencies and offsets."""


def verified(program: Program, label: str, since: Program) -> Program:
    """Verify the result of a pass on ``since``, without dependencies and offsets if those no longer hold.

    Raises:
        VerifyError: The program breaks another rule, or there were no dependencies and offsets before the pass.
    """
    try:
        verify(program, label, since=since)
    except VerifyError as error:
        if not _STALE.issuperset(d.code for d in error.diagnostics) or _plain(since.entry) is since.entry:
            raise
        program = with_entry(program, _plain(program.entry))
        verify(program, label, since=since)
    return program


def is_plain(program: Program, since: Program | None = None) -> bool:
    """Return whether nothing has dependencies or offsets; kernels shared with ``since`` are not checked again."""
    if sequential_works(program.works) is not program.works or any(each.offset is not None for each in program.memory):
        return False
    known = frozenset() if since is None else frozenset(map(id, since.kernels))
    return all(_is_plain_block(kernel.block) for kernel in program.kernels if id(kernel) not in known)


def _is_plain_block(block: Block) -> bool:
    return all(refinement.offset is None for refinement in block.refinements) and not any(
        statement.deps or (isinstance(statement, Block) and not _is_plain_block(statement))
        for statement in block.statements
    )


def _plain(block: Block) -> Block:
    """Return a block without dependencies and offsets at any depth; nesting is bounded, so recursion is."""
    refinements = rewritten(block.refinements, lambda r: (r if r.offset is None else attrs.evolve(r, offset=None),))
    statements = rewritten(block.statements, lambda s: (_unordered(s),))
    if refinements is block.refinements and statements is block.statements:
        return block
    return attrs.evolve(block, refinements=refinements, statements=statements)


def _unordered(statement: Statement) -> Statement:
    inner = _plain(statement) if isinstance(statement, Block) else statement
    return attrs.evolve(inner, deps=()) if inner.deps else inner


class Pass(Protocol):
    """One step from Stripe to Stripe; an attrs class whose fields are its options, all with defaults."""

    name: ClassVar[str]

    def __call__(self, program: Program) -> Program:
        """Return the rewritten program; the argument itself when nothing changed."""


def for_target(passes: Iterable[Pass], target: Target) -> tuple[Pass, ...]:
    """Return the passes, each :class:`TargetedPass` with the facts of the target.

    Looking for the method is fifty times as fast as a check against the protocol.
    """
    told = ((getattr(step, "for_target", None), step) for step in passes)
    return tuple(step if tell is None else tell(target) for tell, step in told)


@attrs.frozen
class Named:
    """A pass as a pipeline step with its own name."""

    name: ClassVar[str] = "named"
    label: str
    step: Pass

    def __call__(self, program: Program) -> Program:
        """Apply the pass."""
        return self.step(program)

    def for_target(self, target: Target) -> Named:
        """Return the step with the facts of ``target`` in its pass."""
        return attrs.evolve(self, step=for_target((self.step,), target)[0])


def unnamed(step: Pass) -> Pass:
    """Return the pass of a step, without the step's own name."""
    return step.step if isinstance(step, Named) else step


def label_of(step: Pass) -> str:
    """Return the name of a step: its own, or else that of its pass."""
    return step.label if isinstance(step, Named) else step.name


def names_of(step: Pass) -> tuple[str, ...]:
    """Return the names of a step: its own, that of its pass, and the aliases of the pass."""
    inner = unnamed(step)
    return (label_of(step), inner.name, *aliases_of(inner))


def aliases_of(step: object) -> tuple[str, ...]:
    """Return the aliases of a pass, or of a class of passes."""
    return step.aliases if isinstance(step, AliasedPass) else ()


def at_least(least: int) -> Callable[[object, attrs.Attribute[int], int], None]:
    """Return a validator for options that must be ``least`` or more; it raises ValueError, which pipelines report."""

    def check(_: object, attribute: attrs.Attribute[int], value: int) -> None:
        if value < least:
            raise ValueError(f"{attribute.name} must be at least {least}")

    return check


_PARTS: Final = (*(word for word in PLACES if word != KERNEL), *INSTRUCTIONS)
"""Tags that follow from the position of a block, which a pass cannot set. Each kernel has the omitted one anyway."""


def free_tags(_: object, attribute: attrs.Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
    """Refuse tags that a pass cannot set on blocks; it raises ValueError, which pipelines report."""
    if taken := [tag for tag in value if tag in _PARTS]:
        raise ValueError(
            f"{attribute.name} cannot hold {taken[0]}, by which programs tell their parts: choose another tag"
        )


def run(
    passes: Iterable[Pass],
    program: Program,
    *,
    verify: bool = True,
    verify_first: bool = True,
    position: int = 0,
    dump: Callable[[str, Program], None] | None = None,
) -> Program:
    """Apply passes one after the other.

    Kernels between loops, and the bodies of loops, count as programs of their own (:mod:`tileir.passes.loops`).
    Dependencies and offsets that no longer hold after a pass are dropped.

    Args:
        passes: The passes, first to last.
        program: A valid program.
        verify: Whether to check the rules of Stripe before the first pass and after each.
        verify_first: Whether to check before the first pass, too; otherwise the program is known to be valid.
        position: The number of the first pass in its pipeline, for remarks.
        dump: Called with the name of each step and the program that it returned.

    Raises:
        VerifyError: The program was not valid, or a pass broke it; a note names the pass.
        TileError: A pass refuses the program; TIL549, it returned something other than a program.
        Exception: Any error of a pass, with a note that names the pass.
    """
    if verify and verify_first:
        verify_program(program)
    for number, step in enumerate(passes, position):
        begin(number, step)
        after = applied(step, program)
        if verify and after is not program:
            after = verified(after, label_of(step), since=program)
        program = after
        if dump is not None:
            dump(label_of(step), program)
    return program


def begin(position: int, step: Pass) -> None:
    """Tell a listener to which pipeline step the following remarks belong."""
    if (remarks := listener()) is not None:
        remarks.begin(position, label_of(step))


def run_at_once(passes: Iterable[Pass], program: Program) -> Program:
    """Run passes as :func:`run`, but verify only the input and the final result.

    If that check or a pass fails, all passes run again with checks after each, to find the one at fault. They also run
    again if there are dependencies or offsets, which passes may invalidate.

    Raises:
        VerifyError: The program was not valid, or a pass broke it; a note names the pass.
        Exception: Any error of a pass. A note says when the second run did not repeat it, as may happen with passes
            that depend on more than the program.
    """
    verify_program(program)
    steps = tuple(passes)
    outcome = unchecked(steps, program)
    if isinstance(outcome, Program):
        return outcome
    result = run(steps, program)
    if outcome is not None:
        outcome.add_note(NOT_REPEATED)
        raise outcome
    return result


NOT_REPEATED: Final = (
    "with checks after each pass, the same passes did not fail again: one of them goes by more than the program"
)


def unchecked(steps: Iterable[Pass], program: Program) -> Program | Exception | None:
    """Apply passes to a valid program and verify only the result.

    Returns:
        The result; or the exception of a pass, or a :class:`VerifyError` for an invalid result; None if there are
        dependencies or offsets.
    """
    try:
        if not is_plain(program):
            return None
        for position, step in enumerate(steps):
            begin(position, step)
            before, program = program, applied(step, program)
            if program is not before and not is_plain(program, since=before):
                return None
    except MemoryError:
        raise
    except Exception as error:  # an invalid program may make a pass fail in any way: the caller finds out
        return error
    faults = diagnose(program)
    return VerifyError(faults) if faults else program


def applied(step: Pass, program: Program) -> Program:
    """Apply one pass to a program that may have loops, without verifying the result.

    Raises:
        TileError: The pass refuses the program; TIL549, it returned something other than a program.
        Exception: Any error of the pass, with a note that names it.
        CancelledError: The compilation was cancelled.
    """
    checkpoint()
    if getattr(unnamed(step), "sees_loops", False):  # isinstance with LoopPass takes twenty times as long
        return _called(step, program)
    return between_loops(lambda part: _called(step, part), program)


def _called(step: Pass, program: Program) -> Program:
    try:
        result: object = step(program)
    except TileError:
        raise
    except Exception as error:  # it is raised again
        error.add_note(f"raised by the pass {label_of(step)!r}")
        raise
    if not isinstance(result, Program):
        message = f"the pass {label_of(step)!r} returned a value of type {type(result).__name__}: return a Program"
        raise fail("TIL549", message)
    return result


def selected(block: Block, reqs: Iterable[str]) -> bool:
    """Return whether a block other than a kernel carries every tag of ``reqs``; no tags select every block."""
    return block.words.has_all(reqs)


def selected_kernel(kernel: Block, reqs: Iterable[str]) -> bool:
    """Return whether a kernel carries every tag of ``reqs``; the tag ``kernel`` always holds."""
    return kernel.tags.has_all([name for name in reqs if name != KERNEL])


def means_all(reqs: Iterable[str]) -> bool:
    """Return whether ``main`` carries every tag of ``reqs``, which selects all of its kernels."""
    return all(name in (MAIN, "all") for name in reqs)


NOT_MEANT: Final = refused("TR003")


def map_kernels(program: Program, function: Callable[[Block], Block | Outcome], reqs: Iterable[str] = ()) -> Program:
    """Apply ``function`` to each kernel that carries all tags of ``reqs``; a refused kernel stays."""

    def apply(kernel: Block) -> Outcome:
        result = function(kernel)
        return (result,) if isinstance(result, Block) else result

    return expand_kernels(program, apply, reqs)


def map_blocks(program: Program, function: Callable[[Block], Block | Refused], reqs: Iterable[str] = ()) -> Program:
    """Apply ``function`` to the outermost blocks of each kernel that carry all tags of ``reqs``.

    Refused blocks stay; an unchanged kernel reports the strongest refusal of its blocks.
    """
    wanted = tuple(reqs)

    def apply(kernel: Block) -> Block | Refused:
        if selected_kernel(kernel, wanted):
            return function(kernel)
        said: list[Refused] = []

        def inner(block: Block) -> Block:
            result = function(block)
            if isinstance(result, Block):
                return result
            said.append(result)
            return block

        after = map_inside(kernel, inner, wanted)
        return after if after is not kernel else strongest(said) if said else NOT_MEANT

    return map_kernels(program, apply)


def map_inside(block: Block, function: Callable[[Block], Block], reqs: tuple[str, ...]) -> Block:
    """Apply ``function`` to the outermost blocks inside ``block`` that carry all tags of ``reqs``."""

    def apply(statement: Statement) -> tuple[Statement, ...]:
        if not isinstance(statement, Block):
            return (statement,)
        return (function(statement) if selected(statement, reqs) else map_inside(statement, function, reqs),)

    inner = rewritten(block.statements, apply)
    return block if inner is block.statements else attrs.evolve(block, statements=unordered(inner), deps=())


class KernelPass:
    """Base of passes that transform kernels one by one: all, or those that carry all tags of an option ``reqs``."""

    __slots__ = ()

    def __call__(self, program: Program) -> Program:
        """Return the program with its kernels transformed."""
        return map_kernels(program, self._kernel, getattr(self, "reqs", ()))

    @abstractmethod
    def _kernel(self, kernel: Block) -> Block | Outcome:
        """Return the kernel's replacement, one or several kernels, or the reason why it stays."""


def expand_kernels(program: Program, function: Callable[[Block], Outcome], reqs: Iterable[str] = ()) -> Program:
    """Replace each kernel that carries all tags of ``reqs`` by none or more kernels.

    If ``main`` carries them all, every kernel is selected. ``function`` sees the block of each kernel's first launch,
    and its result serves the other launches, too: it may use names only to tell things apart. Refused kernels stay. A
    listener gets the outcome of each kernel.
    """
    wanted = tuple(reqs)
    everywhere = means_all(wanted)

    def meant(block: Block) -> Outcome:
        return function(block) if everywhere or selected_kernel(block, wanted) else NOT_MEANT

    return expanded(program, meant)


def with_kernels(
    program: Program,
    statements: tuple[Statement, ...],
    memory: Iterable[Refinement] | None = None,
    buffers: Iterable[Buffer] | None = None,
) -> Program:
    """Return the program with other kernels; the program itself if they are those of its ``main``.

    The kernels lose their dependencies, which would no longer give the whole order.

    Args:
        program: A program without loops.
        statements: The kernels, which name the memory of their views.
        memory: The new allocations of the program; None for no change.
        buffers: The new constants; None for no change.
    """
    if statements is program.main.statements and memory is None and buffers is None:
        return program
    return with_blocks(program, unordered(statements), memory, buffers)


def unordered(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Return the statements without dependencies, so that they run in order."""
    return rewritten(statements, lambda s: (attrs.evolve(s, deps=()) if s.deps else s,))


def with_temporaries(
    program: Program, statements: Iterable[Statement], added: Sequence[Refinement], gone: Container[str] = ()
) -> Program:
    """Return the program with other kernels.

    Args:
        program: A program without loops.
        statements: The kernels; they lose their dependencies.
        added: Allocations of their temporaries, which the program gets.
        gone: Temporaries that none of them uses any more.
    """
    kept = (each for each in program.memory if each.name not in gone)
    return with_kernels(program, tuple(statements), (*kept, *added))
