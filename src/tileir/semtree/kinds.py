"""Enumerations of fields and statements of the kernel IR; :mod:`tileir.semtree.ir` holds these names too."""

from __future__ import annotations

import enum

from tileir.core.dtype import DType  # the decoder of JSON reads annotations
from tileir.core.nodes import attrs
from tileir.semtree.node import Node


class _Kind(enum.Enum):
    """Members hash by identity, which is fast."""

    __hash__ = object.__hash__


@attrs.frozen(cache_hash=True, repr=False)
class Type(Node):
    """``lanes`` elements of one dtype; a scalar has one lane."""

    dtype: DType
    lanes: int = 1

    def with_dtype(self, dtype: DType) -> Type:
        """Return the type with equally many lanes of another dtype."""
        return Type(dtype, self.lanes)

    def __str__(self) -> str:
        return self.dtype.value if self.lanes == 1 else f"{self.dtype.value}x{self.lanes}"


def bits(value: bool | int | float) -> bool | int | str:
    """Return a key that distinguishes floats by their bits: -0.0 is not 0.0, and nan is nan."""
    return value.hex() if isinstance(value, float) else value


class GridLevel(_Kind):
    """Level of the coordinate that a :class:`GridIndex` reads."""

    GROUP = "group"  # of the group in the grid
    LOCAL = "local"  # of the thread in its group


class Region(_Kind):
    """Memory of an array that a kernel declares."""

    PRIVATE = "private"  # one for each thread, meant for registers
    LOCAL = "local"  # one for each group, shared by its threads
    SCRATCH = "scratch"  # one for each group, too large for registers, in ordinary memory


class Scope(_Kind):
    """Threads that meet, and memory that is written."""

    GROUP = "group"
    CLUSTER = "cluster"  # of all groups that run at the same time as this one, including itself


class LoopKind(_Kind):
    """Treatment of a loop by a back end beyond running it."""

    SERIAL = "serial"
    UNROLL = "unroll"  # trip count is constant; replace it by its iterations
    VECTOR = "vector"  # iterations are independent: a hint to vectorise


class ParamAccess(_Kind):
    """Use of a parameter's memory by a kernel."""

    READ = "in"
    WRITE = "out"
    READ_WRITE = "inout"


class BufferRole(_Kind):
    """Owner of a buffer of a program."""

    INPUT = "input"
    OUTPUT = "output"
    TEMPORARY = "temporary"
    CONSTANT = "constant"


class ChannelStep(_Kind):
    """Next step of a thread with a channel of ``n`` places, each time for the message after the last one."""

    ACQUIRE = "acquire"
    """Wait until all threads have released the message ``n`` before, whose place the next copies take."""

    SEND = "send"
    """Make a message of the copies since the last one."""

    RECEIVE = "receive"
    """Wait until the copies of the message have arrived."""

    RELEASE = "release"
    """Release the message: all reads of it by the thread are done, including products that were begun."""


class VoteKind(_Kind):
    """Question of a vote among threads."""

    ANY = "any"  # whether a condition holds for some of them
    ALL = "all"  # whether it holds for each


class TurnStep(_Kind):
    """Step of a part of a group that takes turns with others."""

    TAKE = "take"
    """Wait until the previous part has passed the turn; the first part does not wait in the first round."""

    PASS = "pass"
    """Pass the turn to the next part."""


class Collective(Node):
    """A statement that all threads of a group run together, each equally often."""

    __slots__ = ()


class Deferred(Node):
    """A statement whose reads and writes may happen at any time up to a later waiting statement."""

    __slots__ = ()


class Hint(Node):
    """A statement without effect, which stages that do not know it may drop."""

    __slots__ = ()
