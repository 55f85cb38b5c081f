"""Warnings about a Tile function for given input types: accesses out of bounds, and loss of digits.

Leaving a tensor is how programs pad and cut. By default only the least likely intentions are reported: contractions
without any point, and an index alone on axes of two sizes, where the program does not say which one counts.

Whether the accesses of a contraction stay inside their tensors is decided exactly. The range of an index is *defined*
by the constraints and by the axes where it stands alone, ``A[i]``; every other axis can be left. Where these leave some
index without bounds, the axes with such an index define its range, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from math import lcm
from typing import Final

from tileir.core import Diagnostic, DType, Span, attrs, grouped, rounded
from tileir.core.numbers.ranges import Range, exact
from tileir.poly.affine import Affine
from tileir.poly.bounds import unbounded_indices
from tileir.poly.box import feasible
from tileir.poly.constraint import system
from tileir.tile import ir as tile
from tileir.tile.checks.unused import allowed, in_order
from tileir.typed.inference.emission import Emission
from tileir.typed.inference.inference import infer
from tileir.typed.inference.values import ConstantScalar, Number, Scalar, Tensor
from tileir.typed.ir import (
    Argsort,
    Cast,
    Constant,
    Contraction,
    Coordinate,
    Elementwise,
    Function,
    Operation,
    Reshape,
    Shape,
    ShapeOf,
    TensorType,
    Value,
)
from tileir.typed.numbers import arguments_of


@attrs.frozen
class Axis:
    """One axis of one access: ``polynomial`` is meant to be an integer in ``[0, size)``.

    Attributes:
        access: Number of the access; the output is number 0.
        axis: Number of the axis.
        polynomial: The index expression.
        size: The extent of the tensor.
    """

    access: int
    axis: int
    polynomial: Affine
    size: int

    @property
    def index(self) -> str | None:
        """The index that stands here alone, as in ``A[i]``."""
        polynomial = self.polynomial
        return polynomial.indices[0] if polynomial == Affine.index(*polynomial.indices[:1] or ("",)) else None


@attrs.frozen
class Mismatch:
    """An index that stands alone in axes of two sizes: the larger one is used in part."""

    index: str
    narrow: Axis
    wide: Axis


def axes_of(accesses: Sequence[Sequence[Affine]], sizes: Sequence[Sequence[int]]) -> tuple[Axis, ...]:
    """Return all axes of all accesses, those of the output first."""
    return tuple(
        Axis(number, axis, polynomial, size)
        for number, (access, extents) in enumerate(zip(accesses, sizes, strict=True))
        for axis, (polynomial, size) in enumerate(zip(access, extents, strict=True))
    )


def is_empty(axes: Sequence[Axis], constraints: Sequence[tuple[Affine, int]] = ()) -> bool:
    """Return whether it is proved that no point is inside of all axes and satisfies all constraints.

    The conditions must confine every index. False may mean that integer programming ran out of its budget.
    """
    return _possible(constraints, axes) is False


def culprits(axes: Sequence[Axis], constraints: Sequence[tuple[Affine, int]] = ()) -> tuple[Axis, ...]:
    """Return the axes without any one of which there would be a point; of conditions that no point satisfies."""
    found: list[Axis] = []
    for axis in axes:
        others = [each for each in axes if each is not axis]
        kept = {i for each in others for i in each.polynomial.indices}
        if set(axis.polynomial.indices) - kept or _unbounded(others, constraints):
            continue  # it alone says what the index runs over
        if _possible(constraints, others):
            found.append(axis)
    return tuple(found)


def mismatches(axes: Sequence[Axis], constraints: Sequence[tuple[Affine, int]] = ()) -> tuple[Mismatch, ...]:
    """Return the axes of different sizes on which one index stands alone, each with the narrowest one."""
    alone = grouped((axis.index, axis) for axis in axes if axis.index is not None)
    constrained = {i for polynomial, _ in constraints for i in polynomial.indices}
    found: list[Mismatch] = []
    for index, same in alone.items():
        if index not in constrained:
            narrow = min(same, key=lambda axis: axis.size)
            found.extend(Mismatch(index, narrow, axis) for axis in same if axis.size > narrow.size)
    return tuple(found)


def left(axes: Sequence[Axis], constraints: Sequence[tuple[Affine, int]] = ()) -> tuple[Axis, ...]:
    """Return the axes that some point of the ranges of the indices leaves.

    Points at which the polynomial is no integer do not count as leaving.
    """
    definers, others = _split(axes, constraints)
    return tuple(axis for axis in others if _leaves(axis, definers, constraints))


def _leaves(axis: Axis, definers: Sequence[Axis], constraints: Sequence[tuple[Affine, int]]) -> bool:
    value, equation = _integral(axis.polynomial, "at")
    names = {i for each in (*definers, axis) for i in each.polynomial.indices}
    names |= {i for polynomial, _ in constraints for i in polynomial.indices}
    conditions = [*_conditions(constraints, definers), *equation]
    return any(_feasible(names, [*conditions, (side, None)]) is True for side in (value - axis.size, -value - 1))


def _split(axes: Sequence[Axis], constraints: Sequence[tuple[Affine, int]]) -> tuple[list[Axis], list[Axis]]:
    """Return the axes that define the ranges of the indices, and the others."""
    definers = [axis for axis in axes if axis.index is not None]
    others = [axis for axis in axes if axis.index is None]
    needed = {i for axis in axes for i in axis.polynomial.indices}
    while others:
        confined = {i for axis in definers for i in axis.polynomial.indices}
        confined |= {i for polynomial, _ in constraints for i in polynomial.indices}
        open_ = (needed - confined) | set(_unbounded(definers, constraints))
        joined = [axis for axis in others if open_.intersection(axis.polynomial.indices)]
        if not joined:
            break
        definers += joined
        others = [axis for axis in others if axis not in joined]
    return definers, others


def _unbounded(axes: Iterable[Axis], constraints: Sequence[tuple[Affine, int]]) -> tuple[str, ...]:
    return unbounded_indices([[axis.polynomial for axis in axes]], constraints)


def _possible(constraints: Sequence[tuple[Affine, int]], axes: Sequence[Axis]) -> bool | None:
    names = {i for axis in axes for i in axis.polynomial.indices}
    names |= {i for polynomial, _ in constraints for i in polynomial.indices}
    return _feasible(names, _conditions(constraints, axes))


def _conditions(constraints: Sequence[tuple[Affine, int]], axes: Sequence[Axis]) -> list[tuple[Affine, int | None]]:
    """Return the conditions on a point, with integral polynomials only."""
    found: list[tuple[Affine, int | None]] = []
    pairs = [*constraints, *((axis.polynomial, axis.size) for axis in axes)]
    for number, (polynomial, size) in enumerate(pairs):
        value, equation = _integral(polynomial, str(number))
        found += [*equation, (value, size)]
    return found


def _integral(polynomial: Affine, suffix: str) -> tuple[Affine, list[tuple[Affine, int | None]]]:
    """Return an integral polynomial that is equal to ``polynomial``, and the condition under which it is."""
    if polynomial.is_integral:
        return polynomial, []
    scale = lcm(polynomial.offset.denominator, *(c.denominator for _, c in polynomial.terms))
    value = Affine.index(f"={suffix}")  # no index of a program has such a name
    return value, [(polynomial * scale - value * scale, 1)]


def _feasible(names: Iterable[str], conditions: Sequence[tuple[Affine, int | None]]) -> bool | None:
    used = {i for polynomial, _ in conditions for i in polynomial.indices}
    given = system(sorted({*names, *used}), conditions)
    return False if given is None else feasible(given)


def warnings_for_types(
    function: tile.Function,
    types: Mapping[str, TensorType],
    numbers: Mapping[str, object] | None = None,
    *,
    every: bool = False,
) -> tuple[Diagnostic, ...]:
    """Return warnings about a function for inputs of these types, in the order of the text.

    Args:
        function: A verified function.
        types: The type of each input, by name.
        numbers: The known Python numbers among the arguments, by name.
        every: Whether to report every access out of bounds and every cut output, intended or not.

    Raises:
        TileError: The function does not fit the types.
    """
    collector = _Collector(every)
    typed = infer(function, types, collector)
    spans = {parameter.name: parameter.span for parameter in function.inputs}
    found = list(collector.found)
    for name, value in (numbers or {}).items():
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            found.extend(_rounding(name, value, typed, collector.defaulted, spans.get(name)))
    return in_order(found, every=every)


def _rounding(
    name: str, given: float, typed: Function, defaulted: AbstractSet[str], span: Span | None
) -> Iterator[Diagnostic]:
    """Yield that a number loses more than the digits that everybody expects a fraction to lose."""
    for value in typed.inputs:
        if value.number is None or not value.dtype.is_float:
            continue
        kept = rounded(given, value.dtype)
        if value.number in defaulted and kept != given and name in arguments_of(typed, value.number):
            message = f"{name!r} is {given!r}, and is rounded to {value.dtype.value} since nothing decides otherwise"
            yield Diagnostic("TIL342", f"{message}: pass numpy.float64({given!r}), or an array, for f64", span)
        elif value.number == name and kept != given and (_is_exact(given) or kept == 0):
            message = f"{name!r} is {given!r}, and {value.dtype.value}, which it adapts to, makes it {kept!r}"
            yield Diagnostic("TIL342", f"{message}: what it meets would have to be of a wider dtype", span)


def _is_exact(value: float) -> bool:
    """Return whether a number is meant exactly: an integer that Python's floats represent."""
    return isinstance(value, int) or (value == int(value) and abs(value) <= 1 << 53)


@attrs.define(eq=False, repr=False)
class _Collector:
    """Collector of warnings on the results of inference."""

    every: bool
    found: list[Diagnostic] = attrs.field(factory=list, init=False)
    defaulted: set[str] = attrs.field(factory=set, init=False)

    def contraction(self, statement: tile.Contraction, node: Contraction, shapes: Sequence[Shape]) -> None:
        """Look at all accesses of a contraction."""
        silenced = allowed(statement.attributes)
        found = _Accesses(statement, node, shapes).warnings(self.every)
        self.found.extend(each for each in found if each.code not in silenced)

    def promoted(self, emission: Emission, values: Sequence[Scalar], dtype: DType, span: Span | None) -> None:
        """Check the promotion of operands."""
        for value in values:
            if isinstance(value, Tensor) and value.dtype is not dtype and not _holds(dtype, value, emission):
                self.found.append(Diagnostic("TIL341", _loss(value.dtype, dtype), span))

    def literal(self, value: ConstantScalar, dtype: DType, span: Span | None) -> None:
        """Check the conversion of a literal: integers are meant exactly, and small numbers are not meant to be 0."""
        given = value.value
        if value.dtype is not None or not dtype.is_float or isinstance(given, bool):
            return
        kept = rounded(given, dtype)
        if kept != given and (isinstance(given, int) or kept == 0):
            message = f"{given!r} is {kept!r} in {dtype.value}, to which it adapts here"
            self.found.append(Diagnostic("TIL341", f"{message}: cast what it meets to a wider dtype", span))

    def natural(self, value: ConstantScalar | Number, dtype: DType) -> None:
        """Remember numbers that become f32 since nothing else decides."""
        if isinstance(value, Number) and dtype is DType.F32:
            self.defaulted.add(value.name)


def _holds(dtype: DType, value: Tensor, emission: Emission) -> bool:
    """Return whether ``dtype`` has all numbers that a value of another dtype can be."""
    given = value.dtype
    if given.is_bool or dtype.is_bool:
        return True
    if given.is_float:
        wide, narrow = dtype.format, given.format
        return bool(wide.precision >= narrow.precision and wide.exponent_bits >= narrow.exponent_bits)
    found = _magnitude(value.name, emission.definitions)
    if dtype.is_float:
        most: int = 2**dtype.format.precision
        return -most <= found.low and found.high <= most
    return found.fits(dtype)


def _loss(given: DType, dtype: DType) -> str:
    if dtype.is_float and not given.is_float:
        what = f"which has all integers up to 2**{dtype.format.precision} only"
    else:
        what = f"which does not have all numbers of {given.value}"
    return f"{given.value} becomes {dtype.value} here, {what}: cast one of the operands, to say what you mean"


@attrs.frozen(repr=False)
class _Accesses:
    """The accesses of one contraction, as they were written and as numbers."""

    statement: tile.Contraction
    node: Contraction
    shapes: Sequence[Shape]

    def warnings(self, every: bool) -> Iterator[Diagnostic]:
        """Yield accesses that are always or partly out of bounds; none for empty tensors."""
        node, shapes = self.node, [self.node.shape, *self.shapes]
        constraints = [(constraint.polynomial, constraint.bound) for constraint in node.constraints]
        if not all(size for shape in shapes for size in shape):
            return
        axes = axes_of([node.output, *(access.indices for access in node.inputs)], shapes)
        if any(bound < 1 for _, bound in constraints):
            if every or node.default is None:
                yield self._never(())
            return
        if is_empty(axes, constraints):
            if every or node.default is None:
                yield self._never(culprits(axes, constraints))
            return
        for mismatch in mismatches(axes, constraints):
            if every or self._unsaid(mismatch):
                yield self._mismatch(mismatch)
        for axis in left(axes, constraints) if every else ():
            yield self._left(axis)

    def _never(self, found: Sequence[Axis]) -> Diagnostic:
        name = self.statement.name
        result = f"{name!r} is 0 everywhere" if self.node.default is None else f"{name!r} is its default everywhere"
        told = sorted(found, key=lambda axis: (axis.polynomial.is_constant, axis.index is None, axis.access))
        if not found:
            message = f"no values of the indices are inside of all tensors and constraints: {result}"
            return Diagnostic("TIL411", message, self.statement.span)
        axis = told[-1]
        message = f"axis {axis.axis} of {self._tensor(axis)!r} has size {axis.size}, and this is never inside: {result}"
        return Diagnostic("TIL411", message, self._span(axis))

    def _unsaid(self, mismatch: Mismatch) -> bool:
        """Return whether the program does not say that it means two sizes, as by a size that it computes."""
        if mismatch.narrow.access == 0:
            return isinstance(self.statement.sizes[mismatch.narrow.axis], tile.Name)
        if mismatch.wide.access == 0:
            return self.node.default is None and isinstance(self.statement.sizes[mismatch.wide.axis], tile.Name)
        return True

    def _mismatch(self, found: Mismatch) -> Diagnostic:
        narrow, wide, index = found.narrow, found.wide, found.index
        sizes = f"{narrow.size} in {self._tensor(narrow)!r}, and {wide.size} in {self._tensor(wide)!r}"
        if wide.access == 0:
            rest = "its default" if self.node.default is not None else "0"
            what = f"the other elements of {self._tensor(wide)!r} are {rest}"
        elif narrow.access == 0:
            what = f"the other elements of {self._tensor(wide)!r} are cut off"
        else:
            what = f"the other elements of {self._tensor(wide)!r} are not read"
        code = "TIL413" if narrow.access == 0 else "TIL412"
        message = f"index {index!r} has {sizes}: {what}; the constraint '{index} < {narrow.size}' says that it is meant"
        return Diagnostic(code, message.replace("has", "has size", 1), self._span(wide if wide.access else narrow))

    def _left(self, axis: Axis) -> Diagnostic:
        tensor = self._tensor(axis)
        if axis.access:
            message = f"some values of the indices are outside of axis {axis.axis} of {tensor!r}, and count as nothing"
            return Diagnostic("TIL412", f"{message}: its size is {axis.size}", self._span(axis))
        message = f"some values of the indices are outside of axis {axis.axis} of {tensor!r}, and are cut off"
        return Diagnostic("TIL413", f"{message}: its size is {axis.size}", self._span(axis))

    def _tensor(self, axis: Axis) -> str:
        return self.statement.inputs[axis.access - 1].tensor if axis.access else self.statement.name

    def _span(self, axis: Axis) -> Span | None:
        statement = self.statement
        indices = statement.inputs[axis.access - 1].indices if axis.access else statement.indices
        return indices[axis.axis].span or statement.span


_DEPTH: Final = 8


def _magnitude(name: str, definitions: Mapping[str, Value | Operation], depth: int = _DEPTH) -> Range:
    """Return limits of the elements of an integer or bool value."""
    value = definitions[name]
    whole = Range.of(value.dtype)
    if value.dtype.is_bool:
        return whole
    found: Range | None = whole
    match value:
        case Constant(value=number):
            found = Range.constant(int(number))
        case Coordinate(axis=axis, shape=shape) | Argsort(axis=axis, shape=shape):
            size = shape[axis] if isinstance(value, Coordinate) else definitions[value.input].shape[value.axis]
            found = Range(0, max(0, size - 1))
        case ShapeOf(dims=dims):
            found = Range(min(dims, default=0), max(dims, default=0))
        case Reshape(input=source) | Cast(input=source) if depth and not _is_float(source, definitions):
            found = _magnitude(source, definitions, depth - 1)
        case Elementwise(op=op, inputs=inputs) if depth and not any(_is_float(i, definitions) for i in inputs):
            found = exact(op, [_magnitude(i, definitions, depth - 1) for i in inputs])
    return found if found is not None and found.fits(value.dtype) else whole


def _is_float(name: str, definitions: Mapping[str, Value | Operation]) -> bool:
    dtype: DType = definitions[name].dtype
    return dtype.is_float
