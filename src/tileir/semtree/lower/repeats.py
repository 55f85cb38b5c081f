"""Loops of a Stripe program to launches that are repeated.

What a step makes for the next one is not copied: two steps take turns, and the second one reads where the first one
writes and writes where it reads. So a loop repeats two steps, after a single one where their number is odd.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Protocol

from tileir.core import NameScope, Op, attrs
from tileir.semtree import ir as sem
from tileir.semtree.launches import used_buffers, with_buffers
from tileir.semtree.rewrite import kernel_names, renamed
from tileir.stripe import ir as stripe


class Lowering(Protocol):
    """Parts of a program that a loop in it needs when it is lowered."""

    program: stripe.Program
    buffers: dict[str, sem.Buffer]
    kernels: list[sem.KernelFunction]
    unaligned: set[str]
    local: dict[int, frozenset[str]]

    def works(self, works: Iterable[stripe.Work], fresh: Container[str]) -> tuple[sem.Work, ...]:
        """Return what becomes of works; ``fresh`` is memory that holds nothing before them."""

    def copy(self, source: str, target: str) -> sem.Launch:
        """Return what copies one buffer to another."""


def lower_loop(lowering: Lowering, loop: stripe.Loop, before: list[sem.Work], fresh: Container[str]) -> list[sem.Work]:
    """Return the works before a loop followed by those of the loop.

    Where the number of steps is odd, the first values go to the other one of each two buffers that take turns: then
    the last values are where others expect them. That cannot be where first values are made somewhere else than in
    front of the loop; they are copied in the end then.

    Args:
        lowering: The program.
        loop: The loop.
        before: The works in front of the loop, in the same list.
        fresh: Memory that holds nothing before these.

    """
    turns: dict[str, str] = {}
    for carry in loop.carries:
        turns |= {carry.made: carry.kept, carry.kept: carry.made}
        if lowering.buffers[carry.kept].role is not sem.BufferRole.TEMPORARY or carry.kept in lowering.unaligned:
            lowering.unaligned.add(carry.made)
    step = lowering.works(loop.works, lowering.local.get(id(loop), frozenset()))
    copies = tuple(lowering.copy(carry.made, carry.kept) for carry in loop.carries) if step else ()
    if isinstance(loop.times, stripe.While):
        return [*before, sem.Loop(sem.While(loop.times.memory), (*step, *copies))]
    if not step:
        return [*before, *copies]
    last = loop.works[-1]
    if isinstance(last, stripe.Launch) and stripe.ADVANCE in lowering.program.kernels[last.kernel].block.tags:
        step = _joined(lowering.kernels, step)
    if not turns:
        return [*before, sem.Loop(loop.times, step)]
    other = with_buffers(step, turns)
    repeated = [sem.Loop(loop.times // 2, (*step, *other))] if loop.times > 1 else []
    if loop.times % 2 == 0:
        return [*before, *repeated]
    if all(carry.kept in fresh and _first_written(lowering, before, carry.kept) for carry in loop.carries):
        return [*with_buffers(tuple(before), turns), *other, *repeated]
    return [*before, *repeated, *step, *copies]


def _first_written(lowering: Lowering, works: Iterable[sem.Work], buffer: str) -> bool:
    """Return whether a launch that only writes a buffer comes before all else that uses it."""
    for work in works:
        if isinstance(work, sem.Launch):
            if buffer in work.arguments:
                param = lowering.kernels[work.kernel].params[work.arguments.index(buffer)]
                return param.access is sem.ParamAccess.WRITE
        elif buffer in used_buffers((work,)):
            return False
    return False


def _joined(kernels: list[sem.KernelFunction], step: tuple[sem.Work, ...]) -> tuple[sem.Work, ...]:
    """Return a step whose last kernel, which counts the steps, is part of another one that reads the step.

    The first thread of that kernel counts: a launch less where launches are what a step costs.
    """
    *others, advance = step
    if not isinstance(advance, sem.Launch):
        return step
    counting = kernels[advance.kernel]
    if [param.access for param in counting.params] != [sem.ParamAccess.WRITE, sem.ParamAccess.READ]:
        return step
    new, now = advance.arguments
    for place, work in reversed(list(enumerate(others))):
        if isinstance(work, sem.Launch) and now in work.arguments:
            host = kernels[work.kernel]
            reads = host.params[work.arguments.index(now)].access is sem.ParamAccess.READ
            if reads and host.index is counting.index:
                kernels.append(_counting(host, counting, host.params[work.arguments.index(now)].name))
                others[place] = sem.Launch(len(kernels) - 1, (*work.arguments, new))
                return tuple(others)
    return step


def _counting(host: sem.KernelFunction, counting: sem.KernelFunction, step: str) -> sem.KernelFunction:
    """Return ``host``, whose first thread also does what ``counting`` does, with a further parameter for the result."""
    scope = NameScope.of(kernel_names(host))
    names = {name: scope.fresh(name) for name in dict.fromkeys(kernel_names(counting))}
    names[counting.params[1].name] = step
    body = renamed(counting.body, names)
    index = sem.Type(host.index)
    for level, extents in ((sem.GridLevel.GROUP, host.grid), (sem.GridLevel.LOCAL, host.group)):
        for axis, extent in enumerate(extents):
            if extent > 1:
                first = sem.Apply(Op.CMP_EQ, (sem.GridIndex(level, axis, index), sem.Const(0, index)))
                body = (sem.If(first, body),)
    param = attrs.evolve(counting.params[0], name=names[counting.params[0].name])
    return attrs.evolve(host, params=(*host.params, param), body=(*host.body, *body))
