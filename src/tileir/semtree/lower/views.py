"""Views of a kernel's arrays, affine offsets as kernel expressions, and conversions of expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from tileir.core import Aggregation, DType, Op, attrs, fail
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.swizzles import PLAIN, period, swizzled
from tileir.stripe import ir as stripe

LANE: Final = "%lane"
"""Name of the lane number in affine offsets of a vector block; no variable can have it."""

TERM: Final = "%term"
"""Name of the number of a term in blocks of dot products."""


@attrs.define(eq=False, repr=False)
class OffsetBuilder:
    """Converter of affine expressions over kernel variables to expressions of one index dtype."""

    dtype: DType
    _variables: dict[str, sem.Var] = attrs.field(factory=dict, init=False)
    _mutable: set[str] = attrs.field(factory=set, init=False)

    def declare(self, variable: sem.Var) -> None:
        """Register a variable under its name."""
        self._variables[variable.name] = variable

    def mark_mutable(self, variable: sem.Var) -> None:
        """Record that a variable is assigned to, so that its value must be read in place."""
        self._mutable.add(variable.name)

    def is_mutable(self, value: sem.Expr) -> bool:
        """Return whether ``value`` is a variable whose content changes."""
        return isinstance(value, sem.Var) and value.name in self._mutable

    def constant(self, value: int) -> sem.Const:
        """Return an index constant."""
        return sem.Const(value, sem.Type(self.dtype))

    def scalar(self, affine: Affine) -> sem.Expr:
        """Return an integral affine without :data:`LANE` as a scalar expression."""
        result: sem.Expr | None = None
        for name, coefficient in affine.terms:
            result = self._add(result, self._variables[name], int(coefficient))
        offset = int(affine.offset)
        if result is None:
            return self.constant(offset)
        if offset == 0:
            return result
        op = Op.ADD if offset > 0 else Op.SUB
        return sem.Apply(op, (result, self.constant(abs(offset))))

    def _add(self, total: sem.Expr | None, variable: sem.Expr, coefficient: int) -> sem.Expr:
        size = abs(coefficient)
        term = variable if size == 1 else sem.Apply(Op.MUL, (variable, self.constant(size)))
        if total is None:
            return term if coefficient > 0 else sem.Apply(Op.NEG, (term,))
        return sem.Apply(Op.ADD if coefficient > 0 else Op.SUB, (total, term))

    def lanes(self, affine: Affine, lanes: int) -> sem.Expr:
        """Return an affine as a ramp over the lanes, or as a scalar without :data:`LANE`."""
        stride = int(affine.coefficient(LANE))
        base = self.scalar(affine.substitute({LANE: 0}))
        return base if stride == 0 or lanes == 1 else sem.Ramp(base, stride, lanes)

    def swizzled(self, affine: Affine, shift: int, mask: int, fold: tuple[int, int, int]) -> sem.Expr:
        """Return the offset in a swizzled array of the element at ``affine``, with multiples of the period apart."""
        if not mask and fold == PLAIN:
            return self.scalar(affine)
        unit = period(shift, mask, fold)
        outside = Affine.of({name: c for name, c in affine.terms if c % unit == 0}, affine.offset // unit * unit)
        inside = swizzled(self.scalar(affine - outside), shift, mask, fold)
        return inside if outside == Affine() else sem.Apply(Op.ADD, (self.scalar(outside), inside))

    def bound(self, candidates: list[Affine], op: Op) -> sem.Expr:
        """Return the MAX or MIN of affines."""
        result = self.scalar(candidates[0])
        for candidate in candidates[1:]:
            result = sem.Apply(op, (result, self.scalar(candidate)))
        return result


Swizzle: TypeAlias = tuple[int, int, tuple[int, int, int]]
"""Shift, mask and fold of a :class:`tileir.semtree.ir.MatrixOperand`."""

UNMOVED: Final[Swizzle] = (0, 0, PLAIN)


@attrs.frozen
class View:
    """A refinement in scope: the array behind it, and the offset of its first element.

    ``offset`` is affine over kernel variables and, in a vector block, :data:`LANE`. ``variable`` is set if the view is
    one element in a variable. With ``owned``, axis 0 of the shape counts the threads of a group, each of which has its
    own array: offsets ignore the axis. ``places`` is the start of a view of a parameter along each of its axes, if no
    view in between has other axes.
    """

    array: str
    offset: Affine
    shape: stripe.TensorShape
    aggregation: Aggregation | None = None
    variable: sem.Var | None = None
    owned: bool = False
    region: sem.Region | None = None  # None for parameters
    swizzle: Swizzle = UNMOVED
    places: tuple[Affine, ...] = ()

    def substitute(self, mapping: Mapping[str, Affine]) -> View:
        """Return the view with variables replaced."""
        places = tuple(place.substitute(mapping) for place in self.places)
        return attrs.evolve(self, offset=self.offset.substitute(mapping), places=places)

    def keeps_neighbours(self, lanes: int) -> bool:
        """Return whether ``lanes`` elements from the start of the view on stay contiguous when swizzled."""
        _, mask, (piece, _, _) = self.swizzle
        lowest = mask & -mask or piece
        steps = (c for name, c in self.offset.terms if name != LANE)
        return not lowest or (lowest % lanes == 0 and all(int(c) % lanes == 0 for c in (*steps, self.offset.offset)))


def swizzle_of(refinement: stripe.Refinement) -> Swizzle:
    """Return the shift, mask and fold of an allocation in local memory; zeros for none."""
    shift, mask, piece = (refinement.tags.get(tag) for tag in (stripe.SWIZZLE_SHIFT, stripe.SWIZZLE_MASK, stripe.FOLD))
    fold = PLAIN
    if isinstance(piece, int):
        rows, row = (dim.size for dim in refinement.shape.dims[-2:])
        fold = piece, row, rows
    return (shift, mask, fold) if isinstance(shift, int) and isinstance(mask, int) else (0, 0, fold)


def check_owner(refinement: stripe.Refinement, values: dict[str, Affine], thread: Affine | None) -> None:
    """Check that a view of a private array stays in its thread; ``thread`` is the thread's number, if known.

    Raises:
        TileError: TIL502, it does not.
    """
    axis = refinement.access[0].substitute(values) if refinement.access else Affine()
    if axis != (Affine() if thread is None else thread):
        message = (
            f"{refinement.name} is a view of an array in registers, whose first axis is to be the number of the thread "
            f"that owns it, and not {axis}"
        )
        raise fail("TIL502", message)


def zero(dtype: DType) -> bool | int | float:
    """Return zero as the Python value for constants of a dtype."""
    return False if dtype.is_bool else 0.0 if dtype.is_float else 0


def widened(value: sem.Expr, lanes: int) -> sem.Expr:
    """Return a scalar broadcast to ``lanes``; a vector is returned as it is."""
    if value.type.lanes == lanes:
        return value
    if isinstance(value, sem.Const):
        return sem.Const(value.value, sem.Type(value.type.dtype, lanes))
    return sem.Broadcast(value, lanes)


def uniform(values: tuple[sem.Expr, ...]) -> tuple[sem.Expr, ...]:
    """Bring operands to the same number of lanes."""
    lanes = max(value.type.lanes for value in values)
    return tuple(widened(value, lanes) for value in values)


def cast(value: sem.Expr, dtype: DType) -> sem.Expr:
    """Return a value as another dtype; itself if it has that."""
    return value if value.type.dtype is dtype else sem.Cast(value, value.type.with_dtype(dtype))


def clamped(index: sem.Expr, size: int, counting: DType) -> sem.Expr:
    """Return a place clamped to an axis."""
    own = index.type.dtype
    # Clamped in its own type if offsets cannot hold it: narrowing first would wrap it into bounds.
    clamping = own if own.is_integer and own.maximum > counting.maximum else counting
    low, high = (sem.Const(bound, sem.Type(clamping)) for bound in (0, size - 1))
    positive = sem.Apply(Op.MAX, uniform((cast(index, clamping), low)))
    return cast(sem.Apply(Op.MIN, uniform((positive, high))), counting)


def backward_run(element: sem.Expr) -> sem.Subscript | None:
    """Return contiguous elements that lanes address in reverse order, in memory order; None for other elements."""
    match element:
        case sem.Subscript(array=array, offset=sem.Ramp(base=base, stride=-1, lanes=lanes), type=kind):
            first = sem.Apply(Op.SUB, (base, sem.Const(lanes - 1, base.type)))
            return sem.Subscript(array, first, kind)
        case _:
            return None


def reversed_lanes(value: sem.Expr) -> sem.Expr:
    """Return the lanes of a vector, last one first."""
    return sem.Shuffle((value,), tuple(reversed(range(value.type.lanes))))
