"""Storage floats as integers of equal width: a kernel only loads, stores and selects their bits."""

from __future__ import annotations

from functools import cache
from itertools import product
from types import MappingProxyType
from typing import Final

from tileir.core import DType, Op, attrs
from tileir.core.numbers.arithmetic import constant
from tileir.semtree.analysis.effects import census
from tileir.semtree.ir import Bitcast, Const, Hint, KernelFunction, Type
from tileir.semtree.legalise.capabilities import Capabilities, Support
from tileir.semtree.legalise.legaliser import legalise
from tileir.semtree.legalise.row import unsigned

STORED: Final = frozenset(dtype for dtype in DType if dtype.is_storage)


def stored_as_bits(kernel: KernelFunction, stored: frozenset[DType] = STORED) -> KernelFunction:
    """Return a kernel with integers for elements of storage types; the kernel itself if there are none.

    Parameters and arrays hold integers of equal width, and conversions are those of
    :mod:`tileir.semtree.legalise.narrow_rows`, so that a back end need not support these types. ``stored`` may name
    further 16-bit floats, whose arithmetic is then done in f32.
    """
    if stored.isdisjoint(census(kernel).dtypes):
        return kernel
    return as_bits(legalise(kernel, _everything_but(stored)), stored)


@cache
def _everything_but(dtypes: frozenset[DType]) -> Capabilities:
    """Return all operations, hints and conversions, except those of some types."""
    others = tuple(dtype for dtype in DType if dtype not in dtypes)
    operations = frozenset(product(Op, others))
    return Capabilities(
        MappingProxyType(dict.fromkeys(operations, Support.TOTAL)),
        MappingProxyType(dict.fromkeys(product(others, others), Support.TOTAL)),
        operations,
        hints=(Hint,),
    )


def as_bits(kernel: KernelFunction, dtypes: frozenset[DType]) -> KernelFunction:
    """Return a kernel with integers of equal width for some floats; the kernel itself if there are none.

    The kernel is legalised before, so that it only loads, stores, selects, and reinterprets these types.
    """
    if dtypes.isdisjoint(census(kernel).dtypes):
        return kernel
    made = _Bits(dtypes).of(kernel)
    assert isinstance(made, type(kernel))
    return made


@attrs.frozen(repr=False)
class _Bits:
    """Replacer of types in the parts of one kernel."""

    dtypes: frozenset[DType]
    _done: dict[object, object] = attrs.field(factory=dict, init=False)

    def of(self, node: object) -> object:
        """Return a part of a kernel with integers for the types; the part itself if unchanged."""
        match node:
            case DType():
                return unsigned(node) if node in self.dtypes else node
            case Const(value=value, type=Type(dtype=dtype)) as const if dtype in self.dtypes:
                bits = constant(value, dtype).view(unsigned(dtype).numpy)
                return Const(int(bits), const.type.with_dtype(unsigned(dtype)))
            case Bitcast(operand=operand, type=kind) if not self.dtypes.isdisjoint((kind.dtype, operand.type.dtype)):
                return _bits_again(self._changed(node))
            case tuple():
                new = tuple(map(self.of, node))
                return node if all(a is b for a, b in zip(new, node, strict=True)) else new
            case _:
                return self._changed(node) if attrs.has(type(node)) else node

    def _changed(self, node: object) -> object:
        if node not in self._done:
            kind: type[attrs.AttrsInstance] = type(node)  # type: ignore[assignment]  # parts of kernels are, but leaves
            fields = {field.name: getattr(node, field.name) for field in attrs.fields(kind)}
            new = {name: self.of(value) for name, value in fields.items()}
            self._done[node] = node if all(new[name] is value for name, value in fields.items()) else kind(**new)
        return self._done[node]


def _bits_again(node: object) -> object:
    return node.operand if isinstance(node, Bitcast) and node.operand.type == node.type else node
