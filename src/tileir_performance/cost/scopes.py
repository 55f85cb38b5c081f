"""The blocks of a kernel with absolute loops, constraints and accesses, as a basis for counting.

Loops are numbered, since nested blocks may use one name twice. An access is a flat displacement, in elements, from the
start of its root: a tensor of the program, or an allocation inside the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tileir.core import Aggregation, DType, attrs
from tileir.poly.affine import Affine
from tileir.stripe import ir as stripe
from tileir_performance.cost.points import Constraint, Terms


@attrs.frozen
class Loop:
    """An index of some block, with the number that stands for it."""

    number: int
    name: str
    range: int
    binding: stripe.Binding | None

    @property
    def repeats(self) -> bool:
        """True if its values come one after the other."""
        return self.binding in (None, stripe.Binding.DOT)


@attrs.frozen
class Root:
    """Memory behind accesses.

    Attributes:
        number: Its number in its kernel.
        name: The tensor or allocation.
        elements: From the first to the last.
        location: The device name of an allocation; empty for tensors and by default.
        inside: Whether the kernel allocates it.
    """

    number: int
    name: str
    elements: int
    location: str = ""
    inside: bool = False


@attrs.frozen
class Access:
    """Access of one block to a root.

    Attributes:
        root: The accessed memory.
        terms: Step of the access for each loop.
        offset: Its start.
        dtype: Of the elements.
        sizes: (stride, count) of axes whose elements are chosen by data or by a special.
        reads: Whether the block's own statements load through it.
        writes: Whether they store through it.
        merging: Aggregation of stored values; None where they overwrite.
        chosen: The loops around a load or store of the one element that data choose; None for all other accesses.
    """

    root: Root
    terms: Terms
    offset: int
    dtype: DType
    sizes: tuple[tuple[int, int], ...] = ()
    reads: bool = False
    writes: bool = False
    merging: Aggregation | None = None
    chosen: tuple[int, ...] | None = None

    def step(self, loop: int) -> int:
        """Return the displacement of the access per iteration of a loop."""
        return next((step for number, step in self.terms if number == loop), 0)


@attrs.frozen(eq=False)
class Scope:
    """A block.

    Attributes:
        block: The block itself.
        loops: Its own loops, outermost first, without those of a single iteration.
        constraints: Its own.
        accesses: Accesses of its own scalar statements and specials, by the name of the view.
        children: The blocks among its statements.
        outer: The loops around it.
    """

    block: stripe.Block
    loops: tuple[Loop, ...]
    constraints: tuple[Constraint, ...]
    accesses: Mapping[str, Access]
    children: tuple[Scope, ...]
    outer: tuple[Loop, ...]

    def walk(self) -> Iterator[Scope]:
        """Yield this scope and all below, each before its children."""
        yield self
        for child in self.children:
            yield from child.walk()


def scope_of(kernel: stripe.Block, tensors: Mapping[str, stripe.Refinement]) -> Scope:
    """Return a kernel as a scope; ``tensors`` holds the memory that it sees, by name."""
    builder = _Numbering()
    views = {
        name: Access(builder.root(name, refinement, inside=False), (), 0, refinement.shape.dtype)
        for name, refinement in tensors.items()
    }
    return builder.scope(kernel, {}, views, ())


@attrs.define(eq=False, repr=False)
class _Numbering:
    """Numbers loops and roots while it goes down."""

    loops: int = 0
    roots: int = 0

    def root(self, name: str, refinement: stripe.Refinement, *, inside: bool) -> Root:
        """Return a new root."""
        self.roots += 1
        location = refinement.location[0].name if refinement.location else ""
        return Root(self.roots, name, refinement.shape.span, location, inside)

    def scope(
        self,
        block: stripe.Block,
        outer: Mapping[str, tuple[Terms, int]],
        sources: Mapping[str, Access],
        loops: tuple[Loop, ...],
    ) -> Scope:
        """Return one block; ``outer`` has the values of the indices around it."""
        values: dict[str, tuple[Terms, int]] = {}
        own: list[Loop] = []
        for index in block.indices:
            terms, offset = ((), 0) if index.affine is None else _value(index.affine, outer)
            if index.range != 1:
                self.loops += 1
                own.append(Loop(self.loops, index.name, index.range, index.binding))
                terms = (*terms, (self.loops, 1))
            values[index.name] = terms, offset
        views = {r.name: self._view(r, values, sources) for r in block.refinements}
        around = (*loops, *own)
        return Scope(
            block,
            tuple(own),
            tuple(Constraint(*_value(constraint, values)) for constraint in block.constraints),
            _own_accesses(block, views, tuple(loop.number for loop in around)),
            tuple(self.scope(child, values, views, around) for child in block.blocks),
            loops,
        )

    def _view(
        self,
        refinement: stripe.Refinement,
        values: Mapping[str, tuple[Terms, int]],
        sources: Mapping[str, Access],
    ) -> Access:
        shape = refinement.shape
        if refinement.direction is stripe.Direction.NONE:
            return Access(self.root(refinement.name, refinement, inside=True), (), 0, shape.dtype)
        source = sources[refinement.source]
        steps, offset = dict(source.terms), source.offset
        for affine, dim in zip(refinement.access, shape.dims, strict=True):
            terms, start = _value(affine, values)
            offset += start * dim.stride
            for loop, coefficient in terms:
                steps[loop] = steps.get(loop, 0) + coefficient * dim.stride
        found = tuple((loop, step) for loop, step in steps.items() if step)
        return Access(source.root, found, offset, shape.dtype)


def _value(affine: Affine, values: Mapping[str, tuple[Terms, int]]) -> tuple[Terms, int]:
    """Return an affine of a block's indices in terms of loops."""
    offset = int(affine.offset)
    if len(affine.terms) == 1:
        name, coefficient = affine.terms[0]
        terms, start = values[name]
        factor = int(coefficient)
        return tuple((loop, step * factor) for loop, step in terms), offset + start * factor
    steps: dict[int, int] = {}
    for name, coefficient in affine.terms:
        terms, start = values[name]
        offset += start * int(coefficient)
        for loop, step in terms:
            steps[loop] = steps.get(loop, 0) + step * int(coefficient)
    return tuple((loop, step) for loop, step in steps.items() if step), offset


def _own_accesses(block: stripe.Block, views: Mapping[str, Access], around: tuple[int, ...]) -> dict[str, Access]:
    """Return the accesses of the block's own statements by view; ``around`` are the loops."""
    found: dict[str, Access] = {}
    for statement in block.statements:
        match statement:
            case stripe.Load(source=name, index=index):
                chosen = None if index is None else around
                found[name] = _touched(block, found.get(name, views[name]), name, reads=True, chosen=chosen)
            case stripe.Store(into=name, index=index):
                chosen = None if index is None else around
                found[name] = _touched(block, found.get(name, views[name]), name, reads=False, chosen=chosen)
            case stripe.Special(inputs=inputs, outputs=outputs):
                for name in inputs:
                    found[name] = _whole(block, found.get(name, views[name]), name, reads=True)
                for name in outputs:
                    found[name] = _whole(block, found.get(name, views[name]), name, reads=False)
    return found


def _touched(block: stripe.Block, access: Access, name: str, *, reads: bool, chosen: tuple[int, ...] | None) -> Access:
    """Return an access through which an element is loaded or stored; ``chosen`` where data choose it along axis 0."""
    refinement = block.refinement(name)
    dims = () if chosen is None else refinement.shape.dims[:1]
    aggregation = refinement.aggregation
    merging = None if reads or aggregation is None or aggregation.op is None else aggregation
    return attrs.evolve(
        access,
        sizes=access.sizes or tuple((dim.stride, dim.size) for dim in dims),
        reads=access.reads or reads,
        writes=access.writes or not reads,
        merging=access.merging or merging,
        chosen=chosen if access.chosen is None else access.chosen,
    )


def _whole(block: stripe.Block, access: Access, name: str, *, reads: bool) -> Access:
    dims = block.refinement(name).shape.dims
    sizes = tuple((dim.stride, dim.size) for dim in dims)
    return attrs.evolve(access, sizes=sizes, reads=access.reads or reads, writes=access.writes or not reads)
