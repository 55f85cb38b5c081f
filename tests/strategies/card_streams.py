"""Streams of a card that does nothing before somebody waits for it: their work, piece by piece."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable


@attrs.define(eq=False)
class Mark:
    """A condition on a stream: a number of its pieces of work are done."""

    stream: Work
    pieces: int


@attrs.define(eq=False)
class Work:
    """A stream: work that was not done yet.

    Attributes:
        done: How many pieces were done.

    """

    pieces: deque[Callable[[], None]] = attrs.field(factory=deque)
    done: int = 0

    def add(self, piece: Callable[[], None]) -> None:
        """Put a piece behind all others."""
        self.pieces.append(piece)

    def mark(self) -> Mark:
        """Return what says that all so far is done."""
        with _working:
            return Mark(self, self.done + len(self.pieces))

    def step(self) -> None:
        """Do the next piece, if there is one."""
        with _working:
            if self.pieces:
                self.pieces.popleft()()
                self.done += 1


_working: Final = threading.RLock()
"""Held while a card does a piece of work, so that nobody sees that it is done before it is."""


def reach(mark: Mark) -> None:
    """Do all that a mark says."""
    with _working:
        while mark.stream.done < mark.pieces:
            mark.stream.step()
