"""Which memory holds each value of a typed function: reshaped values share that of what they reshape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.names import NameScope
from tileir.poly.affine import Affine
from tileir.stripe.ir import Direction, Refinement, Tags, TensorShape
from tileir.typed.ir import Constant, Reshape

if TYPE_CHECKING:
    from tileir.core.dtype import DType
    from tileir.typed.ir import Function, Shape


ZERO: Final = Affine()
"""The access of an axis along which a view does not move."""


@attrs.frozen
class Tensor:
    """A value in memory: row-major elements of ``sizes`` in the allocation ``buffer`` of the program."""

    buffer: str
    dtype: DType
    sizes: Shape

    @property
    def elements(self) -> int:
        """Number of elements."""
        return self.shape.elements

    @property
    def shape(self) -> TensorShape:
        """The dense shape."""
        return TensorShape.dense(self.dtype, self.sizes)

    def view(
        self,
        name: str,
        direction: Direction,
        access: tuple[Affine, ...],
        interior: Shape | None = None,
    ) -> Refinement:
        """Return a refinement of this tensor that touches ``interior`` elements at each point; one by default."""
        shape = self.shape
        sizes = (1,) * len(shape.dims) if interior is None else interior
        dims = tuple(attrs.evolve(dim, size=size) for dim, size in zip(shape.dims, sizes, strict=True))
        return Refinement(name, direction, self.buffer, access, TensorShape(self.dtype, dims))


@attrs.define
class Storage:
    """The memory of each value, and the allocations of the program.

    Attributes:
        tensors: Where each value that is no constant is.
        constants: The operation of each value that is one, or reshapes one.
        copied: The outputs that need memory of their own although they reshape another value.
        allocations: The allocations that are not parameters, in order: results, then temporaries as they are made.

    """

    tensors: dict[str, Tensor]
    constants: dict[str, Constant]
    copied: frozenset[str]
    allocations: dict[str, Tensor]
    _names: NameScope

    @classmethod
    def of(cls, function: Function) -> Storage:
        """Assign memory to every value of ``function``."""
        inputs = {value.name: Tensor(value.name, value.dtype, value.shape) for value in function.inputs}
        outputs = frozenset(function.outputs)
        constants: dict[str, Constant] = {}
        roots = dict(zip(inputs, inputs, strict=True))
        holders = dict(roots)  # the value whose allocation holds all that reshape one root
        copied: list[str] = []
        for op in function.operations:
            if isinstance(op, Constant):
                constants[op.name] = op
                continue
            if isinstance(op, Reshape) and op.input in constants:
                constants[op.name] = constants[op.input]
                continue
            root = roots[op.name] = roots[op.input] if isinstance(op, Reshape) else op.name
            if op.name in outputs and holders.setdefault(root, op.name) != op.name:
                copied.append(op.name)
        results = {op.name: Tensor(op.name, op.dtype, op.shape) for op in function.operations if op.name in outputs}
        tensors = dict(inputs)
        for op in function.operations:
            if op.name in roots:
                tensors[op.name] = Tensor(holders.get(roots[op.name], roots[op.name]), op.dtype, op.shape)
        allocations = {name: results[name] for name in function.outputs}
        names = NameScope.of((*inputs, *(op.name for op in function.operations)))
        return cls(tensors, constants, frozenset(copied), allocations, names)

    def result(self, name: str) -> Tensor:
        """Return where the operation that defines ``name`` writes, and allocate that where it is new."""
        if name in self.copied or name in self.constants:
            return self.allocations[name]
        tensor = self.tensors[name]
        self.allocations.setdefault(tensor.buffer, tensor)
        return tensor

    def temporary(self, stem: str, dtype: DType, sizes: Shape) -> Tensor:
        """Allocate memory for an intermediate that is no value of the function."""
        tensor = Tensor(self._names.fresh(stem), dtype, sizes)
        self.allocations[tensor.buffer] = tensor
        return tensor


def allocation(tensor: Tensor, tag: str) -> Refinement:
    """Return the allocation of a tensor in the entry block."""
    view = tensor.view(tensor.buffer, Direction.NONE, whole(tensor), tensor.sizes)
    return attrs.evolve(view, source="", tags=Tags.of(tag))


def whole(tensor: Tensor) -> tuple[Affine, ...]:
    """Return the access of a view of the whole tensor."""
    return (ZERO,) * len(tensor.sizes)
