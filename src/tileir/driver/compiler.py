"""The compiler on one page: each line of :func:`compile_stages` is an arrow of the way down."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.cancelling import checkpoint
from tileir.core.collection import collection_paused
from tileir.core.errors import ArgumentError, Diagnostic, SkippedPassWarning
from tileir.passes.base import for_target, run, run_at_once
from tileir.passes.recovery import run_without_failing
from tileir.schedule.remarks import Remarks, listening
from tileir.semtree.check.verifier import verify_program
from tileir.semtree.lower.lowering import lower as lower_to_semtree
from tileir.semtree.simplify.simplifier import simplify as simplify_kernel
from tileir.semtree.transform.in_place import reuse_in_place
from tileir.semtree.transform.interleaving import interleave
from tileir.semtree.transform.sharing import share_kernels
from tileir.stripe.lower.lowering import lower as lower_to_stripe
from tileir.tile.ir import Function
from tileir.tile.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.simplify.preparation import prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tileir.core.targets.target import Target
    from tileir.passes.base import Pass
    from tileir.passes.recovery import Skipped
    from tileir.schedule.remarks import Remark
    from tileir.semtree import ir as sem
    from tileir.stripe.ir import Program as StripeProgram
    from tileir.tile import ir as tile
    from tileir.typed import ir as typed


_MOST_SHOWN: Final = 1000
"""Characters of the types of arguments in a warning."""


@attrs.frozen
class Stages:
    """One function at every stage of its way down to kernels; ``skipped`` are passes that failed and were left out."""

    tile: tile.Function
    typed: typed.Function
    stripe: StripeProgram
    scheduled: StripeProgram
    sem: sem.Program
    skipped: tuple[Skipped, ...] = ()


def function_of(source: object, name: str = "<text>") -> tile.Function:
    """Return ``source`` itself, or the function that it is the text of.

    Raises:
        ParseError: The text is wrong.
        ArgumentError: TIL707, it is neither a function nor a text.
    """
    if isinstance(source, str):
        return parse(source, name)
    if not isinstance(source, Function):
        message = f"pass a function or its text, not a value of type {type(source).__name__}"
        raise ArgumentError((Diagnostic("TIL707", message),))
    return source


def compile_stages(
    source: tile.Function | str,
    arguments: Mapping[str, typed.TensorType],
    target: Target,
    *,
    passes: tuple[Pass, ...] | str | None = None,
    tolerant: bool = False,
    dump: Callable[[str, StripeProgram], None] | None = None,
) -> Stages:
    """Take a function from text to kernels.

    Args:
        source: A function, or its text.
        arguments: Dtype and shape of each input, by name.
        target: Facts of the device.
        passes: The Stripe passes to apply, or the text, JSON or name of a pipeline; by default the target's.
        tolerant: Whether to leave out passes that fail, with a :class:`SkippedPassWarning`; so it is where nobody
            names passes.
        dump: Called after each pass with its name and the program; nothing is left out then.

    Raises:
        TileError: The function is wrong, or does not fit the arguments.
        CancelledError: Nobody wants the kernels any more, as :func:`tileir.core.cancelling.cancelled_if` tells.
    """
    with collection_paused():
        function = function_of(source)
        graph = prepared(infer(function, arguments))
        checkpoint()
        program = lower_to_stripe(graph)
        steps = passes_of(passes, target)
        skipped: tuple[Skipped, ...] = ()
        if dump is not None:
            scheduled = run(steps, program, dump=dump)
        elif tolerant:
            scheduled, skipped = run_without_failing(steps, program)
        else:
            scheduled = run_at_once(steps, program)
        if skipped:
            _warn(skipped, arguments, target)
        kernels = _finished(share_kernels(lower_to_semtree(scheduled, target)))
        return Stages(function, graph, program, scheduled, kernels, skipped)


def remarks_of(steps: tuple[Pass, ...], program: StripeProgram, *, tolerant: bool = False) -> tuple[Remark, ...]:
    """Return what each pass did to each kernel of a program, or why it refused.

    Args:
        steps: The passes, first to last.
        program: A valid program, which went through them before.
        tolerant: Whether passes that fail are left out.
    """
    kept = Remarks()
    with collection_paused(), listening(kept):
        if tolerant:
            run_without_failing(steps, program)
        else:
            run(steps, program, verify=False)
    return kept.all()


def _warn(skipped: tuple[Skipped, ...], arguments: Mapping[str, typed.TensorType], target: Target) -> None:
    """Ask for a report of passes that failed."""
    problems = "\n".join(map(str, skipped))
    types = ", ".join(
        f"{name}={kind.dtype.value}[{','.join(map(str, kind.shape))}]" for name, kind in arguments.items()
    )
    message = (
        f"{problems}\nResults are right, but may take longer to compute. This is a defect of tileir: please report it"
        f" with the text of the function, its arguments {types[:_MOST_SHOWN]}, and the target {target.name!r}"
    )
    warnings.warn(message, SkippedPassWarning, stacklevel=3)


def passes_of(passes: tuple[Pass, ...] | str | None, target: Target) -> tuple[Pass, ...]:
    """Return the passes themselves, those that a text means, or those of the target.

    Raises:
        TileError: The text is no pipeline.
    """
    if isinstance(passes, tuple):
        return for_target(passes, target)
    with collection_paused():
        from tileir.passes.pipelines.resolution import pipeline_for, resolve_pipeline  # they load passes

        return pipeline_for(target) if passes is None else resolve_pipeline(passes, target)


def _finished(program: sem.Program) -> sem.Program:
    """Return the program with as few and as simple kernels, and as few temporaries, as can be.

    It is checked at the end; and where that fails as it came, to tell whose fault it is.
    """
    try:
        simple = attrs.evolve(program, kernels=tuple(map(_simplified, program.kernels)))
        small = share_kernels(reuse_in_place(simple))
        checkpoint()
        finished = attrs.evolve(small, kernels=tuple(interleave(kernel) for kernel in small.kernels))
        checkpoint()
        verify_program(finished)
    except Exception:  # a program that breaks the rules may make a stage fail in any way; it is raised again
        verify_program(program)
        raise
    return finished


def _simplified(kernel: sem.KernelFunction) -> sem.KernelFunction:
    checkpoint()
    return simplify_kernel(kernel)
