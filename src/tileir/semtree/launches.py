"""Walks over the works of a program: launches, loops over works and branches between works."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, TypeVar, assert_never

from tileir.core import checkpoint, rewritten, schema
from tileir.semtree.ir import Branch, Launch, Loop, ParamAccess, Program, Work

B = TypeVar("B")

MAX_NESTED_WORKS: Final = 32
"""Maximum nesting of loops and branches."""


def every(works: Iterable[Work]) -> Iterator[Work]:
    """Yield works at all depths, in the order of the text; nesting is bounded, so recursion is."""
    for work in works:
        yield work
        for body in schema.bodies(work):
            yield from every(body)


def launches(works: Iterable[Work]) -> Iterator[Launch]:
    """Yield every launch once, in the order of the text."""
    return (work for work in every(works) if isinstance(work, Launch))


def used_buffers(works: Iterable[Work]) -> Iterator[str]:
    """Yield the buffers that works use, as arguments and as conditions, once per use."""
    return (name for work in every(works) for name in schema.used(work))


def accesses(program: Program, works: Iterable[Work]) -> Iterator[tuple[str, ParamAccess]]:
    """Yield the buffers that works use, once per use, with the access; conditions are read."""
    for work in every(works):
        if isinstance(work, Launch):
            for param, name in zip(program.kernels[work.kernel].params, work.arguments, strict=True):
                yield name, param.access
        else:
            yield from ((name, ParamAccess.READ) for name in schema.used(work))


def has_conditions(works: Iterable[Work]) -> bool:
    """Return whether control flow depends on the content of buffers."""
    return any(schema.used(work) for work in every(works) if not isinstance(work, Launch))


def executed(works: Iterable[Work], holds: Callable[[str], bool]) -> Iterator[Launch]:
    """Yield the launches of a run, in order; the caller completes each before it takes the next.

    Args:
        works: The works to run.
        holds: Returns the only element of a buffer.

    Raises:
        CancelledError: The run was cancelled.
    """
    for work in works:
        match work:
            case Launch():
                yield work
            case Loop(times=times, works=inner):
                for _ in counted_turns(times) if isinstance(times, int) else turns_while(times.buffer, holds):
                    yield from executed(inner, holds)
            case Branch(condition=condition, then=then, otherwise=otherwise):
                yield from executed(then if holds(condition) else otherwise, holds)
            case _:
                assert_never(work)


def counted_turns(times: int) -> Iterator[None]:
    """Yield before each iteration of a loop with a count.

    Raises:
        CancelledError: The run was cancelled.
    """
    for _ in range(times):
        checkpoint()
        yield


def turns_while(condition: B, holds: Callable[[B], bool]) -> Iterator[None]:
    """Yield before each iteration of a loop on a condition.

    Raises:
        CancelledError: The run was cancelled.
    """
    while holds(condition):
        checkpoint()
        yield


def with_launches(works: tuple[Work, ...], function: Callable[[Launch], Launch]) -> tuple[Work, ...]:
    """Replace every launch; ``works`` itself if none changed."""

    def new(work: Work) -> tuple[Work]:
        return (function(work) if isinstance(work, Launch) else schema.map_bodies(inner, work),)

    inner = partial(with_launches, function=function)
    return rewritten(works, new)


def with_buffers(works: tuple[Work, ...], names: Mapping[str, str]) -> tuple[Work, ...]:
    """Rename buffers, including those of conditions; ``works`` itself if none changed."""
    inner = partial(with_buffers, names=names)
    return rewritten(works, lambda work: (schema.map_bodies(inner, schema.with_names(work, names)),))


def runs(program: Program) -> tuple[int, ...]:
    """Return the number of launches of each kernel if loops on conditions run once and branches take both sides."""
    counts = [0] * len(program.kernels)

    def count(works: tuple[Work, ...], times: int) -> None:
        for work in works:
            if isinstance(work, Launch):
                counts[work.kernel] += times
                continue
            counted = work.times if isinstance(work, Loop) and isinstance(work.times, int) else 1
            for body in schema.bodies(work):
                count(body, times * counted)

    count(program.works, 1)
    return tuple(counts)
