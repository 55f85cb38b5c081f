"""What a compiled program costs: its kernels below the roofs of the machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tileir.core.targets.target import Target
from tileir.core.targets.target_file import hardware_of
from tileir.driver.explain.explanation import Explanation, explain_program
from tileir.driver.explain.text import runs_text
from tileir.passes.cost.machine import machine_of
from tileir.stripe.ir import Program
from tileir.stripe.works import launches
from tileir.studio.views.views import CostView, KernelView, Roof

if TYPE_CHECKING:
    from tileir.passes.cost.prediction import KernelCost
    from tileir.studio.views.linking import Origins


def costs_of(program: Program, target: Target, found: Origins, explained: Explanation | None = None) -> CostView:
    """Return the predicted costs of a scheduled program, or those of an explanation that measured it."""
    explanation = explain_program(program, target) if explained is None else explained
    comments = [launch.comments for launch in launches(program.works)]
    if len(comments) != len(explanation.kernels):  # tuning found other passes for the program that was measured
        comments = [()] * len(explanation.kernels)
    measured = explanation.measured or (None,) * len(explanation.kernels)
    kernels = tuple(
        _kernel(cost, found.of_comments(said), seconds)
        for cost, said, seconds in zip(explanation.kernels, comments, measured, strict=False)
    )
    return CostView(
        explanation.target,
        kernels,
        explanation.seconds,
        explanation.measured_seconds,
        explanation.assumptions,
        tuple(_roofs(program, target)),
    )


def _kernel(cost: KernelCost, statements: tuple[int, ...], measured: float | None) -> KernelView:
    operations = cost.whole.total_operations
    moved = operations / cost.intensity if cost.intensity else float(cost.whole.footprint_bytes)
    runs = runs_text(cost.runs, cost.conditions)
    return KernelView(
        cost.name,
        statements,
        operations,
        moved,
        cost.intensity,
        cost.bound,
        runs,
        cost.counted,
        cost.seconds,
        measured,
    )


def _roofs(program: Program, target: Target) -> Iterator[Roof]:
    """Yield what the machine computes in a second, and what each of its memories passes on."""
    machine = machine_of(hardware_of(target), target)
    floats = [view.shape.dtype for view in program.main.refinements if view.shape.dtype.is_float]
    if floats:
        widest = max(floats, key=lambda dtype: dtype.itemsize)
        yield Roof(f"compute, {widest.value}", machine.clock * machine.units * machine.rate(widest), per_byte=False)
    for storage in machine.storages:
        rate = min(storage.total_rate, storage.unit_rate * machine.units) if storage.unit_rate else storage.total_rate
        yield Roof(storage.name, rate, per_byte=True)
