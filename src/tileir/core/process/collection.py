"""Python's cyclic garbage collector, paused for bulk work."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final


@contextmanager
def collection_paused(*, lasting: bool = False) -> Iterator[None]:
    """Pause the collector, which would repeatedly walk large trees while they grow.

    Nodes hold no cycles, so nothing is kept longer than it would be otherwise.

    Args:
        lasting: Whether objects made meanwhile live on. They then join the oldest generation at once, which they would
            otherwise reach after three useless walks. Earlier garbage does not join it: it is collected first. If
                objects
            are frozen, which would thaw, they join no sooner.
    """
    enabled = gc.isenabled()
    ages = enabled and lasting and not _somebody_froze()
    try:
        if ages:
            gc.collect(_MIDDLE)
        gc.disable()  # inside, as an interrupt may follow at once
        yield
    finally:
        if enabled:
            if ages and not _somebody_froze():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def _somebody_froze() -> bool:
    """Return whether objects other than Python's were once found frozen: counting millions takes long each time."""
    if not _FROZEN_BY_OTHERS and gc.get_freeze_count() >= _BY_PYTHON:
        _FROZEN_BY_OTHERS.append(True)
    return bool(_FROZEN_BY_OTHERS)


_FROZEN_BY_OTHERS: Final[list[bool]] = []
"""Empty until objects are found frozen, which usually remain so for as long as the process runs."""

_BY_PYTHON: Final = 1000
"""More objects than Python 3.12 itself freezes at its start, and fewer than other code would freeze."""

_MIDDLE: Final = 1
"""The generation of objects that the collector has walked once."""
