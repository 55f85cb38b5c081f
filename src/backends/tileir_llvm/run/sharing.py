"""Decision on sharing a kernel among threads: first by predicted, then by measured times."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from struct import pack
from typing import Final

from tileir.core.nodes import attrs

ALWAYS_SECONDS: Final = 1e-3
"""Single-thread time above which kernels always use all threads: nothing is measured for them."""

NEVER_SECONDS: Final = 5e-6
"""Single-thread time below which kernels are never shared: sleeping or just woken threads are slower."""

MARGIN: Final = 1.0
"""Minimum ratio of savings to costs of sharing, as estimates are rough."""

CERTAIN: Final = 8.0
"""Ratio of savings to costs from which kernels are always shared: no estimate is that wrong, and a trial would measure
other load on the machine.
"""

PYTHON_SECONDS: Final = 5e-6
"""Overhead in Python of a launch on several threads, compared to the calling thread only."""

HOPED_SECONDS: Final = 5e-6
"""Savings of free sharing from which kernels are tried both ways."""

FIRST_TRIAL: Final = 4
MOST_LAUNCHES: Final = 1024
"""Launches of a kernel until the other way is tried, and maximum number between two trials."""

_WORTH: Final = 8
"""Ratio of possible savings between trials to the time of a trial, assumed to take twice as long as launches."""

BURST: Final = 8
"""Launches in a trial of several threads: the first wake them, and move data between caches."""

ALONE: Final = 3
"""Launches in a trial of the calling thread, which is awake."""

TIMED: Final = 2
"""Launches on the calling thread that are timed before others are shared."""

_STEPS: Final = 100_000
"""Counting steps of a measured launch, over all threads: at most 40 µs."""

_CHUNKS: Final = 8
"""Groups per thread of a measured launch."""

_LAUNCHES: Final = 7
_MOST_SECONDS: Final = 5e-4
"""Maximum number of measured launches, and limit of their total time."""

_LEAST_SECONDS: Final = 2e-6
"""Lower bound of costs; smaller results are noise of the compared launch."""

_HELPFUL: Final = 0.9
_BUSY_SECONDS: Final = 1e-4
"""Fraction of the time from which helpers count as busy with other work, and the costs assumed until measured again."""

_PAIR: Final = 2


@attrs.frozen
class Costs:
    """Seconds that a launch on several threads takes beyond the share of one.

    Attributes:
        pair: On two threads, with the second awake.
        all: On all threads, all of them awake.
        settled: Whether the measurement was undisturbed by other work.
    """

    pair: float
    all: float
    settled: bool = True

    def of(self, helpers: int, threads: int) -> float:
        """Return the costs of sharing with some of the other threads, without Python."""
        between = (helpers - 1) / (threads - _PAIR) if threads > _PAIR else 0.0
        return self.pair + between * max(0.0, self.all - self.pair)


@attrs.frozen
class Share:
    """Division of a kernel among threads.

    Attributes:
        helpers: Number of threads beside the calling one.
        seconds: Estimated time on the calling thread alone.
        pays: Whether sharing is faster by a margin.
        is_certain: Whether it saves so much that no trial is necessary.
        gain: Saved fraction of its time, less the costs of sharing.
    """

    helpers: int
    seconds: float
    pays: bool
    is_certain: bool = False
    gain: float = 0.0


def share_of(
    seconds: float, groups: int, threads: int, measured: Callable[[], Costs], python: float = PYTHON_SECONDS
) -> Share | None:
    """Return the division of a kernel; None if the calling thread alone is as fast, regardless of costs.

    Args:
        seconds: Time on one thread.
        groups: Number of groups.
        threads: Number of threads, including the calling one.
        measured: Returns the costs of sharing; called only if they matter.
        python: Overhead in Python of a launch on several threads.
    """
    most = min(groups, threads)
    if most < _PAIR or seconds < NEVER_SECONDS:
        return None
    if seconds >= ALWAYS_SECONDS:
        return Share(most - 1, seconds, pays=True, is_certain=True)
    costs = measured()

    def saved(helpers: int, times: float = 1.0) -> float:
        """Return the savings less ``times`` the costs; the thread with most groups is decisive."""
        parts = -(-groups // (helpers + 1))
        return seconds * (1 - parts / groups) - times * (costs.of(helpers, threads) + python)

    helpers = max(_counts(most), key=saved)
    if saved(helpers, 0.0) <= HOPED_SECONDS:
        return None
    is_certain = costs.settled and saved(helpers, CERTAIN) > 0
    return Share(helpers, seconds, saved(helpers, 1 + MARGIN) > 0, is_certain, saved(helpers) / seconds)


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
    """Measure costs of launches, in a millisecond or two.

    If other work delays most of them, the minimum counts, if it was fast enough for a launch on all threads.

    Args:
        launch: Runs groups of a kernel that counts to its argument in each group; on the calling thread and a number of
            helpers.
        alone: Runs them on the calling thread.
        threads: Number of threads, including the calling one.
    """
    groups = _CHUNKS * threads
    arguments = pack("q", _STEPS // groups)
    whole = min(_timed(lambda: alone(groups, arguments)) for _ in range(4))
    shared = partial(launch, groups, arguments)
    shared(threads - 1)  # new threads have to get here first
    everyone, settled = _cost(partial(shared, threads - 1), whole, threads)
    if threads == _PAIR:
        return Costs(everyone, everyone, settled)
    pair, pair_settled = _cost(partial(shared, 1), whole, 2)
    return Costs(min(everyone, pair), everyone, settled and pair_settled)


def _cost(launch: Callable[[], object], whole: float, threads: int) -> tuple[float, bool]:
    """Return the time of launches beyond their share of a time, and whether most of them agree."""
    end, times = time.perf_counter() + _MOST_SECONDS, [_timed(launch)]
    while len(times) < _LAUNCHES and time.perf_counter() < end:
        times.append(_timed(launch))
    middle, least = sorted(times)[len(times) // 2], min(times)
    settled = middle < _HELPFUL * whole
    if least >= _HELPFUL * whole:
        return _BUSY_SECONDS, False
    return max(_LEAST_SECONDS, (middle if settled else least) - whole / threads), settled


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@attrs.define(eq=False, repr=False)
class Preference:
    """Currently faster way of running a kernel, alone or shared with helpers, and when to try the other.

    Both are timed as they occur, including waking of threads between distant launches and other load, but without the
    first launch, which warms caches. The single-thread time decides again on the number of helpers and whether it is
    certain, so that trials end. Trials become rarer, the less there is to save, and come soon after a change, which may
    have been transient. Concurrent calls may race for it, which at worst moves a trial.
    """

    shared: bool
    helpers: int
    _again: Callable[[float], Share | None]
    gain: float = 0.0
    python: float = PYTHON_SECONDS
    _seconds: dict[bool, float] = attrs.field(factory=dict, init=False)
    _launches: int = attrs.field(default=0, init=False)
    _next: int = attrs.field(init=False)
    _gap: int = attrs.field(default=2 * BURST, init=False)
    _left: int = attrs.field(default=0, init=False)
    _certain: bool = attrs.field(default=False, init=False)

    @_next.default
    def _first_trial(self) -> int:
        return BURST if self.shared else FIRST_TRIAL

    def shares(self) -> bool:
        """Return whether to share the next launch."""
        self._launches += 1
        if self._certain:
            return True
        if self._launches >= self._next:
            self._gap = min(2 * self._gap, self._most_launches())
            self._next = self._launches + self._gap
            self._left = ALONE if self.shared else BURST + TIMED
        if self._left == 0:
            return self.shared
        if self._left == (ALONE if self.shared else BURST) and self._estimate():
            return True
        self._left -= 1
        return not self.shared and self._left < BURST

    def _estimate(self) -> bool:
        """Decide by the single-thread time, if known; return whether sharing is now certain to be better."""
        alone = self._seconds.get(False)
        share = None if alone is None else self._again(alone)
        if share is not None:
            self.helpers, self.gain, self._certain = share.helpers, share.gain, share.is_certain
        if self._certain:
            self.shared, self._left = True, 0
        return self._certain

    def _most_launches(self) -> int:
        """Return the maximum number of launches between two trials: few if they may save much."""
        return MOST_LAUNCHES if self.gain <= 0 else min(MOST_LAUNCHES, int(_WORTH * BURST / self.gain))

    def passes(self) -> bool:
        """Return whether the next launch is on the calling thread, untimed."""
        if self.shared or self._left or self._launches + 1 >= self._next:
            return False
        self._launches += 1
        return True

    def rests(self) -> int:
        """Return the number of following launches that go the same way, untimed."""
        if self._certain:
            return MOST_LAUNCHES
        return 0 if self._left else max(0, self._next - self._launches - 1 - BURST)

    def rest(self, launches: int) -> None:
        """Count launches that went the same way."""
        self._launches += launches

    def note(self, seconds: float, *, shared: bool) -> None:
        """Record the time of a launch: decreases at once, increases gradually, as other work may have interfered."""
        if self._certain or self._launches == 1:
            return
        known = self._seconds.get(shared, seconds)
        self._seconds[shared] = min(seconds, known + (min(seconds, 2 * known) - known) / 8)
        if self._left or len(self._seconds) < _PAIR:
            return
        before, self.shared = self.shared, self._seconds[True] + self.python < self._seconds[False]
        if self.shared is not before:
            self._gap = 2 * BURST
            self._next = min(self._next, self._launches + self._gap)
