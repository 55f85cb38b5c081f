"""Walks over the launches of a program, of which some are repeated."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from tileir.core.rewrite import rewritten
from tileir.core.schema import bodies, map_bodies
from tileir.semtree.ir import Launch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tileir.semtree.ir import Program, Work

MAX_REPEATS: Final = 32
"""Repetitions inside one another that are allowed."""


def launches(works: Iterable[Work]) -> Iterator[Launch]:
    """Yield every launch once, in the order of the text."""
    for work in works:
        if isinstance(work, Launch):
            yield work
        else:
            for body in bodies(work):
                yield from launches(body)


def unrolled(works: Iterable[Work]) -> Iterator[Launch]:
    """Yield every launch as often as it runs, in order."""
    for work in works:
        if isinstance(work, Launch):
            yield work
        else:
            for _ in range(work.times):
                yield from unrolled(work.works)


def with_launches(works: tuple[Work, ...], function: Callable[[Launch], Launch]) -> tuple[Work, ...]:
    """Replace every launch; ``works`` itself where none changed."""

    def new(work: Work) -> tuple[Work]:
        return (function(work) if isinstance(work, Launch) else map_bodies(inner, work),)

    inner = partial(with_launches, function=function)
    return rewritten(works, new)


def runs(program: Program) -> tuple[int, ...]:
    """Return how often each kernel of a program is launched."""
    counts = [0] * len(program.kernels)

    def count(works: tuple[Work, ...], times: int) -> None:
        for work in works:
            if isinstance(work, Launch):
                counts[work.kernel] += times
            else:
                count(work.works, times * work.times)

    count(program.works, 1)
    return tuple(counts)
