"""Lowering of loops: a block with one serial index around the kernels of the body, which do not depend on it.

A loop that runs as long as its first carry is true has no index, but that carry as its condition.

A step is like a program. Its parameters are the carries, the step, sequences and constants, and its results the new
carries, the next step and elements of stacked results. The block of the loop allocates memory of a single step, and
holds a block ``body`` with the kernels, followed by copies of the new carries over the old ones. The step is a buffer
of one element, at which slices are gathered and results are stored.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from tileir.core import DType, Op
from tileir.stripe.ir import ADVANCE, LOOP, WHILE, Block, Direction, Index, Special, Tags
from tileir.stripe.lower.kernel_builder import KernelBuilder, Scalar, element
from tileir.stripe.lower.program_builder import ProgramBuilder
from tileir.stripe.lower.storage import ZERO, Storage, Tensor
from tileir.typed.ir import Computation, Marker, Scan, ScanPart, ScanResult, Value


def lower_scan(
    builder: ProgramBuilder, results: tuple[Scan, ...], lower_operation: Callable[[ProgramBuilder, Computation], None]
) -> None:
    """Add the loop with these ``results``, after kernels that initialise the carries.

    Args:
        builder: The builder of the program.
        results: Operations that are results of one loop.
        lower_operation: Adds the kernels of an operation of the body.
    """
    loop = _Loop.of(builder, results)
    loop.start()
    if loop.scan.count != 0:
        loop.gather()
        for operation in loop.scan.body.operations:
            if not isinstance(operation, Marker):
                lower_operation(loop.inner, operation)
        loop.stack()
        loop.advance()
        builder.macs += loop.inner.macs * (loop.scan.count or 1)
        builder.add_block(loop.block())
    for operation in results:
        first = loop.results[operation.result]
        if first is not operation and 0 not in operation.shape:
            builder.fill(operation, builder.storage.result(operation.name), first.name)


@attrs.define(eq=False, repr=False)
class _Loop:
    """A loop under construction.

    Attributes:
        outer: The builder of the enclosing program.
        inner: The kernels of one step.
        scan: One of its results.
        results: The first operation for each of its results.
        step: The step number, in the enclosing program.
        counter: The step number, inside a step.
        advanced: The next step number, as written by a step.
        views: Its views of the enclosing program: names, memory, and directions.
    """

    outer: ProgramBuilder
    inner: ProgramBuilder
    scan: Scan
    results: dict[ScanResult, Scan]
    step: Tensor
    counter: Tensor
    advanced: Tensor
    views: dict[str, tuple[Tensor, Direction]] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, outer: ProgramBuilder, results: tuple[Scan, ...]) -> _Loop:
        """Return a loop without kernels."""
        scan = results[0]
        firsts: dict[ScanResult, Scan] = {}
        for operation in results:
            firsts.setdefault(operation.result, operation)
        storage = Storage.of(scan.body)
        inner = ProgramBuilder(scan.body, storage, dict(scan.body.labels))
        dtype = (
            DType.I32 if (scan.count or 0) <= DType.I32.maximum else DType.I64
        )  # the widest dtype determines the number of lanes
        step = outer.storage.temporary("step", dtype, (1,))
        counter = Tensor.of(storage.fresh("step"), dtype, (1,))
        return cls(outer, inner, scan, firsts, step, counter, storage.temporary("next_step", dtype, (1,)))

    @property
    def carries(self) -> tuple[Value, ...]:
        """The carries among the inputs of the body."""
        return self.scan.body.inputs[: len(self.scan.carries)]

    @property
    def is_counted(self) -> bool:
        """True if a step uses its number: for slices of sequences, or of stacked results."""
        stacked = any(result.part is not ScanPart.FINAL for result in self.results)
        return self.count > 0 and (stacked or bool(self.scan.sequences))

    @property
    def count(self) -> int:
        """The number of steps; 0 if unknown."""
        return self.scan.count or 0

    def start(self) -> None:
        """Add kernels that initialise the step and the carries, and view these and the constants."""
        scan, storage = self.scan, self.outer.storage
        if self.is_counted:
            kernel = KernelBuilder()
            first = kernel.constant("first", self.step.dtype, self.count - 1 if scan.reverse else 0)
            kernel.store("step", first, self.step, (ZERO,))
            self.outer.add(kernel, scan, Tags.of("eltwise", "fill"))
            self.views[self.counter.buffer] = (self.step, Direction.INOUT)
        for number, (value, name) in enumerate(zip(self.carries, scan.carries, strict=True)):
            if 0 in value.shape:
                continue
            result = self.results.get(ScanResult(ScanPart.FINAL, number))
            if result is None:
                target = storage.temporary(value.name, value.dtype, value.shape)
            else:
                target = storage.result(result.name)
            self.outer.fill(scan if result is None else result, target, name)
            self.views[value.name] = (target, Direction.INOUT)
        for value, name in zip(scan.body.inputs[-len(scan.constants) :], scan.constants, strict=False):
            self._pass(value, value.name, name)
        self.inner.prefix = f"{self.outer.next_name()}."

    def _pass(self, value: Value, local: str, name: str) -> None:
        """Make ``name`` visible in the loop as ``local``; constant scalars become those of the body."""
        constant = self.outer.storage.constants.get(name)
        if constant is not None:
            self.inner.storage.constants[value.name] = constant
        else:
            self.views[local] = (self.outer.storage.tensors[name], Direction.IN)

    def gather(self) -> None:
        """Add kernels that read the slices of the sequences."""
        inner = self.inner.storage
        slices = self.scan.body.inputs[len(self.carries) :]
        for value, name in zip(slices, self.scan.sequences, strict=False):
            local = inner.fresh(f"{value.name}_all")
            self._pass(value, local, name)
            if value.name in inner.constants or 0 in value.shape:
                continue
            kernel = KernelBuilder.over(value.shape)
            whole = Tensor.of(local, value.dtype, (self.count, *value.shape))
            access = element(value.shape, value.shape)
            scalar = kernel.load_at(local, whole, self._now(kernel), (ZERO, *access))
            target = inner.tensors[value.name]
            inner.allocations[target.buffer] = target
            kernel.store(value.name, scalar, target, access)
            self.inner.add(kernel, self.scan, Tags.of("gather"))

    def stack(self) -> None:
        """Add kernels that store the elements of stacked results."""
        for result, operation in self.results.items():
            if result.part is ScanPart.FINAL or 0 in operation.shape:
                continue
            if result.part is ScanPart.HISTORY:
                source = self.carries[result.number].name
            else:
                source = self.scan.body.outputs[len(self.carries) + result.number]
            local = self.inner.storage.fresh(f"{source}_all")
            self.views[local] = (self.outer.storage.result(operation.name), Direction.OUT)
            whole = Tensor.of(local, operation.dtype, operation.shape)
            slice_ = operation.shape[1:]
            kernel = KernelBuilder.over(slice_)
            scalar = self._value(kernel, source, slice_)
            kernel.store_at(local, scalar, whole, self._now(kernel), (ZERO, *element(slice_, slice_)))
            self.inner.add(kernel, operation, Tags.of("eltwise", "stack"))

    def _value(self, kernel: KernelBuilder, name: str, target: tuple[int, ...]) -> Scalar:
        """Return an element of a value in memory; constant outputs are in memory, too."""
        tensor = self.inner.storage.allocations.get(name) or self.inner.storage.tensors[name]
        return kernel.load(name, tensor, element(tensor.sizes, target))

    def _now(self, kernel: KernelBuilder) -> Scalar:
        return kernel.load("step", self.counter, (ZERO,))

    def advance(self) -> None:
        """Add the kernel that computes the next step, if steps are counted."""
        if not self.is_counted:
            return
        kernel = KernelBuilder()
        by = kernel.constant("by", self.step.dtype, -1 if self.scan.reverse else 1)
        kernel.store("next_step", kernel.compute("next_step", Op.ADD, self._now(kernel), by), self.advanced, (ZERO,))
        self.inner.add(kernel, self.scan, Tags.of("eltwise", ADVANCE))

    def block(self) -> Block:
        """Return the loop: the kernels of a step, and copies of the new carries to the old carries."""
        storage = self.inner.storage
        used = self.inner.used()
        writes = {local for local, (_, direction) in self.views.items() if direction is Direction.OUT}
        new = {self.counter.buffer: self.advanced.buffer} if self.is_counted else {}
        new.update(
            (value.name, name)
            for value, name in zip(self.carries, self.scan.body.outputs, strict=False)
            if value.name in self.views
        )
        refinements = [
            tensor.whole(local, direction, tensor.buffer)
            for local, (tensor, direction) in self.views.items()
            if local in used or local in new
        ]
        step = []
        for buffer, tensor in storage.allocations.items():
            if buffer in used:
                refinements.append(tensor.whole(buffer, Direction.NONE, ""))
                step.append(tensor.whole(buffer, Direction.OUT, buffer))
        for local, (tensor, _) in self.views.items():
            if local in used:
                step.append(tensor.whole(local, Direction.OUT if local in writes else Direction.IN, local))
        body = Block("body", refinements=tuple(step), statements=self.inner.kernels())
        copies = tuple(Special("copy", (source,), (target,)) for target, source in new.items())
        counted = self.scan.count is not None
        return Block(
            self.outer.next_name(),
            (Index("step", self.count, serial=True),) if counted else (),
            refinements=tuple(refinements),
            statements=(body, *copies),
            comments=(self.outer.comment(self.scan),),
            tags=Tags.of(LOOP) if counted else Tags.of(LOOP, **{WHILE: self.views[self.carries[0].name][0].buffer}),
        )
