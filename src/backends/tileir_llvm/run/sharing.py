"""Decision whether to share a kernel out to threads: by predicted times first, then by measured ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from struct import pack
from typing import Final

from tileir.core.nodes import attrs

ALWAYS_SECONDS: Final = 1e-3
"""Kernels that take longer alone are shared out to all threads, whatever that costs: nothing is measured for them."""

NEVER_SECONDS: Final = 5e-6
"""Kernels that take less alone are never shared out: no thread that sleeps, or just woke up, is as quick."""

MARGIN: Final = 1.0
"""What sharing out saves must be more than so many times what it costs: estimates, and halves of threads, are rough."""

CERTAIN: Final = 8.0
"""Kernels that save so many times what sharing costs are always shared: no estimate is that wrong, and a trial would
tell what else runs on the machine just now."""

PYTHON_SECONDS: Final = 5e-6
"""What a launch on several threads takes in Python, which one on the calling thread does without."""

HOPED_SECONDS: Final = 5e-6
"""Kernels for which sharing would save more than that, if it cost nothing, are tried both ways."""

FIRST_TRIAL: Final = 4
MOST_LAUNCHES: Final = 1024
"""After how many launches of a kernel the other way is tried, and how many lie between two trials in the end."""

_WORTH: Final = 8
"""Trials come so often that what they may save is so many times what they take, if they take twice as long."""

BURST: Final = 8
"""Launches in a trial of several threads: the first wake them, and bring data from one cache to those of others."""

ALONE: Final = 3
"""Launches in a trial of the calling thread, which is awake."""

TIMED: Final = 2
"""Launches on the calling thread that are timed before others are shared."""

_STEPS: Final = 100_000
"""What a launch counts to that is measured, all threads together: 40 µs or less."""

_CHUNKS: Final = 8
"""Groups for each thread of such a launch."""

_LAUNCHES: Final = 7
_MOST_SECONDS: Final = 5e-4
"""Launches are measured so often, unless they take longer than that."""

_LEAST_SECONDS: Final = 2e-6
"""Launches that seem to cost less were faster than the one that they are compared with, by chance."""

_HELPFUL: Final = 0.9
_BUSY_SECONDS: Final = 1e-4
"""Threads that leave so much of the time are busy with other work; that is what they cost until measured again."""

_PAIR: Final = 2


@attrs.frozen
class Costs:
    """Seconds that a launch on several threads takes beyond the share of one.

    Attributes:
        pair: On two threads, the second of them awake.
        all: On all threads, all of them awake.
        settled: Whether that holds; not where other work was in the way.

    """

    pair: float
    all: float
    settled: bool = True

    def of(self, helpers: int, threads: int) -> float:
        """Return what it costs to share with some of the other threads, without Python."""
        between = (helpers - 1) / (threads - _PAIR) if threads > _PAIR else 0.0
        return self.pair + between * max(0.0, self.all - self.pair)


@attrs.frozen
class Share:
    """Division of a kernel among threads.

    Attributes:
        helpers: To how many threads beside the calling one.
        seconds: What it should take on the calling thread alone.
        pays: Whether that is more than with these threads, by a margin.
        is_certain: Whether it saves so much that nobody has to try.
        gain: Which part of its time it saves, less what sharing costs.

    """

    helpers: int
    seconds: float
    pays: bool
    is_certain: bool = False
    gain: float = 0.0


def share_of(
    seconds: float, groups: int, threads: int, measured: Callable[[], Costs], python: float = PYTHON_SECONDS
) -> Share | None:
    """Return how to share a kernel out; None where the calling thread alone is as quick, whatever that costs.

    Args:
        seconds: What it takes on one thread.
        groups: How many parts it has.
        threads: How many threads there are, the calling one included.
        measured: What sharing costs; asked only if that may matter.
        python: What a launch on several threads takes in Python.

    """
    most = min(groups, threads)
    if most < _PAIR or seconds < NEVER_SECONDS:
        return None
    if seconds >= ALWAYS_SECONDS:
        return Share(most - 1, seconds, pays=True, is_certain=True)
    costs = measured()

    def saved(helpers: int, times: float = 1.0) -> float:
        """Return what is saved, less so many times the costs; the thread with most groups decides."""
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
    """Measure launches, in a millisecond or two.

    Where other work delays most of them, the least counts, if it was quick enough for a launch that had all threads.

    Args:
        launch: It runs groups of a kernel that counts to the number that its arguments are, for each group; on the
            calling thread and so many helpers.
        alone: It does so on the calling thread.
        threads: How many threads there are, the calling one included.

    """
    groups = _CHUNKS * threads
    arguments = pack("q", _STEPS // groups)
    whole = min(_timed(lambda: alone(groups, arguments)) for _ in range(4))
    shared = partial(launch, groups, arguments)
    shared(threads - 1)  # threads that have just been started have to come here first
    everyone, settled = _cost(partial(shared, threads - 1), whole, threads)
    if threads == _PAIR:
        return Costs(everyone, everyone, settled)
    pair, pair_settled = _cost(partial(shared, 1), whole, 2)
    return Costs(min(everyone, pair), everyone, settled and pair_settled)


def _cost(launch: Callable[[], object], whole: float, threads: int) -> tuple[float, bool]:
    """Return what launches take beyond their share of a time, and whether most of them do."""
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
    """The faster way of running a kernel so far, alone or shared by so many helpers, and when to try the other one.

    Both are timed as they come, with what it takes to wake threads where launches are far apart, and what others' work
    takes, but not for the first launch, which brings code and data to caches. By what it took alone is decided again
    how many threads share it, and whether that is certain, so that trials end. Trials become rare, the rarer the less
    there is to save, and come soon after a change of the way: what brought it about may be over by then. Calls of
    several threads may race for it, which at worst moves a trial.
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
        """Decide by what it takes alone, if that is known; return whether it is certain now to be better shared."""
        alone = self._seconds.get(False)
        share = None if alone is None else self._again(alone)
        if share is not None:
            self.helpers, self.gain, self._certain = share.helpers, share.gain, share.is_certain
        if self._certain:
            self.shared, self._left = True, 0
        return self._certain

    def _most_launches(self) -> int:
        """Return how many launches lie between two trials in the end: few where they may save much."""
        return MOST_LAUNCHES if self.gain <= 0 else min(MOST_LAUNCHES, int(_WORTH * BURST / self.gain))

    def passes(self) -> bool:
        """Return whether the next launch is on the calling thread, and nobody needs to know how long it takes."""
        if self.shared or self._left or self._launches + 1 >= self._next:
            return False
        self._launches += 1
        return True

    def rests(self) -> int:
        """Return how many launches from now on go the same way, and nobody needs to know how long they take."""
        if self._certain:
            return MOST_LAUNCHES
        return 0 if self._left else max(0, self._next - self._launches - 1 - BURST)

    def rest(self, launches: int) -> None:
        """Count so many launches, which went the same way."""
        self._launches += launches

    def note(self, seconds: float, *, shared: bool) -> None:
        """Note what a launch took: less at once, more little by little, as other work may have been in the way."""
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
