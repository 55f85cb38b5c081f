"""Optional parts of a pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Protocol, runtime_checkable

if TYPE_CHECKING:
    from tileir.core.targets.target import Target
    from tileir.passes.base import Pass


@runtime_checkable
class AliasedPass(Protocol):
    """A pass with other names, by which pipelines may call it."""

    aliases: ClassVar[tuple[str, ...]]


@runtime_checkable
class LoopPass(Protocol):
    """A pass that gets programs with loops as they are, where that is true: :mod:`tileir.passes.loops` tells more."""

    sees_loops: ClassVar[bool]


@runtime_checkable
class TargetedPass(Protocol):
    """A pass whose options speak of facts of a target, which it is told before it runs."""

    def for_target(self, target: Target) -> Pass:
        """Return the pass with the facts of ``target``."""


OFFERS: Final = (AliasedPass, LoopPass, TargetedPass)
"""The optional parts, among which a misspelt one is sought."""
