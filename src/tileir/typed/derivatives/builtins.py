"""Builtins of Tile that differentiate, as typed inference expands them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tileir.core import Span, arithmetic_type, attrs, fail
from tileir.typed.derivatives.forward import forward
from tileir.typed.derivatives.reverse import reverse
from tileir.typed.inference.emission import Emission, broadcast_shape
from tileir.typed.inference.numbers import is_float
from tileir.typed.inference.values import ConstantScalar, DifferentiatedError, Group, Number, Operand, Result, Tensor


def _gradient(emission: Emission, operands: Sequence[Operand], _: Span | None) -> Result:
    """Emit ``gradient(Y, X…)``: of the sum of all elements of Y with respect to each X."""
    results = _results(emission, operands[0])
    ones = [emission.constant(1.0, arithmetic_type(y.dtype)) for y in results]
    return _pulled(emission, results, ones, operands[1:])


def _vjp(emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    """Emit ``vjp(Y, DY, X…)``: the gradient with respect to each X for the cotangents DY of Y."""
    results = _results(emission, operands[0])
    cotangents = _matching(emission, operands[0], results, operands[1], "cotangents", span)
    return _pulled(emission, results, cotangents, operands[2:])


def _pulled(
    emission: Emission, results: Sequence[Tensor], cotangents: Sequence[Tensor], wanted: Sequence[Operand]
) -> Result:
    values = [_float_tensor(_movable(emission, operand), operand.label) for operand in wanted]
    found = tuple(map(emission.own, reverse(emission, results, cotangents, values, even_ties=emission.even_ties)))
    return found[0] if len(found) == 1 else Group(found)


def _jvp(emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    """Emit ``jvp(Y, X, DX)``: the tangent of Y for the tangent DX of X."""
    results, moving = _results(emission, operands[0]), _moving(emission, operands[1])
    tangents = _matching(emission, operands[1], moving, operands[2], "tangents", span)
    found = forward(emission, results, moving, tangents, even_ties=emission.even_ties)
    return _nested(operands[0].value, map(emission.own, found))


def _matching(
    emission: Emission, operand: Operand, values: Sequence[Tensor], given: Operand, kind: str, span: Span | None
) -> list[Tensor]:
    """Return the cotangents or tangents in ``given`` for ``values``, which are the parts of ``operand``."""
    parts = _parts(given)
    if len(parts) != len(values):
        raise fail("TIL322", f"{operand.label} has {len(values)} part(s), but there are {len(parts)} {kind}", span)
    return [matched(emission, part, value) for part, value in zip(parts, values, strict=True)]


def _parts(operand: Operand) -> list[Operand]:
    """Return the parts of a tuple and of tuples in it, in order; otherwise the operand itself as the only part."""
    found: list[Operand] = []
    pending = [operand.value]
    while pending:
        value = pending.pop()
        if isinstance(value, Group):
            pending.extend(reversed(value.items))
        else:
            found.append(Operand(value, operand.span, operand.name))
    return found


def _nested(form: Result, parts: Iterable[Tensor]) -> Result:
    """Return ``parts`` in tuples nested as ``form`` is: the inverse of :func:`_parts`."""
    rest = iter(parts)
    tuples: list[list[Result]] = [[]]
    pending: list[Result | None] = [form]  # None ends a tuple
    while pending:
        match pending.pop():
            case None:
                done = Group(tuple(tuples.pop()))
                tuples[-1].append(done)
            case Group(items=items):
                tuples.append([])
                pending += (None, *reversed(items))
            case _:
                tuples[-1].append(next(rest))
    return tuples[0][0]


def _results(emission: Emission, operand: Operand) -> tuple[Tensor, ...]:
    """Return the values to differentiate: float tensors, and float constants, which depend on nothing."""
    parts = [
        attrs.evolve(part, value=emission.tensor(part.value, part.span))
        if isinstance(part.value, ConstantScalar | Number) and is_float(part.value)
        else part
        for part in _parts(operand)
    ]
    return _floats(operand, parts)


def _moving(emission: Emission, operand: Operand) -> tuple[Tensor, ...]:
    """Return the float tensors in ``operand`` with respect to which it is differentiated.

    Raises:
        TileError: TIL321, a part is no float tensor.
        DifferentiatedError: A part is computed from numbers.
    """
    return _floats(operand, [_movable(emission, part) for part in _parts(operand)])


def _movable(emission: Emission, part: Operand) -> Operand:
    value = part.value
    if not isinstance(value, Number):
        return part
    if is_float(value):
        raise DifferentiatedError(emission.numbers.arguments(value))
    return attrs.evolve(part, value=emission.tensor(value, part.span))


def _floats(operand: Operand, parts: Sequence[Operand]) -> tuple[Tensor, ...]:
    return tuple(_float_tensor(part, _label(part, number, operand)) for number, part in enumerate(parts))


def _label(part: Operand, number: int, whole: Operand) -> str:
    """Return the name of a part in messages; users of functions that were generated for them know no tuples."""
    if not isinstance(whole.value, Group):
        return whole.label
    if whole.span is None and isinstance(part.value, Tensor):
        return repr(part.value.name)
    return f"part {number} of {whole.label}"


def _float_tensor(part: Operand, label: str) -> Tensor:
    value, span = part.value, part.span
    if isinstance(value, ConstantScalar):
        raise fail("TIL321", f"{label} is a constant, which has no derivative", span)
    if not isinstance(value, Tensor):
        raise fail("TIL309", f"{label} is no tensor; take a part of it first", span)
    if not value.dtype.is_float:
        message = f"{label} is {value.dtype.value}; only floats have derivatives, so leave it out or cast it"
        raise fail("TIL321", message, span)
    return value


def matched(emission: Emission, part: Operand, like: Tensor) -> Tensor:
    """Return a cotangent or tangent of ``like``: of its arithmetic type, and of a shape that broadcasts to its.

    Raises:
        TileError: TIL309, it is no tensor; TIL322, it has another dtype, or a shape that does not broadcast.

    """
    value, wanted = part.value, arithmetic_type(like.dtype)
    if isinstance(value, ConstantScalar | Number) and value.dtype is None:
        return emission.literal(value, wanted, part.span)
    if isinstance(value, Number):
        value = emission.tensor(value, part.span)
    if not isinstance(value, Tensor):
        raise fail("TIL309", f"{part.label} is no tensor; take a part of it first", part.span)
    if value.dtype is not wanted:
        message = f"{part.label} is {value.dtype.value}, but what it goes with takes {wanted.value}; cast it"
        raise fail("TIL322", message, part.span)
    try:
        fits = broadcast_shape((like.shape, value.shape)) == like.shape
    except ValueError:
        fits = False
    if not fits:
        message = f"{part.label} has shape {list(value.shape)}, which does not broadcast to {list(like.shape)}"
        raise fail("TIL322", message, part.span)
    return value


DERIVATIVES: Final[Mapping[str, Callable[[Emission, Sequence[Operand], Span | None], Result]]] = MappingProxyType(
    {
        "gradient": _gradient,
        "vjp": _vjp,
        "jvp": _jvp,
    }
)
