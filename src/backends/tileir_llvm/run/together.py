"""Neighbouring kernels of a sequence in one native call, some of them shared among threads."""

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
    """Function of arguments, scratch memory and a range of groups, of type :data:`tileir_llvm.run.team.KERNEL_TYPE`.

    Attributes:
        address: Address of the function.
        groups: Number of groups.
        scratch_bytes: Scratch memory per thread.
        seconds: Estimated time on one thread.
        python: Overhead in Python of a launch on several threads.
    """

    address: int
    groups: int
    scratch_bytes: int
    seconds: float
    _pool: ThreadPool = attrs.field(repr=False)
    python: float = attrs.field(default=PYTHON_SECONDS, kw_only=True)

    @cached_property
    def share(self) -> Share | None:
        """Division among threads; None if it runs on the calling one. The first access takes 1 ms."""
        return self._pool.share(self.seconds, self.groups, self.python)

    @cached_property
    def preference(self) -> Preference | None:
        """Preference for sharing, learnt from launches; None if it is certain."""
        share = self.share
        if share is None or share.is_certain:
            return None
        again = partial(self._pool.share, groups=self.groups, python=self.python)
        return Preference(share.pays, share.helpers, again, share.gain, self.python)

    def run_shared(self, arguments: bytes, alone: Callable[[], object]) -> None:
        """Run on threads of the pool, or by ``alone`` if that is faster, or they are busy."""
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
    """Kernels on the calling thread or shared with a pool, without Python in between.

    Attributes:
        first: Number of the entry of the first kernel.
        pool: The pool.
        scratch_bytes: Maximum scratch memory of a kernel.
        undecided: Numbers of kernels that are tried both ways, from 0 on, and their preferences.
        helpers: Number of helpers of each kernel.
        times: Destination of each kernel's time in nanoseconds.
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
        """Return kernels with their divisions among threads; None for kernels on the calling thread."""
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
        """Run the kernels; ``entries`` is the address of the sequence's entries.

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
        """Record the time of each undecided kernel, and the number of launches until the next decision."""
        if self._resting:
            self._resting -= 1
            return
        for number, preference in self.undecided:
            preference.note(self.times[number] * _NANOSECOND, shared=self.helpers[number] > 0)
        for number, preference in self.undecided:
            self.helpers[number] = preference.helpers if preference.shared else 0
        if any(self.helpers):  # otherwise a native function of arrays runs them while none is better shared
            self._resting = min((preference.rests() for _, preference in self.undecided), default=0)
            for _, preference in self.undecided:
                preference.rest(self._resting)
