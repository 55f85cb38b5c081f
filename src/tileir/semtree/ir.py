"""Nodes of the kernel IR. Every expression has a :class:`Type`; no conversion is implicit.

Operands of :class:`Apply` follow the table of :mod:`tileir.core.ops`: all of one type (for ``COND`` the first is bool
of the same lanes), the result that type, or bool of the same lanes for comparisons. Integer arithmetic wraps;
:mod:`tileir.core.numbers.arithmetic` defines each operation. A kernel runs once for each point of ``grid``; groups have
no order. Each has ``group`` threads, one on most processors, which may meet at a :class:`Barrier`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from tileir.core import (
    BODY,
    INTRODUCES,
    OPERAND,
    PART,
    DType,
    NotebookProgram,
    Role,
    attrs,
    call_of,
    counted,
    role,
    statements_in,
)
from tileir.core.nodes.rules import Rule, at_least
from tileir.semtree.expressions import (
    Apply as Apply,
    Bitcast as Bitcast,
    Broadcast as Broadcast,
    Cast as Cast,
    Const as Const,
    Dot as Dot,
    Expr as Expr,
    GridIndex as GridIndex,
    Ramp as Ramp,
    Reduce as Reduce,
    Shuffle as Shuffle,
    Subscript as Subscript,
    Var as Var,
    neighbours as neighbours,
)
from tileir.semtree.flags import Arrive as Arrive, Await as Await
from tileir.semtree.kinds import (
    BufferRole as BufferRole,
    ChannelStep as ChannelStep,
    Collective as Collective,
    Deferred as Deferred,
    GridLevel as GridLevel,
    Hint as Hint,
    LoopKind as LoopKind,
    ParamAccess as ParamAccess,
    Region as Region,
    Scope as Scope,
    TurnStep as TurnStep,
    Type as Type,
    VoteKind as VoteKind,
)
from tileir.semtree.messages import (
    BulkCopy as BulkCopy,
    BulkStore as BulkStore,
    BulkWait as BulkWait,
    Channel as Channel,
)
from tileir.semtree.node import LazyKernel, Node, TopLevelNode
from tileir.semtree.updates import Update as Update
from tileir.semtree.works import (
    Branch as Branch,
    Buffer as Buffer,
    Launch as Launch,
    Loop as Loop,
    While as While,
    Work as Work,
)

if TYPE_CHECKING:
    import networkx as nx


LValue: TypeAlias = Var | Subscript

WARP: Final = 32
"""Number of neighbouring threads that can exchange elements without local memory, if the device supports it."""

COPIED_BYTES: Final = (4, 8, 16)
"""Bytes that a thread copies asynchronously per statement."""

_READ: Final = role(Role.OPERAND, Subscript)
_WRITTEN: Final = role(Role.TARGET, Subscript)
_UPDATED: Final = role(Role.UPDATED, Subscript)
_PLACE: Final = role(Role.PLACE, Subscript)


@attrs.frozen(cache_hash=True, repr=False)
class Param(Node):
    """An array that the caller passes: ``size`` elements of ``dtype``.

    ``alignment``, in bytes, is promised by the caller, and so is ``no_alias``: no other parameter overlaps it.
    """

    form: ClassVar[str] = r"{access} {dtype:element} {name:declared}\[{size}\][ align({alignment})]{no_alias:noalias}"
    name: str
    dtype: DType
    size: int
    access: ParamAccess
    alignment: int = 1
    no_alias: bool = True


@attrs.frozen(cache_hash=True, repr=False)
class Declare(Node):
    """Introduce a variable, visible to the end of the enclosing list of statements."""

    rules: ClassVar = (
        Rule(
            lambda s: s.value.type == s.variable.type,
            "{variable.name!r} of type {variable.type} cannot start as {value.type}",
        ),
    )
    variable: Var = attrs.field(metadata=INTRODUCES)
    value: Expr = attrs.field(metadata=OPERAND)


@attrs.frozen(cache_hash=True, repr=False)
class DeclareArray(Node):
    """Introduce an array of ``size`` elements with undefined content; ``alignment`` in bytes."""

    form: ClassVar[str] = r"{region} {dtype:element} {name:declared}\[{size}\] align({alignment})"
    name: str = attrs.field(metadata=INTRODUCES)
    dtype: DType
    size: int
    region: Region = Region.PRIVATE
    alignment: int = 64


@attrs.frozen(cache_hash=True, repr=False)
class Assign(Node):
    """Set a variable or array elements."""

    target: LValue = attrs.field(metadata=role(Role.TARGET, Var, Subscript))
    value: Expr = attrs.field(metadata=OPERAND)


@attrs.frozen(cache_hash=True, repr=False)
class AssignLanes(Node):
    """Set the lanes from ``begin`` to before ``end`` (scalars of the index type) of a variable or of array elements.

    Other lanes stay as they are. Elements for them may be out of bounds: they are not read either, if ``value`` is
    elements of an array; any other value is computed as a whole.
    """

    form: ClassVar[str] = "masked({begin}, {end}) {target} = {value}"
    rules: ClassVar = (
        Rule(
            lambda s: s.target.type == s.value.type and s.target.type.lanes != 1,
            "lanes of {target.type} cannot be set to those of {value.type}",
        ),
    )
    begin: Expr = attrs.field(metadata=OPERAND)
    end: Expr = attrs.field(metadata=OPERAND)
    target: LValue = attrs.field(metadata=role(Role.TARGET, Var, Subscript))
    value: Expr = attrs.field(metadata=OPERAND)


@attrs.frozen(cache_hash=True, repr=False)
class For(Node):
    """Run ``body`` for ``counter = begin, begin + step, …`` while ``counter < end``; ``step`` > 0.

    Both bounds are evaluated once, before the first iteration; the counter does not wrap.
    """

    counter: Var = attrs.field(metadata=INTRODUCES)
    begin: Expr = attrs.field(metadata=OPERAND)
    end: Expr = attrs.field(metadata=OPERAND)
    step: int
    body: tuple[Stmt, ...] = attrs.field(metadata=BODY)
    kind: LoopKind = LoopKind.SERIAL


@attrs.frozen(cache_hash=True, repr=False)
class If(Node):
    """Run ``then`` if the scalar bool ``condition`` holds, else ``otherwise``."""

    rules: ClassVar = (
        Rule(
            lambda s: s.condition.type == Type(DType.BOOL),
            "the condition of an if is a scalar bool, not {condition.type}",
        ),
    )
    condition: Expr = attrs.field(metadata=OPERAND)
    then: tuple[Stmt, ...] = attrs.field(metadata=BODY)
    otherwise: tuple[Stmt, ...] = attrs.field(default=(), metadata=BODY)


@attrs.frozen(cache_hash=True, repr=False)
class Barrier(Collective):
    """Wait for all threads of the group, or of the cluster, and see each other's writes to local arrays."""

    form: ClassVar[str] = "barrier()[ of {scope}]"
    scope: Scope = Scope.GROUP


@attrs.frozen(cache_hash=True, repr=False)
class AsyncCopy(Deferred):
    """Begin to copy contiguous elements to a local array; the target is undefined until an :class:`AsyncWait`."""

    form: ClassVar[str] = "async {target} = {source}"
    rules: ClassVar = (
        Rule(neighbours, "an asynchronous copy cannot turn {source.type} into {target.type}"),
        Rule(
            lambda s: not neighbours(s) or s.target.type.lanes * s.target.type.dtype.itemsize in COPIED_BYTES,
            f"an asynchronous copy has one of {', '.join(map(str, COPIED_BYTES))} bytes, and not"
            " those of {target.type}",
            "TIL551",
        ),
    )
    places: ClassVar = MappingProxyType(
        {
            "target": (Region.LOCAL, "asynchronous copies go to local arrays"),
            "source": (Param, "asynchronous copies take from parameters"),
        }
    )
    target: Subscript = attrs.field(metadata=_WRITTEN)
    source: Subscript = attrs.field(metadata=_READ)


@attrs.frozen(cache_hash=True, repr=False)
class AsyncCommit(Node):
    """Make a group of the copies that this thread has begun since the last group."""

    form: ClassVar[str] = "async_commit()"


@attrs.frozen(cache_hash=True, repr=False)
class AsyncWait(Node):
    """Wait until at most the last ``pending`` groups of copies of this thread are incomplete."""

    form: ClassVar[str] = "async_wait({pending})"
    rules: ClassVar = (Rule(at_least("pending", 0), "so many groups of copies cannot be pending: {pending}", "TIL551"),)
    pending: int = 0


@attrs.frozen(cache_hash=True, repr=False)
class MatrixOperand(Node):
    """Element (i, j) is at ``p ^ ((p >> shift) & mask)``, where ``p = start.offset + i·strides[0] + j·strides[1]``.

    With a ``fold`` (piece, row, rows) each ``rows`` rows of ``row`` elements are first stored as columns of pieces.

    With ``held``, threads hold the operand in private arrays, each this number of elements from ``start`` on: those of
    one fragment after another, row by row, in the layout of the fragment's operand. Strides are 0 then.
    """

    form: ClassVar[str] = "{start} strides({strides})[ swizzle({shift}, {mask})][ fold({fold})][ held({held})]"
    start: Subscript = attrs.field(metadata=_READ)
    strides: tuple[int, int]
    shift: int = 0
    mask: int = 0
    fold: tuple[int, int, int] = (0, 0, 0)
    held: int = 0


@attrs.frozen(cache_hash=True, repr=False)
class MatrixMultiply(Collective):
    """Add ``left @ right`` to the sums that the threads of a fragment hold together; all threads of a group run it.

    ``fragment`` names a row of :data:`tileir.core.fragments.FRAGMENTS`. ``tile`` has the rows, columns and depth of the
    product, multiples of those of the fragment. ``accumulators`` is the first element that a thread holds, in the order
    of :mod:`tileir.semtree.matrices`. The product is complete when the statement ends, even if the instruction only
    begins it.
    """

    form: ClassVar[str] = "multiply({fragment}) tile({tile}) {accumulators} += {left} * {right}"
    fragment: str
    tile: tuple[int, int, int]
    accumulators: Subscript = attrs.field(metadata=_UPDATED)
    left: MatrixOperand = attrs.field(metadata=PART)
    right: MatrixOperand = attrs.field(metadata=PART)


@attrs.frozen(cache_hash=True, repr=False)
class Exchange(Collective):
    """Set elements to those of ``source`` in the thread whose number differs in the bits ``mask``.

    Threads are numbered axis 0 fastest, and ``mask`` is below :data:`WARP`, so that both are in one warp.
    """

    form: ClassVar[str] = "exchange({mask}) {target} = {source}"
    rules: ClassVar = (Rule(neighbours, "an exchange cannot turn {source.type} into {target.type}"),)
    places: ClassVar = MappingProxyType(
        dict.fromkeys(("target", "source"), (Region.PRIVATE, "threads exchange elements of private arrays"))
    )
    mask: int
    target: Subscript = attrs.field(metadata=_WRITTEN)
    source: Subscript = attrs.field(metadata=_READ)


@attrs.frozen(cache_hash=True, repr=False)
class Vote(Collective):
    """Set an element of a private array of bool to whether ``value`` holds for any, or for all, threads of a warp.

    A warp is :data:`WARP` threads with consecutive numbers, axis 0 fastest, from a multiple of that on.
    """

    form: ClassVar[str] = "vote {kind} {target} = {value}"
    rules: ClassVar = (
        Rule(
            lambda s: s.target.type == s.value.type == Type(DType.BOOL),
            "a vote is about bool, and sets one, not {value.type} and {target.type}",
        ),
    )
    places: ClassVar = MappingProxyType({"target": (Region.PRIVATE, "votes set elements of private arrays")})
    kind: VoteKind
    target: Subscript = attrs.field(metadata=_WRITTEN)
    value: Expr = attrs.field(metadata=OPERAND)


@attrs.frozen(cache_hash=True, repr=False)
class Prefetch(Hint):
    """Prefetch an element of a parameter, which may be out of bounds: a hint without effect."""

    form: ClassVar[str] = "prefetch {target}"
    rules: ClassVar = (
        Rule(
            lambda s: s.target.offset.type.lanes == 1,
            "a prefetch has one address, and {target.array!r} is given several",
        ),
    )
    places: ClassVar = MappingProxyType({"target": (Param, "prefetches are for parameters")})
    target: Subscript = attrs.field(metadata=_PLACE)


@attrs.frozen(cache_hash=True, repr=False)
class Turn(Collective, Hint):
    """Take or pass the turn among parts of a group, ``threads`` neighbours each: this changes timing, not results."""

    form: ClassVar[str] = "turn {step} {threads}"
    step: TurnStep
    threads: int


Instruction: TypeAlias = (
    AssignLanes
    | AsyncCopy
    | AsyncCommit
    | AsyncWait
    | MatrixMultiply
    | Exchange
    | Vote
    | Arrive
    | Await
    | Update
    | Channel
    | BulkCopy
    | BulkStore
    | BulkWait
)
"""A statement that few devices support; :func:`tileir.semtree.matrices.without_instructions` replaces it."""


@attrs.frozen(cache_hash=True, repr=False)
class WarpRole(Node):
    """Let some warps of a group, from number ``first`` on, run ``body``, while others do something else.

    Roles are last in a kernel, and no warp has two. In a role, the group of other nodes means the threads of the role:
    these meet at its barriers, and multiply matrices together. Channels go from one role to others. ``registers`` is
    the number of registers of each thread in the role, for four warps from a multiple of four on. There are ``teams``
    teams of this number of warps, one after another, each of which runs the role independently.
    """

    first: int
    warps: int
    body: tuple[Stmt, ...] = attrs.field(metadata=BODY)
    registers: int = 0
    teams: int = 1


Stmt: TypeAlias = Declare | DeclareArray | Assign | For | If | WarpRole | Barrier | Instruction | Prefetch | Turn


@attrs.frozen(cache_hash=True, repr=False)
class KernelFunction(LazyKernel):
    """A kernel over a launch grid.

    ``grid`` and ``group`` have one to three extents, axis 0 first; ``group`` is (1,) if threads are not used. The
    groups of a ``cluster``, this number of neighbours along axis 0 of the grid, run at the same time, and copy to each
    other. ``operations`` estimates arithmetic operations plus elements moved in total, to decide whether splitting the
    launch pays.
    """

    name: str
    params: tuple[Param, ...]
    body: tuple[Stmt, ...]
    grid: tuple[int, ...] = (1,)
    group: tuple[int, ...] = (1,)
    index: DType = DType.I64
    operations: int = 0
    comments: tuple[str, ...] = ()
    cluster: int = 1

    def summary(self) -> str:
        """Return name, parameters, and the number of statements."""
        called = call_of(self.name, [each.name for each in self.params])
        return f"{called}: {counted(statements_in(self.body), 'statement')}"


@attrs.frozen(cache_hash=True, repr=False)
class Program(NotebookProgram, TopLevelNode):
    """Kernels, the buffers between them, and works in an order that respects all dependencies."""

    kernels: tuple[KernelFunction, ...]
    buffers: tuple[Buffer, ...]
    works: tuple[Work, ...] = attrs.field(metadata=BODY)

    def graph(self) -> nx.DiGraph[str]:
        """Return a frozen networkx graph of inputs, works and outputs, linked by buffers.

        :mod:`tileir.core.graphs.frozen` describes the attributes.
        """
        from tileir.semtree.dataflow import dataflow  # it imports this module

        return dataflow(self)

    def summary(self) -> str:
        """Return inputs, outputs, and the number of kernels."""
        roles = (BufferRole.INPUT, BufferRole.OUTPUT)
        inputs, outputs = ([each.name for each in self.buffers if each.role is role] for role in roles)
        return f"{call_of('', inputs, outputs)}: {counted(len(self.kernels), 'kernel')}"
