"""Lowering of Stripe programs: one kernel for each block of ``main``.

The program must have been scheduled: aggregation scopes made explicit by the pass ``accumulate``, and
indices bound to ``grid``, ``thread``, ``unroll`` and ``vector`` if they are to become grid axes, threads of a
group, unrolled loops and vector lanes. Everything else becomes a serial loop, the first index outermost.

Loops of a program become repeated launches. Carried values are not copied: steps alternate between two buffers, of
which one is read and the other written. So a loop repeats two steps, after a single step if their number is odd.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeGuard, assert_never

from tileir.core import DType, NameScope, Op, Target, attrs
from tileir.core.numbers.integers import network_comparisons
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.clusters import clustered
from tileir.semtree.launches import launches, used_buffers, with_buffers, with_launches
from tileir.semtree.lower.block import BlockLowering
from tileir.semtree.lower.loops import thread_count
from tileir.semtree.lower.turns import cluster_of
from tileir.semtree.lower.views import View
from tileir.semtree.rewrite import freshened, kernel_names, map_expr, map_stmts, renamed
from tileir.semtree.roles import roles
from tileir.stripe import ir as stripe, launched, local_memory
from tileir.stripe.attention import AttentionParameters, attention_of
from tileir.stripe.segments import SegmentParameters, segments_of
from tileir.stripe.sorting import SortParameters, sorting_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.semtree.lower.threads import GroupLowering


def beside(
    one: sem.KernelFunction, other: sem.KernelFunction, same: Sequence[int | None], local_bytes: int
) -> sem.KernelFunction | None:
    """Return one kernel for two; None if their groups or indices differ, or if memory does not suffice.

    If the number of groups of the first is a multiple of that of the other, groups alternate, so that accesses of both
    to one cache line are close in time.

    Args:
        one: The kernel whose parameters come first.
        other: The other kernel, whose groups come last unless groups alternate.
        same: For each parameter of the other kernel, the number of that of the first with the same array, or None.
        local_bytes: Local memory of a group, in bytes.
    """
    if one.group != other.group or one.index is not other.index or max(one.cluster, other.cluster) > 1:
        return None
    if roles(one) or roles(other):  # roles cannot be in a condition
        return None
    names = NameScope.of(kernel_names(one))
    params = list(one.params)
    called = {}
    for param, place in zip(other.params, same, strict=True):
        if place is None:
            params.append(attrs.evolve(param, name=names.fresh(param.name)))
            called[param.name] = params[-1].name
        else:
            params[place] = _both(params[place], param)
            called[param.name] = params[place].name
    first, count = prod(one.grid), prod(other.grid)
    shared, body = _sharing(one.body, renamed(freshened(other.body, names), called))
    if sum(array.size * array.dtype.itemsize for array in shared) > local_bytes:
        return None
    group = sem.GridIndex(sem.GridLevel.GROUP, 0, sem.Type(one.index))
    take = _turns(group, first // count) if first % count == 0 else _one_behind(group, first)
    test, own, behind, known = take
    then, otherwise = _placed(_without(one.body), one.grid, own, known), _placed(body, other.grid, behind, {})
    return attrs.evolve(
        one,
        params=tuple(params),
        body=(*shared, sem.If(test, then, otherwise)),
        grid=(first + count,),
        operations=one.operations + other.operations,
        comments=tuple(dict.fromkeys((*one.comments, *other.comments))),
    )


_Place: TypeAlias = "tuple[sem.Expr, sem.Expr, sem.Expr, Mapping[sem.Expr, sem.Expr]]"
"""Test for groups of the first kernel, positions in the two grids, and known expressions in a branch."""


def _one_behind(group: sem.Expr, first: int) -> _Place:
    """Return the place of a group if those of the other kernel come after the first ones."""
    start = sem.Const(first, group.type)
    return sem.Apply(Op.CMP_LT, (group, start)), group, sem.Apply(Op.SUB, (group, start)), {}


def _turns(group: sem.Expr, times: int) -> _Place:
    """Return the place of a group if ``times`` groups of the first kernel come before each of the other."""
    count, step = (sem.Const(number, group.type) for number in (times, times + 1))
    turn, rest = sem.Apply(Op.DIV, (group, step)), sem.Apply(Op.MOD, (group, step))
    test = sem.Apply(Op.CMP_LT, (rest, count))
    if times == 1:
        return test, turn, turn, {}
    own = sem.Apply(Op.ADD, (sem.Apply(Op.MUL, (turn, count)), rest))
    return test, own, turn, {sem.Apply(Op.DIV, (own, count)): turn, sem.Apply(Op.MOD, (own, count)): rest}


def _sharing(
    one: Sequence[sem.Stmt], other: tuple[sem.Stmt, ...]
) -> tuple[list[sem.DeclareArray], tuple[sem.Stmt, ...]]:
    """Return the local arrays of two kernels, of which a group runs one, and the second with those of the first.

    Arrays are shared by size, the largest first; channels are not, since each has its own number of messages.
    """
    arrays, more = sorted(filter(_is_local, one), key=_size), []
    places: dict[str, str] = {}
    for array in sorted(filter(_is_local, other), key=_size):
        free = [n for n, each in enumerate(arrays) if each.dtype is array.dtype and each.name not in places.values()]
        if not free or array.dtype is DType.U64:
            more.append(array)
            continue
        size, alignment = max(arrays[free[0]].size, array.size), max(arrays[free[0]].alignment, array.alignment)
        arrays[free[0]] = attrs.evolve(arrays[free[0]], size=size, alignment=alignment)
        places[array.name] = arrays[free[0]].name
    return [*arrays, *more], renamed(_without(other), places)


def _is_local(stmt: sem.Stmt) -> TypeGuard[sem.DeclareArray]:
    return isinstance(stmt, sem.DeclareArray) and stmt.region is not sem.Region.PRIVATE


def _size(array: sem.DeclareArray) -> int:
    return -array.size


def _without(body: Iterable[sem.Stmt]) -> tuple[sem.Stmt, ...]:
    return tuple(stmt for stmt in body if not _is_local(stmt))


def _both(one: sem.Param, other: sem.Param) -> sem.Param:
    access = one.access if one.access is other.access else sem.ParamAccess.READ_WRITE
    no_alias = one.no_alias and other.no_alias
    return attrs.evolve(one, access=access, no_alias=no_alias, alignment=max(one.alignment, other.alignment))


def _placed(
    body: tuple[sem.Stmt, ...], grid: tuple[int, ...], place: sem.Expr, known: Mapping[sem.Expr, sem.Expr]
) -> tuple[sem.Stmt, ...]:
    """Return statements for the group at a place of a grid, axis 0 fastest, with known expressions simplified."""
    axes: list[sem.Expr] = []
    left = place
    for extent in grid:
        size = sem.Const(extent, place.type)
        axes.append(left if len(axes) + 1 == len(grid) else sem.Apply(Op.MOD, (left, size)))
        left = sem.Apply(Op.DIV, (left, size))

    def at(node: sem.Expr) -> sem.Expr:
        match node:
            case sem.GridIndex(level=sem.GridLevel.GROUP, axis=axis):
                return axes[axis]
            case _:
                return known.get(node, node)

    return map_stmts(lambda expr: map_expr(at, expr), body)


class Lowering(Protocol):
    """Interface to the lowering of a program that its loops need."""

    program: stripe.Program
    buffers: dict[str, sem.Buffer]
    kernels: list[sem.KernelFunction]
    unaligned: set[str]
    local: dict[int, frozenset[str]]

    def works(self, works: Iterable[stripe.Work], fresh: Container[str]) -> tuple[sem.Work, ...]:
        """Return lowered works; ``fresh`` is memory that is undefined before them."""

    def copy(self, source: str, target: str) -> sem.Launch:
        """Return the copy of one buffer to another."""


def lower_loop(lowering: Lowering, loop: stripe.Loop, before: list[sem.Work], fresh: Container[str]) -> list[sem.Work]:
    """Return the works before a loop followed by those of the loop.

    If the number of steps is odd, initial values go to the other of each pair of alternating buffers: the final values
    are then in the expected buffer. If initial values are not written right before the loop, the final values are
    copied instead.

    Args:
        lowering: The program.
        loop: The loop.
        before: The preceding works, in the same list.
        fresh: Memory that is undefined before these.
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
    """Return whether a launch that only writes a buffer precedes all other uses of it."""
    for work in works:
        if isinstance(work, sem.Launch):
            if buffer in work.arguments:
                param = lowering.kernels[work.kernel].params[work.arguments.index(buffer)]
                return param.access is sem.ParamAccess.WRITE
        elif buffer in used_buffers((work,)):
            return False
    return False


def _joined(kernels: list[sem.KernelFunction], step: tuple[sem.Work, ...]) -> tuple[sem.Work, ...]:
    """Return a step whose last kernel, a step counter, is merged into another one that reads the step number.

    The first thread of that kernel counts: this saves a launch, which dominates the cost of a step.
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
    """Return ``host`` with the work of ``counting`` in its first thread, and a further parameter for the result."""
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


_OVERHANG: Final = 1 << 20
"""Maximum distance by which indices may pass the end of their range before a test excludes them."""
_LONGEST_NAME: Final = 48
"""Maximum length of a fused kernel's name; symbols and messages need no more."""


def lower(program: stripe.Program, target: Target) -> sem.Program:
    """Return the kernels, buffers and launches of a scheduled program.

    Raises:
        TileError: TIL502, a kernel is not scheduled as the module docstring requires.
    """
    lowering = ProgramLowering(target, program)
    given = {*program.inputs, *(buffer.name for buffer in program.buffers)}
    works = lowering.works(program.works, frozenset(each.name for each in program.memory) - given)
    return _pruned(sem.Program(tuple(lowering.kernels), tuple(lowering.buffers.values()), works))


@attrs.define(eq=False, repr=False)
class ProgramLowering:
    """State of the lowering of a program.

    Attributes:
        target: The device.
        program: The program.
        buffers: Its buffers, by name.
        kernels: The kernels so far.
        unaligned: Temporaries that alternate with memory of the caller, and so have its alignment.
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
        """Return lowered works; ``fresh`` is memory that is undefined before them."""
        after: list[sem.Work] = []
        joint = 0  # kernels that run in the previous launch
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
        """Return the copy of one buffer to another, in a group per row."""
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
        """Return one launch for two that may run at the same time; None if their kernels do not fit each other."""
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
        """Return whether memory is the program's own, with the alignment of the target."""
        own = self.buffers[buffer].role in (sem.BufferRole.TEMPORARY, sem.BufferRole.CONSTANT)
        return own and buffer not in self.unaligned


def _pruned(program: sem.Program) -> sem.Program:
    """Return the program without unused kernels."""
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
    """A kernel's use of one buffer, over all refinements of it."""

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
    attending, sorting, adding = attention_of(block), sorting_of(block), segments_of(block)
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
    if body and isinstance(body[-1], sem.WarpRole):  # of four warps with equal numbers of registers, one copies
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
    """Return the lowering for groups with several threads, which is imported on demand."""
    from tileir.semtree.lower.threads import GroupLowering

    return GroupLowering(blocks, threads)


def _of_attention(
    blocks: BlockLowering,
    block: stripe.Block,
    views: dict[str, View],
    attending: tuple[stripe.Special, AttentionParameters],
) -> tuple[tuple[int, ...], tuple[sem.Stmt, ...]]:
    """Return grid and body of a kernel of attention; its lowering is imported on demand."""
    from tileir.semtree.lower.attention.forward import attention_kernel

    return attention_kernel(blocks, block, views, *attending)


def _of_order(
    blocks: BlockLowering, block: stripe.Block, views: dict[str, View], sorting: tuple[stripe.Special, SortParameters]
) -> tuple[tuple[int, ...], tuple[sem.Stmt, ...]]:
    """Return grid and body of a kernel whose groups sort; its lowering is imported on demand."""
    from tileir.semtree.lower.orders.groups import sorting_kernel

    return sorting_kernel(blocks, block, views, *sorting)


def _of_segments(
    blocks: BlockLowering, block: stripe.Block, views: dict[str, View], adding: tuple[stripe.Special, SegmentParameters]
) -> tuple[tuple[int, ...], tuple[sem.Stmt, ...]]:
    """Return grid and body of a kernel that adds segments; its lowering is imported on demand."""
    from tileir.semtree.lower.segments import adding_kernel

    return adding_kernel(blocks, block, views, *adding)


def _in_order(block: stripe.Block) -> list[stripe.Refinement]:
    """Return the memory that a kernel sees, outputs first, as usual in signatures."""
    seen = (view for view in block.refinements if view.direction is not stripe.Direction.NONE)
    return sorted(seen, key=lambda view: not view.direction.writes)


def _with_wide_index(block: stripe.Block, parameters: Iterable[_Parameter], target: Target) -> Target:
    """Return a target with wide enough offsets for a kernel: 64 bits if 32 may not suffice."""
    if target.index_dtype.itemsize >= DType.I64.itemsize:
        return target
    largest = max((parameter.buffer.elements for parameter in parameters), default=0)
    if max(largest, _greatest_value(block, {})) < (1 << (8 * target.index_dtype.itemsize - 1)) - _OVERHANG:
        return target
    return attrs.evolve(target, index_dtype=DType.I64)


def _greatest_value(block: stripe.Block, outer: Mapping[str, int]) -> int:
    """Return a bound of the absolute values of indices, constraints and accesses of a block and nested ones."""
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
    return abs(int(affine.offset)) + sum(abs(int(c)) * bounds[name] for name, c in affine.terms)


def operation_count(block: stripe.Block) -> int:
    """Estimate the scalar operations of a block: statements times points, ignoring constraints."""
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
