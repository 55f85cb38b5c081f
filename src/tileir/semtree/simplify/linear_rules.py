"""Integer sums in canonical form. Integers wrap, so all laws of a ring hold."""

from __future__ import annotations

from typing import Final

from tileir.core import Op, rounded
from tileir.semtree.ir import Apply, Broadcast, Const, Expr, GridIndex, Ramp, Type, Var
from tileir.semtree.rewrite import law


@law("a sum of multiples is in order: each term once, positive ones first, then the constant")
def canonical_sum(expr: Expr) -> Expr | None:
    """Merge equal terms and constants of an integer sum, difference, multiple or negation."""
    if not isinstance(expr, Apply) or not expr.type.dtype.is_integer:
        return None
    terms: dict[Expr, int] = {}
    constant = _collect(expr, 1, terms)
    new = _sum({term: _signed(factor, expr.type) for term, factor in terms.items()}, constant, expr.type)
    return None if new == expr else new


def _collect(expr: Expr, factor: int, terms: dict[Expr, int]) -> int:
    """Add ``factor`` times an expression to ``terms``, and return its constant part."""
    match expr:
        case Const(value=value):
            return factor * int(value)
        case Apply(op=Op.ADD, args=(left, right)):
            return _collect(left, factor, terms) + _collect(right, factor, terms)
        case Apply(op=Op.SUB, args=(left, right)):
            return _collect(left, factor, terms) + _collect(right, -factor, terms)
        case Apply(op=Op.NEG, args=(operand,)):
            return _collect(operand, -factor, terms)
        case Apply(op=Op.MUL, args=(left, Const(value=value))):
            return _collect(left, factor * int(value), terms)
        case Apply(op=Op.MUL, args=(Const(value=value), right)):
            return _collect(right, factor * int(value), terms)
        case _:
            terms[expr] = terms.get(expr, 0) + factor
            return 0


def _signed(factor: int, kind: Type) -> int:
    """Return the factor of least size that is equal modulo the range of the type."""
    size = 1 << kind.dtype.bits
    factor %= size
    return factor - size if factor > size // 2 else factor


def _sum(terms: dict[Expr, int], constant: int, kind: Type) -> Expr:
    offset = _signed(constant, kind)
    positive = [(term, factor) for term, factor in terms.items() if factor > 0]
    negative = [(term, factor) for term, factor in terms.items() if factor < 0]
    result: Expr | None = None
    for term, factor in positive:
        product = _multiple(term, factor, kind)
        result = product if result is None else Apply(Op.ADD, (result, product))
    if result is None and (offset > 0 or not negative):
        result, offset = _integer(offset, kind), 0
    for term, factor in negative:
        if result is None:
            result = Apply(Op.NEG, (term,)) if factor == -1 else _multiple(term, factor, kind)
        else:
            result = Apply(Op.SUB, (result, _multiple(term, -factor, kind)))
    assert result is not None  # there is a positive term, a constant, or a negative term
    if offset == 0:
        return result
    if offset < 0:
        return Apply(Op.SUB, (result, _integer(-offset, kind)))
    return Apply(Op.ADD, (result, _integer(offset, kind)))


def _multiple(term: Expr, factor: int, kind: Type) -> Expr:
    return term if factor == 1 else Apply(Op.MUL, (term, _integer(factor, kind)))


def _integer(value: int, kind: Type) -> Const:
    return Const(rounded(value, kind.dtype), kind)


def is_canonical(expr: Apply) -> bool:
    """Return whether an integer sum of multiples of variables is as :func:`canonical_sum` writes it, in all its parts.

    Lowerings write nearly all offsets so, whose parts then need no further analysis. Sums of anything else than
    variables and coordinates may be canonical, too.
    """
    kind = expr.type
    if not kind.dtype.is_integer:
        return False
    most = 1 << (kind.dtype.bits - 1)  # its own negative, which is added
    seen: set[Expr] = set()
    node: Expr = expr
    if expr.op in _MERGES and isinstance(expr.args[1], Const):
        if not 0 < expr.args[1].value <= most - (expr.op is Op.SUB):
            return False
        node = expr.args[0]
    ends_in_constant = node is not expr
    added = False
    while isinstance(node, Apply) and node.op in _MERGES:
        left, right = node.args
        if (added and node.op is Op.SUB) or not _is_new_multiple(right, seen, most - (node.op is Op.SUB)):
            return False
        added = added or node.op is Op.ADD
        node = left
    if isinstance(node, Const):
        # A constant is first if no term is positive.
        return not added and not ends_in_constant and 0 < node.value <= most
    return _is_new_multiple(node, seen, most)


_MERGES: Final = frozenset({Op.ADD, Op.SUB})


def _is_new_multiple(term: Expr, seen: set[Expr], most: int) -> bool:
    """Return whether a term is a multiple of a variable or coordinate not yet ``seen``; if so, add it."""
    if isinstance(term, Apply):
        if term.op is not Op.MUL:
            return False
        term, factor = term.args
        if not isinstance(factor, Const) or not 1 < factor.value <= most:
            return False
    if not isinstance(term, Var | GridIndex) or term in seen:
        return False
    seen.add(term)
    return True


@law("ramp(a, s) + broadcast(b) = ramp(a + b, s)")
def ramp_sum(expr: Expr) -> Expr | None:
    """Move a sum or difference of a ramp with a ramp, broadcast or constant into the base."""
    match expr:
        case Apply(op=Op.ADD | Op.SUB as op, args=(left, right)):
            first, second = _as_ramp(left), _as_ramp(right)
            if first is None or second is None or not (isinstance(left, Ramp) or isinstance(right, Ramp)):
                return None
            (base, stride), (other, step) = first, second
            total = stride + step if op is Op.ADD else stride - step
            return _ramp(Apply(op, (base, other)), total, expr.type)
        case _:
            return None


@law("ramp(a, s) * c = ramp(a * c, s * c)")
def ramp_multiple(expr: Expr) -> Expr | None:
    """Move a constant factor into base and stride."""
    match expr:
        case Apply(op=Op.MUL, args=(Ramp(base=base, stride=stride), Const(value=value))):
            factor = _integer(int(value), base.type)
            return _ramp(Apply(Op.MUL, (base, factor)), stride * int(value), expr.type)
        case _:
            return None


def _as_ramp(expr: Expr) -> tuple[Expr, int] | None:
    match expr:
        case Ramp(base=base, stride=stride):
            return base, stride
        case Broadcast(operand=operand):
            return operand, 0
        case Const(value=value, type=kind):
            return Const(value, Type(kind.dtype)), 0
        case _:
            return None


def _ramp(base: Expr, stride: int, kind: Type) -> Expr:
    return Ramp(base, int(rounded(stride, kind.dtype)), kind.lanes)
