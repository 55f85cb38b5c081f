"""Python's cyclic garbage collector, out of the way of bulk work."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final


@contextmanager
def collection_paused(*, lasting: bool = False) -> Iterator[None]:
    """Pause the collector, which would walk large trees that are still growing again and again.

    Nodes hold no cycles, so nothing is kept longer than it would be otherwise.

    Args:
        lasting: Whether what is made meanwhile lives on. It then joins the oldest generation at once, which it would
            reach by being walked three times, each time for nothing. Cycles that were left behind before do not join
            it: they are collected first. Where somebody froze objects, which would thaw, it joins no sooner.

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
    """Return whether objects were found frozen once, by others than Python: to count millions takes long each time."""
    if not _FROZEN_BY_OTHERS and gc.get_freeze_count() >= _BY_PYTHON:
        _FROZEN_BY_OTHERS.append(True)
    return bool(_FROZEN_BY_OTHERS)


_FROZEN_BY_OTHERS: Final[list[bool]] = []
"""Empty until objects are found frozen, which usually stay so for as long as the process runs."""

_BY_PYTHON: Final = 1000
"""More objects than Python 3.12 itself freezes when it starts, and fewer than there are for others to freeze."""

_MIDDLE: Final = 1
"""The generation in which the collector keeps what it has walked once."""
