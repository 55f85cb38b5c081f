"""Bindings: the execution of an index in a kernel (grid axis, thread, lane, …), and their words in text."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tileir.stripe.tags import Tags


class Binding(enum.Enum):
    """Execution of an index in a kernel; the value is the word of text. Without a binding it is a loop."""

    GRID = "grid"
    """An axis of the launch grid; only for indices of kernels."""

    THREAD = "thread"
    """Distributed over the threads of a group."""

    LANE = "vector"
    """The lanes of a vector."""

    UNROLL = "unroll"
    """An unrolled loop."""

    DOT = "dot"
    """The terms of dot products: adjacent elements whose products one instruction adds."""

    __hash__ = object.__hash__


MAX_LANES: Final = 1024
"""Maximum number of lanes of a vector."""

SERIAL: Final = "serial"
"""The word of text for an index whose points run in order."""

BINDINGS: Final[Mapping[str, Binding]] = MappingProxyType({binding.value: binding for binding in Binding})
"""The binding of each word."""

WORDS: Final = (*BINDINGS, SERIAL)
"""Words of text for the execution of an index; indices have none of them as tags."""


def bindings_of(tags: Tags) -> tuple[tuple[Binding, ...], bool, Tags]:
    """Return the bindings of words among ``tags``, whether one is ``serial``, and the other tags.

    Words with a value are left among the others, for the verifier to report.
    """
    words = [name for name, value in tags.items if value is None and name in WORDS]
    return tuple(BINDINGS[name] for name in words if name in BINDINGS), SERIAL in words, tags.remove(*words)
