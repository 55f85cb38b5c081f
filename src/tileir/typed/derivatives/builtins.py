"""The builtins of Tile that differentiate, as typed inference expands them."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tileir.core.errors import fail
from tileir.typed.derivatives.forward import forward
from tileir.typed.derivatives.reverse import reverse
from tileir.typed.emission import broadcast_shape
from tileir.typed.values import Group, Known, Operand, Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tileir.core.span import Span
    from tileir.typed.emission import Emission
    from tileir.typed.values import Result


def _gradient(emission: Emission, operands: Sequence[Operand], _: Span | None) -> Result:
    """Emit ``gradient(Y, X…)``: of the sum of all elements of Y with respect to each X."""
    results = _results(emission, operands[0])
    ones = [emission.constant(1.0, y.dtype) for y in results]
    return _pulled(emission, results, ones, operands[1:])


def _vjp(emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    """Emit ``vjp(Y, DY, X…)``: what the cotangents DY of Y are with respect to each X."""
    results = _results(emission, operands[0])
    given = parts(operands[1])
    if len(given) != len(results):
        message = f"{operands[0].label} has {len(results)} parts, but there are {len(given)} cotangents"
        raise fail("TIL322", message, span)
    cotangents = [matched(emission, part, y) for part, y in zip(given, results, strict=True)]
    return _pulled(emission, results, cotangents, operands[2:])


def _pulled(
    emission: Emission, results: Sequence[Tensor], cotangents: Sequence[Tensor], wanted: Sequence[Operand]
) -> Result:
    values = [_float_tensor(operand, operand) for operand in wanted]
    found = reverse(emission, results, cotangents, values, even_ties=emission.even_ties)
    return found[0] if len(found) == 1 else Group(found)


def _jvp(emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    """Emit ``jvp(Y, X, DX)``: how Y moves when X moves along DX."""
    results, moving = _results(emission, operands[0]), tensors(operands[1])
    given = parts(operands[2])
    if len(given) != len(moving):
        message = f"{operands[1].label} has {len(moving)} parts, but there are {len(given)} tangents"
        raise fail("TIL322", message, span)
    tangents = [matched(emission, part, x) for part, x in zip(given, moving, strict=True)]
    found = forward(emission, results, moving, tangents, even_ties=emission.even_ties)
    return Group(found) if isinstance(operands[0].value, Group) else found[0]


def parts(operand: Operand) -> tuple[Operand, ...]:
    """Return the parts of a tuple, or the operand itself as the only one."""
    if not isinstance(operand.value, Group):
        return (operand,)
    return tuple(Operand(item, operand.span, operand.name) for item in operand.value.items)


def _results(emission: Emission, operand: Operand) -> tuple[Tensor, ...]:
    """Return what is differentiated: float tensors, and float constants, which depend on nothing."""
    known = (part.value for part in parts(operand))
    constants = [emission.tensor(v, operand.span) if isinstance(v, Known) and _is_float(v) else None for v in known]
    pairs = zip(parts(operand), constants, strict=True)
    return tuple(_float_tensor(part, operand) if constant is None else constant for part, constant in pairs)


def _is_float(value: Known) -> bool:
    return isinstance(value.value, float) if value.dtype is None else value.dtype.is_float


def tensors(operand: Operand) -> tuple[Tensor, ...]:
    """Return the float tensors that ``operand`` is, or consists of.

    Raises:
        TileError: TIL321, a part is no float tensor.

    """
    return tuple(_float_tensor(part, operand) for part in parts(operand))


def _float_tensor(part: Operand, operand: Operand) -> Tensor:
    value = part.value
    if isinstance(value, Known):
        raise fail("TIL321", f"{operand.label} is a constant, which has no derivative", operand.span)
    if not isinstance(value, Tensor):
        raise fail("TIL309", f"{operand.label} is no tensor; take a part of it first", operand.span)
    if not value.dtype.is_float:
        message = f"{operand.label} is {value.dtype.value}; only floats have derivatives, so leave it out or cast it"
        raise fail("TIL321", message, operand.span)
    return value


def matched(emission: Emission, part: Operand, like: Tensor) -> Tensor:
    """Return a cotangent or tangent of ``like``: of its dtype, and of a shape that broadcasts to its.

    Raises:
        TileError: TIL309, it is no tensor; TIL322, it has another dtype, or a shape that does not broadcast.

    """
    value = part.value
    if isinstance(value, Known) and value.dtype is None:
        return emission.literal(value, like.dtype, part.span)
    if not isinstance(value, Tensor):
        raise fail("TIL309", f"{part.label} is no tensor; take a part of it first", part.span)
    if value.dtype is not like.dtype:
        message = f"{part.label} is {value.dtype.value}, but what it goes with is {like.dtype.value}; cast it"
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
