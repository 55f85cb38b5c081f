"""Gathers at close constant places, by vectors of neighbours with permuted lanes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from tileir.core import DType, NameScope, Op, attrs
from tileir.core.numbers.arithmetic import Array
from tileir.passes.algorithms.terms import elements_of
from tileir.passes.analysis import address, roots
from tileir.passes.base import at_least, with_kernels
from tileir.passes.fusion.row_producers import RowProducer, producer_of
from tileir.passes.kernels import called_block, left, schedule as sch, vector_lanes
from tileir.passes.schedules.vectors.near_places import NearPlaces, Neighbours
from tileir.poly.affine import Affine
from tileir.schedule import Node, Refused, Use, emit, refused, remark
from tileir.stripe.ir import (
    Binding,
    Block,
    Buffer,
    Constant,
    Direction,
    Index,
    Intrinsic,
    Load,
    Program,
    Refinement,
    Statement,
    Store,
    TensorShape,
    allocation,
    scalar_output,
)


@attrs.frozen
class PermuteGather:
    """Turn gathers with constant indices within a vector into a load and a shuffle.

    This includes gathers of rows of an image that is enlarged, or reduced only a little. Values that accompany
    addresses, such as interpolation weights, are repeated for each channel. Addresses and values become constants in
    the order of the vectors. A source row that another kernel computes only for this one is recomputed in place of the
    load if that is cheap.

    Attributes:
        vector_bytes: Width of a vector register in bytes; below 32, a vector rarely holds two pixels.
        max_lanes: Maximum number of lanes of a vector; 0 for as many as fit.
    """

    name: ClassVar[str] = "permute_gather"
    vector_bytes: int = attrs.field(default=32, validator=at_least(1))
    max_lanes: int = attrs.field(default=0, validator=at_least(0))

    def __call__(self, program: Program) -> Program:
        """Return the program with these kernels vectorised, and their constants."""
        lanes = vector_lanes(self.vector_bytes, 4, self.max_lanes)
        held = {buffer.name: buffer for buffer in program.buffers}
        behind = roots(program)
        dtypes = {r.name: r.shape.dtype for r in program.memory}
        known = {
            name: elements_of(held[root], dtypes[root]).reshape(-1) for name, root in behind.items() if root in held
        }
        if lanes < _LEAST_LANES or not known:
            return left(program, refused("TR318", lanes=lanes, least=_LEAST_LANES) if known else refused("TR319"))
        inside = (r.name for kernel in program.main.blocks for r in kernel.refinements)
        tables = _Tables(NameScope.of((*behind, *dtypes, *inside)))
        ranks = {r.name: len(r.access) for r in program.main.refinements}

        before = program.main.statements
        kept = frozenset(name for name, root in behind.items() if root in {*program.inputs, *program.outputs, *held})

        def permuted(number: int, statement: Statement) -> Statement:
            if not isinstance(statement, Block):
                return statement
            near = NearPlaces.of(statement, known, lanes)
            if isinstance(near, Refused):
                remark(called_block(statement), near, number=number)
                return statement
            remark(called_block(statement), None, (("line", near.count), ("lanes", near.width)), number)
            views = {each.view.name: each.view for each in near.neighbours}
            found = {name: producer_of(before, number, near, view, kept) for name, view in views.items()}
            producers = {name: producer for name, producer in found.items() if producer is not None}
            return _Permuted(near, ranks, producers, tables.table).kernel()

        statements = tuple(permuted(number, statement) for number, statement in enumerate(before))
        return tables.added(program, statements) if tables.made else program


_LEAST_LANES = 8


@attrs.define(eq=False, repr=False)
class _Tables:
    """Constant tensors created by the pass."""

    names: NameScope
    made: dict[str, tuple[Array, DType]] = attrs.field(factory=dict)

    def table(self, stem: str, elements: Array, dtype: DType) -> str:
        """Return the name of a tensor with these elements."""
        name = self.names.fresh(stem)
        self.made[name] = (elements, dtype)
        return name

    def added(self, program: Program, statements: tuple[Statement, ...]) -> Program:
        """Return the program with other kernels, and the created tensors."""
        allocations, buffers = [], []
        for name, (elements, dtype) in self.made.items():
            allocations.append(attrs.evolve(allocation(name, dtype, elements.shape), constant=True))
            buffers.append(Buffer(name, elements.astype(dtype.numpy.newbyteorder("<")).tobytes()))
        return with_kernels(program, statements, (*program.memory, *allocations), (*program.buffers, *buffers))


@attrs.define(eq=False, repr=False)
class _Permuted:
    """Builder of one kernel.

    Attributes:
        near: The neighbours that it reads.
        ranks: Number of axes of each tensor.
        producers: Kernels that are recomputed here, by the view of their result.
        table: Function from a stem, elements and a dtype to the name of a new constant tensor.
    """

    near: NearPlaces
    ranks: Mapping[str, int]
    producers: Mapping[str, RowProducer]
    table: Callable[[str, Array, DType], str]
    names: NameScope = attrs.field(init=False)
    _tables: dict[str, tuple[str, DType]] = attrs.field(factory=dict, init=False)
    _starts: list[str] = attrs.field(factory=list, init=False)
    _views: dict[tuple[str, str], Refinement] = attrs.field(factory=dict, init=False)
    _seen: dict[str, str] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        kernel = self.near.kernel
        scalars = filter(None, map(scalar_output, kernel.statements))
        self.names = NameScope.of((*(i.name for i in kernel.indices), *(r.name for r in kernel.refinements), *scalars))

    def kernel(self) -> Block:
        """Return the kernel."""
        near = self.near
        for into, values in near.tables.items():
            dtype = self._dtype(into)
            self._tables[into] = (self.table(into, values, dtype), dtype)
        for neighbours in near.neighbours:
            self._starts.append(self.table("starts", neighbours.starts, DType.I32))
            for into, lanes in neighbours.lanes.items():
                self._tables[into] = (self.table("lanes", lanes, DType.U8), DType.U8)
        self.names.add(*self._starts, *(name for name, _ in self._tables.values()))
        vectors = near.count // near.width
        step = sch.index(self.names.fresh("run"), vectors)
        children = [self._vectors(sch.present((step,)), sch.part(step), sch.part(step, near.width))]
        if len(near.firsts) > vectors:
            children.append(self._vectors((), Affine.constant(vectors), Affine.constant(int(near.firsts[-1]))))
        outer = tuple(i for i in near.kernel.indices if i not in near.line)
        made = [*self._starts, *(name for name, _ in self._tables.values())]
        views = [Refinement(name, Direction.IN, name, (Affine(),), TensorShape(DType.I32)) for name in made]
        template = attrs.evolve(near.kernel, refinements=(*near.kernel.refinements, *views, *self._views.values()))
        return emit(Node(outer, children=tuple(children)), template)

    def _dtype(self, into: str) -> DType:
        load = next(s for s in self.near.kernel.statements if isinstance(s, Load) and s.into == into)
        return self.near.kernel.refinement(load.source).shape.dtype

    def _vectors(self, loop: tuple[Index, ...], number: Affine, first: Affine) -> Node:
        """Return a loop over vectors; that with this ``number`` begins with the element ``first`` of the line."""
        near = self.near
        lane = sch.index(self.names.fresh("lane"), near.width, Binding.LANE)
        allocations, children = [], []
        held: dict[str, str] = {}
        for neighbours, starts in zip(near.neighbours, self._starts, strict=True):
            name = self.names.fresh("near")
            allocations.append(allocation(name, neighbours.view.shape.dtype, (near.width,), sch.REGISTER))
            children.append(self._loaded(neighbours, starts, name, number, lane))
            held.update(dict.fromkeys(neighbours.lanes, name))
        children.append(self._computed(held, number, first, lane))
        return Node(loop, tuple(allocations), tuple(children))

    def _loaded(self, neighbours: Neighbours, starts: str, name: str, number: Affine, lane: Index) -> Node:
        view, width = neighbours.view, self.near.width
        dtype = view.shape.dtype
        place = Use(self._here(starts), starts, (number,), (1,), DType.I32, Direction.IN, sizes=(1,))
        target = Use(self._here(name), name, (sch.part(lane),), (1,), dtype, Direction.OUT, sizes=(1,))
        producer = self.producers.get(view.name)
        if producer is not None:
            scalars = NameScope.of(filter(None, map(scalar_output, producer.kernel.statements)))
            start = scalars.fresh("start")
            statements, uses = self._produced(producer, lane, start, scalars)
            statements = [Load(place.name, start), *statements, Store(producer.store.source, target.name)]
            return Node((lane,), statements=tuple(statements), uses=(place, *uses, target))
        source = self._flat(view, sch.part(lane), (neighbours.extent - width + 1,))
        loads = (Load(place.name, "start"), Load(source.name, "near", "start"), Store("near", target.name))
        return Node((lane,), statements=loads, uses=(place, source, target))

    def _produced(
        self, producer: RowProducer, lane: Index, start: str, scalars: NameScope
    ) -> tuple[list[Statement], list[Use]]:
        """Return statements that compute the elements of a row from a scalar's place on, without their store."""
        statements: list[Statement] = []
        uses: dict[str, Use] = {}
        row = producer.kernel.ranges[producer.along] - self.near.width

        def defined(op: Op, one: str, other: str | int) -> str:
            if isinstance(other, int):
                number, other = other, scalars.fresh("number")
                statements.append(Constant(other, DType.I32, number))
            statements.append(Intrinsic(op, (one, other), into := scalars.fresh("place"), DType.I32))
            return into

        for statement in producer.kernel.statements[:-1]:
            if not isinstance(statement, Load):
                statements.append(statement)
                continue
            view = self._view_of(producer, statement.source)
            along, reach = (sch.part(lane), row + 1) if producer.steps(view) else (Affine(), 1)
            place = start if producer.steps(view) else None
            if statement.index is not None:
                first = view.shape.dims[0]
                inside = defined(Op.MIN, defined(Op.MAX, statement.index, 0), first.size - 1)
                chosen = defined(Op.MUL, inside, first.stride)
                place, reach = chosen if place is None else defined(Op.ADD, chosen, place), reach
                reach += (first.size - 1) * first.stride
            moved = {old: Affine.index(new) for old, new in producer.names.items()}
            access = tuple(a.substitute({producer.along: Affine(), **moved}) for a in view.access)
            here = attrs.evolve(view, access=access)
            use = self._flat(here, along, () if place is None else (reach,))
            uses[use.name] = use
            statements.append(attrs.evolve(statement, source=use.name, index=place, deps=()))
        return statements, list(uses.values())

    def _here(self, root: str) -> str:
        """Return the name in blocks of the view of a constant tensor or of a register."""
        if root not in self._seen:
            self._seen[root] = self.names.fresh(root)
        return self._seen[root]

    def _view_of(self, producer: RowProducer, source: str) -> Refinement:
        """Return a view of a producer under a fresh name."""
        key = (producer.kernel.name, source)
        if key not in self._views:
            view = producer.kernel.refinement(source)
            self._views[key] = attrs.evolve(view, name=self.names.fresh(view.name))
        return self._views[key]

    def _computed(self, held: dict[str, str], number: Affine, first: Affine, lane: Index) -> Node:
        near, kernel = self.near, self.near.kernel
        element = number * near.width + sch.part(lane)
        statements: list[Statement] = []
        uses: dict[str, Use] = {}
        for statement in kernel.statements:
            match statement:
                case Load(into=into) if into in near.places:
                    continue
                case Load(into=into) if into in self._tables:
                    name, dtype = self._tables[into]
                    use = Use(self._here(name), name, (element,), (1,), dtype, Direction.IN, sizes=(1,))
                    uses[use.name] = use
                    if into not in held:
                        statements.append(attrs.evolve(statement, source=use.name))
                        continue
                    chosen, root = self.names.fresh("lane"), held[into]
                    dtype = kernel.refinement(statement.source).shape.dtype
                    seen = Use(self._here(root), root, (Affine(),), (1,), dtype, Direction.IN, sizes=(near.width,))
                    uses[seen.name] = seen
                    statements.append(Load(use.name, chosen))
                    statements.append(attrs.evolve(statement, source=seen.name, index=chosen))
                case Load(source=source):
                    uses[source] = self._flat(kernel.refinement(source), Affine())
                    statements.append(statement)
                case Store(into=into):
                    uses[into] = self._flat(kernel.refinement(into), first + sch.part(lane))
                    statements.append(statement)
                case _:
                    statements.append(statement)
        return Node((lane,), statements=tuple(statements), uses=tuple(uses.values()), tags=kernel.tags)

    def _flat(self, view: Refinement, along: Affine, chosen: tuple[int, ...] = ()) -> Use:
        """Return a view with an axis for each index except the line's, and one for the place ``along`` the line.

        In front is the axis along which ``chosen`` elements can be selected, if any.
        """
        line = {index.name for index in self.near.line}
        where = address(view)
        outer = [(name, int(step)) for name, step in where.terms if name not in line]
        access = [*(Affine() for _ in chosen), *(Affine.index(name) for name, _ in outer), along + int(where.offset)]
        strides = [*(1 for _ in chosen), *(step for _, step in outer), 1]
        sizes = [*chosen, *(1 for _ in outer), 1]
        if len(access) == self.ranks[view.source]:  # axes of the tensor would have its strides
            access, strides, sizes = [*access, Affine()], [*strides, 1], [*sizes, 1]
        direction = Direction.OUT if view.direction.writes else Direction.IN
        return Use(
            view.name,
            view.name,
            tuple(access),
            tuple(strides),
            view.shape.dtype,
            direction,
            view.aggregation,
            tuple(sizes),
        )
