"""Fresh state for forked children, in which the threads of the parent do not exist, and their locks stay taken."""

from __future__ import annotations

import os
import weakref
from abc import abstractmethod
from typing import Final


class Renewable:
    """An object with locks, or with work of other threads, which is renewed in each forked child."""

    __slots__ = ()

    def __attrs_post_init__(self) -> None:
        _alive.add(self)

    @abstractmethod
    def renew(self) -> None:
        """Replace the locks, and drop work that only a thread of the parent could finish."""


_alive: Final[weakref.WeakSet[Renewable]] = weakref.WeakSet()


def _renew_all() -> None:
    for item in tuple(_alive):
        item.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
