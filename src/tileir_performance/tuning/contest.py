"""Pipelines of one program against each other on a device: compiled, checked, and timed in turn."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tileir.core import BackendError, DType, attrs
from tileir.driver.executable import Executable, compile_for
from tileir.runtime.offers import is_asynchronous
from tileir_performance.tuning.measurement import kernel_seconds, random_inputs

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.driver.compilation import Request
    from tileir.passes.base import Pass
    from tileir.runtime.context import Context
    from tileir.runtime.interface import DeviceInfo

    Array = np.ndarray[Any, np.dtype[Any]]
    Passes = tuple[Pass, ...]

TRIAL_SECONDS: Final = 0.1
"""How long a pipeline is timed when it enters."""

WARM_SECONDS: Final = 0.01
"""How long a pipeline runs before it is timed."""

HOPELESS: Final = 3.0
"""How many times longer than the fastest so far a pipeline takes that is timed no more once it is warm."""

MOST_RUNS: Final = 500
ROUNDS: Final = 25

ROUND_SECONDS: Final = 0.03
"""How long a pipeline is timed in each round at least, but for long calls."""

ROUNDINGS: Final = 1000.0
"""How many roundings results may be apart, in parts of the largest: other schedules add in other orders."""

NARROW_ROUNDINGS: Final = 16.0
"""The same where sums are kept in a wider type than that of the results."""


@attrs.define(eq=False)
class Entrant:
    """A pipeline with its time so far; it is compiled when it is timed."""

    passes: Passes
    seconds: float
    executable: Executable | None = None


@attrs.define(eq=False)
class Contest:
    """Pipelines for one program on one device, and the arrays that they all run on."""

    request: Request
    context: Context
    device: DeviceInfo
    inputs: dict[str, Array]
    outputs: list[Array]
    expected: list[Array]
    entrants: list[Entrant] = attrs.field(factory=list)

    @classmethod
    def of(cls, request: Request, context: Context, device: DeviceInfo) -> Contest:
        """Return a contest whose reference is the result of the request's default pipeline.

        Raises:
            BackendError: The device refused that.
        """
        inputs = random_inputs(request.types)
        executable = compile_for(request.program, request.types, context, device, passes=request.pipeline)
        results = executable(*inputs.values())
        expected = list(results) if isinstance(results, tuple) else [results]
        return cls(request, context, device, inputs, [np.empty_like(each) for each in expected], expected)

    @property
    def usual(self) -> Entrant:
        """The pipeline of the request."""
        found = next((each for each in self.entrants if each.passes == self.request.pipeline), None)
        if found is None:
            self.enter(self.request.pipeline)
            found = self.entrants[-1]
        return found

    def enter(self, passes: Passes, share: float = 1.0) -> float:
        """Compile and time a pipeline, for a share of the usual time, and return its time.

        Raises:
            TileError: It cannot be compiled or run; TIL808, it computes something else.
        """
        entrant = Entrant(passes, 0.0, self._compiled(passes))
        entrant.seconds = self._time(entrant, share * TRIAL_SECONDS)
        if passes != self.request.pipeline:
            self._check()
        entrant.executable = None  # many may enter, and code takes memory
        self.entrants.append(entrant)
        return entrant.seconds

    def expect(self, passes: Passes, seconds: float) -> None:
        """Let a pipeline take part that was timed before."""
        self.entrants.append(Entrant(passes, seconds))

    def finals(self, count: int, seconds: float) -> dict[Passes, float]:
        """Return the times of all: new medians for the best few and the usual one, infinity for the others."""
        usual = self.usual
        others = sorted((each for each in self.entrants if each is not usual), key=lambda each: each.seconds)
        best = [usual, *others[:count]]
        for entrant in best:
            entrant.executable = entrant.executable or self._compiled(entrant.passes)
        stop = time.monotonic() + seconds
        times: dict[Passes, list[float]] = {entrant.passes: [] for entrant in best}
        for number in range(ROUNDS):
            if number >= 3 and time.monotonic() > stop:
                break
            for entrant in best:
                times[entrant.passes].append(self._time(entrant, ROUND_SECONDS))
        found = {entrant.passes: float("inf") for entrant in self.entrants}
        found.update((passes, statistics.median(each)) for passes, each in times.items())
        return found

    def _compiled(self, passes: Passes) -> Executable:
        return compile_for(self.request.program, self.request.types, self.context, self.device, passes=passes)

    def _time(self, entrant: Entrant, seconds: float) -> float:
        """Return the median time of some runs, of three at least, or the least of the first where that is hopeless.

        The first calls of a small kernel take several times as long as those behind them.
        """
        if self._is_asynchronous():
            request = attrs.evolve(self.request, passes=entrant.passes)
            self._run(entrant)
            return sum(kernel_seconds(request, self.context, self.device))
        first = [self._run(entrant), self._run(entrant)]
        while sum(first) < WARM_SECONDS and len(first) < MOST_RUNS:  # caches fill, threads and clocks wake up
            first.append(self._run(entrant))
        once = min(first)
        if once > HOPELESS * min((each.seconds for each in self.entrants), default=once):
            return once
        runs = max(3, min(MOST_RUNS, int(seconds / max(once, 1e-9))))
        return statistics.median(self._run(entrant) for _ in range(runs))

    @property
    def _clock(self) -> Callable[[], float]:
        """Processor time where one thread does everything, so that nothing else on the machine counts."""
        return time.process_time if self.device.target.threads == 1 else time.perf_counter

    def _is_asynchronous(self) -> bool:
        """Return whether calls copy to a device and back, so that its own clock must time the kernels alone."""
        return is_asynchronous(self.context.executor(self.device))

    def _run(self, entrant: Entrant) -> float:
        assert entrant.executable is not None
        out = self.outputs[0] if len(self.outputs) == 1 else self.outputs  # one array takes the fast way of a call
        clock = self._clock
        start = clock()
        entrant.executable(*self.inputs.values(), out=out)
        return clock() - start

    def _check(self) -> None:
        """Raise unless the latest results are those that were expected."""
        for actual, expected in zip(self.outputs, self.expected, strict=True):
            if not _agree(actual, expected):
                message = "this pipeline computes something else than the usual one; please report that"
                raise BackendError.of("TIL808", message)


def _agree(actual: Array, expected: Array) -> bool:
    dtype = DType.of(expected.dtype)
    if dtype is None or not dtype.is_float:
        return bool(np.array_equal(actual, expected))
    one, other = actual.astype(np.float64), expected.astype(np.float64)
    same = np.isfinite(one) == np.isfinite(other)
    finite = np.isfinite(one) & np.isfinite(other)
    if not same.all():
        return False
    largest = np.abs(other[finite]).max(initial=0.0)
    tolerance = (NARROW_ROUNDINGS if dtype.is_narrow else ROUNDINGS) * dtype.format.epsilon
    return bool(np.abs(one[finite] - other[finite]).max(initial=0.0) <= tolerance * max(largest, 1e-30))
