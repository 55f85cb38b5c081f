"""Loops of a Stripe program to launches that are repeated.

What a step makes for the next one is not copied: two steps take turns, and the second one reads where the first one
writes and writes where it reads. So a loop repeats two steps, after a single one where their number is odd.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol

import attrs

from tileir.core.names import NameScope
from tileir.core.ops import Op
from tileir.semtree import ir as sem
from tileir.semtree.launches import launches, with_launches
from tileir.semtree.rewrite import kernel_names, renamed
from tileir.stripe import ir as stripe
from tileir.stripe.tags import ADVANCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Lowering(Protocol):
    """What a loop needs of the program that it is lowered for."""

    buffers: dict[str, sem.Buffer]
    kernels: list[sem.KernelFunction]
    unaligned: set[str]

    def works(self, block: stripe.Block, sources: Mapping[str, str]) -> tuple[sem.Work, ...]:
        """Return what launches the kernels of a block."""
        ...


def lower_loop(
    lowering: Lowering, loop: stripe.Block, sources: Mapping[str, str], before: list[sem.Work]
) -> list[sem.Work]:
    """Return the launches before a loop followed by those of the loop.

    Where the number of steps is odd, the first values go to the other one of each two buffers that take turns: then
    the last values are where others expect them. Nothing but the loop uses these buffers in between.

    Args:
        lowering: The program.
        loop: As :mod:`tileir.stripe.lower_scan` makes it.
        sources: The buffer of each view around the loop.
        before: The launches in front of the loop, in the same block.

    """
    body, *copies = loop.statements
    assert isinstance(body, stripe.Block)  # the verifier's rule
    own = _allocated(lowering, loop.refinements)
    local = {r.name: own.get(r.name) or sources[r.source] for r in loop.refinements}
    turns: dict[str, str] = {}
    for copy in copies:
        assert isinstance(copy, stripe.Special)  # the verifier's rule
        made, read = local[copy.inputs[0]], local[copy.outputs[0]]
        turns |= {made: read, read: made}
        if lowering.buffers[read].role is not sem.BufferRole.TEMPORARY or read in lowering.unaligned:
            lowering.unaligned.add(made)
    inner = _allocated(lowering, body.refinements)
    step = lowering.works(body, {r.name: inner.get(r.name) or local[r.source] for r in body.refinements})
    if not step:
        return before
    last = body.statements[-1]
    if isinstance(last, stripe.Block) and ADVANCE in last.tags:
        step = _joined(lowering.kernels, step)
    count = loop.indices[0].range
    if not turns:
        return [*before, sem.Loop(count, step)]
    other = _exchanged(step, turns)
    if count % 2:
        before = [*_exchanged(tuple(before), turns), *other]
    return before if count == 1 else [*before, sem.Loop(count // 2, (*step, *other))]


def _exchanged(works: tuple[sem.Work, ...], turns: Mapping[str, str]) -> tuple[sem.Work, ...]:
    def exchanged(launch: sem.Launch) -> sem.Launch:
        return attrs.evolve(launch, arguments=tuple(turns.get(name, name) for name in launch.arguments))

    return with_launches(works, exchanged)


def _joined(kernels: list[sem.KernelFunction], step: tuple[sem.Work, ...]) -> tuple[sem.Work, ...]:
    """Return a step whose last kernel, which counts the steps, is part of another one that reads the step.

    The first thread of that kernel counts: a launch less where launches are what a step costs.
    """
    *others, advance = step
    if not isinstance(advance, sem.Launch) or advance.kernel != len(kernels) - 1:
        return step
    counting = kernels[advance.kernel]
    if [param.access for param in counting.params] != [sem.ParamAccess.WRITE, sem.ParamAccess.READ]:
        return step
    new, now = advance.arguments
    times = Counter(launch.kernel for launch in launches(others))
    for place, work in reversed(list(enumerate(others))):
        if isinstance(work, sem.Launch) and now in work.arguments and times[work.kernel] == 1:
            host = kernels[work.kernel]
            reads = host.params[work.arguments.index(now)].access is sem.ParamAccess.READ
            if reads and host.index is counting.index:
                kernels[work.kernel] = _counting(host, counting, host.params[work.arguments.index(now)].name)
                kernels.pop()
                others[place] = sem.Launch(work.kernel, (*work.arguments, new))
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


def _allocated(lowering: Lowering, refinements: Iterable[stripe.Refinement]) -> dict[str, str]:
    """Add buffers for what a block allocates, and return their names."""
    names = NameScope.of(lowering.buffers)
    found: dict[str, str] = {}
    for refinement in refinements:
        if refinement.direction is stripe.Direction.NONE:
            shape, name = refinement.shape, names.fresh(refinement.name)
            lowering.buffers[name] = sem.Buffer(name, shape.dtype, shape.sizes, sem.BufferRole.TEMPORARY)
            found[refinement.name] = name
    return found
