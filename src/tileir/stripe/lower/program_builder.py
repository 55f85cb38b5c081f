"""Builder of the program of a lowering, kernel by kernel."""

from __future__ import annotations

from collections import Counter

from tileir.core.nodes import attrs
from tileir.stripe.flattening import flattened
from tileir.stripe.ir import Block, Buffer, Direction, Program, Tags
from tileir.stripe.lower.kernel_builder import KernelBuilder, Scalar, element
from tileir.stripe.lower.storage import Storage, Tensor
from tileir.stripe.nesting import view_of
from tileir.stripe.text.comments import tile_text
from tileir.typed.dataflow import loops_of
from tileir.typed.ir import Computation, Function, Marker, Operation, Reduce, Scan, Shape, Value, operands
from tileir.typed.reductions import reduction_of, reductions_of


@attrs.define(eq=False, repr=False)
class ProgramBuilder:
    """Builder of the kernels of one program, or of one step of a loop.

    Attributes:
        function: The function.
        storage: The memory of its values.
        labels: Names for the kernels of some operations.
        prefix: Prefix of the names of other kernels.
        loops: The results of each loop of the function that is not lowered yet.
        reductions: The components of each tuple reduction that is not lowered yet.
        readers: Number of operations that read each value; the components of one state count as one.
        definitions: Inputs and operations of the function, by name.
        macs: Number of products added up in sums.
    """

    function: Function
    storage: Storage
    labels: dict[str, str]
    prefix: str = "kernel_"
    loops: dict[Scan, tuple[Scan, ...]] = attrs.field(init=False)
    definitions: dict[str, Value | Operation] = attrs.field(init=False)
    reductions: dict[Reduce, list[Reduce]] = attrs.field(init=False)
    readers: Counter[str] = attrs.field(init=False)
    macs: int = attrs.field(default=0, init=False)
    _kernels: list[Block] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self.loops = loops_of(self.function)
        self.reductions = reductions_of(self.function)
        once = {reduction_of(each) if isinstance(each, Reduce) else each: None for each in self.function.operations}
        self.readers = Counter(name for each in once for name in dict.fromkeys(operands(each)))
        self.definitions = {each.name: each for each in (*self.function.inputs, *self.function.operations)}

    def add(self, kernel: KernelBuilder, operation: Computation, tags: Tags) -> None:
        """Finish a kernel of ``operation`` and add it to the program."""
        self.add_block(kernel.build(self.name_of(operation, "{}"), self.comment(operation), tags))

    def name_of(self, operation: Computation, reads: str) -> str:
        """Return the name of the next kernel: its label, a named place, or one from what it ``reads``."""
        place = None if operation.span is None else operation.span.place
        return self.labels.get(operation.name) or place or f"{self.next_name()}({reads})"

    def add_block(self, block: Block) -> None:
        """Add a finished kernel or loop."""
        self._kernels.append(block)

    def next_name(self) -> str:
        """Return the default name of the next kernel."""
        return f"{self.prefix}{len(self._kernels)}"

    def comment(self, operation: Computation) -> str:
        """Return the comment on the kernels of an operation."""
        return tile_text(operation, self.storage.constants)

    def kernels(self) -> tuple[Block, ...]:
        """Return the kernels so far."""
        return tuple(self._kernels)

    def used(self) -> frozenset[str]:
        """Return the buffers that the kernels so far read or write."""
        return frozenset(view.source for kernel in self._kernels for view in kernel.refinements)

    def operand(self, kernel: KernelBuilder, name: str, target: Shape) -> Scalar:
        """Return the element of a value that is broadcast to the kernel over ``target``, or its constant."""
        constant = self.storage.constants.get(name)
        if constant is not None:
            return kernel.constant(name, constant.dtype, constant.value)
        tensor = self.storage.tensors[name]
        return kernel.load(name, tensor, element(tensor.sizes, target))

    def sizes(self, name: str) -> Shape:
        """Return the shape of a value."""
        definition = self.definitions[name]
        assert not isinstance(definition, Marker)  # already removed
        return definition.shape

    def fill(
        self, operation: Computation, target: Tensor, default: str | None, otherwise: bool | int | float = 0
    ) -> None:
        """Add a kernel that sets every element of ``target`` to the value of ``default``, or else to a number."""
        kernel = KernelBuilder.over(target.sizes)
        if default is None:
            value = kernel.number(otherwise, target.dtype)
        else:
            value = kernel.convert(self.operand(kernel, default, target.sizes), target.dtype)
        kernel.store(operation.name, value, target, element(target.sizes, target.sizes))
        self.add(kernel, operation, Tags.of("eltwise", "fill" if default is None else "copy"))

    def convert(self, operation: Computation, source: Tensor, target: Tensor) -> None:
        """Add a kernel that converts a finished accumulation to the dtype of the value."""
        kernel = KernelBuilder.over(target.sizes)
        access = element(target.sizes, target.sizes)
        value = kernel.convert(kernel.load(source.buffer, source, access), target.dtype, operation.name)
        kernel.store(operation.name, value, target, access)
        self.add(kernel, operation, Tags.of("eltwise", "eltwise_cast"))

    def program(self, name: str) -> Program:
        """Return the program of the kernels so far."""
        tensors = {value.name: self.storage.tensors[value.name] for value in self.function.inputs}
        arrays = self.storage.arrays
        used = self.used()
        known = {name: Tensor.of(name, value.dtype, value.shape) for name, value in arrays.items() if name in used}
        lasting = (*tensors.items(), *self.storage.allocations.items())
        memory = [tensor.whole(buffer, Direction.NONE, "") for buffer, tensor in lasting]
        constants = (tensor.whole(buffer, Direction.NONE, "") for buffer, tensor in known.items())
        memory += [attrs.evolve(each, constant=True) for each in constants]
        views = tuple(view_of(each, Direction.OUT) for each in memory)
        main = Block(name, refinements=views, statements=tuple(self._kernels))
        tags = Tags.of(total_macs=self.macs)
        entry = Block(name, refinements=tuple(memory), statements=(main,), tags=tags)
        buffers = tuple(Buffer(name, arrays[name].data) for name in known)
        return flattened(entry, tuple(tensors), self.function.outputs, buffers)
