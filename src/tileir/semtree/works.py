"""Memory of a program, and what it launches on that, one after the other."""

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
        """Return what pickles and copies are made of: bytes, since views of memory have none."""
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
    """As long as the named buffer, of one bool, holds true, which is looked up before each turn of a loop."""

    form: ClassVar[str] = "while ({buffer:name})"
    buffer: str = attrs.field(metadata=USES)


@attrs.frozen(cache_hash=True, repr=False)
class Loop(Node):
    """Run ``works``, in order, again and again: so many times, from 1 on, or while a condition holds, maybe never."""

    times: int | While = attrs.field(metadata=USES)
    works: tuple[Work, ...] = attrs.field(metadata=BODY)


@attrs.frozen(cache_hash=True, repr=False)
class Branch(Node):
    """Run ``then``, in order, where the buffer ``condition``, of one bool, holds true, else ``otherwise``."""

    condition: str = attrs.field(metadata=USES)
    then: tuple[Work, ...] = attrs.field(metadata=BODY)
    otherwise: tuple[Work, ...] = attrs.field(default=(), metadata=BODY)


Work: TypeAlias = Launch | Loop | Branch
