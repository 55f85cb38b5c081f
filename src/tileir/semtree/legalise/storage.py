"""Types of storage as integers: what is left of them in a kernel is to load, store and choose bits."""

from __future__ import annotations

from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.arithmetic import constant
from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.semtree.ir import Bitcast, Cast, Const, DeclareArray, Type
from tileir.semtree.legalise.capabilities import Capabilities, Support
from tileir.semtree.legalise.legaliser import legalise
from tileir.semtree.legalise.row import unsigned
from tileir.semtree.rewrite import mentions, statements, walk

if TYPE_CHECKING:
    from tileir.semtree.ir import KernelFunction

_MAKERS: Final = (Const, Cast, Bitcast)
_COMPUTED: Final = tuple(dtype for dtype in DType if not dtype.is_storage)

EVERYTHING_COMPUTED: Final = Capabilities(
    MappingProxyType(dict.fromkeys(product(Op, DType), Support.TOTAL)),
    MappingProxyType(dict.fromkeys(product(_COMPUTED, _COMPUTED), Support.TOTAL)),
    frozenset(product(Op, DType)),
)
"""All operations and conversions but those of types of storage."""


def stored_as_bits(kernel: KernelFunction) -> KernelFunction:
    """Return a kernel in which integers stand for elements of types of storage; itself where there are none.

    Parameters and arrays hold integers of the same width, and conversions are those of
    :mod:`tileir.semtree.legalise.narrow_rows`, so that a back end needs to know nothing of such types.
    """
    if not _has_storage(kernel):
        return kernel
    made = _as_bits(legalise(kernel, EVERYTHING_COMPUTED))
    assert isinstance(made, type(kernel))
    return made


def _has_storage(kernel: KernelFunction) -> bool:
    arrays = (stmt.dtype for stmt in statements(kernel.body) if isinstance(stmt, DeclareArray))
    # Other nodes have the type of one of their operands, or of an array.
    made = (
        node.type.dtype
        for stmt in statements(kernel.body)
        for expr in mentions(stmt)
        for node in walk(expr)
        if isinstance(node, _MAKERS)
    )
    return any(dtype.is_storage for dtype in (*(param.dtype for param in kernel.params), *arrays, *made))


def _as_bits(node: object) -> object:
    """Return a part of a kernel with integers in place of types of storage; itself where nothing changes."""
    match node:
        case DType():
            return unsigned(node) if node.is_storage else node
        case Const(value=value, type=Type(dtype=dtype)) as const if dtype.is_storage:
            bits = constant(value, dtype).view(unsigned(dtype).numpy)
            return Const(int(bits), const.type.with_dtype(unsigned(dtype)))
        case Bitcast(operand=operand, type=kind) if kind.dtype.is_storage or operand.type.dtype.is_storage:
            return _bits_again(_changed(node))
        case tuple():
            new = tuple(map(_as_bits, node))
            return node if all(a is b for a, b in zip(new, node, strict=True)) else new
        case _:
            return _changed(node) if attrs.has(type(node)) else node


def _changed(node: object) -> object:
    kind: type[attrs.AttrsInstance] = type(node)  # type: ignore[assignment]  # parts of kernels are, but for leaves
    fields = {field.name: getattr(node, field.name) for field in attrs.fields(kind)}
    new = {name: _as_bits(value) for name, value in fields.items()}
    return node if all(new[name] is value for name, value in fields.items()) else kind(**new)


def _bits_again(node: object) -> object:
    return node.operand if isinstance(node, Bitcast) and node.operand.type == node.type else node
