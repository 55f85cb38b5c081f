"""Blocks of the Stripe nested polyhedral IR, with their statements, views and indices.

Meaning, in short (:mod:`tileir.stripe.interpret.interpreter` is the definition):

- A block runs its statements, in order, once for each point of its index box that satisfies all
  constraints. Points are unordered and may run in parallel, or, with a ``serial`` index, in row-major order.
- An index without ``affine`` runs over ``0 <= i < range``. With one, its value is
  ``affine(parent indices) + k`` for ``0 <= k < range``. Parent indices are visible in no other way.
- A refinement is a view. With direction NONE it allocates fresh memory, undefined until written, each time
  the owning block's point runs. Otherwise it is a view of the parent's refinement ``source``, displaced by
  ``Σ access[d] · shape.dims[d].stride`` elements. Its shape holds the extent that one point touches
  and the strides, in elements, of the memory behind it.
- A store through a refinement without aggregation, or with ASSIGN, overwrites. Through one with another
  aggregation it merges the value. If the direction is INOUT the value merges with the earlier content.
  If it is OUT, an *aggregation scope* opens at the outermost OUT refinement of a chain of views that
  carry that aggregation: the first store to an element within one execution of the block that owns the
  scope overwrites, later ones merge. An element that no point stores keeps its content.
- Through OUT views without merging a point reads its own stores; all else is undefined to it.
- Scalars are single-assignment, local to one block body, and not visible in nested blocks.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any, ClassVar, TypeAlias

from tileir.core import Aggregation, DType, Op, attrs, counted, merges, rewritten, schema, statements_in
from tileir.core.array_value import Content  # the decoder of JSON reads annotations
from tileir.core.combines import Combine, Rule
from tileir.core.nodes.schema import BODY, INTRODUCES, READS, USES, WRITES
from tileir.poly.affine import Affine
from tileir.stripe.bindings import SERIAL, Binding as Binding, bindings_of
from tileir.stripe.instructions import (
    Copy as Copy,
    CopyBack as CopyBack,
    Instruction as Instruction,
    Pipeline as Pipeline,
    Product as Product,
    Repair as Repair,
    Role as Role,
    role_words,
)
from tileir.stripe.shapes import (
    Device as Device,
    Dim as Dim,
    Location as Location,
    Node,
    TensorShape as TensorShape,
    TopLevelNode,
)
from tileir.stripe.tags import INSIDE as INSIDE, Tags as Tags, TagValue as TagValue


class Direction(enum.Enum):
    """Use of a refinement by its block; NONE allocates."""

    NONE = "none"
    IN = "in"
    OUT = "out"
    INOUT = "inout"

    __hash__ = object.__hash__

    @cached_property
    def reads(self) -> bool:
        """True if content from before the block is read."""
        return self in (Direction.IN, Direction.INOUT)

    @cached_property
    def writes(self) -> bool:
        """True if the parent's memory is written."""
        return self in (Direction.OUT, Direction.INOUT)


@attrs.frozen(cache_hash=True, repr=False)
class Refinement(Node):
    """A view of the parent's refinement ``source``, or an allocation if ``direction`` is NONE.

    ``access`` has one integral affine, in the block's own indices, for each dim of ``shape``.
    ``source`` is empty exactly for allocations, whose accesses are all 0. The rank may differ from that
    of the source if both are dense, which expresses a reshape without a copy.
    """

    name: str
    direction: Direction
    source: str
    access: tuple[Affine, ...]
    shape: TensorShape
    aggregation: Aggregation | None = None
    location: Location = ()
    offset: int | None = None  # byte offset in its arena, once placed
    bank_dim: int | None = None  # the axis that runs over memory banks
    cache_unit: Affine | None = None  # which cache serves it
    constant: bool = False  # content is known when compiling: Program.buffers holds it
    tags: Tags = Tags()

    @property
    def merges(self) -> bool:
        """True if stores through this view merge with the content, rather than overwrite it."""
        return merges(self.aggregation)

    @property
    def opens_scope(self) -> bool:
        """True if each run of the block restarts the aggregate: the first store overwrites, and later stores merge."""
        return self.direction is Direction.OUT and self.merges

    def element(self, direction: Direction, access: Iterable[Affine], name: str = "") -> Refinement:
        """Return a view of the one element at ``access``, under another name or its own."""
        return Refinement(name or self.name, direction, self.name, tuple(access), self.shape.element)


def allocation(name: str, dtype: DType, sizes: Sequence[int], location: Location = ()) -> Refinement:
    """Return dense, row-major memory of these sizes."""
    shape = TensorShape.dense(dtype, sizes)
    return Refinement(name, Direction.NONE, "", (Affine(),) * len(sizes), shape, location=location)


@attrs.frozen(cache_hash=True, repr=False)
class Index(Node):
    """An index of a block; the module docstring defines its values.

    ``binding`` defines its execution in a kernel, and changes no result, and neither does ``role``, in a matrix
    product. With ``serial``, the points of the block run in order.
    """

    name: str
    range: int
    affine: Affine | None = None
    binding: Binding | None = None
    serial: bool = False
    tags: Tags = Tags()
    role: Role | None = None

    @property
    def words(self) -> Tags:
        """Its words in text: its tags, and those for its binding, order and role."""
        if not self.serial and self.binding is None and self.role is None:
            return self.tags
        own = [*([SERIAL] if self.serial else []), *([self.binding.value] if self.binding else [])]
        return self.tags.add(*own, **({} if self.role is None else role_words(self.role)))

    @property
    def is_marked(self) -> bool:
        """True if it has a schedule or a purpose: a binding, an order, a role, or a tag."""
        return self.serial or bool(self.binding or self.role or self.tags.items)

    @property
    def is_plain(self) -> bool:
        """True if it starts at 0, without a schedule or a purpose."""
        return self.affine is None and not self.is_marked

    def bound(self, binding: Binding | None) -> Index:
        """Return the index with another binding, or none."""
        return attrs.evolve(self, binding=binding)

    def worded(self, *words: str) -> Index:
        """Return the index with tags added; words for a binding, or for order, set these."""
        bindings, serial, tags = bindings_of(self.tags.add(*words))
        return attrs.evolve(self, binding=(*bindings, self.binding)[0], serial=serial or self.serial, tags=tags)


class Definition(Node):
    """A statement that defines a scalar, whose text precedes the form of its class."""

    __slots__ = ()
    head: ClassVar[str] = "{into:scalar} = "


@attrs.frozen(cache_hash=True, repr=False)
class Load(Definition):
    """``$into = load(source)``: read one element.

    With ``index``, an integer scalar, the element is displaced along axis 0 of the view by that value clamped to
    ``[0, size - 1]``, where size is that axis' extent (``INSIDE``: it needs no clamping):
    ``$into = load(source[$index])``.
    """

    form: ClassVar[str] = r"load({source}[\[{index:scalar}\]])"
    source: str = attrs.field(metadata=READS)
    into: str = attrs.field(metadata=INTRODUCES)
    index: str | None = attrs.field(default=None, metadata=USES)
    tags: Tags = Tags()
    deps: tuple[int, ...] = ()


@attrs.frozen(cache_hash=True, repr=False)
class Store(Node):
    """``into = store($source)``: write or merge one element; ``index`` as for :class:`Load`."""

    form: ClassVar[str] = r"{into}[\[{index:scalar}\]] = store({source:scalar})"
    source: str = attrs.field(metadata=USES)
    into: str = attrs.field(metadata=WRITES)
    index: str | None = attrs.field(default=None, metadata=USES)
    tags: Tags = Tags()
    deps: tuple[int, ...] = ()


@attrs.frozen(cache_hash=True, repr=False)
class LoadIndex(Definition):
    """``$into = load_index(affine)``: the value of an integral affine of the block's indices, as ``dtype``."""

    form: ClassVar[str] = "load_index{dtype:suffix}({affine})"
    affine: Affine
    into: str = attrs.field(metadata=INTRODUCES)
    dtype: DType
    tags: Tags = Tags()
    deps: tuple[int, ...] = ()


@attrs.frozen(cache_hash=True, repr=False)
class Constant(Definition):
    """``$into = (dtype)value``; compared by text, so that 0.0 is not -0.0 and a NaN equals another."""

    form: ClassVar[str] = "({dtype:kind}){value}"
    into: str = attrs.field(metadata=INTRODUCES)
    dtype: DType
    value: bool | int | float = attrs.field(eq=repr)
    tags: Tags = Tags()
    deps: tuple[int, ...] = ()


@attrs.frozen(cache_hash=True, repr=False)
class Intrinsic(Definition):
    """``$into = op($inputs…)`` with result ``dtype``; :class:`tileir.core.ops.OpInfo` defines the operand dtypes."""

    form: ClassVar[str] = "{op}{dtype:suffix}{inputs:scalars}"
    op: Op
    inputs: tuple[str, ...] = attrs.field(metadata=USES)
    into: str = attrs.field(metadata=INTRODUCES)
    dtype: DType
    tags: Tags = Tags()
    deps: tuple[int, ...] = ()


@attrs.frozen(cache_hash=True, repr=False)
class Convert(Definition):
    """``$into = cast_dtype($input)``: :func:`tileir.core.numbers.arithmetic.cast`."""

    form: ClassVar[str] = "{dtype:cast}{input:operand}"
    input: str = attrs.field(metadata=USES)
    into: str = attrs.field(metadata=INTRODUCES)
    dtype: DType
    tags: Tags = Tags()
    deps: tuple[int, ...] = ()


@attrs.frozen(cache_hash=True, repr=False)
class Special(Node):
    """A named operation on whole views: ``(outputs…) = name(inputs…)``.

    Known are ``copy`` and ``transpose`` (one input, one output), ``fill`` (no input; the parameter ``value``) and
    ``zero``, and the hint ``prefetch`` (no output; the parameter ``ahead``, in elements). ``order`` (one input, one
    output; the parameter ``descending``, 0 or 1) stores the places of the elements of a row in sorted order, as
    :func:`tileir.core.numbers.arithmetic.order` does: as many as the output, a row of integers, has elements.
    ``attend`` and ``attend_back`` are in :mod:`tileir.stripe.attention`, ``add_segments`` is in
    :mod:`tileir.stripe.segments`. Others are for back ends and tensorisation, and have no meaning here.
    """

    form: ClassVar[str] = "{outputs:names} = {name}{inputs:arguments}"
    name: str
    inputs: tuple[str, ...] = attrs.field(metadata=READS)
    outputs: tuple[str, ...] = attrs.field(metadata=WRITES)
    parameters: tuple[tuple[str, TagValue], ...] = attrs.field(default=(), eq=repr)  # tells 0.0 from -0.0
    tags: Tags = Tags()
    deps: tuple[int, ...] = ()


@attrs.frozen(cache_hash=True, repr=False)
class Reduction(Node):
    """Tuple reduction of a block whose points update a state in order: its INOUT views, of one element each.

    A point is a step of the rule of ``combine`` for ``elements`` counted in ``positions``. So elements may be
    regrouped: by several states that begin with the identity, and are merged by the rule.
    """

    form: ClassVar[str] = "reduction {combine} {elements} {positions}"
    combine: Combine
    elements: DType
    positions: DType

    @property
    def rule(self) -> Rule:
        """Identity, step and merge."""
        return self.combine.rule(self.elements, self.positions)


@attrs.frozen(cache_hash=True, repr=False)
class Block(TopLevelNode):
    """Statements under indices, refinements, and constraints, affines in the indices that must be >= 0."""

    name: str = ""
    indices: tuple[Index, ...] = ()
    constraints: tuple[Affine, ...] = ()
    refinements: tuple[Refinement, ...] = ()
    statements: tuple[Statement, ...] = attrs.field(default=(), metadata=BODY)
    comments: tuple[str, ...] = ()
    location: Location = ()
    tags: Tags = Tags()
    deps: tuple[int, ...] = ()
    reduction: Reduction | None = None
    instruction: Instruction | None = None

    @property
    def words(self) -> Tags:
        """Its words in text: its tags, and that for its instruction."""
        if self.instruction is None:
            return self.tags
        from tileir.stripe.text.instruction_words import instruction_words  # forms are slow to import

        return self.tags.add(**instruction_words(self.instruction))

    def refinement(self, name: str) -> Refinement:
        """Return the refinement with this name; a KeyError is a defect of the caller."""
        for refinement in self.refinements:
            if refinement.name == name:
                return refinement
        raise KeyError(name)

    @property
    def is_serial(self) -> bool:
        """True if the points of this block, without nested blocks, run one after another."""
        return any(index.serial for index in self.indices)

    def index(self, name: str) -> Index:
        """Return the index with this name; a KeyError is a defect of the caller."""
        for index in self.indices:
            if index.name == name:
                return index
        raise KeyError(name)

    @property
    def points(self) -> int:
        """Number of points of its box, without constraints."""
        return prod([index.range for index in self.indices])

    @property
    def ranges(self) -> dict[str, int]:
        """Range of each index, by name."""
        return {index.name: index.range for index in self.indices}

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The statements that are blocks."""
        return tuple([s for s in self.statements if isinstance(s, Block)])

    def nested(self) -> Iterator[Block]:
        """Yield this block and all nested blocks, outer blocks first; without recursion."""
        pending = [self]
        while pending:
            block = pending.pop()
            yield block
            pending.extend(reversed(block.blocks))

    def summary(self) -> str:
        """Return the name, the indices, and the number of statements."""
        indices = ", ".join(f"{index.name}:{index.range}" for index in self.indices)
        return f"{self.name}[{indices}]: {counted(statements_in(self.statements), 'statement')}"


Statement: TypeAlias = Load | Store | LoadIndex | Constant | Intrinsic | Convert | Special | Block


@attrs.frozen(cache_hash=True, repr=False)
class Buffer(Node):
    """Constant content of a tensor: row-major elements, little-endian."""

    form: ClassVar[str] = "buffer {name} = {data}"
    name: str
    data: Content = attrs.field(repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the parts for pickles and copies: bytes, since views of memory cannot be pickled."""
        return type(self), (self.name, bytes(self.data))


def scalar_inputs(statement: Statement) -> tuple[str, ...]:
    """Return the scalars that ``statement`` reads."""
    return schema.used(statement)


def scalar_output(statement: Statement) -> str | None:
    """Return the scalar that ``statement`` defines, if any."""
    return statement.into if isinstance(statement, Definition) else None


def views_read(statement: Statement) -> tuple[str, ...]:
    """Return the names, in the enclosing block, of the refinements that ``statement`` reads."""
    if isinstance(statement, Load):
        return (statement.source,)
    if isinstance(statement, Block):
        return tuple([view.source for view in statement.refinements if view.direction.reads])
    return statement.inputs if isinstance(statement, Special) else ()


def views_written(statement: Statement) -> tuple[str, ...]:
    """Return the names, in the enclosing block, of the refinements that ``statement`` writes."""
    if isinstance(statement, Store):
        return (statement.into,)
    if isinstance(statement, Block):
        return tuple([view.source for view in statement.refinements if view.direction.writes])
    return statement.outputs if isinstance(statement, Special) else ()


def renamed(statement: Statement, scalars: Mapping[str, str], views: Mapping[str, str]) -> Statement:
    """Return a statement with the scalars and refinements of its block renamed; itself if it has none of them."""
    if not isinstance(statement, Block):
        return schema.with_names(statement, scalars, views)
    sourced = rewritten(
        statement.refinements,
        lambda view: (attrs.evolve(view, source=views[view.source]) if view.source in views else view,),
    )
    return statement if sourced is statement.refinements else attrs.evolve(statement, refinements=sourced)
