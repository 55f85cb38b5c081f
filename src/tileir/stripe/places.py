"""Places that gathers read from, as an affine of coordinates and a rest that data choose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tileir.core import DType, Op, attrs
from tileir.poly.affine import Affine
from tileir.stripe.lower.kernel_builder import axis_index
from tileir.typed.ir import Cast, Constant, Coordinate, Elementwise, Operation, Reshape, Shape, Value

_DEPTH: Final = 24
"""Places are computed in a few operations; longer chains are not looked through."""


@attrs.frozen
class IndirectIndex:
    """The sum of an affine in the indices of a kernel, and of the elements of a tensor, from 0 to ``high``, if any."""

    affine: Affine
    rest: str | None = None
    high: int = 0


@attrs.frozen
class Places:
    """Facts that the operations of a function tell about the places that they compute.

    Affines of single values are over their axes, counted from the last one: ``a0``, ``a1``, and so on. Broadcasting
    leaves these as they are.

    Attributes:
        definitions: Inputs and operations by name.
        target: The shape whose elements are the points of the kernel.
    """

    definitions: Mapping[str, Value | Operation]
    target: Shape
    _affines: dict[str, Affine | None] = attrs.field(factory=dict, init=False)
    _ranges: dict[str, tuple[int, int]] = attrs.field(factory=dict, init=False)

    def place(self, name: str, size: int) -> IndirectIndex | None:
        """Return a value as a place that is surely one of ``size``; None where it is not, or only data say."""
        whole = self._affine(name, _DEPTH)
        if whole is not None:
            return self._inside(whole, None, 0, size)
        operation = self.definitions[name]
        if not isinstance(operation, Elementwise) or operation.op is not Op.ADD or not operation.dtype.is_integer:
            return None
        for one, other in (operation.inputs, reversed(operation.inputs)):
            affine, rest = self._affine(one, _DEPTH), self.definitions[other]
            if affine is not None and rest.dtype is operation.dtype and rest.shape:
                low, high = self._range(other, _DEPTH)
                return self._inside(affine, other, high, size) if low >= 0 else None
        return None

    def _inside(self, affine: Affine, rest: str | None, high: int, size: int) -> IndirectIndex | None:
        low, most = _bounds(affine, self.target)
        if low < 0 or most + high >= size:
            return None
        axes = {f"a{number}": axis_index(len(self.target) - 1 - number) for number in range(len(self.target))}
        return IndirectIndex(affine.substitute(axes), rest, high)

    def _affine(self, name: str, depth: int) -> Affine | None:
        """Return a value that coordinates alone decide as an affine of its axes; None for others."""
        if name not in self._affines:
            self._affines[name] = self._found(self.definitions[name], depth)
        return self._affines[name]

    def _found(self, operation: Value | Operation, depth: int) -> Affine | None:
        found: Affine | None = None
        match operation:
            case Constant(value=int(number)):
                found = Affine.constant(int(number))
            case Constant(value=float(number)) if number.is_integer():
                found = Affine.constant(int(number))
            case Coordinate(axis=axis, shape=shape):
                found = Affine() if shape[axis] == 1 else Affine.index(f"a{len(shape) - 1 - axis}")
            case Cast(input=source) if depth:
                found = self._affine(source, depth - 1)
            case Reshape(input=source) if depth:
                found = self._reshaped(source, operation.shape, depth - 1)
            case Elementwise(op=op, inputs=(one, other)) if depth and op in _KNOWN:
                left = self._affine(one, depth - 1)
                right = None if left is None else self._affine(other, depth - 1)
                found = None if left is None or right is None else _computed(op, left, right, operation)
        return found if found is not None and _holds(operation.dtype, _bounds(found, operation.shape)) else None

    def _reshaped(self, source: str, shape: Shape, depth: int) -> Affine | None:
        """Return an affine of reshaped coordinates, where only axes of one element come or go."""
        old = self.definitions[source].shape
        affine = self._affine(source, depth)
        before, after = ([len(s) - 1 - axis for axis, size in enumerate(s) if size != 1] for s in (old, shape))
        if affine is None or [old[-1 - n] for n in before] != [shape[-1 - n] for n in after]:
            return None
        return affine.substitute({f"a{a}": Affine.index(f"a{b}") for a, b in zip(before, after, strict=True)})

    def _range(self, name: str, depth: int) -> tuple[int, int]:
        """Return between which numbers the elements of an integer tensor surely are."""
        if name not in self._ranges:
            self._ranges[name] = self._found_range(self.definitions[name], depth)
        return self._ranges[name]

    def _found_range(self, operation: Value | Operation, depth: int) -> tuple[int, int]:
        found: tuple[int, int] | None = None
        match operation:
            case Constant(value=int(number)):
                return number, number
            case Coordinate(axis=axis, shape=shape):
                found = (0, shape[axis] - 1)
            case Reshape(input=source) if depth:
                found = self._range(source, depth - 1)
            case Cast(input=source) if depth and self.definitions[source].dtype.is_integer:
                found = self._range(source, depth - 1)
            case Elementwise(op=Op.MIN | Op.MAX as op, inputs=(one, other)) if depth:
                choose = min if op is Op.MIN else max
                (a, b), (c, d) = self._range(one, depth - 1), self._range(other, depth - 1)
                found = choose(a, c), choose(b, d)
        dtype = operation.dtype
        if found is not None and _holds(dtype, found):
            return found
        return int(dtype.minimum), int(dtype.maximum)


_KNOWN: Final = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.MIN, Op.MAX, Op.DIV})


def _computed(op: Op, left: Affine, right: Affine, operation: Elementwise) -> Affine | None:
    """Return the result of an operation on affines, as one; None where it is none."""
    match op:
        case Op.ADD:
            return left + right
        case Op.SUB:
            return left - right
        case Op.MUL if not left.terms or not right.terms:
            return right * left.offset if not left.terms else left * right.offset
        case Op.MIN | Op.MAX:
            low, high = _bounds(left - right, operation.shape)
            lower, upper = (left, right) if high <= 0 else (right, left)
            return None if low < 0 < high else lower if op is Op.MIN else upper
        case Op.DIV if operation.dtype.is_integer and not right.terms and right.offset > 0:
            by = int(right.offset)
            if _bounds(left, operation.shape)[0] < 0 or any(int(c) % by for _, c in left.terms):
                return None
            return Affine.of({name: int(c) // by for name, c in left.terms}, int(left.offset) // by)
    return None


def _bounds(affine: Affine, shape: Shape) -> tuple[int, int]:
    """Return the least and the greatest value of an affine over the axes of a shape."""
    low, high = affine.bounds({f"a{number}": size for number, size in enumerate(reversed(shape))})
    return int(low), int(high)


def _holds(dtype: DType, bounds: tuple[int, int]) -> bool:
    """Return whether a dtype has all integers between two."""
    if dtype.is_integer:
        return dtype.minimum <= bounds[0] and bounds[1] <= dtype.maximum
    return dtype.is_float and max(-bounds[0], bounds[1]) <= 1 << dtype.format.precision
