"""Optional parts of a pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Protocol, runtime_checkable

if TYPE_CHECKING:
    from tileir.core.targets.target import Target
    from tileir.passes.base import Pass


@runtime_checkable
class AliasedPass(Protocol):
    """A pass with aliases for use in pipelines."""

    aliases: ClassVar[tuple[str, ...]]


@runtime_checkable
class LoopPass(Protocol):
    """A pass that gets programs with loops whole if ``sees_loops`` is true (:mod:`tileir.passes.loops`)."""

    sees_loops: ClassVar[bool]


@runtime_checkable
class TargetedPass(Protocol):
    """A pass whose options refer to facts of a target, which it gets before it runs."""

    def for_target(self, target: Target) -> Pass:
        """Return the pass with the facts of ``target``."""


OFFERS: Final = (AliasedPass, LoopPass, TargetedPass)
"""The optional parts, against which misspelt names are checked."""
