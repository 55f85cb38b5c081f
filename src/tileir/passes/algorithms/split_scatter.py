"""Splitting of scatters into parts with a private table each, so that several threads can share the work.

The number of parts depends only on sizes and options, never on the number of threads, so results are reproducible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final

from tileir.core import Aggregation, NameScope, attrs
from tileir.passes.base import at_least
from tileir.passes.kernels import cleared_scatter, left, power_of_two_below
from tileir.passes.kernels.replacement import Outcome, Replacement, replaced_behind
from tileir.poly.affine import Affine
from tileir.schedule import Refused, accepted, product, refused, refusing, rule_out, with_values
from tileir.stripe import ir as stripe


@attrs.frozen
class SplitScatter:
    """Split scatters into parts with private tables, which are summed at the end.

    Each part adds to its own table, a slice of a temporary, and a contraction adds up the tables. The pass clears the
    tables in place of the result, so a kernel that clears the result must come right before.

    Attributes:
        parts: Maximum number of parts, a power of two; 1 for no split.
        updates: Minimum number of updates of a part for each element of a table.
        runs: Whether a part takes consecutive updates and whole rows of the target, as threads of processors do, which
            vectorise over rows. If not, neighbouring parts take neighbouring updates, and elements of a row count as
            parts, as threads of GPUs do.
        points: Minimum number of points of a kernel that is split.
        run: With ``runs``, target number of updates of a part that another pass will sort; parts are then equal, and
            updates have one index. 0 for ``parts`` parts.
    """

    name: ClassVar[str] = "split_scatter"
    parts: int = attrs.field(default=1, validator=at_least(1))
    updates: int = attrs.field(default=4, validator=at_least(1))
    runs: bool = False
    points: int = attrs.field(default=1, validator=at_least(1))
    run: int = attrs.field(default=0, validator=at_least(0))

    def __call__(self, program: stripe.Program) -> stripe.Program:
        """Return the program with these scatters split."""
        if self.parts < 2:
            return left(program, refused("TR620"))
        return replaced_behind(program, self._split)

    @refusing
    def _split(self, before: stripe.Statement | None, kernel: stripe.Block, names: NameScope) -> Outcome:
        """Return kernels that clear tables, fill them, and add them up; refused if several parts would not pay."""
        clear, output = accepted(cleared_scatter(before, kernel))
        rule_out(_against(kernel, output))
        free = [i for i in kernel.indices if all(i.name not in access.indices for access in output.access)]
        if not free:
            return refused("TR666")
        if kernel.points < self.points:
            return refused("TR611", points=kernel.points, least=self.points)
        index, parts = self._parts(kernel, output, free)
        if parts < 2:
            return refused("TR667", index=index.name, range=index.range)
        return self._by_tables(clear, kernel, output, index, parts, names)

    def _parts(
        self, kernel: stripe.Block, output: stripe.Refinement, free: Sequence[stripe.Index]
    ) -> tuple[stripe.Index, int]:
        """Return the index to split, of those that do not move the place of an update, and the number of parts."""
        beside = 1 if self.runs else product(index.range for index in kernel.indices if index not in free)
        index = max(free, key=lambda each: each.range)
        updates = product(each.range for each in free) // (self.updates * output.shape.dims[0].size)
        most = max(1, min(self.parts // max(1, beside), updates, index.range))
        if not self.runs:
            return index, power_of_two_below(most)
        if self.run:
            columns = product(each.range for each in kernel.indices if each not in free)
            wanted, most = -(-index.range // self.run), min(most, updates // columns)
            alone = wanted > _WHOLE and product(each.range for each in free) == index.range
            counts = range(wanted, min(2 * wanted, most + 1)) if alone else ()
            return index, next((each for each in counts if index.range % each == 0), 1)
        return index, next((each for each in range(most, most // 2, -1) if index.range % each == 0), most)

    def _by_tables(
        self,
        clear: stripe.Block,
        kernel: stripe.Block,
        output: stripe.Refinement,
        index: stripe.Index,
        parts: int,
        names: NameScope,
    ) -> Replacement:
        """Return the kernels that clear the tables, fill them, and add them up, and the tables."""
        (cleared,) = (r for r in clear.refinements if r.direction.writes)
        part = stripe.Index(NameScope.of(i.name for i in kernel.indices).fresh(f"{index.name}_part"), parts)
        tables = _Tables.of(names.fresh(f"{output.source}_parts"), output, _sizes(clear, cleared), part)
        own = Affine.index(part.name)
        empty = attrs.evolve(
            clear,
            indices=(*clear.indices, part),
            refinements=tuple(tables.view(r, own) if r is cleared else r for r in clear.refinements),
            deps=(),
        )
        filling = _runs(kernel, output, index, tables) if self.runs else (_turns(kernel, output, index, tables),)
        source = attrs.evolve(
            tables.view(cleared, own), name=tables.name, direction=stripe.Direction.IN, aggregation=None
        )
        total = attrs.evolve(cleared, direction=stripe.Direction.OUT, aggregation=Aggregation.SUM)
        merge = attrs.evolve(
            clear,
            name=f"{kernel.name}_merge" if kernel.name else "",
            indices=(*clear.indices, part),
            refinements=(source, total),
            statements=(stripe.Load(tables.name, "part"), stripe.Store("part", total.name)),
            comments=kernel.comments,
            tags=stripe.Tags.of("contraction", "agg_op_add", "comb_op_none"),
            deps=(),
        )
        return Replacement((empty, *filling, merge), (tables.allocation,), clears=True)


def _against(kernel: stripe.Block, output: stripe.Refinement) -> Refused | None:
    """Return why a scatter kernel gets no tables; None if it may have some."""
    if kernel.constraints:
        return refused("TR616")
    if any(isinstance(s, stripe.Store) and stripe.ATOMIC in s.tags for s in kernel.statements):
        return refused("TR694")
    if output.aggregation is not Aggregation.SUM or not output.access:
        return refused("TR668")
    return refused("TR627") if any(len(access.terms) > 1 for access in output.access) else None


_WHOLE: Final = 2
"""Number of parts from which on sorting all updates is faster than adding up tables."""


def _turns(kernel: stripe.Block, output: stripe.Refinement, index: stripe.Index, tables: _Tables) -> stripe.Block:
    """Return the kernel that fills the tables: neighbouring parts read neighbouring updates."""
    part = tables.part
    value = Affine.of({part.name: 1, index.name: part.range})
    within = attrs.evolve(index, range=-(-index.range // part.range))
    end = () if index.range % part.range == 0 else (index.range - 1 - value,)
    filling = _filling(kernel, output, {index.name: value}, tables.view(output, Affine.index(part.name)))
    indices = (part, *(within if i is index else i for i in kernel.indices))
    return attrs.evolve(filling, indices=indices, constraints=end)


def _runs(
    kernel: stripe.Block, output: stripe.Refinement, index: stripe.Index, tables: _Tables
) -> Iterator[stripe.Block]:
    """Yield the kernel that fills the tables with a run of updates each, and that for the rest, into the first."""
    part = tables.part
    size, left = divmod(index.range, part.range)
    value = Affine.of({part.name: size, index.name: 1})
    run, rest = (tuple(attrs.evolve(i, range=r) if i is index else i for i in kernel.indices) for r in (size, left))
    filling = _filling(kernel, output, {index.name: value}, tables.view(output, Affine.index(part.name)))
    yield attrs.evolve(filling, indices=(part, *run))
    if left:
        end = {index.name: Affine.index(index.name) + part.range * size}
        yield attrs.evolve(_filling(kernel, output, end, tables.view(output, Affine())), indices=rest)


def _filling(
    kernel: stripe.Block, output: stripe.Refinement, moved: Mapping[str, Affine], table: stripe.Refinement
) -> stripe.Block:
    return attrs.evolve(
        kernel,
        refinements=tuple(
            table if r is output else attrs.evolve(r, access=tuple(a.substitute(moved) for a in r.access))
            for r in kernel.refinements
        ),
        statements=tuple(with_values(s, moved) for s in kernel.statements),
        deps=(),
    )


@attrs.frozen(repr=False)
class _Tables:
    """A temporary with a table for each part, interleaved by element.

    The data-dependent axis comes first, as stores require, and that of the parts last.
    """

    name: str
    part: stripe.Index
    shape: stripe.TensorShape

    @classmethod
    def of(cls, name: str, output: stripe.Refinement, sizes: tuple[int, ...], part: stripe.Index) -> _Tables:
        dense = stripe.TensorShape.dense(output.shape.dtype, (part.range, *sizes))
        return cls(name, part, stripe.TensorShape(output.shape.dtype, (*dense.dims[1:], dense.dims[0])))

    def view(self, of: stripe.Refinement, part: Affine) -> stripe.Refinement:
        """Return a view of the table of a part, in place of one of the result."""
        sizes = (*of.shape.sizes, 1)
        dims = tuple(stripe.Dim(size, dim.stride) for size, dim in zip(sizes, self.shape.dims, strict=True))
        shape = stripe.TensorShape(of.shape.dtype, dims)
        return attrs.evolve(of, source=self.name, access=(*of.access, part), shape=shape)

    @property
    def allocation(self) -> stripe.Refinement:
        """The allocation of the temporary."""
        zero = tuple(Affine() for _ in self.shape.dims)
        return stripe.Refinement(self.name, stripe.Direction.NONE, "", zero, self.shape)


def _sizes(clear: stripe.Block, cleared: stripe.Refinement) -> tuple[int, ...]:
    """Return the extents of the memory that a kernel clears, with an index or one element for each axis."""
    ranges = {index.name: index.range for index in clear.indices}
    return tuple(product(ranges[name] for name in access.indices) for access in cleared.access)
