"""Checks of passes on one program; of Tile functions for the smallest shapes that show what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from tileir.core.targets.target import Target
from tileir.driver.arguments import tensor_types
from tileir.driver.checking.checker import check_function, check_program
from tileir.driver.checking.shrinking import Finding, smallest
from tileir.driver.compiler import passes_of
from tileir.driver.programs import Source, function_of, program_of, refuse_semtree, types_of
from tileir.driver.targets import Named, choice_of, scheduling_target
from tileir.passes.base import Pass
from tileir.runtime.context import Context, owner_of
from tileir.runtime.interface import DeviceInfo
from tileir.stripe.ir import Program as StripeProgram
from tileir.tile.ir import Function
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir.typed.simplify.preparation import prepared


def check_passes(
    source: Source,
    arguments: Any = (),
    passes: tuple[Pass, ...] | str | None = None,
    *,
    device: str | DeviceInfo | None = None,
    context: Context | None = None,
    target: Named | None = None,
    seeds: int = 1,
) -> Finding | None:
    """Return the first pass, or stage behind the passes, that changes what a function computes; None for none.

    The function is run before and after each of them by interpreters, on random elements of finite fields in place of
    floats: sums are exact there in any order, so results that differ at all are wrong, and nothing else is reported.
    Kernels are watched for races, and undefined memory shows in what is computed from it.

    Args:
        source: What to run, in the forms that :func:`tileir.compile` takes; no program of the semtree, which no pass
            sees. Programs of Stripe keep their shapes.
        arguments: What describes the inputs, as for :func:`tileir.compile`. Their values are not used.
        passes: The passes to check, or the text, JSON or name of a pipeline; by default those of the target.
        device: A device or its id, whose facts passes and lowering get; by default what the context chooses.
        context: Owner of devices; by default the process-wide one.
        target: What passes are computed for instead of the device; as for :func:`tileir.compile`.
        seeds: On so many sets of inputs.

    Raises:
        TileError: The function is wrong or does not fit the arguments, or the pipeline is none.
        ArgumentError: TIL712, it is a program of the semtree.
        BackendError: There is no such device.

    """
    program = program_of(source)
    refuse_semtree(program)
    choice = choice_of(target)
    facts = choice if isinstance(choice, Target) else owner_of(context).device(device).target
    chosen = scheduling_target(choice, facts, None)
    steps = passes_of(passes, chosen)
    if isinstance(program, StripeProgram):
        kinds = types_of(program, arguments)
        findings = (check_program(program, steps, chosen, seed=seed) for seed in range(seeds))
        finding = next((each for each in findings if each is not None), None)
        return None if finding is None else attrs.evolve(finding, types=kinds)
    function = function_of(program)
    return _smallest(function, dict(tensor_types(function, arguments)), steps, chosen, seeds)


def _smallest(
    function: Function, types: Mapping[str, TensorType], steps: tuple[Pass, ...], chosen: Target, seeds: int
) -> Finding | None:
    """Return what is wrong with a function, for the smallest shapes that a few trials find."""

    def found(types: Mapping[str, TensorType]) -> Finding | None:
        graph = prepared(infer(function, types))
        findings = (check_function(graph, steps, chosen, seed=seed) for seed in range(seeds))
        return next((finding for finding in findings if finding is not None), None)

    first = found(types)
    if first is None:
        return None

    def same(types: Mapping[str, TensorType]) -> bool:
        finding = found(types)
        return finding is not None and _kind(finding) == _kind(first)

    types = smallest(function, types, same)
    finding = found(types)
    return None if finding is None else attrs.evolve(finding, types=types)


def _kind(finding: Finding) -> tuple[str, int, bool]:
    """Return what two findings have in common where one stands for the other."""
    return finding.step, finding.number, finding.difference is None
