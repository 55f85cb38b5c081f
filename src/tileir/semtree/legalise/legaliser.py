"""Legalisation: the stage that leaves in a kernel only operations that a back end has."""

from __future__ import annotations

from functools import partial
from typing import Final, NoReturn

import attrs

from tileir.core import BackendError, DType, NameScope, Op, rewritten, schema
from tileir.core.numbers.ranges import Range
from tileir.semtree.analysis.effects import Census, census
from tileir.semtree.analysis.ranges import Ranges, is_defined, is_number
from tileir.semtree.functions.draft import Term
from tileir.semtree.ir import (
    Apply,
    Bitcast,
    Broadcast,
    Cast,
    Const,
    Declare,
    Expr,
    GridIndex,
    Hint,
    KernelFunction,
    Ramp,
    Reduce,
    Shuffle,
    Stmt,
    Subscript,
    Var,
)
from tileir.semtree.legalise import float_rows, integer_rows, narrow_rows
from tileir.semtree.legalise.capabilities import Capabilities, Support
from tileir.semtree.legalise.float_rows import CLAMPED, OF_TRUTH, SATURATING, TRUTH, WIDENED
from tileir.semtree.legalise.integer_rows import OVERFLOWING, wrapping
from tileir.semtree.legalise.row import Drafting, Row, computed_in, unsigned
from tileir.semtree.rewrite import children, kernel_names, map_bodies, rewrite_stmts, with_body, with_children
from tileir.semtree.simplify.conversion_rules import fold_bitcast, fold_cast

_OFFSETS: Final = frozenset({DType.I32, DType.I64})


def legalise(kernel: KernelFunction, capabilities: Capabilities) -> KernelFunction:
    """Express operations that a back end lacks by those that it has; ``kernel`` itself if it lacks none.

    Remaining operations that have support where C defines them are defined for all values that can occur, as far
    as :mod:`tileir.semtree.analysis.ranges` proves; only sums, differences and products of i32 and i64 that are parts
    of an offset stay as they are, since an offset that overflows addresses nothing. Values that a row needs twice are
    declared before the statement. Mathematical functions are expanded earlier
    (:mod:`tileir.semtree.transform.expansions`). Unsupported hints are dropped.

    Raises:
        BackendError: TIL804, the back end lacks an operation, and no row expresses it by others.
    """
    found = census(kernel)
    if not all(issubclass(hint, capabilities.hints) for hint in found.hints):
        kernel = with_body(kernel, rewrite_stmts(partial(_known, hints=capabilities.hints), kernel.body))
        found = census(kernel)
    if _has_all(found, capabilities):
        return kernel
    stage = _Legaliser(capabilities, NameScope.of(kernel_names(kernel)), Ranges.of(kernel))
    return with_body(kernel, stage.statements(kernel.body))


def _known(stmt: Stmt, hints: tuple[type[Hint], ...]) -> tuple[Stmt, ...]:
    return () if isinstance(stmt, Hint) and not isinstance(stmt, hints) else (stmt,)


def _has_all(found: Census, capabilities: Capabilities) -> bool:
    """Return whether a back end has all operations of a kernel for all values, as in most kernels of floats."""
    return (
        not found.converts
        and all(
            op is Op.COND or capabilities.of_lanes(lanes).operations.get((op, dtype)) is Support.TOTAL
            for op, dtype, lanes in found.operations
        )
        and all((op, dtype) in capabilities.of_lanes(lanes).reductions for op, dtype, lanes in found.reductions)
    )


@attrs.define(eq=False, repr=False)
class _Legaliser:
    """Rewriter of one kernel, statement by statement.

    Attributes:
        capabilities: Capabilities of the back end.
        scope: Names in use.
        ranges: Ranges of integers at the statement.
    """

    capabilities: Capabilities
    scope: NameScope
    ranges: Ranges
    _hoisted: list[Stmt] = attrs.field(factory=list, init=False)
    _done: dict[Expr, Expr] = attrs.field(factory=dict, init=False)
    _offsets: dict[Expr, Expr] = attrs.field(factory=dict, init=False)

    def statements(self, stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return rewritten(stmts, self._statement)

    def _statement(self, stmt: Stmt) -> tuple[Stmt, ...]:
        self._hoisted, self._done, self._offsets = [], {}, {}
        new = schema.map_operands(self.expression, stmt)
        hoisted = self._hoisted
        self.ranges.enter(new)
        return (*hoisted, map_bodies(self.statements, new))

    def expression(self, expr: Expr, *, offset: bool = False) -> Expr:
        """Return an equal supported expression; ``offset`` says that this is a part of an offset."""
        if isinstance(expr, Var | Const | GridIndex):
            return expr
        done = self._offsets if offset else self._done
        if expr not in done:
            below = tuple(self.expression(child, offset=_passes(expr, offset=offset)) for child in children(expr))
            new = _folded(with_children(expr, below))
            done[expr] = done[new] = result = self._legal(new, offset=offset)
            done[result] = result
        found = done[expr]
        return expr if found == expr else found

    def _legal(self, expr: Expr, *, offset: bool) -> Expr:
        row, operands = self._row(expr, offset=offset)
        if row is None:
            return expr
        target = (expr.type.dtype,) if isinstance(expr, Cast | Bitcast) else ()
        drafted = row.spell(self, *map(Term, operands), *target)
        result = self.expression(drafted.expr)
        if not expr.type.dtype.is_float:
            self.ranges.note(result, self.ranges.at(expr))
        return result

    def _row(self, expr: Expr, *, offset: bool) -> tuple[Row | None, tuple[Expr, ...]]:
        """Return the row that applies to a node, None if it stays, and the row's operands."""
        here = self.capabilities.of_lanes(max(expr.type.lanes, *(child.type.lanes for child in children(expr)), 1))
        match expr:
            case Apply(op=Op.COND):
                return None, ()
            case Apply(op=op, args=args):
                dtype = args[0].type.dtype
                support = here.operations.get((op, dtype))
                if support is Support.TOTAL or (support is Support.DEFINED and self._is_defined(expr, offset=offset)):
                    return None, ()
                row = _operation_row(here, op, dtype)
                return row or _refuse(f"{op.value} of {dtype.value}"), args
            case Cast(operand=operand, type=kind):
                source, target = operand.type.dtype, kind.dtype
                support = here.casts.get((source, target))
                if support is Support.TOTAL:
                    return None, ()
                row = _cast_row(here, source, target)
                return row or _refuse(f"conversion of {source.value} to {target.value}"), (operand,)
            case Bitcast(operand=operand, type=kind):
                return _bitcast_row(here, operand.type.dtype, kind.dtype), (operand,)
            case Reduce(op=op, operand=operand) if (op, operand.type.dtype) not in here.reductions:
                return _reduction_row(op), (operand,)
            case _:
                return None, ()

    def _is_defined(self, expr: Apply, *, offset: bool) -> bool:
        """Return whether C defines an operation for all possible values of its operands."""
        op, dtype = expr.op, expr.args[0].type.dtype
        if dtype.is_float:
            return all(map(is_number, expr.args))
        if offset and op in OVERFLOWING and dtype in _OFFSETS:
            return True
        return is_defined(op, dtype, tuple(map(self.ranges.at, expr.args)))

    def let(self, name: str, value: Term) -> Term:
        """Compute ``value`` once, before the statement; the result may be used several times."""
        expr = self.expression(value.expr)
        if isinstance(expr, Var | Const):
            return Term(expr)
        variable = Var(self.scope.fresh(name), expr.type)
        declared = Declare(variable, expr)
        self._hoisted.append(declared)
        self.ranges.enter(declared)
        return Term(variable)

    def defined(self, value: Term) -> Term:
        """Return an operation whose result is used only where C defines it."""
        expr = value.expr
        new = with_children(expr, tuple(map(self.expression, children(expr))))
        self._done[new] = new
        return Term(new)

    def range(self, value: Term) -> Range:
        """Return the range of an integer."""
        return self.ranges.at(value.expr)


def _folded(expr: Expr) -> Expr:
    """Fold a conversion of a constant, and merge two bit casts into one."""
    match expr:
        case Cast(operand=Const()):
            return fold_cast(expr) or expr
        case Bitcast(operand=Bitcast(operand=operand), type=kind):
            return operand if operand.type == kind else Bitcast(operand, kind)
        case (Cast() | Bitcast()) as conversion if conversion.operand.type == conversion.type:
            return conversion.operand
        case Bitcast(operand=Const()):
            return fold_bitcast(expr) or expr
        case _:
            return expr


def _refuse(lacking: str) -> NoReturn:
    message = f"the back end has no {lacking}, nor operations that express it; have it expanded before, or support it"
    raise BackendError.of("TIL804", message)


def _passes(expr: Expr, *, offset: bool) -> bool:
    """Return whether the operands of a node are parts of an offset."""
    match expr:
        case Subscript():
            return True
        case Apply(op=op):
            return offset and op in OVERFLOWING
        case Broadcast() | Ramp():
            return offset
        case _:
            return False


_SAME: Final = Row("f(x) = x", lambda _, x: x)
_SAME_OF_INTEGERS: Final = frozenset({Op.FLOOR, Op.CEIL, Op.ROUND, Op.TRUNC})
_CHOICES: Final = frozenset({Op.MAX, Op.MIN, Op.ABS})
"""Operations on small integers that are no shorter on wide ones."""


def _operation_row(here: Capabilities, op: Op, dtype: DType) -> Row | None:
    """Return the row for an operation that a back end lacks, or has only where C defines it; None if there is none.

    Args:
        here: Capabilities for this number of lanes.
        op: The operation, except ``COND``.
        dtype: That of the operands.
    """
    if op is Op.IDENT or (dtype.is_integer and op in _SAME_OF_INTEGERS):
        return _SAME
    if dtype.is_bool:
        return integer_rows.OF_BOOLS.get(op)
    if dtype.is_narrow:
        return narrow_rows.SPELT.get(op) or computed_in(DType.F32, op)
    if dtype.is_float:
        return float_rows.SPELT.get(op)
    defined = (op, dtype) in here.operations
    narrow = dtype.bits < 32 and (op, DType.I32) in here.operations
    if defined and op in OVERFLOWING:
        wraps = dtype.is_signed and here.operations.get((op, unsigned(dtype))) is Support.TOTAL
        return wrapping(op) if wraps else computed_in(DType.I32, op) if narrow else None
    if defined:
        return integer_rows.GUARDED.get(op)
    return computed_in(DType.I32, op) if narrow and op not in _CHOICES else integer_rows.SPELT.get(op)


def _cast_row(here: Capabilities, source: DType, target: DType) -> Row | None:
    """Return the row for a conversion that a back end lacks, or has only where C defines it."""
    if target.is_bool:
        return narrow_rows.BY_F32 if source.is_narrow else TRUTH
    if source.is_bool:
        return OF_TRUTH
    if source.is_narrow or target.is_narrow:
        return narrow_rows.cast_row(source, target)
    if source.is_float and target.is_integer:
        defined = (source, target) in here.casts
        return SATURATING if defined else CLAMPED if target.bits < 32 else None
    return WIDENED if source.is_integer and source.bits < 32 and target.is_float else None


def _bitcast_row(here: Capabilities, source: DType, target: DType) -> Row | None:
    """Return the row that reads or makes the bits of a float that a back end represents by its value."""
    return narrow_rows.OF_VALUE if source in here.valued else narrow_rows.TO_VALUE if target in here.valued else None


def _reduction_row(op: Op) -> Row:
    """Return the row that merges one half of the lanes with the other, for a short dependence chain."""

    def spell(draft: Drafting, value: Term) -> Term:
        lanes = value.type.lanes
        if lanes == 1:
            return value
        value = draft.let("lanes", value)
        half = lanes // 2
        merged = _picked(value, 0, half).apply(op, _picked(value, half, half))
        merged = spell(draft, merged)
        return merged if lanes == 2 * half else merged.apply(op, _picked(value, lanes - 1, 1))

    return Row(f"reduce<{op.value}>(x) = reduce<{op.value}>({op.value}(lower half, upper half))", spell)


def _picked(value: Term, first: int, count: int) -> Term:
    return Term(Shuffle((value.expr,), tuple(range(first, first + count))))
