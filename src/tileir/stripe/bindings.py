"""Bindings: what the values of an index become when a kernel runs; and the words by which text says so."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tileir.stripe.tags import Tags


class Binding(enum.Enum):
    """Meaning of the values of an index in a kernel; the value is the word of text. No binding is a loop."""

    GRID = "grid"
    """An axis of the launch grid; on indices of kernels alone."""

    THREAD = "thread"
    """Shared out to the threads of a group."""

    LANE = "vector"
    """The lanes of a vector."""

    UNROLL = "unroll"
    """A loop that is written out."""

    DOT = "dot"
    """The terms of dot products: neighbours whose products one instruction adds."""

    __hash__ = object.__hash__


MAX_LANES: Final = 1024
"""So many lanes a vector has at most."""

SERIAL: Final = "serial"
"""The word of text for an index whose points run in their order."""

BINDINGS: Final[Mapping[str, Binding]] = MappingProxyType({binding.value: binding for binding in Binding})
"""The binding that each word stands for."""

WORDS: Final = (*BINDINGS, SERIAL)
"""Words by which text says how an index runs; indices have none of them as tags."""


def bindings_of(tags: Tags) -> tuple[tuple[Binding, ...], bool, Tags]:
    """Return the bindings that words among ``tags`` stand for, whether one is ``serial``, and the other tags.

    Words with a value are left among the others, where the verifier tells of them.
    """
    words = [name for name, value in tags.items if value is None and name in WORDS]
    return tuple(BINDINGS[name] for name in words if name in BINDINGS), SERIAL in words, tags.remove(*words)
