"""What some fields of the nodes of the kernel IR can be; :mod:`tileir.semtree.ir` holds these names too."""

from __future__ import annotations

import enum


class _Kind(enum.Enum):
    """Members hash by identity, which is fast."""

    __hash__ = object.__hash__


class GridLevel(_Kind):
    """Which coordinate a :class:`GridIndex` reads."""

    GROUP = "group"  # of the group in the grid
    LOCAL = "local"  # of the thread in its group


class Region(_Kind):
    """Where an array that a kernel declares lives."""

    PRIVATE = "private"  # one for each thread, meant for registers
    LOCAL = "local"  # one for each group, shared by its threads
    SCRATCH = "scratch"  # one for each group, too large for registers, in ordinary memory


class LoopKind(_Kind):
    """What a back end must do with a loop beyond running it."""

    SERIAL = "serial"
    UNROLL = "unroll"  # trip count is constant; replace it by its iterations
    VECTOR = "vector"  # iterations are independent: a hint to vectorise


class ParamAccess(_Kind):
    """What a kernel does with a parameter's memory."""

    READ = "in"
    WRITE = "out"
    READ_WRITE = "inout"


class BufferRole(_Kind):
    """Who owns a buffer of a program."""

    INPUT = "input"
    OUTPUT = "output"
    TEMPORARY = "temporary"
    CONSTANT = "constant"
