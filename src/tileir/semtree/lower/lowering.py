"""Stripe programs to kernels: one kernel for each block of ``main``.

The program must have been scheduled: aggregation scopes made explicit by the pass ``accumulate``, and
indices bound to ``grid``, ``thread``, ``unroll`` and ``vector`` where they are to become grid axes, threads of a
group, unrolled loops and vector lanes. Everything else becomes a serial loop, the first index outermost.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final, assert_never

from tileir.core import DType, NameScope, Target, attrs
from tileir.core.numbers.integers import network_comparisons
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.clusters import clustered
from tileir.semtree.launches import launches, with_launches
from tileir.semtree.lower.beside import beside
from tileir.semtree.lower.block import BlockLowering
from tileir.semtree.lower.loops import thread_count
from tileir.semtree.lower.repeats import lower_loop
from tileir.semtree.lower.turns import cluster_of
from tileir.semtree.lower.views import View
from tileir.stripe import ir as stripe
from tileir.stripe.attending import Attending, attending_of
from tileir.stripe.lower.kernel_table import launched
from tileir.stripe.segments import Segments, segments_of
from tileir.stripe.sorting import Sorting, sorting_of
from tileir.stripe.works import local_memory

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from tileir.semtree.lower.threads import GroupLowering

_OVERHANG: Final = 1 << 20
"""Indices may pass the end of what they run over by so much before a test turns them away."""
_LONGEST_NAME: Final = 48
"""A fused kernel has the names of all its parts; symbols and messages need no more than the first of them."""


def lower(program: stripe.Program, target: Target) -> sem.Program:
    """Return the kernels, buffers and launches of a scheduled program.

    Raises:
        TileError: TIL502 where a kernel is not scheduled as the module text asks.

    """
    lowering = ProgramLowering(target, program)
    given = {*program.inputs, *(buffer.name for buffer in program.buffers)}
    works = lowering.works(program.works, frozenset(each.name for each in program.memory) - given)
    return _pruned(sem.Program(tuple(lowering.kernels), tuple(lowering.buffers.values()), works))


@attrs.define(eq=False, repr=False)
class ProgramLowering:
    """Kernels and buffers of a program while they are being made.

    Attributes:
        target: What the kernels are for.
        program: The program.
        buffers: Its buffers, by name.
        kernels: The kernels so far.
        unaligned: Temporaries that take turns with memory of the caller, and count as such where alignment matters.
        local: The memory that each loop alone uses, by the :func:`id` of the loop.

    """

    target: Target
    program: stripe.Program
    buffers: dict[str, sem.Buffer] = attrs.field(init=False)
    kernels: list[sem.KernelFunction] = attrs.field(factory=list, init=False)
    unaligned: set[str] = attrs.field(factory=set, init=False)
    local: dict[int, frozenset[str]] = attrs.field(init=False)
    _names: NameScope = attrs.field(factory=NameScope, init=False)
    _numbers: dict[object, int] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.buffers = {buffer.name: buffer for buffer in _buffers(self.program)}
        self.local = local_memory(self.program)

    def works(self, works: Iterable[stripe.Work], fresh: Container[str]) -> tuple[sem.Work, ...]:
        """Return what becomes of works; ``fresh`` is memory that holds nothing before them."""
        after: list[sem.Work] = []
        joint = 0  # kernels that run in the launch before
        for work in works:
            match work:
                case stripe.Launch():
                    kernel = self.program.kernels[work.kernel]
                    after.append(self._launch(launched(kernel, work), work.kernel))
                    number = kernel.block.tags.get(stripe.BESIDE)
                    joined = self._beside(*after[-2:]) if number == joint > 0 else None
                    after[-2:] = after[-2:] if joined is None else [joined]
                    joint = joint + 1 if joined is not None else int(number == 0)
                case stripe.Loop():
                    after = lower_loop(self, work, after, fresh)
                case stripe.Branch():
                    then, otherwise = (self.works(side, frozenset()) for side in (work.then, work.otherwise))
                    if then or otherwise:
                        after.append(sem.Branch(work.condition, then, otherwise))
                case _:
                    assert_never(work)
        return tuple(after)

    def copy(self, source: str, target: str) -> sem.Launch:
        """Return what copies one buffer to another, in as many groups as it has rows."""
        shape = self.buffers[source].shape
        indices = tuple(
            stripe.Index(f"d{axis}", size, binding=stripe.Binding.GRID if axis == 0 else None)
            for axis, size in enumerate(shape)
        )
        element = stripe.TensorShape.dense(self.buffers[source].dtype, shape).element
        access = tuple(Affine.index(index.name) for index in indices)
        views = (
            stripe.Refinement("old", stripe.Direction.IN, source, access, element),
            stripe.Refinement("new", stripe.Direction.OUT, target, access, element),
        )
        statements = (stripe.Load("old", "x"), stripe.Store("x", "new"))
        return self._launch(stripe.Block("carry", indices, (), views, statements), (shape, element))

    def _launch(self, block: stripe.Block, kernel: object) -> sem.Launch:
        name = self._names.fresh(identifier(block.name or "kernel")[:_LONGEST_NAME].rstrip("_"))
        arguments = tuple(dict.fromkeys(view.source for view in _in_order(block)))
        number = self._numbers.setdefault((kernel, *map(self.owns, arguments)), len(self.kernels))
        if number == len(self.kernels):
            self.kernels.append(_kernel(self, block, name))
        return sem.Launch(number, arguments)

    def _beside(self, one: sem.Work, other: sem.Work) -> sem.Launch | None:
        """Return one launch for two that may run at the same time; None where their kernels do not fit each other."""
        if not isinstance(one, sem.Launch) or not isinstance(other, sem.Launch):
            return None
        same = tuple(one.arguments.index(name) if name in one.arguments else None for name in other.arguments)
        key = (one.kernel, other.kernel, same)
        if key not in self._numbers:
            kernel = beside(self.kernels[one.kernel], self.kernels[other.kernel], same, self.target.local_bytes)
            if kernel is None:
                return None
            self._numbers[key] = len(self.kernels)
            self.kernels.append(attrs.evolve(kernel, name=self._names.fresh(kernel.name)))
        return sem.Launch(self._numbers[key], tuple(dict.fromkeys((*one.arguments, *other.arguments))))

    def owns(self, buffer: str) -> bool:
        """Return whether memory is the program's own, and so as aligned as the target asks."""
        own = self.buffers[buffer].role in (sem.BufferRole.TEMPORARY, sem.BufferRole.CONSTANT)
        return own and buffer not in self.unaligned


def _pruned(program: sem.Program) -> sem.Program:
    """Return the program without kernels that nothing launches."""
    used = sorted({launch.kernel for launch in launches(program.works)})
    if len(used) == len(program.kernels):
        return program
    names = NameScope()
    kernels = tuple(program.kernels[number] for number in used)
    kernels = tuple(attrs.evolve(kernel, name=names.fresh(kernel.name)) for kernel in kernels)
    numbers = {old: new for new, old in enumerate(used)}
    works = with_launches(program.works, lambda launch: attrs.evolve(launch, kernel=numbers[launch.kernel]))
    return attrs.evolve(program, kernels=kernels, works=works)


def identifier(name: str) -> str:
    """Return ``name`` as an identifier: other characters than letters, digits and ``_`` become ``_``."""
    text = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name).strip("_")
    return text if text and not text[0].isdigit() else f"v{text}"


def _buffers(program: stripe.Program) -> tuple[sem.Buffer, ...]:
    data = {buffer.name: buffer.data for buffer in program.buffers}
    result = []
    for refinement in program.memory:
        name = refinement.name
        if name in data:
            role = sem.BufferRole.CONSTANT
        elif name in program.outputs:
            role = sem.BufferRole.OUTPUT
        else:
            role = sem.BufferRole.INPUT if name in program.inputs else sem.BufferRole.TEMPORARY
        shape = refinement.shape
        sizes = shape.sizes if shape.span <= shape.elements else (shape.span,)  # gaps between planes take room
        result.append(sem.Buffer(name, shape.dtype, sizes, role, data.get(name, b"")))
    return tuple(result)


@attrs.define(eq=False, repr=False)
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


def _kernel(lowering: ProgramLowering, block: stripe.Block, name: str) -> sem.KernelFunction:
    target, buffers = lowering.target, lowering.buffers
    names = NameScope()
    parameters: dict[str, _Parameter] = {}
    views: dict[str, View] = {}
    for refinement in _in_order(block):
        source = refinement.source
        parameter = parameters.get(source)
        if parameter is None:
            parameter = parameters[source] = _Parameter(
                names.fresh(identifier(source)), buffers[source], target.alignment, lowering.owns(source)
            )
        parameter.reads |= refinement.direction.reads
        parameter.writes |= refinement.direction.writes
        # The kernel block is lowered like any other, as a child of one that holds whole buffers.
        places = (Affine(),) * len(refinement.shape.dims) if target.bulk_copies else ()
        views[refinement.source] = View(parameter.name, Affine(), refinement.shape, places=places)
    target = _with_wide_index(block, parameters.values(), target)
    blocks = BlockLowering(target, names)
    attending, sorting, adding = attending_of(block), sorting_of(block), segments_of(block)
    if attending is not None:
        threads = attending[1].threads
        grid, body = _of_attention(blocks, block, views, attending)
    elif sorting is not None:
        threads = sorting[1].threads
        grid, body = _of_order(blocks, block, views, sorting)
    elif adding is not None:
        threads = adding[1].threads
        grid, body = _of_segments(blocks, block, views, adding)
    else:
        threads = thread_count(block)
        grid, body = (blocks if threads == 1 else _of_groups(blocks, threads)).kernel(block, views)
    if body and isinstance(body[-1], sem.WarpRole):  # of four warps that have equally many registers, one copies
        threads = (body[-1].first + 4) * sem.WARP
    kernel = sem.KernelFunction(
        name,
        tuple(p.build() for p in parameters.values()),
        body,
        grid=grid,
        group=(threads,),
        index=target.index_dtype,
        operations=operation_count(block),
        comments=block.comments,
    )
    return clustered(kernel, cluster_of(block, target)) if target.bulk_copies else kernel


def _of_groups(blocks: BlockLowering, threads: int) -> GroupLowering:
    """Return what lowers kernels whose groups have several threads, which those of processors do without."""
    from tileir.semtree.lower.threads import GroupLowering

    return GroupLowering(blocks, threads)


def _of_attention(
    blocks: BlockLowering, block: stripe.Block, views: dict[str, View], attending: tuple[stripe.Special, Attending]
) -> tuple[tuple[int, ...], tuple[sem.Stmt, ...]]:
    """Return grid and body of a kernel of attention, which processors do without."""
    from tileir.semtree.lower.attention.forward import attention_kernel

    return attention_kernel(blocks, block, views, *attending)


def _of_order(
    blocks: BlockLowering, block: stripe.Block, views: dict[str, View], sorting: tuple[stripe.Special, Sorting]
) -> tuple[tuple[int, ...], tuple[sem.Stmt, ...]]:
    """Return grid and body of a kernel whose groups sort; few programs do."""
    from tileir.semtree.lower.orders.groups import sorting_kernel

    return sorting_kernel(blocks, block, views, *sorting)


def _of_segments(
    blocks: BlockLowering, block: stripe.Block, views: dict[str, View], adding: tuple[stripe.Special, Segments]
) -> tuple[tuple[int, ...], tuple[sem.Stmt, ...]]:
    """Return grid and body of a kernel that adds segments, which processors do without."""
    from tileir.semtree.lower.segments import adding_kernel

    return adding_kernel(blocks, block, views, *adding)


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
            case stripe.Block(instruction=stripe.Repair()):
                pass  # it seldom runs
            case stripe.Block():
                inside += operation_count(statement)
            case stripe.Intrinsic(op=op, dtype=dtype):
                inside += op.info.weight_in(dtype)
            case stripe.Special(name="order", inputs=(keys,)):
                inside += network_comparisons(block.refinement(keys).shape.elements)
            case stripe.Special(outputs=outputs):
                inside += sum(block.refinement(out).shape.elements for out in outputs)
            case stripe.Constant():
                pass
            case _:
                inside += 1
    return inside * prod(index.range for index in block.indices)
