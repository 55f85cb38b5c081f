"""Predicted cost of a program on a machine: counts of every block, time of every kernel by its slowest resource.

What these figures are, :mod:`tileir.passes.cost.figures` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from tileir.core import REGISTER, DType, attrs
from tileir.passes.cost.figures import BlockCost, Cycles, KernelCost, Kind, Operations, bounded
from tileir.passes.cost.machine import Machine
from tileir.stripe import ir as stripe, launched, uses_of
from tileir_performance.cost.core import cycles_of, issues_of, operations_of
from tileir_performance.cost.kernels import ProgramCost, works_cost
from tileir_performance.cost.points import Constraint, Count, count_points
from tileir_performance.cost.scopes import Scope, scope_of
from tileir_performance.cost.traffic import Traffic


def predict(program: stripe.Program, machine: Machine) -> ProgramCost:
    """Return what a program costs, whatever passes it has been through.

    Caches are taken as warm: data of a program that fits in a cache as a whole is there when a run begins, as it is
    when a function is called again and again.
    """
    used = uses_of(program.kernels, program.works)
    memory = {each.name: each for each in program.memory if each.name in used}
    total = sum(each.shape.elements * each.shape.dtype.itemsize for each in memory.values())
    known: dict[int, KernelCost] = {}

    def launch_cost(launch: stripe.Launch) -> KernelCost:
        found = known.get(launch.kernel)
        if found is None:
            block = launched(program.kernels[launch.kernel], launch)
            tensors = {name: memory[name] for name in launch.arguments}
            found = known[launch.kernel] = predict_kernel(block, tensors, machine, total)
        whole, *inner = found.blocks
        return attrs.evolve(found, name=launch.name, blocks=(attrs.evolve(whole, name=launch.name), *inner))

    return works_cost(program.works, launch_cost)


def predict_kernel(
    kernel: stripe.Block, tensors: Mapping[str, stripe.Refinement], machine: Machine, program_bytes: int = 1 << 62
) -> KernelCost:
    """Return what one kernel costs.

    Args:
        kernel: A block of ``main``.
        tensors: The memory that it sees, by name.
        machine: The device.
        program_bytes: The size of all tensors of the program, which decides what caches hold at the start.
    """
    scope = scope_of(kernel, tensors)
    traffic = Traffic(scope, machine.storages[-1].line_bytes if machine.storages else 1)
    blocks = tuple(_blocks(scope, traffic, machine))
    groups = prod([loop.range for loop in scope.loops if loop.binding is stripe.Binding.GRID])
    return bounded(blocks, traffic, machine, groups, _local_bytes(scope, machine), program_bytes)


def _local_bytes(scope: Scope, machine: Machine) -> float:
    if not machine.local_rate:
        return 0.0
    return sum(_executions(each, _points(each).points) * cycles_of(each, machine).local for each in scope.walk())


def _points(scope: Scope, constraints: tuple[Constraint, ...] = ()) -> Count:
    ranges = {loop.number: loop.range for loop in (*scope.outer, *scope.loops)}
    return count_points(ranges, (*constraints, *scope.constraints))


def _executions(scope: Scope, points: int) -> float:
    """Return how often a block's own statements are issued: once for all points of unrolled and vector indices."""
    return points / issues_of(scope)


def _blocks(
    scope: Scope, traffic: Traffic, machine: Machine, depth: int = 0, constraints: tuple[Constraint, ...] = ()
) -> Iterator[BlockCost]:
    """Yield the costs of a scope and of all below, those of each before those of its children."""
    inner = (*constraints, *scope.constraints)
    below = [list(_blocks(child, traffic, machine, depth + 1, inner)) for child in scope.children]
    counted = _points(scope, constraints)
    operations: dict[tuple[DType, Kind], int] = {}
    for dtype, kind, count in operations_of(scope):
        operations[dtype, kind] = operations.get((dtype, kind), 0) + count * counted.points
    accessed = counted.points * _bytes_of_a_point(scope)
    own = cycles_of(scope, machine)
    seconds = _executions(scope, counted.points) * _issue(own, machine) / machine.clock
    exact = counted.exact and not inner
    for child in (each[0] for each in below):
        for found in child.operations:
            operations[found.dtype, found.kind] = operations.get((found.dtype, found.kind), 0) + found.count
        accessed += child.accessed_bytes
        seconds += child.seconds
        exact = exact and child.footprint_exact
    touched = traffic.different(scope)
    yield BlockCost(
        scope.block.name,
        depth,
        tuple((loop.name, loop.range, "" if loop.binding is None else loop.binding.value) for loop in scope.loops),
        counted.points,
        counted.exact,
        tuple(Operations(dtype, kind, count) for (dtype, kind), count in operations.items()),
        accessed,
        touched.bytes,
        exact and touched.exact,
        seconds,
    )
    for each in below:
        yield from each


def _issue(cycles: Cycles, machine: Machine) -> float:
    latency = cycles.latency if machine.vector_bytes else 0.0  # threads hide it elsewhere
    return max(cycles.arithmetic, cycles.transfer, latency) + cycles.overhead


def _bytes_of_a_point(scope: Scope) -> int:
    """Return what the loads and stores of one point ask for."""
    total = 0
    for statement in scope.block.statements:
        match statement:
            case stripe.Load(source=name) | stripe.Store(into=name):
                access = scope.accesses[name]
                total += 0 if access.root.location == REGISTER else access.dtype.itemsize
            case stripe.Special(name="prefetch"):
                pass
            case stripe.Special(inputs=inputs, outputs=outputs):
                for name in (*inputs, *outputs):
                    shape = scope.block.refinement(name).shape
                    total += shape.elements * shape.dtype.itemsize
    return total
