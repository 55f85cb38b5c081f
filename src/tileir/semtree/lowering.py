"""Stripe programs to kernels: one kernel for each block of ``main``.

The program must have been scheduled: aggregation scopes made explicit by the pass ``accumulate``, and
indices tagged ``grid``, ``thread``, ``unroll`` and ``vector`` where they are to become grid axes, threads of a
group, unrolled loops and vector lanes. Everything else becomes a serial loop, the first index outermost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.dtype import DType
from tileir.core.errors import fail
from tileir.core.names import NameScope
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.lower_block import BlockLowering
from tileir.semtree.lower_repeats import lower_loop
from tileir.semtree.lower_threads import GroupLowering, thread_count
from tileir.semtree.lower_views import View
from tileir.stripe import ir as stripe
from tileir.stripe.twins import twins

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tileir.core.target import Target

_OVERHANG: Final = 1 << 20
"""Indices may pass the end of what they run over by so much before a test turns them away."""
_LONGEST_NAME: Final = 48
"""A fused kernel has the names of all its parts; symbols and messages need no more than the first of them."""


def lower(program: stripe.Program, target: Target) -> sem.Program:
    """Return the kernels, buffers and launches of a scheduled program.

    Raises:
        TileError: TIL502 where a kernel is not scheduled as the module text asks.

    """
    lowering = ProgramLowering(target, {buffer.name: buffer for buffer in _buffers(program)})
    sources = {r.name: r.source or r.name for r in program.main.refinements}
    works = lowering.works(program.main, sources)
    return sem.Program(tuple(lowering.kernels), tuple(lowering.buffers.values()), works)


@attrs.define
class ProgramLowering:
    """Kernels and buffers of a program while they are being made.

    Attributes:
        target: What the kernels are for.
        buffers: All buffers so far, by name.
        kernels: The kernels so far.
        unaligned: Temporaries that take turns with memory of the caller, and count as such where alignment matters.

    """

    target: Target
    buffers: dict[str, sem.Buffer]
    kernels: list[sem.KernelFunction] = attrs.field(factory=list, init=False)
    unaligned: set[str] = attrs.field(factory=set, init=False)
    _names: NameScope = attrs.field(factory=NameScope, init=False)
    _numbers: dict[object, int] = attrs.field(factory=dict, init=False)

    def works(self, block: stripe.Block, sources: Mapping[str, str]) -> tuple[sem.Work, ...]:
        """Return what launches the kernels of ``main`` or of a loop's body; ``sources`` has the buffer of each view."""
        works: list[sem.Work] = []
        # The kernels of a step stay apart, since one of them may come to count the steps.
        firsts = twins(block) if "main" in block.tags else {}
        for statement in block.statements:
            if not isinstance(statement, stripe.Block):
                raise fail("TIL502", f"{type(statement).__name__} stands between the kernels; wrap it into a block")
            if "loop" in statement.tags:
                works = lower_loop(self, statement, sources, works)
            else:
                works.append(self._launch(statement, sources, firsts.get(id(statement), statement)))
        return tuple(works)

    def _launch(self, block: stripe.Block, sources: Mapping[str, str], first: stripe.Block) -> sem.Launch:
        name = self._names.fresh(identifier(block.name or "kernel")[:_LONGEST_NAME].rstrip("_"))
        arguments = tuple(dict.fromkeys(sources[view.source] for view in _in_order(block)))
        key = (
            id(first),
            *((self.buffers[name].dtype, self.buffers[name].elements, self.owns(name)) for name in arguments),
        )
        number = self._numbers.setdefault(key, len(self.kernels))
        if number == len(self.kernels):
            self.kernels.append(_kernel(self, block, name, sources))
        return sem.Launch(number, arguments)

    def owns(self, buffer: str) -> bool:
        """Return whether memory is the program's own, and so as aligned as the target asks."""
        own = self.buffers[buffer].role in (sem.BufferRole.TEMPORARY, sem.BufferRole.CONSTANT)
        return own and buffer not in self.unaligned


def identifier(name: str) -> str:
    """Return ``name`` as an identifier: other characters than letters, digits and ``_`` become ``_``."""
    text = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name).strip("_")
    return text if text and not text[0].isdigit() else f"v{text}"


def _buffers(program: stripe.Program) -> tuple[sem.Buffer, ...]:
    data = {buffer.name: buffer.data for buffer in program.buffers}
    result = []
    for refinement in (*program.entry.refinements, *program.main.refinements):
        if refinement.direction is not stripe.Direction.NONE:
            continue
        name = refinement.name
        if name in data:
            role = sem.BufferRole.CONSTANT
        elif name in program.outputs:
            role = sem.BufferRole.OUTPUT
        else:
            role = sem.BufferRole.INPUT if name in program.inputs else sem.BufferRole.TEMPORARY
        shape = refinement.shape
        result.append(sem.Buffer(name, shape.dtype, shape.sizes, role, data.get(name, b"")))
    return tuple(result)


@attrs.define
class _Parameter:
    """What a kernel does with one buffer, over all refinements of it."""

    name: str
    buffer: sem.Buffer
    alignment: int
    own: bool
    reads: bool = False
    writes: bool = False

    def build(self) -> sem.Param:
        access = {
            (True, False): sem.ParamAccess.READ,
            (False, True): sem.ParamAccess.WRITE,
        }.get((self.reads, self.writes), sem.ParamAccess.READ_WRITE)
        alignment = max(64 if self.own else self.buffer.dtype.itemsize, self.alignment)
        return sem.Param(self.name, self.buffer.dtype, self.buffer.elements, access, alignment)


def _kernel(
    lowering: ProgramLowering, block: stripe.Block, name: str, sources: Mapping[str, str]
) -> sem.KernelFunction:
    target, buffers = lowering.target, lowering.buffers
    names = NameScope()
    parameters: dict[str, _Parameter] = {}
    views: dict[str, View] = {}
    for refinement in _in_order(block):
        source = sources[refinement.source]
        parameter = parameters.get(source)
        if parameter is None:
            parameter = parameters[source] = _Parameter(
                names.fresh(identifier(source)), buffers[source], target.alignment, lowering.owns(source)
            )
        parameter.reads |= refinement.direction.reads
        parameter.writes |= refinement.direction.writes
        # The kernel block is lowered like any other, as a child of one that holds whole buffers.
        views[refinement.source] = View(parameter.name, Affine(), refinement.shape)
    target = _with_wide_index(block, parameters.values(), target)
    blocks = BlockLowering(target, names)
    threads = thread_count(block)
    grid, body = (GroupLowering(blocks, threads) if threads > 1 else blocks).kernel(block, views)
    return sem.KernelFunction(
        name,
        tuple(p.build() for p in parameters.values()),
        body,
        grid=grid,
        group=(threads,),
        index=target.index_dtype,
        operations=operation_count(block),
        comments=block.comments,
    )


def _in_order(block: stripe.Block) -> list[stripe.Refinement]:
    """Return what a kernel sees outside; outputs come first, as a reader of the signature expects."""
    seen = (view for view in block.refinements if view.direction is not stripe.Direction.NONE)
    return sorted(seen, key=lambda view: not view.direction.writes)


def _with_wide_index(block: stripe.Block, parameters: Iterable[_Parameter], target: Target) -> Target:
    """Return a target whose offsets are wide enough for a kernel: 64 bits where 32 may not reach."""
    if target.index_dtype.itemsize >= DType.I64.itemsize:
        return target
    largest = max((parameter.buffer.elements for parameter in parameters), default=0)
    if max(largest, _greatest_value(block, {})) < (1 << (8 * target.index_dtype.itemsize - 1)) - _OVERHANG:
        return target
    return attrs.evolve(target, index_dtype=DType.I64)


def _greatest_value(block: stripe.Block, outer: Mapping[str, int]) -> int:
    """Return a bound of what indices, constraints and accesses of a block and those below reach, in absolute value."""
    bounds = {i.name: i.range + (0 if i.affine is None else _bound(i.affine, outer)) for i in block.indices}
    affines = list(block.constraints)
    affines.extend(s.affine for s in block.statements if isinstance(s, stripe.LoadIndex))
    steps = [
        affine * dim.stride
        for refinement in block.refinements
        for affine, dim in zip(refinement.access, refinement.shape.dims, strict=True)
    ]
    own = [*bounds.values(), *(_bound(affine, bounds) for affine in (*affines, *steps))]
    return max([*own, *(_greatest_value(inner, bounds) for inner in block.blocks)], default=0)


def _bound(affine: Affine, bounds: Mapping[str, int]) -> int:
    """Return what the terms of an affine add up to where each has its greatest absolute value."""
    return abs(int(affine.offset)) + sum(abs(int(c)) * bounds[name] for name, c in affine.terms)


def operation_count(block: stripe.Block) -> int:
    """Estimate the scalar operations of a block: statements times points, constraints ignored."""
    inside = 0
    for statement in block.statements:
        match statement:
            case stripe.Block():
                inside += operation_count(statement)
            case stripe.Intrinsic(op=op, dtype=dtype):
                inside += op.info.weight_in(dtype)
            case stripe.Special(outputs=outputs):
                inside += sum(block.refinement(out).shape.elements for out in outputs)
            case stripe.Constant():
                pass
            case _:
                inside += 1
    for index in block.indices:
        inside *= index.range
    return inside
