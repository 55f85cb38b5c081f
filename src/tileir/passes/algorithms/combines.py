"""Construction of the kernels of tuple reductions with several states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tileir.core import DType, NameScope, attrs
from tileir.passes.kernels import schedule as sch
from tileir.poly.affine import Affine
from tileir.schedule import Node, Use, emit, with_values
from tileir.stripe import ir as stripe
from tileir.stripe.reductions import state_of, statements_of


@attrs.frozen(repr=False)
class TupleReduction:
    """A kernel that reduces to a state of several components.

    Attributes:
        kernel: The kernel.
        step: The inner block that consumes elements.
        reduction: The reduction statement of that block.
        outer: The indices of the kernel.
        inner: The indices of the block, in order.
        reads: The inputs of the block, with accesses over all indices.
        results: Number and target view of each component that is stored.
    """

    kernel: stripe.Block
    step: stripe.Block
    reduction: stripe.Reduction
    outer: tuple[stripe.Index, ...]
    inner: tuple[stripe.Index, ...]
    reads: tuple[Use, ...]
    results: tuple[tuple[int, Use], ...]

    @classmethod
    def of(cls, kernel: stripe.Block) -> TupleReduction | None:
        """Return the reduction of a kernel; None if it does anything else, or differs from the lowering's form."""
        blocks = kernel.blocks
        if len(blocks) != 1 or blocks[0].reduction is None or kernel.constraints or blocks[0].constraints:
            return None
        step = blocks[0]
        indices = (*kernel.indices, *step.indices)
        plain = all(i.affine is None for i in indices) and not any(i.is_marked for i in kernel.indices)
        if not plain or not step.indices or step.blocks or len({i.name for i in indices}) < len(indices):
            return None
        state = {step.refinement(name).source: number for number, name in enumerate(state_of(step))}
        own = {view.name for view in kernel.refinements if view.direction is stripe.Direction.NONE}
        results = _results(kernel, state)
        reads = [view for view in step.refinements if view.direction is stripe.Direction.IN]
        if results is None or own != set(state) or any(view.source in own for view in reads):
            return None
        uses = tuple(_use(kernel.refinement(view.source), view) for view in reads)
        return cls(kernel, step, blocks[0].reduction, kernel.indices, step.indices, uses, results)

    @property
    def widest_itemsize(self) -> int:
        """The bytes of the widest element in the arithmetic of a step."""
        dtypes = [use.dtype for use in self.reads] + list(self.reduction.rule.state)
        dtypes += [s.dtype for s in self.step.statements if isinstance(s, stripe.Intrinsic | stripe.Convert)]
        return max(sch.computing_itemsize(dtype) for dtype in dtypes)

    def is_contiguous(self, index: str) -> bool:
        """Return whether inputs are contiguous along an index, or constant."""
        strides = [use.stride(index) for use in self.reads]
        return 1 in strides and all(stride in (0, 1) for stride in strides)

    def stores_along(self, index: str) -> bool:
        """Return whether results are contiguous along an index."""
        return all(use.stride(index) == 1 for _, use in self.results)


def _results(kernel: stripe.Block, state: Mapping[str, int]) -> tuple[tuple[int, Use], ...] | None:
    """Return the components that a kernel stores; None if it begins or ends unlike the lowering's form."""
    views = {view.name: view for view in kernel.refinements}
    loaded: dict[str, int] = {}
    results: list[tuple[int, Use]] = []
    behind = False
    for statement in kernel.statements:
        match statement:
            case stripe.Block():
                behind = True
            case stripe.Constant() if not behind:
                pass
            case stripe.Store(into=into, index=None) if not behind and into in state:
                pass
            case stripe.Load(source=source, into=into, index=None) if behind and source in state:
                loaded[into] = state[source]
            case stripe.Store(source=source, into=into, index=None) if behind and source in loaded:
                if into in state or views[into].direction is not stripe.Direction.OUT or views[into].merges:
                    return None
                results.append((loaded[source], _use(views[into])))
            case _:
                return None
    return tuple(results)


def _use(outer: stripe.Refinement, inner: stripe.Refinement | None = None) -> Use:
    """Return the use of a view of the kernel, or of a nested view of that."""
    view = outer if inner is None else inner
    access = outer.access if inner is None else tuple(map(_sum, outer.access, inner.access))
    return Use(view.name, outer.name, access, outer.shape.strides, outer.shape.dtype, outer.direction)


def _sum(left: Affine, right: Affine) -> Affine:
    return left + right


@attrs.frozen(repr=False)
class _States:
    """Several states, in accumulators of at most one axis, and their names in statements."""

    names: tuple[str, ...]
    count: int

    def allocations(self, dtypes: Sequence[DType]) -> tuple[stripe.Refinement, ...]:
        """Return the accumulators."""
        sizes = (self.count,) if self.count > 1 else ()
        return tuple(
            stripe.Refinement(
                name,
                stripe.Direction.NONE,
                "",
                tuple(Affine() for _ in sizes),
                stripe.TensorShape.dense(dtype, sizes),
                location=sch.REGISTER,
            )
            for name, dtype in zip(self.names, dtypes, strict=True)
        )

    def uses(self, dtypes: Sequence[DType], place: Affine, seen: Sequence[str] | None = None) -> tuple[Use, ...]:
        """Return uses of the state at a place, under the names ``seen``; uses under other names only read."""
        access, strides = ((place,), (1,)) if self.count > 1 else ((), ())
        direction = stripe.Direction.INOUT if seen is None else stripe.Direction.IN
        return tuple(
            Use(view, name, access, strides, dtype, direction)
            for view, name, dtype in zip(seen or self.names, self.names, dtypes, strict=True)
        )


@attrs.define(eq=False, repr=False)
class CombineKernels:
    """Builder of the kernels of one reduction."""

    found: TupleReduction
    _names: NameScope = attrs.field(init=False)
    _state: tuple[str, ...] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        kernel, step = self.found.kernel, self.found.step
        indices = (index.name for index in (*kernel.indices, *step.indices))
        views = (view.name for view in (*kernel.refinements, *step.refinements))
        self._names = NameScope.of((*indices, *views, *(view.source for view in kernel.refinements)))
        self._state = state_of(step)

    @property
    def _dtypes(self) -> tuple[DType, ...]:
        return self.found.reduction.rule.state

    def along(
        self, index: stripe.Index, lanes: int, vectors: int, parts: int, temporaries: NameScope
    ) -> tuple[list[stripe.Block], list[stripe.Refinement]]:
        """Return kernels whose lanes take elements along an index, in ``parts`` parts; and their temporaries."""
        length = index.range // parts
        if parts == 1:
            nodes = self._lanes_along(index, Affine(), length, lanes, vectors)
            states = self._states(lanes * vectors)
            return [self._kernel(self.found.outer, states, (*nodes, self._stored(states, Affine())), ())], []
        kept = sch.present(self.found.outer)
        made = [
            stripe.Refinement(
                temporaries.fresh(f"{self.found.kernel.refinements[0].source}_states"),
                stripe.Direction.NONE,
                "",
                tuple(Affine() for _ in range(len(kept) + 1)),
                stripe.TensorShape.dense(dtype, (*(i.range for i in kept), parts + (index.range % parts > 0))),
            )
            for dtype in self._dtypes
        ]
        blocks = [self._part(index, made, (0, parts, length), lanes, vectors)]
        if left := index.range % parts:
            fits = min(vectors, left // lanes)
            blocks.append(self._part(index, made, (parts, 1, left), lanes if fits else 1, max(1, fits)))
        return [*blocks, self._merged(made)], made

    def _states(self, count: int) -> _States:
        return _States(self._state, count)

    def _part(
        self,
        index: stripe.Index,
        made: Sequence[stripe.Refinement],
        run: tuple[int, int, int],
        lanes: int,
        vectors: int,
    ) -> stripe.Block:
        """Return a kernel that stores the states of parts; ``run`` has the first one, their number, and length."""
        first, count, length = run  # the shorter last part is numbered by the parts before it
        number = sch.index(self._names.fresh(f"{index.name}_part"), count)
        start = sch.part(number, length) + (index.range - length if first else 0)
        nodes = self._lanes_along(index, start, length, lanes, vectors)
        states = self._states(lanes * vectors)
        uses = [self._temporary(memory, sch.part(number) + first, stripe.Direction.OUT) for memory in made]
        stored = self._stored(states, Affine(), list(enumerate(uses)))
        outer = (*self.found.outer, *sch.present((number,)))
        views = [attrs.evolve(m, direction=stripe.Direction.OUT, source=m.name) for m in made]
        return self._kernel(outer, states, (*nodes, stored), views, results=False)

    def _temporary(self, memory: stripe.Refinement, place: Affine, direction: stripe.Direction) -> Use:
        kept = (sch.part(i) for i in sch.present(self.found.outer))
        strides = memory.shape.strides
        return Use(memory.name, memory.name, (*kept, place), strides, memory.shape.dtype, direction)

    def _merged(self, made: Sequence[stripe.Refinement]) -> stripe.Block:
        """Return a kernel that merges the states of all parts."""
        number = stripe.Index(self._names.fresh("part"), made[0].shape.sizes[-1], serial=True)
        states = self._states(1)
        others = [self._temporary(memory, sch.part(number), stripe.Direction.IN) for memory in made]
        nodes = (self._begun(states, (), Affine()), self._merge(states, Affine(), others, (number,)))
        views = [attrs.evolve(m, direction=stripe.Direction.IN, source=m.name) for m in made]
        return self._kernel(self.found.outer, states, (*nodes, self._stored(states, Affine())), views, elements=False)

    def _lanes_along(
        self, index: stripe.Index, start: Affine, length: int, lanes: int, vectors: int
    ) -> tuple[Node, ...]:
        """Return nodes after which the first state is that of ``length`` elements along an index from a start.

        Each state takes its elements in order, as steps require.
        """
        width = lanes * vectors
        states = self._states(width)
        steps, left = divmod(length, width)
        place = [each.name for each in self.found.inner].index(index.name)
        around, within = self.found.inner[:place], self.found.inner[place + 1 :]

        def run(step: stripe.Index | None, lane: Affine, value: Affine, points: tuple[stripe.Index, ...]) -> Node:
            node = self._taken(states, lane, {index.name: start + value}, points)
            loops = (*(() if step is None else sch.present((step,))), *within)
            return Node(loops, children=(node,)) if loops else node

        points, inner = self._points(index.name, lanes, vectors, stripe.Binding.UNROLL)
        runs: list[Node] = []
        if steps:
            step = stripe.Index(self._names.fresh(f"{index.name}_step"), steps, serial=True)
            runs.append(run(step, inner, sch.part(step, width) + inner, points))
        if fewer := left // lanes if lanes > 1 else 0:
            more, lane = self._points(index.name, lanes, fewer, stripe.Binding.UNROLL)
            runs.append(run(None, lane, lane + steps * width, more))
        if rest := left - fewer * lanes:
            last = stripe.Index(self._names.fresh(f"{index.name}_rest"), rest, serial=True)
            runs.append(run(last, Affine(), sch.part(last) + (length - rest), ()))
        all_taken = (Node(around, children=tuple(runs)),) if around else tuple(runs)
        return (self._begun(states, points, inner), *all_taken, *self._halves(states, index.name, lanes, vectors))

    def _halves(self, states: _States, stem: str, lanes: int, vectors: int) -> list[Node]:
        """Return nodes that merge all vectors into the first, and then halves of its lanes."""
        nodes: list[Node] = []
        seen = [self._names.fresh(f"{name}_other") for name in states.names]
        for number in range(1, vectors):
            points, place = self._points(stem, lanes, 1, None)
            others = states.uses(self._dtypes, place + number * lanes, seen)
            nodes.append(self._merge(states, place, others, points))
        half = lanes // 2
        while half:
            points, place = self._points(stem, half, 1, None)
            others = states.uses(self._dtypes, place + half, seen)
            nodes.append(self._merge(states, place, others, points))
            half //= 2
        return nodes

    def across(self, index: stripe.Index, lanes: int, width: int) -> list[stripe.Block]:
        """Return kernels in which neighbours along an outer index are reduced together, in stretches of ``width``."""
        stretches, left = divmod(index.range, width)
        most = left // lanes * lanes
        runs = [
            (0, stretches, width, lanes),
            (stretches * width, 1 if most else 0, most, lanes),
            (stretches * width + most, left - most, 1, 1),
        ]
        return [self._stretch(index, *run) for run in runs if run[1]]

    def _stretch(self, index: stripe.Index, start: int, count: int, width: int, lanes: int) -> stripe.Block:
        stretch = sch.index(self._names.fresh(f"{index.name}_stretch"), count)
        points, inner = self._points(index.name, lanes, width // lanes, None)
        moved = {index.name: sch.part(stretch, width) + inner + start}
        states = self._states(width)
        taken = Node(self.found.inner, children=(self._taken(states, inner, moved, points),))
        results = [(number, use.substitute(moved)) for number, use in self.found.results]
        stored = attrs.evolve(self._stored(states, inner, results), indices=points)
        nodes = (self._begun(states, points, inner), taken, stored)
        others = tuple(i for i in self.found.outer if i.name != index.name)
        return self._kernel((*others, *sch.present((stretch,))), states, nodes, ())

    def _points(
        self, stem: str, lanes: int, vectors: int, binding: stripe.Binding | None
    ) -> tuple[tuple[stripe.Index, ...], Affine]:
        """Return indices over some vectors, and the number of a lane."""
        vector = sch.index(self._names.fresh(f"{stem}_vector"), vectors, binding)
        lane = sch.index(self._names.fresh(f"{stem}_lane"), lanes, stripe.Binding.LANE)
        return sch.present((vector, lane)), sch.part(vector, lanes) + sch.part(lane)

    def _begun(self, states: _States, points: tuple[stripe.Index, ...], place: Affine) -> Node:
        """Return a node that stores identities."""
        rule = self.found.reduction.rule
        statements: list[stripe.Statement] = []
        for name, dtype, identity in zip(states.names, rule.state, rule.identity, strict=True):
            statements.extend((stripe.Constant(name, dtype, identity), stripe.Store(name, name)))
        uses = (attrs.evolve(use, direction=stripe.Direction.OUT) for use in states.uses(rule.state, place))
        return Node(points, statements=tuple(statements), uses=tuple(uses))

    def _taken(
        self, states: _States, place: Affine, values: Mapping[str, Affine], points: tuple[stripe.Index, ...]
    ) -> Node:
        """Return a node in which the states at a place absorb the elements at values of indices."""
        reads = (use.substitute(values) for use in self.found.reads)
        statements = (with_values(statement, values) for statement in self.found.step.statements)
        return Node(points, statements=tuple(statements), uses=(*reads, *states.uses(self._dtypes, place)))

    def _merge(self, states: _States, place: Affine, others: Sequence[Use], points: tuple[stripe.Index, ...]) -> Node:
        """Return a node that merges other states into those at a place."""
        scalars = NameScope()
        left = [scalars.fresh(name) for name in states.names]
        right = [scalars.fresh(use.name) for use in others]
        loads = [stripe.Load(name, into) for name, into in zip(states.names, left, strict=True)]
        loads += [stripe.Load(use.name, into) for use, into in zip(others, right, strict=True)]
        computed, merged = statements_of(self.found.reduction.rule.merge, (*left, *right), scalars.fresh)
        stores = [stripe.Store(scalar, name) for name, scalar in zip(states.names, merged, strict=True)]
        statements = (*loads, *computed, *stores)
        return Node(points, statements=statements, uses=(*states.uses(self._dtypes, place), *others))

    def _stored(self, states: _States, place: Affine, results: Sequence[tuple[int, Use]] | None = None) -> Node:
        """Return a node that stores components of the state at a place, by default the results."""
        stored = self.found.results if results is None else results
        statements: list[stripe.Statement] = []
        for number, use in stored:
            statements.extend((stripe.Load(states.names[number], use.name), stripe.Store(use.name, use.name)))
        uses = (attrs.evolve(use, direction=stripe.Direction.IN) for use in states.uses(self._dtypes, place))
        return Node((), statements=tuple(statements), uses=(*uses, *(use for _, use in stored)))

    def _kernel(
        self,
        outer: tuple[stripe.Index, ...],
        states: _States,
        nodes: Sequence[Node],
        added: Sequence[stripe.Refinement],
        *,
        elements: bool = True,
        results: bool = True,
    ) -> stripe.Block:
        """Return a kernel over some indices; ``elements`` and ``results`` keep the original inputs and outputs."""
        kernel = self.found.kernel
        kept = {
            stripe.Direction.IN: elements,
            stripe.Direction.OUT: results,
            stripe.Direction.INOUT: True,
            stripe.Direction.NONE: False,
        }
        views = (*(view for view in kernel.refinements if kept[view.direction]), *added)
        root = Node(outer, states.allocations(self._dtypes), tuple(nodes))
        return attrs.evolve(emit(root, attrs.evolve(kernel, refinements=views)), deps=())
