"""Several faults of one program, collected before they are raised together."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import attrs

from tileir.core.errors import Diagnostic, TileError
from tileir.typed.inference.values import PoisonedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

S = TypeVar("S")
T = TypeVar("T")


@attrs.define
class Faults:
    """What went wrong so far; ``poisoned`` says that something failed for a reason reported elsewhere."""

    found: list[Diagnostic] = attrs.field(factory=list)
    poisoned: bool = False

    def each(self, function: Callable[[S], T], items: Iterable[S]) -> tuple[T, ...]:
        """Apply ``function`` to all items and note those that fail; the results are complete if :meth:`done` passes."""
        results = []
        for item in items:
            try:
                results.append(function(item))
            except TileError as error:
                self.found.extend(error.diagnostics)
            except PoisonedError:
                self.poisoned = True
        return tuple(results)

    def done(self) -> None:
        """Raise what was collected, if anything was.

        Raises:
            TileError: All diagnostics.
            PoisonedError: There are none, but something failed.

        """
        if self.found:
            raise TileError(self.found)
        if self.poisoned:
            raise PoisonedError
