"""Predicted cost of a program of the semtree, kernel by kernel, by :mod:`tileir.semtree.cost.prediction`."""

from __future__ import annotations

from typing import assert_never

from tileir.core import attrs
from tileir.passes.cost.figures import KernelCost
from tileir.passes.cost.machine import Machine
from tileir.semtree import ir as sem
from tileir.semtree.cost.prediction import kernel_cost
from tileir.semtree.rewrite import distinct_nodes, statements
from tileir.stripe import works as stripe
from tileir_performance.cost.works import ProgramCost, works_cost


def predict(program: sem.Program, machine: Machine) -> ProgramCost:
    """Return what a program that obeys the rules costs; caches are taken as warm, as by the model of Stripe."""
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
    """Return what one kernel costs.

    Args:
        kernel: A kernel that obeys the rules.
        machine: The device.
        program_bytes: The size of all memory of the program, which decides what caches hold at the start.
    """
    cost = kernel_cost(kernel, machine, program_bytes)
    held: dict[str, int] = {}
    for stmt in statements(kernel.body):
        if isinstance(stmt, sem.DeclareArray):
            held[stmt.region.value] = held.get(stmt.region.value, 0) + stmt.size * stmt.dtype.itemsize
    lanes = max((node.type.lanes for node in distinct_nodes(kernel)), default=1)
    return attrs.evolve(cost, held=held, lanes=lanes)
