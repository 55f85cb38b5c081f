"""Places that gathers read from, as an affine of coordinates and a rest that data choose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.ops import Op
from tileir.poly.affine import Affine
from tileir.stripe.kernel_builder import axis_index
from tileir.stripe.storage import ZERO
from tileir.typed.ir import Cast, Constant, Coordinate, Elementwise, Reshape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.core.dtype import DType
    from tileir.typed.ir import Function, Operation, Shape, Value

_DEPTH: Final = 16
"""Places are computed in a few operations; longer chains are not looked through."""


@attrs.frozen
class Place:
    """The sum of an affine in the indices of a kernel, and of the elements of a tensor, from ``low`` to ``high``."""

    affine: Affine
    rest: str
    low: int
    high: int


@attrs.frozen
class Places:
    """What the operations of a function say about the places that they compute.

    Attributes:
        definitions: Inputs and operations by name.
        target: The shape whose elements are the points of the kernel.
    """

    definitions: Mapping[str, Value | Operation]
    target: Shape

    @classmethod
    def of(cls, function: Function, target: Shape) -> Places:
        """Return the places of a kernel over the elements of ``target``."""
        return cls({each.name: each for each in (*function.inputs, *function.operations)}, target)

    def place(self, name: str) -> Place | None:
        """Return a sum of coordinates and data as such; None for any other value."""
        operation = self.definitions[name]
        if not isinstance(operation, Elementwise) or operation.op is not Op.ADD or not operation.dtype.is_integer:
            return None
        for one, other in (operation.inputs, reversed(operation.inputs)):
            affine = self.affine(one)
            rest = self.definitions[other]
            if affine is not None and affine.terms and rest.dtype is operation.dtype and rest.shape:
                low, high = self.range(other)
                return Place(affine, other, low, high)
        return None

    def affine(self, name: str, depth: int = _DEPTH) -> Affine | None:
        """Return a value that depends on coordinates only as an affine of the kernel's indices; None for others."""
        found: Affine | None = None
        match self.definitions[name]:
            case Constant(value=int(number)):
                return Affine.constant(number)
            case Coordinate(axis=axis, shape=shape):
                found = ZERO if shape[axis] == 1 else axis_index(len(self.target) - len(shape) + axis)
            case Cast(input=source) if depth and self.definitions[source].dtype.is_integer:
                found = self.affine(source, depth - 1)
            case Elementwise(op=Op.ADD | Op.SUB | Op.MUL as op, inputs=(one, other)) if depth:
                left, right = self.affine(one, depth - 1), self.affine(other, depth - 1)
                if left is None or right is None:
                    return None
                if op is not Op.MUL:
                    found = left + right if op is Op.ADD else left - right
                elif not left.terms or not right.terms:
                    found = right * left.offset if not left.terms else left * right.offset
        dtype = self.definitions[name].dtype
        return None if found is None or not _fits(self.bounds(found), dtype) else found

    def bounds(self, affine: Affine) -> tuple[int, int]:
        """Return the least and the greatest value of an affine of the kernel's indices."""
        ranges = {f"i{axis + 1}": size for axis, size in enumerate(self.target)}
        low, high = affine.bounds(ranges)
        return int(low), int(high)

    def range(self, name: str, depth: int = _DEPTH) -> tuple[int, int]:
        """Return between which numbers the elements of an integer tensor surely are."""
        operation = self.definitions[name]
        found: tuple[int, int] | None = None
        match operation:
            case Constant(value=int(number)):
                return number, number
            case Coordinate(axis=axis, shape=shape):
                found = (0, shape[axis] - 1)
            case Reshape(input=source) if depth:
                found = self.range(source, depth - 1)
            case Cast(input=source) if depth and self.definitions[source].dtype.is_integer:
                found = self.range(source, depth - 1)
            case Elementwise(op=Op.MIN | Op.MAX as op, inputs=(one, other)) if depth:
                choose = min if op is Op.MIN else max
                (a, b), (c, d) = self.range(one, depth - 1), self.range(other, depth - 1)
                found = choose(a, c), choose(b, d)
        dtype = operation.dtype
        return found if found is not None and _fits(found, dtype) else (int(dtype.minimum), int(dtype.maximum))


def _fits(bounds: tuple[int, int], dtype: DType) -> bool:
    return dtype.is_integer and dtype.minimum <= bounds[0] and bounds[1] <= dtype.maximum
