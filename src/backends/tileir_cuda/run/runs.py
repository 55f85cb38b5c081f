"""The works of a program as runs: launches that follow each other, of which a graph is made, and how often each runs.

A loop of any number of steps is a graph of some steps, which is launched again and again: the driver needs as long to
make a graph, and to change it, as it has launches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from tileir.core.nodes import attrs
from tileir.runtime.interface import Choice, Repetition

Launched: TypeAlias = tuple[Any, Sequence[Any]]
"""A kernel and its arguments: buffers, or numbers of arrays that come later."""

Work: TypeAlias = Launched | Repetition | Choice
"""A launch, or a loop with a count: programs with conditions are not handed over as a whole."""

MOST: Final = 4096
"""Launches of a graph at most."""

REPEATED: Final = 512
"""Launches of a graph of steps at most: on the card they take a hundred times as long as the next graph to begin."""


@attrs.frozen(eq=False)
class Runs:
    """Sequence of launches, run one after the other.

    Attributes:
        bodies: Launches that follow each other.
        order: Numbers of bodies, and how often each runs before the next one does.

    """

    bodies: list[list[Launched]] = attrs.field(factory=list, init=False)
    order: list[tuple[int, int]] = attrs.field(factory=list, init=False)
    _pending: list[Launched] = attrs.field(factory=list, init=False, repr=False)

    @classmethod
    def of(cls, works: Iterable[Work]) -> Runs:
        """Return the runs of works, whose loops have counts."""
        runs = cls()
        runs._add(works)
        runs._flush()
        return runs

    def _add(self, works: Iterable[Work]) -> None:
        for work in works:
            if isinstance(work, Repetition):
                self._repeat(work)
            else:
                self._pending.append(_launch(work))
            if len(self._pending) >= MOST:
                self._flush()

    def _flush(self) -> None:
        """Make a run of the launches that are pending."""
        if self._pending:
            self._run(self._pending, 1)
            self._pending.clear()

    def _run(self, body: Sequence[Launched], times: int) -> None:
        self.order.append((len(self.bodies), times))
        self.bodies.append([*body])

    def _repeat(self, loop: Repetition) -> None:
        times, length = _times(loop), _length(loop.works)
        if times * length <= REPEATED:
            self._pending.extend(_unrolled((loop,)))
            return
        self._flush()
        if length > REPEATED:
            first = len(self.order)
            self._add(loop.works)
            self._flush()
            self.order.extend(self.order[first:] * (times - 1))
            return
        step = [*_unrolled(loop.works)]
        turns, rest = divmod(times, REPEATED // length)
        self._run(step * (REPEATED // length), turns)
        self._pending.extend(step * rest)


def _times(loop: Repetition) -> int:
    assert isinstance(loop.times, int)  # others go by conditions
    return loop.times


def _launch(work: Launched | Choice) -> Launched:
    assert isinstance(work, tuple)  # others go by conditions
    return work


def _length(works: Iterable[Work]) -> int:
    """Return how many launches works are."""
    lengths = (_times(work) * _length(work.works) if isinstance(work, Repetition) else 1 for work in works)
    return sum(lengths)


def _unrolled(works: Iterable[Work]) -> Iterator[Launched]:
    for work in works:
        if isinstance(work, Repetition):
            for _ in range(_times(work)):
                yield from _unrolled(work.works)
        else:
            yield _launch(work)
