"""Programs whose blocks have places: how long each unit of a hardware model is busy, and when it waits for another.

A block that lies on units, such as ``CONV`` or ``DMA``, costs what the slowest of its resources takes: its operations
at the rate of the units, or the bytes of its views over the narrowest bus between their memories and the units.
Statements begin when the ones that they depend on have ended and their unit is free, so that transfers run beside
computing where the program lets them: list scheduling in program order (Graham, "Bounds on multiprocessing timing
anomalies", 1969), with the dependencies that the program itself implies. Rounds of a loop follow one another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Final

from tileir.core import ExecutionUnit, HardwareModel, TransferUnit, attrs
from tileir.passes.analysis.dependences import ComputeDeps
from tileir.passes.cost.figures import KernelCost
from tileir.passes.cost.machine import Machine
from tileir.stripe import Launch, ir as stripe
from tileir_performance.cost.core import operations_of
from tileir_performance.cost.kernels import ProgramCost
from tileir_performance.cost.points import Constraint, count_points
from tileir_performance.cost.prediction import predict
from tileir_performance.cost.scopes import Access, Scope, scope_of

NOWHERE: Final = ""
"""The unit of blocks for which nobody said where they run: they take no unit's time."""


@attrs.frozen
class Time:
    """Time that something takes.

    Attributes:
        seconds: From its beginning to its end.
        busy: The seconds of each unit, by name, in which it works or waits for data; units of one name work as one.
        resources: The seconds that operations take of each unit, and bytes of the ways to each memory.

    """

    seconds: float
    busy: Mapping[str, float]
    resources: Mapping[str, float]

    @property
    def bound(self) -> str:
        """The resource that is asked for most; empty where there is none."""
        return max(self.resources, key=lambda name: self.resources[name], default=NOWHERE)


def predict_on(program: stripe.Program, machine: Machine, model: HardwareModel) -> ProgramCost:
    """Return the cost of a program: on the units of a model where its blocks lie on units, else on the machine.

    Args:
        program: A program after any passes.
        machine: The device described by the hardware model, for general work.
        model: The units, and the buses between them.
    """
    plain = predict(program, machine)
    straight = all(isinstance(work, Launch) for work in program.works)
    if not straight or not any(_unit_of(kernel, model, NOWHERE) for kernel in program.main.blocks):
        return plain
    main = ComputeDeps()(program).main
    tensors = {refinement.name: refinement for refinement in main.refinements}
    nests = [_Nest(model, scope_of(kernel, tensors)) for kernel in main.blocks]
    times = [nest.time() for nest in nests]
    kernels = tuple(map(_kernel_cost, plain.kernels, nests, times))
    return ProgramCost(kernels, _makespan(main, times))


def _kernel_cost(plain: KernelCost, nest: _Nest, time: Time) -> KernelCost:
    """Return the cost of a kernel with the times of units."""
    inner = [part.time().seconds for part in nest.walk()]
    blocks = tuple(attrs.evolve(block, seconds=s) for block, s in zip(plain.blocks, inner, strict=True))
    return attrs.evolve(
        plain,
        blocks=blocks,
        levels=(),
        units=len(time.busy),
        times=time.resources,
        seconds=time.seconds,
        bound=time.bound,
    )


@attrs.frozen(eq=False, repr=False)
class _Nest:
    """One block and all inside it, on the units of a model.

    Attributes:
        model: The machine.
        scope: The block.
        unit: Where the block around it runs.
        around: The constraints of the blocks around it.

    """

    model: HardwareModel
    scope: Scope
    unit: str = NOWHERE
    around: tuple[Constraint, ...] = ()

    def time(self) -> Time:
        """Return the time of all points of the block."""
        children = [
            attrs.evolve(self, scope=child, unit=self._own, around=self._inside) for child in self.scope.children
        ]
        if all(name == self._own for child in children for name in child.units()):
            return self._work()
        # What one point takes is the same for all points, on average: some are cut off by constraints.
        points = max(1, self._points())
        parts = [child.time() for child in children]
        each = [attrs.evolve(part, seconds=part.seconds / points) for part in parts]
        seconds = _makespan(self.scope.block, each) * points
        return Time(seconds, _total(part.busy for part in parts), _total(part.resources for part in parts))

    def units(self) -> Iterator[str]:
        """Yield the units of the block and of all blocks inside it."""
        yield self._own
        for child in self._children():
            yield from child.units()

    @property
    def _own(self) -> str:
        return _unit_of(self.scope.block, self.model, self.unit)

    @property
    def _inside(self) -> tuple[Constraint, ...]:
        return (*self.around, *self.scope.constraints)

    def _points(self) -> int:
        """Return the number of executions of the block's statements in one run of the kernel."""
        ranges = {loop.number: loop.range for loop in (*self.scope.outer, *self.scope.loops)}
        return count_points(ranges, self._inside).points

    def _work(self) -> Time:
        """Return the time of a block that one kind of unit runs alone."""
        name = self._own
        if name == NOWHERE:
            return Time(0.0, {}, {})
        beside = self._beside(name)
        times = [{resource: seconds / beside} for nest in self.walk() for resource, seconds in nest._own_times(name)]
        resources = _total([{name: 0.0}, *times])
        seconds = max(resources.values())
        return Time(seconds, {name: seconds}, resources)

    def walk(self) -> Iterator[_Nest]:
        """Yield the block and all inside it, each before those inside it."""
        yield self
        for child in self._children():
            yield from child.walk()

    def _children(self) -> list[_Nest]:
        return [attrs.evolve(self, scope=child, unit=self._own, around=self._inside) for child in self.scope.children]

    def _beside(self, name: str) -> int:
        """Return the number of units that share the points of the block: all of that name, unless one is named."""
        location = self.scope.block.location
        if location and location[-1].units:
            return 1
        unit = next(unit for unit in self.model.units if unit.name == name)
        return max(1, min(unit.count, self.scope.block.points))

    def _own_times(self, name: str) -> Iterator[tuple[str, float]]:
        """Yield the seconds of one unit for the block's own statements, by resource."""
        points, clock = self._points(), self.model.clock_mhz * 1e6
        unit = next(unit for unit in self.model.units if unit.name == name)
        if isinstance(unit, ExecutionUnit):
            for dtype, _, count in operations_of(self.scope):
                yield name, points * count / ((unit.rate(dtype) or 1.0) * clock)
        for access in self.scope.accesses.values():
            if access.root.location in (unit.name, NOWHERE):
                continue
            nbytes = self._touched(access, points) * access.dtype.itemsize
            for used, ends in (
                (access.reads or access.merging is not None, (access.root.location, name)),
                (access.writes, (name, access.root.location)),
            ):
                rate = self.model.bandwidth(*(f"{end}[0]" for end in ends)) if used else 0.0
                if rate:
                    yield access.root.location, nbytes / rate

    def _touched(self, access: Access, points: int) -> int:
        """Return the number of elements moved between memory and unit: the distinct ones of each run of the block."""
        kept = [loop.range for loop in self.scope.loops if not access.step(loop.number) and not access.sizes]
        for size in kept:
            points = -(-points // size)
        return points * prod(count for _, count in access.sizes)


def _unit_of(block: stripe.Block, model: HardwareModel, otherwise: str) -> str:
    """Return the execution or transfer unit of a block; by default that of the surrounding block."""
    name = block.location[-1].name if block.location else ""
    units = (unit for unit in model.units if isinstance(unit, ExecutionUnit | TransferUnit))
    return name if any(unit.name == name for unit in units) else otherwise


def _makespan(block: stripe.Block, times: Sequence[Time]) -> float:
    """Return when the last of the blocks in a block ends; each unit takes its blocks in their order."""
    free: dict[str, float] = {}
    ends: dict[int, float] = {}
    remaining = iter(times)
    numbers = {id(child) for child in block.blocks}
    for number, statement in enumerate(block.statements):
        start = max((ends[before] for before in statement.deps), default=0.0)
        if id(statement) not in numbers:
            ends[number] = start
            continue
        time = next(remaining)
        start = max([start, *(free.get(unit, 0.0) for unit in time.busy)])
        ends[number] = start + time.seconds
        free.update(dict.fromkeys(time.busy, ends[number]))
    return max(ends.values(), default=0.0)


def _total(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for part in parts:
        for name, seconds in part.items():
            total[name] = total.get(name, 0.0) + seconds
    return total
