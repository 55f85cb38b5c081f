"""Costs of programs: of launches that follow one another, of loops of them and of what runs on a condition."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import assert_never

from tileir.core import attrs
from tileir.passes.cost.figures import KernelCost
from tileir.stripe import works as stripe


@attrs.frozen
class ProgramCost:
    """A program.

    Attributes:
        kernels: Those of its launches, in the order of the text.
        seconds: The predicted time of one run, with one step of each loop on a condition, and of each branch the dearer
            side; less than that of all kernels where some run side by side.

    """

    kernels: tuple[KernelCost, ...]
    seconds: float


def works_cost(works: Iterable[stripe.Work], launch_cost: Callable[[stripe.Launch], KernelCost]) -> ProgramCost:
    """Return what works cost that follow one another; nesting is bounded, so recursion is.

    Args:
        works: In their order.
        launch_cost: Tells what one launch costs.
    """
    parts = [_work_cost(work, launch_cost) for work in works]
    return ProgramCost(tuple(kernel for part in parts for kernel in part.kernels), sum(part.seconds for part in parts))


def _work_cost(work: stripe.Work, launch_cost: Callable[[stripe.Launch], KernelCost]) -> ProgramCost:
    match work:
        case stripe.Launch():
            kernel = launch_cost(work)
            return ProgramCost((kernel,), kernel.seconds)
        case stripe.Loop(times=times, works=inner):
            step = works_cost(inner, launch_cost)
            if isinstance(times, stripe.While):
                return _under(f"while {times.memory}", step)
            kernels = (attrs.evolve(each, runs=each.runs * times) for each in step.kernels)
            return ProgramCost(tuple(kernels), step.seconds * times)
        case stripe.Branch(condition=memory, then=then, otherwise=otherwise):
            sides = (
                _under(f"if {memory}", works_cost(then, launch_cost)),
                _under(f"unless {memory}", works_cost(otherwise, launch_cost)),
            )
            seconds = max(side.seconds for side in sides)
            dearer = next(side for side in sides if side.seconds == seconds)
            return ProgramCost(
                tuple(
                    each if side is dearer else attrs.evolve(each, counted=False)
                    for side in sides
                    for each in side.kernels
                ),
                seconds,
            )
        case _:
            assert_never(work)


def _under(condition: str, cost: ProgramCost) -> ProgramCost:
    """Return the cost of what runs on a condition."""
    kernels = (attrs.evolve(each, conditions=(condition, *each.conditions)) for each in cost.kernels)
    return attrs.evolve(cost, kernels=tuple(kernels))
