"""Shapes of memory, locations in devices, and the base of all nodes of Stripe, which print as text."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import ClassVar, TypeAlias

from tileir.core import DType, NotebookNode, TextNode, attrs
from tileir.poly.affine import Affine


class Node(TextNode):
    """A node, which prints as its text."""

    __slots__ = ()

    def __str__(self) -> str:
        from tileir.stripe.text.printer import node_text  # it imports the nodes

        return node_text(self)


class TopLevelNode(Node, NotebookNode):
    """A program, or a large part of one."""

    __slots__ = ()


@attrs.frozen(cache_hash=True, repr=False)
class Device(Node):
    """One step of a location: ``name[units…]``."""

    form: ClassVar[str] = r"{name}[\[{units}\]]"
    name: str
    units: tuple[Affine, ...] = ()


Location: TypeAlias = tuple[Device, ...]
"""Where data lives or code runs, outermost device first; () is unspecified."""


@attrs.frozen(cache_hash=True, repr=False)
class Dim(Node):
    """Extent and stride, in elements, of one axis."""

    form: ClassVar[str] = "{size}:{stride}"
    size: int
    stride: int


@attrs.frozen(cache_hash=True, repr=False)
class TensorShape(Node):
    """Element type, and extent and stride of each axis."""

    form: ClassVar[str] = "{dtype}:I({sizes}):({strides}):{dims:bytes}"
    dtype: DType
    dims: tuple[Dim, ...] = ()

    @classmethod
    def dense(cls, dtype: DType, sizes: Iterable[int]) -> TensorShape:
        """Return the row-major shape of ``sizes`` without gaps."""
        dims: list[Dim] = []
        stride = 1
        for size in reversed(tuple(sizes)):
            dims.append(Dim(size, stride))
            stride *= size
        return cls(dtype, tuple(reversed(dims)))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Extent of each axis."""
        return tuple([dim.size for dim in self.dims])

    @property
    def strides(self) -> tuple[int, ...]:
        """Stride of each axis, in elements."""
        return tuple([dim.stride for dim in self.dims])

    @property
    def elements(self) -> int:
        """Number of elements of the box."""
        return prod([dim.size for dim in self.dims])

    @property
    def element(self) -> TensorShape:
        """The shape of one element, by the axes of this one."""
        return TensorShape(self.dtype, tuple([Dim(1, dim.stride) for dim in self.dims]))

    def holds_what(self, other: TensorShape) -> bool:
        """Return whether ``other`` has the same elements in the same order: equal, or both dense, as in a reshape."""
        if self == other:
            return True
        dense = (TensorShape.dense(shape.dtype, shape.sizes) == shape for shape in (self, other))
        return self.dtype is other.dtype and self.elements == other.elements and all(dense)

    @property
    def span(self) -> int:
        """Number of elements from the first to the last of the box, both included; 0 when empty."""
        if self.elements == 0:
            return 0
        return 1 + sum((dim.size - 1) * abs(dim.stride) for dim in self.dims)
