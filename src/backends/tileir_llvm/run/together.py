"""Neighbouring kernels of a sequence, of which threads share some, in one native call."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from tileir.core import attrs
from tileir_llvm.run.pool import ThreadPool
from tileir_llvm.run.sequence_code import ENTRY_BYTES
from tileir_llvm.run.sharing import PYTHON_SECONDS, Preference, Share
from tileir_llvm.run.team import Jobs

if TYPE_CHECKING:
    from collections.abc import Sequence


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


_NANOSECOND: Final = 1e-9


@attrs.define(eq=False, repr=False)
class Together:
    """Kernels, each of them on the calling thread or shared out to a pool, without Python in between.

    Attributes:
        first: Number of the entry of the first one.
        pool: The pool.
        scratch_bytes: The most that one of them needs.
        undecided: Numbers of those that are tried both ways, from 0 on, and their preferences.
        helpers: How many threads help with each.
        times: Where nanoseconds of each go.

    """

    first: int
    pool: ThreadPool
    scratch_bytes: int
    undecided: tuple[tuple[int, Preference], ...]
    helpers: ctypes.Array[Any]
    times: ctypes.Array[Any]
    _resting: int = attrs.field(default=0, init=False)

    @classmethod
    def of(cls, first: int, kernels: Sequence[Pooled | None], pool: ThreadPool, scratch_bytes: int) -> Together:
        """Return kernels by how they are shared out; None stands for one that the calling thread runs."""
        preferences = [(number, kernel.preference) for number, kernel in enumerate(kernels) if kernel is not None]
        shares = [None if kernel is None else kernel.share for kernel in kernels]
        return cls(
            first,
            pool,
            scratch_bytes,
            tuple((number, preference) for number, preference in preferences if preference is not None),
            (ctypes.c_int64 * len(kernels))(*(0 if share is None else share.helpers for share in shares)),
            (ctypes.c_int64 * len(kernels))(),
        )

    def run(self, entries: int, arguments: bytes) -> bool:
        """Run them; ``entries`` is where those of the sequence are.

        Returns:
            False, with nothing done, while another thread uses the pool.

        """
        place = entries + self.first * ENTRY_BYTES
        return self.pool.launch_all(partial(self._jobs, place, arguments), self.scratch_bytes, self._note)

    def _jobs(self, place: int, arguments: bytes, scratch: int) -> Jobs:
        times = 0
        if self.undecided and not self._resting:
            times = ctypes.addressof(self.times)
            for number, preference in self.undecided:
                self.helpers[number] = preference.helpers if preference.shares() else 0
        helpers, count = ctypes.addressof(self.helpers), len(self.helpers)
        return Jobs(place, helpers, times, count, arguments, scratch, self.scratch_bytes)

    def _note(self) -> None:
        """Note how long each took that is tried both ways, and after how many launches somebody has to ask again."""
        if self._resting:
            self._resting -= 1
            return
        for number, preference in self.undecided:
            preference.note(self.times[number] * _NANOSECOND, shared=self.helpers[number] > 0)
        for number, preference in self.undecided:
            self.helpers[number] = preference.helpers if preference.shared else 0
        if any(self.helpers):  # else a native function of arrays runs them, as long as all of these want to be alone
            self._resting = min((preference.rests() for _, preference in self.undecided), default=0)
            for _, preference in self.undecided:
                preference.rest(self._resting)
