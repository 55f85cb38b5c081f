"""Computing time of one execution unit: instructions against throughput, latency and registers.

The in-core part of the ECM model (Stengel, Treibig, Hager and Wellein, "Quantifying performance bottlenecks of stencil
computations using the Execution-Cache-Memory model", ICS 2015): what an iteration issues to the arithmetic pipelines,
and to the ports that load and store, side by side, the slowest of which decides; and the latency of sums that wait for
themselves. Instructions are counted from the block nest: an index with the tag ``vector`` gives the lanes, indices with
``unroll`` give copies that share what does not move with them, and everything else is an iteration.

Operation counts of the statements of a block.

A product whose only use is to be added to a sum is a multiply-add, and counts 2; all others count what
:mod:`tileir.passes.cost.figures` says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import prod
from typing import Final

import attrs

from tileir.core import LOCAL, REGISTER, Aggregation, DType, Op, accumulator
from tileir.core.numbers.integers import network_comparisons
from tileir.passes.cost.figures import ITERATION_CYCLES, Cycles, Kind, kind_of
from tileir.passes.cost.machine import Machine
from tileir.stripe import ir as stripe
from tileir_performance.cost.scopes import Access, Scope


def fused_products(block: stripe.Block, accesses: Mapping[str, Access]) -> frozenset[str]:
    """Return the scalars that are products and go nowhere but into a sum, where they cost nothing more than the sum."""
    products = {
        s.into for s in block.statements if isinstance(s, stripe.Intrinsic) and s.op is Op.MUL and s.dtype.is_float
    }
    if not products:
        return frozenset()
    uses = Counter(name for statement in block.statements for name in stripe.scalar_inputs(statement))
    stores = (s for s in block.statements if isinstance(s, stripe.Store))
    summed = {store.source for store in stores if accesses[store.into].merging is Aggregation.SUM}
    return frozenset(name for name in products & summed if uses[name] == 1)


def scalar_dtypes(block: stripe.Block, accesses: Mapping[str, Access]) -> dict[str, DType]:
    """Return the dtype of each scalar of a block."""
    found: dict[str, DType] = {}
    for statement in block.statements:
        match statement:
            case stripe.Load(source=source, into=into):
                found[into] = accesses[source].dtype
            case stripe.LoadIndex() | stripe.Constant() | stripe.Intrinsic() | stripe.Convert():
                found[statement.into] = statement.dtype
    return found


def operations_of(scope: Scope) -> Iterator[tuple[DType, Kind, int]]:
    """Yield dtype, kind and number of the operations of one point of a block, nested blocks left out.

    The dtype of an operation is that of its operands: comparisons of f32 are operations on f32.
    """
    fused = fused_products(scope.block, scope.accesses)
    dtypes = scalar_dtypes(scope.block, scope.accesses)
    for statement in scope.block.statements:
        match statement:
            case stripe.Intrinsic(op=op, into=into, inputs=inputs):
                dtype = dtypes[inputs[-1]]
                if into not in fused and (weight := op.info.weight_in(dtype)):
                    yield dtype, kind_of(op), 2 * weight if op is Op.FMA else weight
            case stripe.Convert(dtype=dtype):
                yield dtype, Kind.CONVERSION, 1
            case stripe.Store(source=source, into=into) if scope.accesses[into].merging is not None:
                dtype = scope.accesses[into].dtype
                if source in fused:
                    yield dtype, Kind.MULTIPLY_ADD, 2
                else:
                    yield dtype, Kind.ARITHMETIC, 1


BANK_BYTES: Final = 128
"""What the threads that run in lock-step get from local memory at a time."""

SECTOR_BYTES: Final = 32
"""What a thread that reads apart from its neighbours moves at least."""

STAGING_CYCLES: Final = 300.0
"""What the units wait in each iteration that fills local memory and then reads it, as long as no copy runs ahead: about
half of the time that memory takes to answer, as other groups work meanwhile."""


def cycles_of(scope: Scope, machine: Machine) -> Cycles:
    """Return the cycles of one iteration of a block: of one point, but of all points of unrolled and vector indices."""
    return _Counter.of(scope, machine).count()


def issues_of(scope: Scope) -> int:
    """Return the number of points of a block that are issued together: those of unrolled and vector indices."""
    unrolled, lanes = _expanded(scope)
    return prod(unrolled.values()) * prod(lanes.values())


def _expanded(scope: Scope) -> tuple[dict[int, int], dict[int, int]]:
    """Return the ranges of the loops that are unrolled around a block's statements, and of those that give the lanes.

    Matrix instructions take all points of a thread at once.
    """
    loops = (*scope.outer, *scope.loops)
    whole = isinstance(scope.block.instruction, stripe.Product)
    unrolled = {
        loop.number: loop.range
        for loop in loops
        if loop.binding is stripe.Binding.UNROLL or (whole and loop in scope.loops and loop.repeats)
    }
    return unrolled, {loop.number: loop.range for loop in loops if loop.binding is stripe.Binding.LANE}


@attrs.define(eq=False, repr=False)
class _Counter:
    """Counter of the instructions issued by the statements of one block."""

    scope: Scope
    machine: Machine
    unrolled: Mapping[int, int]
    vector: Mapping[int, int]
    moving: dict[str, frozenset[int]] = attrs.field(factory=dict)  # the unrolled and vector loops a scalar varies with
    arithmetic: float = 0.0
    transfer: float = 0.0
    local: float = 0.0
    latency: float = 0.0
    overhead: float = 0.0

    @classmethod
    def of(cls, scope: Scope, machine: Machine) -> _Counter:
        """Return a counter that has counted nothing."""
        return cls(scope, machine, *_expanded(scope))

    def count(self) -> Cycles:
        """Count all statements."""
        block, accesses = self.scope.block, self.scope.accesses
        fused = fused_products(block, accesses)
        dtypes = scalar_dtypes(block, accesses)
        for statement in block.statements:
            match statement:
                case stripe.Load(source=source, into=into):
                    self.moving[into] = self._moved(accesses[source])
                    self._transfer(accesses[source], 1)
                case stripe.LoadIndex(affine=affine, into=into):
                    own = {loop.name: loop.number for loop in self.scope.loops}
                    self.moving[into] = frozenset(own[name] for name in affine.indices if name in own)
                case stripe.Constant(into=into):
                    self.moving[into] = frozenset()
                case stripe.Intrinsic(op=op, inputs=inputs, into=into):
                    moved = frozenset().union(*(self.moving[name] for name in inputs))
                    self.moving[into] = moved
                    if into not in fused:
                        dtype = dtypes[inputs[-1]]
                        self._compute(dtype, op.info.weight_in(dtype), moved, fused=op is Op.FMA)
                case stripe.Convert(input=source, into=into, dtype=dtype):
                    self.moving[into] = self.moving[source]
                    if isinstance(block.instruction, stripe.Product):
                        continue
                    self._compute(max(dtype, dtypes[source], key=lambda each: each.itemsize), 1, self.moving[into])
                case stripe.Store(source=source, into=into):
                    self._store(accesses[into], self.moving[source], fused=source in fused)
                case stripe.Special(name=name) if name != "prefetch":
                    self._special(statement)
        self._spill()
        self._stage()
        serial = any(loop.repeats for loop in self.scope.loops)
        inner = not self.scope.loops and not self.scope.children and bool(self.scope.outer)
        self.overhead += ITERATION_CYCLES if (serial or inner) and self.machine.vector_bytes else 0.0
        return Cycles(self.arithmetic, self.transfer, self.local, self.latency, self.overhead)

    def _special(self, statement: stripe.Special) -> None:
        """Count a statement that takes whole tensors."""
        if statement.name == "order":
            keys = self.scope.block.refinement(statement.inputs[0]).shape
            lanes = max(1, self.machine.vector_bytes // DType.I64.itemsize)
            self.arithmetic += 2 * network_comparisons(keys.elements) / lanes
        for name in (*statement.inputs, *statement.outputs):
            self._whole(self.scope.accesses[name])

    def _moved(self, access: Access) -> frozenset[int]:
        loops = (*self.unrolled, *self.vector)
        if access.sizes:
            return frozenset(loops)
        return frozenset(loop for loop, _ in access.terms if loop in loops)

    def _copies(self, moved: frozenset[int]) -> int:
        return prod([size for loop, size in self.unrolled.items() if loop in moved])

    def _lanes(self, moved: frozenset[int]) -> int:
        return prod([size for loop, size in self.vector.items() if loop in moved])

    def _vectors(self, moved: frozenset[int], dtype: DType) -> float:
        """Return the number of vector instructions for the lanes of one copy."""
        lanes = self._lanes(moved)
        return lanes if self.machine.vector_bytes == 0 else -(-lanes // self.machine.lanes(accumulator(dtype)))

    def _compute(self, dtype: DType, weight: int, moved: frozenset[int], *, fused: bool = False) -> None:
        """Count instructions; ``fused`` ones multiply and add."""
        computing = accumulator(dtype)
        instructions = self._copies(moved) * self._vectors(moved, dtype)
        if isinstance(self.scope.block.instruction, stripe.Product):
            rate = self.machine.matrix_rate(self._operand()) / 2
        else:
            rate = self.machine.instructions(computing) if fused else self.machine.plain_instructions(computing)
        self.arithmetic += weight * instructions / rate

    def _operand(self) -> DType:
        """Return the dtype of the operands of matrix instructions in a block."""
        return next(access.dtype for access in self.scope.accesses.values() if access.reads)

    def _transfer(self, access: Access, times: int) -> None:
        """Count loads or stores of an access: whole vectors where lanes lie side by side, else one for each lane."""
        if access.root.location == REGISTER:
            return
        moved = self._moved(access)
        lanes = self._lanes(moved)
        beside = not access.sizes and all(access.step(loop) in (0, 1) for loop in self.vector)
        itemsize = access.dtype.itemsize
        copies = times * self._copies(moved)
        if access.root.location == LOCAL:
            self.local += copies * self._from_banks(access, lanes * itemsize)
        elif self.machine.vector_bytes == 0:
            self.transfer += copies * self._from_lines(access, lanes * itemsize) / self._port_bytes()
        else:
            least = self.machine.vector_bytes // 2  # a port takes a cycle for less, too
            pieces = 1 if beside else lanes
            self.transfer += copies * pieces * max(lanes * itemsize / pieces, least) / self._port_bytes()

    def _different(self, access: Access) -> tuple[int, bool]:
        """Return the number of threads of a warp that touch different elements, and whether these are contiguous."""
        threads = [loop for loop in (*self.scope.outer, *self.scope.loops) if loop.binding is stripe.Binding.THREAD]
        left, different = self.machine.width, 1
        nearest = 0
        for loop in reversed(threads):
            if left <= 1:
                break
            together = min(left, loop.range)
            step = abs(access.step(loop.number))
            if step:
                nearest = nearest or step
                different *= together
            left //= together
        return different, 0 < nearest <= prod(self.vector.values()) and not access.sizes

    def _from_banks(self, access: Access, nbytes: int) -> float:
        """Return a thread's share of local memory traffic: elements read by several threads move once."""
        different, _ = self._different(access)
        together = different * nbytes
        if not isinstance(self.scope.block.instruction, stripe.Product):
            together = -(-together // BANK_BYTES) * BANK_BYTES
        return together / self.machine.width

    def _from_lines(self, access: Access, nbytes: int) -> float:
        """Return a thread's share of memory traffic: whole sectors where accesses are not coalesced."""
        different, beside = self._different(access)
        return different * (nbytes if beside else max(nbytes, SECTOR_BYTES)) / self.machine.width

    def _port_bytes(self) -> float:
        storage = self.machine.storages[0]
        return max(1.0, storage.unit_rate / self.machine.clock)

    def _store(self, access: Access, value: frozenset[int], *, fused: bool) -> None:
        moved = self._moved(access)
        if access.merging is None:
            self._transfer(access, 1)
            return
        both = moved | value
        self._compute(access.dtype, 1, both, fused=fused)
        self._transfer(access, 2)
        chained = (
            self._copies(both)
            * self._vectors(both, access.dtype)
            / max(1.0, self._copies(moved) * self._vectors(moved, access.dtype))
        )
        if self._stays(access):
            self.latency = max(self.latency, chained * self.machine.latency(accumulator(access.dtype)))

    def _stays(self, access: Access) -> bool:
        """Return whether the next iteration merges into the same elements, and so depends on this one."""
        loops = [loop for loop in (*self.scope.outer, *self.scope.loops) if loop.repeats]
        return bool(loops) and access.step(loops[-1].number) == 0

    def _spill(self) -> None:
        """Count the spills of accumulators that do not fit the registers together with their operands.

        Compilers load all vectors of an iteration first, and one more register takes the broadcast operand. Under too
        much pressure they spill most accumulators rather than the few in excess: each is then loaded and stored in
        every iteration, on the critical path of its sum.
        """
        if not self.machine.registers:
            return
        held, loaded = 0.0, 1.0
        for access in self.scope.accesses.values():
            moved = self._moved(access)
            vectors = self._copies(moved) * self._vectors(moved, access.dtype)
            if access.root.location == REGISTER:
                held += vectors
            elif access.reads and any(loop in moved for loop in self.vector):
                loaded += vectors
        if held + loaded > self.machine.registers:
            self.overhead += 2 * held * max(0.5, self.machine.vector_bytes / self._port_bytes())

    def _stage(self) -> None:
        """Count the wait of an iteration whose blocks hand elements on through local memory."""
        if isinstance(self.scope.block.instruction, stripe.Pipeline) or not any(
            loop.repeats for loop in self.scope.loops
        ):
            return
        accesses = [a for child in self.scope.children for each in child.walk() for a in each.accesses.values()]
        local = [access for access in accesses if access.root.location == LOCAL]
        if any(access.writes for access in local) and any(access.reads for access in local):
            self.overhead += STAGING_CYCLES

    def _whole(self, access: Access) -> None:
        elements = prod([count for _, count in access.sizes])
        if access.root.location == LOCAL:
            self.local += elements * access.dtype.itemsize
        elif access.root.location != REGISTER:
            self.transfer += elements * access.dtype.itemsize / self._port_bytes()
