"""Python's cyclic garbage collector, out of the way of bulk work."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the collector, which would walk large trees that are still growing again and again.

    Nodes hold no cycles, so nothing is kept longer than it would be otherwise.
    """
    enabled = gc.isenabled()
    try:
        gc.disable()  # inside, as an interrupt may follow at once
        yield
    finally:
        if enabled:
            gc.enable()
