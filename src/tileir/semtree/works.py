"""Buffers of a program, and the works that it launches in order."""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar, TypeAlias

from tileir.core.array_value import Content
from tileir.core.dtype import DType  # the decoder of JSON reads annotations
from tileir.core.nodes import attrs
from tileir.core.nodes.schema import BODY, USES
from tileir.semtree.kinds import BufferRole
from tileir.semtree.node import Node


@attrs.frozen(cache_hash=True, repr=False)
class Buffer(Node):
    """Dense row-major memory; ``data`` holds the bytes of a constant, little-endian."""

    form: ClassVar[str] = "{role} {dtype:element} {name:name}{shape:sizes}[ = {data}]"
    name: str
    dtype: DType
    shape: tuple[int, ...]
    role: BufferRole
    data: Content = attrs.field(default=b"", repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the parts for pickles and copies: bytes, since views of memory cannot be pickled."""
        return type(self), (self.name, self.dtype, self.shape, self.role, bytes(self.data))

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)


@attrs.frozen(cache_hash=True, repr=False)
class Launch(Node):
    """Run kernel number ``kernel`` on the named buffers, one for each of its parameters."""

    form: ClassVar[str] = "launch {kernel}{arguments:names}"
    kernel: int
    arguments: tuple[str, ...] = attrs.field(metadata=USES)


@attrs.frozen(cache_hash=True, repr=False)
class While(Node):
    """A condition for loops: the named buffer, of one bool, holds true before an iteration."""

    form: ClassVar[str] = "while ({buffer:name})"
    buffer: str = attrs.field(metadata=USES)


@attrs.frozen(cache_hash=True, repr=False)
class Loop(Node):
    """Run ``works``, in order, repeatedly: a number of times, at least 1, or while a condition holds, perhaps never."""

    times: int | While = attrs.field(metadata=USES)
    works: tuple[Work, ...] = attrs.field(metadata=BODY)


@attrs.frozen(cache_hash=True, repr=False)
class Branch(Node):
    """Run ``then``, in order, if the buffer ``condition``, of one bool, holds true, else ``otherwise``."""

    condition: str = attrs.field(metadata=USES)
    then: tuple[Work, ...] = attrs.field(metadata=BODY)
    otherwise: tuple[Work, ...] = attrs.field(default=(), metadata=BODY)


Work: TypeAlias = Launch | Loop | Branch
