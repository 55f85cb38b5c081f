"""Native functions of groups, which threads of the pool share where that is quicker."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property, partial

from tileir.core import attrs
from tileir_llvm.run.pool import ThreadPool
from tileir_llvm.run.sharing import PYTHON_SECONDS, Preference, Share


@attrs.frozen(eq=False)
class Pooled:
    """A function of arguments, scratch memory and a range of groups, as :data:`tileir_llvm.run.team.KERNEL_TYPE` says.

    Attributes:
        address: Where it is.
        groups: How many groups there are.
        scratch_bytes: Scratch memory that it needs for one thread.
        seconds: What it takes on one thread, as estimated.
        python: What a launch on several threads takes in Python.

    """

    address: int
    groups: int
    scratch_bytes: int
    seconds: float
    _pool: ThreadPool = attrs.field(repr=False)
    python: float = attrs.field(default=PYTHON_SECONDS, kw_only=True)

    @cached_property
    def share(self) -> Share | None:
        """Its division among threads; None where it runs on the calling one. The first to ask waits for 1 ms."""
        return self._pool.share(self.seconds, self.groups, self.python)

    @cached_property
    def preference(self) -> Preference | None:
        """Preference for sharing, as found out launch by launch; None where that is certain."""
        share = self.share
        if share is None or share.is_certain:
            return None
        again = partial(self._pool.share, groups=self.groups, python=self.python)
        return Preference(share.pays, share.helpers, again, share.gain, self.python)

    def run_shared(self, arguments: bytes, alone: Callable[[], object]) -> None:
        """Run on threads of the pool, or by ``alone`` where that is better, or they are taken."""
        share, preference = self.share, self.preference
        if preference is None:
            if share is None or not self._share_out(arguments, share.helpers):
                alone()
            return
        start = time.perf_counter()
        shared = preference.shares() and self._share_out(arguments, preference.helpers)
        if not shared:
            alone()
        preference.note(time.perf_counter() - start, shared=shared)

    def _share_out(self, arguments: bytes, helpers: int) -> bool:
        return self._pool.launch(self.address, arguments, self.groups, self.scratch_bytes, helpers)
