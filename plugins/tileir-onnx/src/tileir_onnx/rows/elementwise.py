"""Operators on elements: arithmetic, comparisons, and functions of one number."""

from __future__ import annotations

from typing import Final

from tileir import ops
from tileir.tile.builder import Tensor
from tileir_onnx.importing import Call
from tileir_onnx.rows.table import row

_UNARY: Final = {
    "Abs": ops.abs,
    "Acos": ops.acos,
    "Ceil": ops.ceil,
    "Cos": ops.cos,
    "Erf": ops.erf,
    "Exp": ops.exp,
    "Floor": ops.floor,
    "Log": ops.log,
    "Neg": lambda x: -x,
    "Reciprocal": ops.reciprocal,
    "Relu": ops.relu,
    "Sigmoid": ops.sigmoid,
    "Sin": ops.sin,
    "Sqrt": ops.sqrt,
    "Tanh": ops.tanh,
}

_BINARY: Final = {
    "Add": lambda x, y: x + y,
    "Div": lambda x, y: x / y,
    "Mul": lambda x, y: x * y,
    "Sub": lambda x, y: x - y,
}

for _name, _unary in _UNARY.items():
    row(_name)(lambda _, x, unary=_unary: unary(x))
for _name, _binary in _BINARY.items():
    row(_name, since=7)(lambda _, x, y, binary=_binary: binary(x, y))


@row("Cast")
def cast(call: Call, x: Tensor, *, to: int, saturate: int = 1, round_mode: str = "up") -> Tensor:
    return ops.cast(x, call.dtype(to))
