"""Laws that keep every value to the bit (except NaN payloads): the rule table of the simplifier.

Each rule examines one operation and the definitions of its operands. A forwarded value is written as ``IDENT``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tileir.core import NameScope, Op, attrs
from tileir.core.nodes.rewrite import Rule, rule
from tileir.core.numbers import arithmetic
from tileir.typed.dims import read_constant
from tileir.typed.ir import Cast, Constant, Elementwise, Operation, Reshape, Value


@attrs.frozen
class Site:
    """An operation together with the definitions before it.

    Attributes:
        operation: The operation.
        definitions: The definitions of the values before it, by name.
        before: New operations that it reads, to be placed before it, in order.
        names: The names in use in the function; None for rules that need none.
    """

    operation: Operation
    definitions: Mapping[str, Value | Operation]
    before: tuple[Operation, ...] = ()
    names: NameScope | None = None

    def constant(self, name: str) -> Constant | None:
        """Return the definition of ``name`` if it is a constant, otherwise None."""
        found = self.definitions[name]
        return found if isinstance(found, Constant) else None

    def becomes(self, operation: Operation) -> Site:
        """Return the site after its operation is replaced."""
        return attrs.evolve(self, operation=operation)

    def forward(self, name: str) -> Site | None:
        """Return the site with a copy of ``name``, unless its shape or dtype differs."""
        old, new = self.operation, self.definitions[name]
        if (old.dtype, old.shape) != (new.dtype, new.shape):
            return None
        return self.becomes(Elementwise(old.name, Op.IDENT, (name,), old.dtype, old.shape, span=old.span))


def _elementwise(site: Site, *ops: Op) -> Elementwise | None:
    operation = site.operation
    return operation if isinstance(operation, Elementwise) and operation.op in ops else None


def _is_number(site: Site, name: str, number: float) -> bool:
    """Return whether ``name`` is the constant ``number``; 0 and -0.0 differ for floats."""
    constant = site.constant(name)
    if constant is None or constant.value != number:
        return False
    return not constant.dtype.is_float or math.copysign(1.0, constant.value) == math.copysign(1.0, number)


def _without(site: Site, neutral: float, *ops: Op, turned: bool = True) -> Site | None:
    """Forward one operand of an operation if the other one, the right one or either, is ``neutral``."""
    operation = _elementwise(site, *ops)
    if operation is None:
        return None
    left, right = operation.inputs
    if _is_number(site, right, neutral):
        return site.forward(left)
    return site.forward(right) if turned and _is_number(site, left, neutral) else None


@rule("op(constants) = constant")
def fold_constants(site: Site) -> Site | None:
    """Evaluate operations on constants."""
    operation = site.operation
    if not isinstance(operation, Elementwise) or operation.op is Op.IDENT:
        return None
    constants = [constant for name in operation.inputs if (constant := site.constant(name)) is not None]
    if len(constants) < len(operation.inputs):
        return None
    arrays = [arithmetic.constant(constant.value, constant.dtype) for constant in constants]
    value = read_constant(arithmetic.apply(operation.op, *arrays), operation.dtype).value
    return site.becomes(Constant(operation.name, operation.dtype, value, span=operation.span))


@rule("cast(constant) = constant")
def fold_cast(site: Site) -> Site | None:
    """Convert a constant when compiling."""
    operation = site.operation
    if not isinstance(operation, Cast) or (constant := site.constant(operation.input)) is None:
        return None
    value = arithmetic.rounded(constant.value, operation.dtype)
    return site.becomes(Constant(operation.name, operation.dtype, value, span=operation.span))


@rule("cast(x) = x if the dtype is the same")
def same_cast(site: Site) -> Site | None:
    """Drop a cast without effect."""
    operation = site.operation
    return site.forward(operation.input) if isinstance(operation, Cast) else None


@rule("cast(cast(x)) = cast(x) if the inner one is exact")
def cast_of_cast(site: Site) -> Site | None:
    """Skip an intermediate dtype that holds every value of the first."""
    outer = site.operation
    if not isinstance(outer, Cast) or not isinstance(inner := site.definitions[outer.input], Cast):
        return None
    source = site.definitions[inner.input].dtype
    if not inner.dtype.holds(source):
        return None
    # A float saturates where an integer wraps, unless every value fits.
    if source.is_integer and inner.dtype.is_float and outer.dtype.is_integer and not outer.dtype.holds(source):
        return None
    return site.becomes(attrs.evolve(outer, input=inner.input))


@rule("reshape(x) = x if the shape is the same")
def same_reshape(site: Site) -> Site | None:
    """Drop a reshape without effect."""
    operation = site.operation
    return site.forward(operation.input) if isinstance(operation, Reshape) else None


@rule("reshape(reshape(x)) = reshape(x)")
def reshape_of_reshape(site: Site) -> Site | None:
    """Skip an intermediate shape."""
    outer = site.operation
    if not isinstance(outer, Reshape) or not isinstance(inner := site.definitions[outer.input], Reshape):
        return None
    return site.becomes(attrs.evolve(outer, input=inner.input))


@rule("x * 1 = 1 * x = x")
def multiply_by_one(site: Site) -> Site | None:
    """Multiply by one."""
    return _without(site, 1, Op.MUL)


@rule("x / 1 = x")
def divide_by_one(site: Site) -> Site | None:
    """Divide by one."""
    return _without(site, 1, Op.DIV, turned=False)


@rule("x + -0.0 = x for floats, x + 0 = 0 + x = x for integers")
def add_zero(site: Site) -> Site | None:
    """Add the neutral element: that of floats is -0.0, since -0.0 + 0.0 is 0.0."""
    return _without(site, -0.0 if site.operation.dtype.is_float else 0, Op.ADD)


@rule("x - 0 = x, x << 0 = x, x >> 0 = x")
def zero_on_the_right(site: Site) -> Site | None:
    """Subtract or shift by zero."""
    return _without(site, 0, Op.SUB, Op.BIT_LEFT, Op.BIT_RIGHT, turned=False)


@rule("x | 0 = 0 | x = x ^ 0 = 0 ^ x = x")
def no_bits(site: Site) -> Site | None:
    """Combine with a value that has no bits."""
    return _without(site, 0, Op.BIT_OR, Op.BIT_XOR)


@rule("max(x, x) = min(x, x) = x & x = x | x = x")
def idempotent(site: Site) -> Site | None:
    """Combine a value with itself."""
    operation = _elementwise(site, Op.MAX, Op.MIN, Op.BIT_AND, Op.BIT_OR)
    if operation is None or operation.inputs[0] != operation.inputs[1]:
        return None
    return site.forward(operation.inputs[0])


@rule("-(-x) = ~(~x) = x")
def involution(site: Site) -> Site | None:
    """Cancel a repeated negation."""
    operation = _elementwise(site, Op.NEG, Op.BIT_NOT)
    if operation is None:
        return None
    inner = site.definitions[operation.inputs[0]]
    if not isinstance(inner, Elementwise) or inner.op is not operation.op:
        return None
    return site.forward(inner.inputs[0])


@rule("abs(-x) = abs(abs(x)) = abs(x) for signed x")
def absolute_value(site: Site) -> Site | None:
    """Ignore a negation before an absolute value; that of an unsigned value is another positive value."""
    operation = _elementwise(site, Op.ABS)
    if operation is None or not operation.dtype.is_signed:
        return None
    inner = site.definitions[operation.inputs[0]]
    if not isinstance(inner, Elementwise) or inner.op not in (Op.NEG, Op.ABS):
        return None
    return site.becomes(attrs.evolve(operation, inputs=inner.inputs))


@rule("floor(n) = ceil(n) = round(n) = trunc(n) = n for integers")
def round_integer(site: Site) -> Site | None:
    """Drop the rounding of integers."""
    operation = _elementwise(site, Op.FLOOR, Op.CEIL, Op.ROUND, Op.TRUNC)
    if operation is None or operation.dtype.is_float:
        return None
    return site.forward(operation.inputs[0])


@rule("true ? x : y = x, false ? x : y = y")
def known_condition(site: Site) -> Site | None:
    """Take the arm that a constant condition chooses."""
    operation = _elementwise(site, Op.COND)
    if operation is None or (condition := site.constant(operation.inputs[0])) is None:
        return None
    return site.forward(operation.inputs[1 if condition.value else 2])


@rule("c ? x : x = x")
def same_arms(site: Site) -> Site | None:
    """Drop a condition with equal arms."""
    operation = _elementwise(site, Op.COND)
    if operation is None or operation.inputs[1] != operation.inputs[2]:
        return None
    return site.forward(operation.inputs[1])


@rule("~c ? x : y = c ? y : x")
def negated_condition(site: Site) -> Site | None:
    """Swap the arms instead of negating the condition."""
    operation = _elementwise(site, Op.COND)
    if operation is None:
        return None
    condition, then, otherwise = operation.inputs
    inner = site.definitions[condition]
    if not isinstance(inner, Elementwise) or inner.op is not Op.BIT_NOT:
        return None
    return site.becomes(attrs.evolve(operation, inputs=(inner.inputs[0], otherwise, then)))


@rule("(c != false) = (c == true) = c")
def compare_bool(site: Site) -> Site | None:
    """Drop a comparison that returns its bool operand."""
    operation = _elementwise(site, Op.CMP_NE, Op.CMP_EQ)
    if operation is None:
        return None
    left, right = operation.inputs
    if not site.definitions[left].dtype.is_bool or not _is_number(site, right, operation.op is Op.CMP_EQ):
        return None
    return site.forward(left)


@rule("pow(x, 1) = x, pow(x, 2) = x * x")
def small_power(site: Site) -> Site | None:
    """Multiply instead of raising to a power: the product is rounded once, as the power should be."""
    operation = _elementwise(site, Op.POW)
    if operation is None:
        return None
    base, exponent = operation.inputs
    if _is_number(site, exponent, 1):
        return site.forward(base)
    if _is_number(site, exponent, 2) and site.definitions[base].shape == operation.shape:
        return site.becomes(attrs.evolve(operation, op=Op.MUL, inputs=(base, base)))
    return None


_OF_OP: Final[Mapping[Op, tuple[Rule[Site], ...]]] = MappingProxyType(
    {
        Op.IDENT: (),
        Op.BITS: (),  # a constant loses the payload of a NaN
        Op.NEG: (fold_constants, involution),
        Op.ABS: (fold_constants, absolute_value),
        Op.BIT_NOT: (fold_constants, involution),
        **dict.fromkeys((Op.FLOOR, Op.CEIL, Op.ROUND, Op.TRUNC), (fold_constants, round_integer)),
        Op.ADD: (fold_constants, add_zero),
        Op.SUB: (fold_constants, zero_on_the_right),
        Op.MUL: (fold_constants, multiply_by_one),
        Op.DIV: (fold_constants, divide_by_one),
        Op.POW: (fold_constants, small_power),
        Op.MAX: (fold_constants, idempotent),
        Op.MIN: (fold_constants, idempotent),
        Op.BIT_AND: (fold_constants, idempotent),
        Op.BIT_OR: (fold_constants, no_bits, idempotent),
        Op.BIT_XOR: (fold_constants, no_bits),
        Op.BIT_LEFT: (fold_constants, zero_on_the_right),
        Op.BIT_RIGHT: (fold_constants, zero_on_the_right),
        Op.CMP_EQ: (fold_constants, compare_bool),
        Op.CMP_NE: (fold_constants, compare_bool),
        Op.COND: (fold_constants, known_condition, same_arms, negated_condition),
    }
)


def rules_of(operation: Operation) -> tuple[Rule[Site], ...]:
    """Return the rules that can fit ``operation``, in the order in which they are tried."""
    match operation:
        case Elementwise(op=op):
            return _OF_OP.get(op, (fold_constants,))
        case Cast():
            return (fold_cast, same_cast, cast_of_cast)
        case Reshape():
            return (same_reshape, reshape_of_reshape)
        case _:
            return ()
