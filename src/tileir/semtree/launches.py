"""Walks over the launches of a program, of which some are repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.rewrite import rewritten
from tileir.semtree.ir import Launch, Repeat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tileir.semtree.ir import Program, Work

MAX_REPEATS: Final = 32
"""Repetitions inside one another that are allowed."""


def launches(works: Iterable[Work]) -> Iterator[Launch]:
    """Yield every launch once, in the order of the text."""
    for work in works:
        if isinstance(work, Repeat):
            yield from launches(work.launches)
        else:
            yield work


def unrolled(works: Iterable[Work]) -> Iterator[Launch]:
    """Yield every launch as often as it runs, in order."""
    for work in works:
        if isinstance(work, Repeat):
            for _ in range(work.count):
                yield from unrolled(work.launches)
        else:
            yield work


def with_launches(works: tuple[Work, ...], function: Callable[[Launch], Launch]) -> tuple[Work, ...]:
    """Replace every launch; ``works`` itself where none changed."""

    def new(work: Work) -> tuple[Work]:
        if not isinstance(work, Repeat):
            return (function(work),)
        inner = with_launches(work.launches, function)
        return (work if inner is work.launches else attrs.evolve(work, launches=inner),)

    return rewritten(works, new)


def runs(program: Program) -> tuple[int, ...]:
    """Return how often each kernel of a program is launched."""
    counts = [0] * len(program.kernels)

    def count(works: tuple[Work, ...], times: int) -> None:
        for work in works:
            if isinstance(work, Repeat):
                count(work.launches, times * work.count)
            else:
                counts[work.kernel] += times

    count(program.launches, 1)
    return tuple(counts)
