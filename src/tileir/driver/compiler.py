"""Compiler pipeline on one page: each line of :func:`compile_stages` lowers to the next stage."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Final

from tileir.core import SkippedPassWarning, Target, TileError, attrs, checkpoint, collection_paused, fail
from tileir.driver.pass_arguments import given_passes
from tileir.driver.programs import Program, Source, described, stage_name
from tileir.passes.base import Pass, for_target, run, run_at_once
from tileir.passes.kernels.analysis_cache import forget_kernels
from tileir.passes.recovery import Skipped, run_without_failing
from tileir.schedule.remarks import Remark, Remarks, listening
from tileir.semtree import ir as sem
from tileir.semtree.check.verifier import verify_program
from tileir.semtree.lower.lowering import lower as lower_to_semtree
from tileir.semtree.simplify.simplifier import simplify as simplify_kernel
from tileir.semtree.transform.in_place import reuse_in_place, share_kernels
from tileir.semtree.transform.interleaving import interleave
from tileir.stripe.ir import Program as StripeProgram
from tileir.stripe.lower.lowering import lower as lower_to_stripe
from tileir.tile.ir import Function as TileFunction
from tileir.typed import ir as typed
from tileir.typed.inference.inference import infer
from tileir.typed.ir import Function as TypedFunction
from tileir.typed.simplify.preparation import prepared

_MOST_SHOWN: Final = 1000
"""Maximum number of characters for the types of arguments in a warning."""


@attrs.frozen
class Stages:
    """Program at every stage of its lowering, from the stage at which it entered.

    Attributes:
        source: The program as it was given.
        graph: The typed function; None if the program entered at a later stage.
        flat: The Stripe program before any pass; None if the program entered at a later stage.
        passed: The Stripe program after all passes; None if the program entered at a later stage.
        sem: The kernels, their buffers and launches.
        skipped: Failed passes that were left out.
    """

    source: Program
    graph: typed.Function | None
    flat: StripeProgram | None
    passed: StripeProgram | None
    sem: sem.Program
    skipped: tuple[Skipped, ...] = ()

    @property
    def tile(self) -> TileFunction:
        """The function as it was written."""
        if isinstance(self.source, TileFunction):
            return self.source
        raise _absent(self.source, "Tile function")

    @property
    def typed(self) -> typed.Function:
        """The function with dtypes and shapes, simplified."""
        if self.graph is None:
            raise _absent(self.source, "typed function")
        return self.graph

    @property
    def stripe(self) -> StripeProgram:
        """The Stripe program before any pass."""
        if self.flat is None:
            raise _absent(self.source, "Stripe program")
        return self.flat

    @property
    def scheduled(self) -> StripeProgram:
        """The Stripe program after all passes."""
        if self.passed is None:
            raise _absent(self.source, "Stripe program")
        return self.passed


def _absent(source: Program, wanted: str) -> TileError:
    return fail("TIL712", f"this came in as {stage_name(source)}: there is no {wanted} of it")


def typed_of(program: Program, types: Mapping[str, typed.TensorType], target: Target | None = None) -> TypedFunction:
    """Return a program as a typed function, simplified for the facts of a device.

    Raises:
        TileError: The function is wrong, or does not fit the types; TIL712, it is of a later stage.
    """
    doubles = target is None or target.doubles
    in_order = target is None or not target.update_bytes
    divides = target is None or target.group_threads == 1
    match program:
        case TileFunction():
            return prepared(infer(program, types), doubles=doubles, in_order=in_order, divides=divides)
        case TypedFunction():
            return prepared(program, doubles=doubles, in_order=in_order, divides=divides)
        case _:
            raise _absent(program, "typed function")


def stripe_of(program: Program, types: Mapping[str, typed.TensorType], target: Target | None = None) -> StripeProgram:
    """Return a program as Stripe, before any pass.

    Raises:
        TileError: As :func:`typed_of`; TIL712, it is a program of the semtree.
    """
    if isinstance(program, StripeProgram):
        return program
    if isinstance(program, TileFunction | TypedFunction):
        return lower_to_stripe(typed_of(program, types, target))
    raise _absent(program, "Stripe program")


def compile_stages(
    source: Source,
    arguments: Mapping[str, typed.TensorType],
    target: Target,
    *,
    passes: tuple[Pass, ...] | str | None = None,
    tolerant: bool = False,
    dump: Callable[[str, StripeProgram], None] | None = None,
) -> Stages:
    """Compile a program to kernels from the stage at which it enters; kernels of the semtree stay as they are.

    Args:
        source: A program, its text or JSON, or a file with one of these.
        arguments: Dtype and shape of each input, by name.
        target: Facts of the device.
        passes: The Stripe passes to apply, or the text, JSON or name of a pipeline; by default the target's.
        tolerant: Whether to leave out failing passes, with a :class:`SkippedPassWarning`; always so without ``passes``.
        dump: Called after each pass with its name and the program; no pass is left out then.

    Raises:
        TileError: The function is wrong, or does not fit the arguments.
        CancelledError: The kernels are no longer wanted, by :func:`tileir.core.process.cancellation.cancelled_if`.
    """
    with collection_paused():
        origin, arguments = described(source, arguments)
        if isinstance(origin, sem.Program):
            return Stages(origin, None, None, None, origin)
        graph = None if isinstance(origin, StripeProgram) else typed_of(origin, arguments, target)
        checkpoint()
        program = stripe_of(origin, arguments, target) if graph is None else lower_to_stripe(graph)
        steps = passes_of(passes, target)
        skipped: tuple[Skipped, ...] = ()
        try:
            if dump is not None:
                scheduled = run(steps, program, dump=dump)
            elif tolerant:
                scheduled, skipped = run_without_failing(steps, program, lowered=graph is not None)
            else:
                scheduled = run_at_once(steps, program)
        finally:
            forget_kernels()
        if skipped:
            _warn(skipped, arguments, target)
        kernels = _finished(share_kernels(lower_to_semtree(scheduled, target)))
        return Stages(origin, graph, program, scheduled, kernels, skipped)


def remarks_of(steps: tuple[Pass, ...], program: StripeProgram, *, tolerant: bool = False) -> tuple[Remark, ...]:
    """Return the remarks of each pass on each kernel of a program: its effect, or the reason of its refusal.

    Args:
        steps: The passes, first to last.
        program: A valid program that they have transformed before.
        tolerant: Whether failing passes are left out.
    """
    kept = Remarks()
    with collection_paused(), listening(kept):
        if tolerant:
            run_without_failing(steps, program)
        else:
            run(steps, program, verify=False)
    return kept.all()


def _warn(skipped: tuple[Skipped, ...], arguments: Mapping[str, typed.TensorType], target: Target) -> None:
    """Warn about failed passes, asking for a report."""
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
    """Return the passes themselves, those of a text, or those of the target.

    Raises:
        TileError: The text is not a pipeline; TIL707, an item is not a pass.
    """
    passes = given_passes(passes)
    if isinstance(passes, tuple):
        return for_target(passes, target)
    with collection_paused():
        from tileir.passes.pipelines.resolution import pipeline_for, resolve_pipeline  # they load passes

        return pipeline_for(target) if passes is None else resolve_pipeline(passes, target)


def _finished(program: sem.Program) -> sem.Program:
    """Return the program with kernels merged and simplified, and with few temporaries.

    It is verified at the end; on failure the input is verified too, to attribute the fault.
    """
    try:
        simple = attrs.evolve(program, kernels=tuple(map(_simplified, program.kernels)))
        small = share_kernels(reuse_in_place(simple))
        checkpoint()
        finished = attrs.evolve(small, kernels=tuple(interleave(kernel) for kernel in small.kernels))
        checkpoint()
        verify_program(finished)
    except Exception:  # an invalid program may make a stage raise anything; it is raised again
        verify_program(program)
        raise
    return finished


def _simplified(kernel: sem.KernelFunction) -> sem.KernelFunction:
    checkpoint()
    return simplify_kernel(kernel)
