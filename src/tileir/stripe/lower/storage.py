"""Assignment of values of a typed function to memory: reshaped values share the memory of their source."""

from __future__ import annotations

from typing import Final

from tileir.core import ArrayValue, DType, NameScope, attrs
from tileir.poly.affine import Affine
from tileir.stripe.ir import Dim, Direction, Refinement, Tags, TensorShape
from tileir.stripe.lower.overwriting import overwriters
from tileir.typed.ir import ArrayConstant, Constant, Contraction, Function, Reshape, Shape

ZERO: Final = Affine()
"""The access of an axis along which a view does not move."""

NO_TAGS: Final = Tags()


@attrs.frozen
class Tensor:
    """A value in memory: the dense ``shape`` from the start of the allocation ``buffer`` of the program."""

    buffer: str
    shape: TensorShape

    @classmethod
    def of(cls, buffer: str, dtype: DType, sizes: Shape) -> Tensor:
        """Return the row-major tensor of ``sizes``."""
        return cls(buffer, TensorShape.dense(dtype, sizes))

    @property
    def dtype(self) -> DType:
        """Type of its elements."""
        return self.shape.dtype

    @property
    def sizes(self) -> Shape:
        """Extent of each axis."""
        return self.shape.sizes

    def whole(self, name: str, direction: Direction, source: str, tags: Tags = NO_TAGS) -> Refinement:
        """Return a refinement of ``source`` that covers the tensor."""
        access = (ZERO,) * len(self.shape.dims)
        return Refinement(name, direction, source, access, self.shape, tags=tags)

    def row_shape(self, axis: int) -> TensorShape:
        """Return the shape of all elements along ``axis``."""
        dims = (dim if place == axis else Dim(1, dim.stride) for place, dim in enumerate(self.shape.dims))
        return TensorShape(self.dtype, tuple(dims))

    def column_shape(self, size: int | None = None) -> TensorShape:
        """Return the shape of ``size`` elements along axis 0, or of all that there are."""
        first, *others = self.shape.dims
        first = first if size is None else Dim(size, first.stride)
        return TensorShape(self.dtype, (first, *(Dim(1, dim.stride) for dim in others)))


@attrs.define(eq=False, repr=False)
class Storage:
    """The memory of each value, and the allocations of the program.

    Attributes:
        tensors: The tensor of each value that is no constant.
        constants: The operation of each value that is a constant scalar, or reshapes one.
        arrays: The content of allocations of constant arrays.
        copied: The outputs that need their own memory although they reshape another value.
        allocations: The allocations that are not parameters, in order: results, then temporaries as they are made.
        overwriters: The contraction that overwrites a value, by the name of the value; both share their memory.
    """

    tensors: dict[str, Tensor]
    constants: dict[str, Constant]
    arrays: dict[str, ArrayValue]
    copied: frozenset[str]
    allocations: dict[str, Tensor]
    overwriters: dict[str, Contraction]
    _names: NameScope

    @classmethod
    def of(cls, function: Function) -> Storage:
        """Assign memory to every value of ``function``."""
        inputs = {value.name: Tensor.of(value.name, value.dtype, value.shape) for value in function.inputs}
        outputs = frozenset(function.outputs)
        names = NameScope.of((*inputs, *(op.name for op in function.operations)))
        written = overwriters(function)
        over = {operation.name: value for value, operation in written.items()}
        constants: dict[str, Constant] = {}
        roots = dict(zip(inputs, inputs, strict=True))
        holders = dict(roots)  # the value whose allocation all reshapes of one root share
        arrays: dict[str, ArrayValue] = {}
        copied: list[str] = []
        for op in function.operations:
            if isinstance(op, Constant):
                constants[op.name] = op
                continue
            if isinstance(op, Reshape) and op.input in constants:
                constants[op.name] = constants[op.input]
                continue
            if isinstance(op, ArrayConstant):
                holder = holders[op.name] = names.fresh(op.name) if op.name in outputs else op.name
                arrays[holder] = op.value
            shared = op.input if isinstance(op, Reshape) else over.get(op.name)
            root = roots[op.name] = op.name if shared is None else roots[shared]
            if op.name in outputs and holders.setdefault(root, op.name) != op.name:
                copied.append(op.name)
        results = {op.name: Tensor.of(op.name, op.dtype, op.shape) for op in function.operations if op.name in outputs}
        tensors = dict(inputs)
        for op in function.operations:
            if op.name in roots:
                root = roots[op.name]
                tensors[op.name] = Tensor.of(holders.get(root, root), op.dtype, op.shape)
        allocations = {name: results[name] for name in function.outputs}
        return cls(tensors, constants, arrays, frozenset(copied), allocations, written, names)

    def result(self, name: str) -> Tensor:
        """Return the target of the operation that defines ``name``, allocated if it is new."""
        if name in self.copied or name in self.constants:
            return self.allocations[name]
        tensor = self.tensors[name]
        self.allocations.setdefault(tensor.buffer, tensor)
        return tensor

    def fresh(self, stem: str) -> str:
        """Return a name that does not occur in the function."""
        return self._names.fresh(stem)

    def temporary(self, stem: str, dtype: DType, sizes: Shape) -> Tensor:
        """Allocate memory for an intermediate that is no value of the function."""
        tensor = Tensor.of(self._names.fresh(stem), dtype, sizes)
        self.allocations[tensor.buffer] = tensor
        return tensor
