"""From a typed function to a Stripe program: one flat kernel for each operation, and no choices yet.

Constants become statements of the kernels that use them, and a reshape is only another view of the same memory. An
operation without elements needs no kernel. Kernels are numbered from 0 in the order in which they run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

import attrs

from tileir.core.errors import Diagnostic, TileError
from tileir.core.ops import Aggregation, Op
from tileir.poly.affine import Affine
from tileir.stripe.comments import tile_text
from tileir.stripe.ir import Block, Direction, Program, Tags
from tileir.stripe.kernel_builder import KernelBuilder, axis_index, element
from tileir.stripe.lower_contraction import lower_contraction
from tileir.stripe.storage import ZERO, Storage
from tileir.typed.ir import (
    Cast,
    Constant,
    Contraction,
    Coordinate,
    Elementwise,
    Gather,
    Reshape,
    Scatter,
    ShapeOf,
)

if TYPE_CHECKING:
    from tileir.stripe.ir import Refinement
    from tileir.stripe.kernel_builder import Scalar
    from tileir.stripe.storage import Tensor
    from tileir.typed.ir import Function, Operation, Shape


def lower(function: Function, name: str = "program") -> Program:
    """Return the Stripe program that computes ``function``; ``name`` is what to call it.

    Its parameters and results have the names, dtypes and shapes of those of the function, and are dense.

    Raises:
        TileError: TIL401 to TIL405, the indices of a contraction have no proper bounds; all such faults at once.

    """
    lowering = Lowering(function, Storage.of(function), dict(function.labels))
    faults: list[Diagnostic] = []
    for operation in function.operations:
        try:
            lowering.operation(operation)
        except TileError as error:
            faults.extend(attrs.evolve(d, span=d.span or operation.span) for d in error.diagnostics)
    if faults:
        raise TileError(faults)
    return lowering.program(name)


@attrs.define
class Lowering:
    """The kernels of one program, as they are made."""

    function: Function
    storage: Storage
    labels: dict[str, str]
    macs: int = attrs.field(default=0, init=False)
    _kernels: list[Block] = attrs.field(factory=list, init=False)

    def operation(self, operation: Operation) -> None:
        """Add the kernels of one operation."""
        name = operation.name
        in_memory = name in self.storage.tensors or name in self.storage.allocations
        if not in_memory or 0 in operation.shape:
            return
        match operation:
            case Constant() | Cast() | Elementwise() | Coordinate() | Reshape():
                self._elementwise(operation)
            case ShapeOf():
                self._shape_of(operation)
            case Gather():
                self._gather(operation)
            case Scatter():
                self._scatter(operation)
            case Contraction():
                lower_contraction(self, operation)
            case _:
                assert_never(operation)

    def add(self, kernel: KernelBuilder, operation: Operation, tags: Tags) -> None:
        """Finish a kernel of ``operation`` and add it to the program."""
        label = self.labels.get(operation.name)
        name = f"kernel_{len(self._kernels)}({{}})" if label is None else label
        self._kernels.append(kernel.build(name, tile_text(operation, self.storage.constants), tags))

    def operand(self, kernel: KernelBuilder, name: str, target: Shape) -> Scalar:
        """Return the element of a value that is broadcast to the kernel over ``target``, or its constant."""
        constant = self.storage.constants.get(name)
        if constant is not None:
            return kernel.constant(name, constant.dtype, constant.value)
        tensor = self.storage.tensors[name]
        return kernel.load(name, tensor, element(tensor.sizes, target))

    def fill(self, operation: Operation, target: Tensor, default: str | None) -> None:
        """Add a kernel that gives every element of ``target`` the value of ``default``, or 0."""
        kernel = KernelBuilder.over(target.sizes)
        if default is None:
            value = kernel.zero(target.dtype)
        else:
            value = kernel.convert(self.operand(kernel, default, target.sizes), target.dtype)
        kernel.store(operation.name, value, target, element(target.sizes, target.sizes))
        self.add(kernel, operation, Tags.of("eltwise", "fill" if default is None else "copy"))

    def convert(self, operation: Operation, source: Tensor, target: Tensor) -> None:
        """Add a kernel that converts a finished accumulation to the dtype of the value."""
        kernel = KernelBuilder.over(target.sizes)
        access = element(target.sizes, target.sizes)
        value = kernel.convert(kernel.load(source.buffer, source, access), target.dtype, operation.name)
        kernel.store(operation.name, value, target, access)
        self.add(kernel, operation, Tags.of("eltwise", "eltwise_cast"))

    def _elementwise(self, operation: Constant | Cast | Elementwise | Coordinate | Reshape) -> None:
        name, shape = operation.name, operation.shape
        if isinstance(operation, Reshape) and not self._needs_copy(operation):
            return
        kernel = KernelBuilder.over(shape)
        match operation:
            case Constant():
                tag, value = "constant", self.operand(kernel, name, shape)
            case Cast(input=source, dtype=dtype):
                tag, value = "cast", kernel.convert(self.operand(kernel, source, shape), dtype, name)
            case Coordinate(axis=axis, dtype=dtype):
                affine = ZERO if shape[axis] == 1 else axis_index(axis)
                tag, value = "index", kernel.coordinate(name, affine, dtype)
            case Reshape(input=source):
                tag, value = "reshape", self._reshaped(kernel, operation)
            case Elementwise(op=op, inputs=inputs):
                operands = [self.operand(kernel, source, shape) for source in inputs]
                tag = op.value
                value = operands[0] if op is Op.IDENT else kernel.compute(name, op, *operands)
            case _:
                assert_never(operation)
        kernel.store(name, value, self.storage.result(name), element(shape, shape))
        self.add(kernel, operation, Tags.of("eltwise", f"eltwise_{tag}"))

    def _needs_copy(self, operation: Reshape) -> bool:
        """Tell whether a reshaped value has memory of its own; others are views."""
        return operation.name in self.storage.copied or operation.name in self.storage.constants

    def _reshaped(self, kernel: KernelBuilder, operation: Reshape) -> Scalar:
        """Load an element of what is reshaped, seen under the new shape."""
        constant = self.storage.constants.get(operation.name)
        if constant is not None:
            return kernel.constant(operation.input, constant.dtype, constant.value)
        tensor = self.storage.tensors[operation.name]
        return kernel.load(operation.input, tensor, element(tensor.sizes, tensor.sizes))

    def _shape_of(self, operation: ShapeOf) -> None:
        """Store each extent: the vector is short, and known."""
        kernel = KernelBuilder()
        target = self.storage.result(operation.name)
        for axis, size in enumerate(operation.dims):
            value = kernel.constant(operation.name, operation.dtype, size)
            kernel.store(operation.name, value, target, (Affine.constant(axis),))
        self.add(kernel, operation, Tags.of("shape"))

    def _gather(self, operation: Gather) -> None:
        data, shape = self.storage.tensors[operation.data], operation.shape
        target = self.storage.result(operation.name)
        if 0 in data.sizes:
            self.fill(operation, target, None)
            return
        kernel = KernelBuilder.over(shape)
        leading = len(shape) - len(data.sizes) + 1
        index = self._index(kernel, operation.indices, shape[:leading])
        row = element(data.sizes[1:], shape)
        value = kernel.load_at(operation.data, data, index, (ZERO, *row))
        kernel.store(operation.name, value, target, element(shape, shape))
        self.add(kernel, operation, Tags.of("gather"))

    def _scatter(self, operation: Scatter) -> None:
        result = self.storage.result(operation.name)
        same = operation.accumulator is operation.dtype
        stem = f"{operation.name}_sum"
        target = result if same else self.storage.temporary(stem, operation.accumulator, operation.shape)
        self.fill(operation, target, None)
        updates = self._shape(operation.updates)
        if 0 not in updates:
            kernel = KernelBuilder.over(updates)
            leading = len(updates) - len(operation.shape) + 1
            index = self._index(kernel, operation.indices, updates[:leading])
            value = kernel.convert(self.operand(kernel, operation.updates, updates), operation.accumulator)
            access = (ZERO, *element(operation.shape[1:], updates))
            kernel.merge_at(operation.name, value, target, index, access, Aggregation.SUM)
            self.add(kernel, operation, Tags.of("scatter", "agg_op_add"))
        if not same:
            self.convert(operation, target, result)

    def _shape(self, name: str) -> Shape:
        return () if name in self.storage.constants else self.storage.tensors[name].sizes

    def _index(self, kernel: KernelBuilder, name: str, leading: Shape) -> Scalar:
        """Return the element of a tensor of indices, whose axes are the leading ones of the kernel."""
        constant = self.storage.constants.get(name)
        if constant is not None:
            return kernel.constant(name, constant.dtype, constant.value)
        return kernel.load(name, self.storage.tensors[name], element(leading, leading))

    def program(self, name: str) -> Program:
        """Return the program of the kernels so far."""
        tensors = {value.name: self.storage.tensors[value.name] for value in self.function.inputs}
        outputs = frozenset(self.function.outputs)
        used = {view.source for kernel in self._kernels for view in kernel.refinements}
        views: list[Refinement] = []
        allocations: list[Refinement] = []
        user, temporary = Tags.of("user"), Tags.of("tmp")
        for buffer, tensor in (*tensors.items(), *self.storage.allocations.items()):
            tags = user if buffer in tensors or buffer in outputs else temporary
            allocations.append(tensor.whole(buffer, Direction.NONE, "", tags))
            if buffer in used:
                views.append(tensor.whole(buffer, Direction.IN if buffer in tensors else Direction.OUT, buffer))
        main = Block(name, refinements=tuple(views), statements=tuple(self._kernels), tags=Tags.of("main"))
        tags = Tags.of("program", total_macs=self.macs)
        entry = Block(name, refinements=tuple(allocations), statements=(main,), tags=tags)
        return Program(entry, tuple(tensors), self.function.outputs)
