"""Predicted cost of a program of the semtree, kernel by kernel, by :mod:`tileir.semtree.cost.prediction`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import assert_never

from tileir.core import attrs
from tileir.passes.cost.figures import KernelCost
from tileir.passes.cost.machine import Machine
from tileir.semtree import ir as sem
from tileir.semtree.cost.prediction import kernel_cost
from tileir.semtree.rewrite import distinct_nodes, statements
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
    """Return the cost of consecutive works; recursive, as nesting is bounded.

    Args:
        works: In their order.
        launch_cost: Returns the cost of one launch.
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
    """Return the cost of works under a condition."""
    kernels = (attrs.evolve(each, conditions=(condition, *each.conditions)) for each in cost.kernels)
    return attrs.evolve(cost, kernels=tuple(kernels))


def predict(program: sem.Program, machine: Machine) -> ProgramCost:
    """Return the predicted cost of a legal semtree program, with warm caches as in the model of Stripe."""
    total = sum(each.elements * each.dtype.itemsize for each in program.buffers)
    known: dict[int, KernelCost] = {}

    def launch_cost(launch: stripe.Launch) -> KernelCost:
        if launch.kernel not in known:
            known[launch.kernel] = predict_kernel(program.kernels[launch.kernel], machine, total)
        return known[launch.kernel]

    return works_cost(tuple(map(_work, program.works)), launch_cost)


def _work(work: sem.Work) -> stripe.Work:
    """Return a work in the words of Stripe; nesting is bounded, so recursion is."""
    match work:
        case sem.Launch(kernel=kernel, arguments=arguments):
            return stripe.Launch(kernel, arguments)
        case sem.Loop(times=times, works=works):
            condition = stripe.While(times.buffer) if isinstance(times, sem.While) else times
            return stripe.Loop(condition, tuple(map(_work, works)))
        case sem.Branch(condition=condition, then=then, otherwise=otherwise):
            return stripe.Branch(condition, tuple(map(_work, then)), tuple(map(_work, otherwise)))
        case _:
            assert_never(work)


def predict_kernel(kernel: sem.KernelFunction, machine: Machine, program_bytes: int = 1 << 62) -> KernelCost:
    """Return the predicted cost of one kernel.

    Args:
        kernel: A legal kernel.
        machine: The device.
        program_bytes: The size of all memory of the program, which decides the caches' initial content.
    """
    cost = kernel_cost(kernel, machine, program_bytes)
    held: dict[str, int] = {}
    for stmt in statements(kernel.body):
        if isinstance(stmt, sem.DeclareArray):
            held[stmt.region.value] = held.get(stmt.region.value, 0) + stmt.size * stmt.dtype.itemsize
    lanes = max((node.type.lanes for node in distinct_nodes(kernel)), default=1)
    return attrs.evolve(cost, held=held, lanes=lanes)
