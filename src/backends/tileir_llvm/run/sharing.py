"""Whether to share a kernel out to threads: what that costs here, as measured once, against what the kernel takes."""

from __future__ import annotations

import time
from functools import partial
from struct import pack
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ALWAYS_SECONDS: Final = 1e-3
"""Kernels that take longer alone are shared out to all threads, whatever that costs: nothing is measured for them."""

NEVER_SECONDS: Final = 5e-6
"""Kernels that take less alone are never shared out: no thread that sleeps, or just woke up, is as quick."""

MARGIN: Final = 1.0
"""What sharing out saves must be more than so many times what it costs: estimates, and halves of threads, are rough."""

PYTHON_SECONDS: Final = 5e-6
"""What a launch on several threads takes in Python, which one on the calling thread does without."""

AWAKE_SECONDS: Final = 5e-5
"""Workers are taken to be awake for so long after a launch."""

_STEPS: Final = 100_000
"""What a launch counts to that is measured, all threads together: 40 µs or less."""

_CHUNKS: Final = 8
"""Groups for each thread of such a launch."""

_LAUNCHES: Final = 7
_MOST_SECONDS: Final = 5e-4
"""Launches are measured so often, unless they take longer than that."""

_NAPS: Final = 2
_NAP_SECONDS: Final = 2e-4
"""How often, and how long after the last launch, one is measured that has to wake threads."""

_LEAST_SECONDS: Final = 2e-6
"""Launches that seem to cost less were faster than the one that they are compared with, by chance."""

_HELPFUL: Final = 0.9
_BUSY_SECONDS: Final = 1e-4
"""Threads that leave so much of the time are busy with other work; that is what they cost then."""

_TRIALS: Final = 3
_PAUSE_SECONDS: Final = 2e-3
"""How often threads are tried that are busy, and how long after that again."""

_PAIR: Final = 2


@attrs.frozen
class Costs:
    """Seconds that a launch on several threads takes beyond the share of one.

    Attributes:
        pair: On two threads, the second of them awake.
        all: On all threads, all of them awake.
        asleep: On all threads, all others asleep.

    """

    pair: float
    all: float
    asleep: float

    def awake(self, helpers: int, threads: int) -> float:
        """Return what it costs with some of the other threads, all awake."""
        between = (helpers - 1) / (threads - _PAIR) if threads > _PAIR else 0.0
        return self.pair + between * max(0.0, self.all - self.pair) + PYTHON_SECONDS


@attrs.frozen
class Share:
    """How a kernel is shared out.

    Attributes:
        helpers: To how many threads beside the calling one.
        seconds: What it takes on the calling thread alone.
        saved: Seconds that it takes less, if these threads are awake.
        wakes: Whether it pays to wake them.

    """

    helpers: int
    seconds: float
    saved: float
    wakes: bool


def share_of(seconds: float, groups: int, threads: int, measured: Callable[[], Costs]) -> Share | None:
    """Return how to share a kernel out; None where the calling thread alone is as quick, or nearly so.

    Args:
        seconds: What it takes on one thread.
        groups: How many parts it has.
        threads: How many threads there are, the calling one included.
        measured: What sharing costs; asked only if that may matter.

    """
    most = min(groups, threads)
    if most < _PAIR or seconds < NEVER_SECONDS:
        return None
    if seconds >= ALWAYS_SECONDS:
        return Share(most - 1, seconds, seconds, wakes=True)
    costs = measured()

    def saved(helpers: int, cost: float) -> float:
        """Return what is saved if some more than the costs are paid; the thread with most groups decides."""
        parts = -(-groups // (helpers + 1))
        return seconds * (1 - parts / groups) - (1 + MARGIN) * cost

    helpers = max(_counts(most), key=lambda count: saved(count, costs.awake(count, threads)))
    gain = saved(helpers, costs.awake(helpers, threads))
    if gain <= 0:
        return None
    return Share(helpers, seconds, gain, wakes=saved(helpers, costs.asleep + PYTHON_SECONDS) > 0)


def _counts(threads: int) -> Iterable[int]:
    """Yield numbers of helpers: those of 2, 4, 8 and so on threads, and of all."""
    count = 2
    while count < threads:
        yield count - 1
        count *= 2
    yield threads - 1


def measured_costs(
    launch: Callable[[int, bytes, int], object], alone: Callable[[int, bytes], object], threads: int
) -> Costs:
    """Measure launches, in less than a millisecond unless other work is in the way.

    Args:
        launch: It runs groups of a kernel that counts to the number that its arguments are, for each group; on the
            calling thread and so many helpers.
        alone: It does so on the calling thread.
        threads: How many threads there are, the calling one included.

    """
    groups = _CHUNKS * threads
    arguments = pack("q", _STEPS // groups)
    whole = min(_timed(lambda: alone(groups, arguments)) for _ in range(2))
    shared = partial(launch, groups, arguments)
    shared(threads - 1)  # threads that have just been started have to come here first
    everyone = _cost(partial(shared, threads - 1), whole, threads)
    pair = min(everyone, _cost(partial(shared, 1), whole, 2)) if threads > _PAIR else everyone
    naps = []
    for _ in range(_NAPS):
        time.sleep(_NAP_SECONDS)
        naps.append(_timed(partial(shared, threads - 1)))
    return Costs(pair, everyone, max(everyone, min(naps) - whole / threads))


def _cost(launch: Callable[[], object], whole: float, threads: int) -> float:
    """Return what launches take beyond their share of a time: the median, as others' work delays some of them."""
    for trial in range(_TRIALS):
        time.sleep(_PAUSE_SECONDS if trial else 0.0)
        end, times = time.perf_counter() + _MOST_SECONDS, [_timed(launch)]
        while len(times) < _LAUNCHES and time.perf_counter() < end:
            times.append(_timed(launch))
        middle = sorted(times)[len(times) // 2]
        if middle < _HELPFUL * whole:
            return max(_LEAST_SECONDS, middle - whole / threads)
    return _BUSY_SECONDS


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@attrs.define
class Waking:
    """Decides whether launches that do not pay for waking threads wake them nevertheless, as more of them follow.

    Where launches follow each other so fast that threads would have stayed awake in between, what that would have saved
    is added up; as soon as it is more than waking costs, they are woken. So the time of a program is never more than
    about twice what it would be if one had known, and launches far apart wake nobody.
    """

    _saved: float = attrs.field(default=0.0, init=False)
    _until: float = attrs.field(default=0.0, init=False)

    def pays(self, share: Share, asleep: float) -> bool:
        """Return whether to wake threads for a kernel, by what that costs. It may be wrong, where threads race."""
        now = time.perf_counter()
        saved = share.saved + (self._saved if now < self._until else 0.0)
        self._until = now + share.seconds + AWAKE_SECONDS
        self._saved = saved if saved < (1 + MARGIN) * asleep else 0.0
        return saved >= (1 + MARGIN) * asleep
