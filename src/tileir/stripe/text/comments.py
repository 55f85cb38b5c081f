"""Comments on kernels: the Tile statements of their operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, assert_never

from tileir.core import Aggregation, Combination, Op
from tileir.core.text.writer import listed
from tileir.tile.functions import scatter_name
from tileir.typed.ir import (
    Access,
    Argsort,
    ArrayConstant,
    Cast,
    Computation,
    Constant,
    Contraction,
    Coordinate,
    Elementwise,
    Gather,
    Reduce,
    Reshape,
    Scan,
    Scatter,
    ShapeOf,
    operands,
)

_AGGREGATION: Final[Mapping[Aggregation, str]] = MappingProxyType(
    {
        Aggregation.SUM: "+",
        Aggregation.PROD: "*",
        Aggregation.MAX: ">",
        Aggregation.MIN: "<",
        Aggregation.ASSIGN: "=",
    }
)


def tile_text(operation: Computation, constants: Mapping[str, Constant]) -> str:
    """Return ``operation`` as a line of Tile, with the values of ``constants`` in place of their names."""

    def shown(name: str) -> str:
        return str(constants[name].value) if name in constants else name

    match operation:
        case Constant(name=name, value=value):
            return f"{name} = {value}"
        case Elementwise(name=name, op=Op.BITS, inputs=(value,), dtype=dtype):
            return f"{name} = bits_as_{dtype.value}({shown(value)})"
        case Elementwise(name=name, op=op, inputs=inputs):
            return f"{name} = {op.value}({', '.join(map(shown, inputs))})"
        case Cast(name=name, input=value, dtype=dtype):
            return f"{name} = as_{dtype.value}({shown(value)})"
        case Coordinate(name=name, axis=axis):
            return f"{name} = index({axis})"
        case ArrayConstant(name=name, value=array):
            return f"constant {name} = {array}"
        case ShapeOf(name=name, dims=dims):
            return f"{name} = shape({', '.join(map(str, dims))})"
        case Reshape(name=name, input=value, shape=shape):
            return f"{name} = reshape({', '.join((shown(value), *map(str, shape)))})"
        case Argsort(name=name, input=value, axis=axis, descending=descending, shape=shape):
            return f"{name} = argsort({value}, {axis}, {int(descending)}, {shape[axis]})"
        case Gather(name=name, data=data, indices=indices):
            return f"{name} = gather({data}, {shown(indices)})"
        case Scatter(name=name, aggregation=how, ordered=ordered):
            return f"{name} = {scatter_name(how, ordered=ordered)}({', '.join(map(shown, operands(operation)))})"
        case Contraction():
            return _contraction(operation, constants)
        case Reduce(name=name, combine=combine, input=value, axes=axes):
            return f"{name} = reduce_{combine.value}({', '.join((value, *map(str, axes)))})"
        case Scan(name=name, count=count, reverse=reverse):
            steps = "while it holds" if count is None else f"{count} steps"
            return f"{name} = scan, {steps}{' in reverse' if reverse else ''}"
        case _:
            assert_never(operation)


def _contraction(contraction: Contraction, constants: Mapping[str, Constant]) -> str:
    sizes = f" : {', '.join(map(str, contraction.shape))}" if contraction.shape else ""
    inputs = _combined(contraction.combination, [_access(access) for access in contraction.inputs])
    parts = [
        f"{contraction.name}[{listed(contraction.output)}{sizes}] = {_AGGREGATION[contraction.aggregation]}({inputs})"
    ]
    parts += [f", {constraint.polynomial} < {constraint.bound}" for constraint in contraction.constraints]
    if not contraction.reduce:
        parts.append(" no_defract")
    if contraction.default is not None:
        default = contraction.default
        parts.append(f" default {constants[default].value if default in constants else default}")
    return "".join(parts)


def _combined(combination: Combination, inputs: Sequence[str]) -> str:
    match combination:
        case Combination.NONE:
            return inputs[0]
        case Combination.ADD:
            return " + ".join(inputs)
        case Combination.MUL:
            return " * ".join(inputs)
        case Combination.EQ:
            return " == ".join(inputs)
        case Combination.COND:
            return f"{inputs[0]} == {inputs[1]} ? {inputs[2]}"
        case _:
            assert_never(combination)


def _access(access: Access) -> str:
    return f"{access.tensor}[{listed(access.indices)}]"
