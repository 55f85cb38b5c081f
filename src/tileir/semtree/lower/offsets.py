"""Affine offsets as kernel expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.ops import Op
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.matrices import PLAIN, period, swizzled

if TYPE_CHECKING:
    from tileir.core.dtype import DType

LANE: Final = "%lane"
"""Stands for the lane number in affine offsets of a vector block; no variable can have this name."""

TERM: Final = "%term"
"""Stands likewise for the number of a term in blocks of dot products."""


@attrs.define
class OffsetBuilder:
    """Turns affine expressions over kernel variables into expressions of one index dtype."""

    dtype: DType
    _variables: dict[str, sem.Var] = attrs.field(factory=dict, init=False)
    _mutable: set[str] = attrs.field(factory=set, init=False)

    def declare(self, variable: sem.Var) -> None:
        """Make a variable known under its name."""
        self._variables[variable.name] = variable

    def mark_mutable(self, variable: sem.Var) -> None:
        """Note that a variable is assigned to, so that reading it is not the same as naming it."""
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
        """Return an affine as a ramp over the lanes, or as a scalar where :data:`LANE` takes no part."""
        stride = int(affine.coefficient(LANE))
        base = self.scalar(affine.substitute({LANE: 0}))
        return base if stride == 0 or lanes == 1 else sem.Ramp(base, stride, lanes)

    def swizzled(self, affine: Affine, shift: int, mask: int, fold: tuple[int, int, int]) -> sem.Expr:
        """Return where a swizzled array has what stands at ``affine``; what nothing moves is added to the rest."""
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
