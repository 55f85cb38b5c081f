"""Reproducible scatters of float sums: updates are first sorted by their place.

```text O = fill(0)                     O = fill(0) O[$i] = store_add($d)    ->     (P, K) = order(I)
update numbers, and their places
                                (O, K1, S1) = add_segments(K, D, P, parts of 32)      rows that one part has alone
                                (O, K2, S2) = add_segments(K1, S1, parts of 32)       what begins or ends a part
                                (O) = add_segments(K2, S2)
```
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import ClassVar, Final

from tileir.core import Aggregation, DType, NameScope, attrs
from tileir.passes.analysis.accesses import address, swept
from tileir.passes.base import at_least
from tileir.passes.kernels import cleared_scatter, left, schedule as sch
from tileir.passes.kernels.replacement import Outcome, Replacement, replaced_behind
from tileir.poly.affine import Affine
from tileir.schedule import Refused, accepted, refused, refusing
from tileir.stripe import ir as stripe
from tileir.stripe.segments import ADD_SEGMENTS, SegmentParameters
from tileir.stripe.sorting import ORDER

_WARP: Final = 32


@attrs.frozen
class SortedScatter:
    """Make scatters reproducible: sort updates by row, and sum those of each row in order.

    Work is balanced among threads for any distribution of updates over rows. The order of additions depends only on
    sizes, so results are reproducible to the bit.

    Attributes:
        threads: Threads in a group, rounded down to a power of two; with fewer than 32, the pass does nothing.
        part: Updates of a part; a further kernel adds up the rows at its ends.
        least: Minimum number of updates of a kernel.
    """

    name: ClassVar[str] = "sorted_scatter"
    threads: int = attrs.field(default=0, validator=at_least(0))
    part: int = attrs.field(default=32, validator=at_least(3))
    least: int = attrs.field(default=256, validator=at_least(2))

    def __call__(self, program: stripe.Program) -> stripe.Program:
        """Return the program with these scatters sorted."""
        if self.threads < _WARP:
            return left(program, refused("TR620"))
        return replaced_behind(program, self._sorted)

    @refusing
    def _sorted(self, clear: stripe.Statement | None, kernel: stripe.Block, names: NameScope) -> Outcome:
        """Return kernels that sort the updates of rows, which the previous kernel clears, and add them."""
        _, output = accepted(cleared_scatter(clear, kernel))
        if output.aggregation is not Aggregation.SUM or not output.shape.dtype.is_float:
            return refused("TR668")
        found = accepted(_scatter_of(kernel, output))
        if found.size < self.least:
            return refused("TR611", points=found.size, least=self.least)
        made = _Stages(found, names)
        made.write_updates()
        made.order()
        made.add(sch.power_of_two_below(self.threads), self.part)
        return Replacement(tuple(made.kernels), tuple(made.memory))


@attrs.frozen(repr=False)
class _Scatter:
    """A kernel that adds updates to rows, at a place for each.

    Attributes:
        kernel: The kernel.
        places: The view of the place of one update.
        updates: The view of a column of one update; None if updates are computed, or stored in another order.
        table: The view of a column of all rows.
        outer: Indices of tables whose updates have their own places.
        tables: Indices of tables that have their own updates at shared places.
        along: Indices of the updates of a table.
        columns: Indices along a row.
    """

    kernel: stripe.Block
    places: stripe.Refinement
    updates: stripe.Refinement | None
    table: stripe.Refinement
    outer: tuple[stripe.Index, ...]
    tables: tuple[stripe.Index, ...]
    along: tuple[stripe.Index, ...]
    columns: tuple[stripe.Index, ...]

    @property
    def size(self) -> int:
        """Number of updates of a table."""
        return prod(index.range for index in self.along)

    def whole(self, view: stripe.Refinement, name: str, direction: stripe.Direction) -> stripe.Refinement:
        """Return a view of all elements that the kernel accesses through ``view``, one for each table."""
        whole = swept(view, {index.name: index.range for index in (*self.along, *self.columns)})
        return attrs.evolve(whole, name=name, direction=direction, aggregation=None)


def _scatter_of(kernel: stripe.Block, output: stripe.Refinement) -> _Scatter | Refused:
    """Return a kernel that loads places and updates, and adds these, in the order of its indices."""
    loads = {s.into: s for s in kernel.statements if isinstance(s, stripe.Load)}
    converts = {s.into: s.input for s in kernel.statements if isinstance(s, stripe.Convert)}
    (store,) = (s for s in kernel.statements if isinstance(s, stripe.Store))
    place, value = loads.get(store.index or ""), loads.get(converts.get(store.source, store.source))
    if place is None or place.index or kernel.constraints:
        return refused("TR695")
    places = kernel.refinement(place.source)
    updates = None if value is None or value.index else kernel.refinement(value.source)
    moved = {view.name: set(address(view).indices) for view in (places, output)}
    outer = tuple(i for i in kernel.indices if i.name in moved[output.name] and i.name in moved[places.name])
    others = tuple(i for i in kernel.indices if i.name in moved[output.name] and i not in outer)
    starts = (n for n in range(len(others) + 1) if _is_run(output, others[n:], 1))
    tables, columns = others[: (start := next(starts))], others[start:]
    along = tuple(i for i in kernel.indices if i.name not in moved[output.name])
    dense = _is_run(places, along, None) and (len(along) == 1 or not (*outer, *tables))
    if not dense or output.shape.dims[0].stride < prod(i.range for i in columns):
        return refused("TR695")
    if updates is not None and not (
        _is_run(updates, columns, 1)
        and _is_run(updates, along, None)
        and all(address(updates).coefficient(i.name) for i in (*outer, *tables) if i.range > 1)
    ):
        updates = None
    return _Scatter(kernel, places, updates, output, outer, tables, along, columns)


def _is_run(view: stripe.Refinement, indices: Iterable[stripe.Index], step: int | None) -> bool:
    """Return whether a view moves along indices as along a single one, the last fastest, with stride ``step``."""
    place = address(view)
    for index in reversed([*indices]):
        if index.range == 1:
            continue
        own = int(place.coefficient(index.name))
        if own <= 0 or (step is not None and own != step):
            return False
        step = own * index.range
    return True


@attrs.define(eq=False, repr=False)
class _Stages:
    """Kernels that sort updates and add them, step by step, and their temporaries."""

    scatter: _Scatter
    names: NameScope
    kernels: list[stripe.Block] = attrs.field(factory=list)
    memory: list[stripe.Refinement] = attrs.field(factory=list)
    keys: list[stripe.Refinement] = attrs.field(factory=list)

    def write_updates(self) -> None:
        """Add the kernel that stores updates contiguously, if they are not."""
        found = self.scatter
        if found.updates is not None:
            return
        indices = (*found.outer, *found.tables, *found.along, *found.columns)
        memory = stripe.allocation(
            self.names.fresh("updates"), found.table.shape.dtype, tuple(index.range for index in indices)
        )
        self.memory.append(memory)
        access = [Affine.index(index.name) for index in indices]
        updates = memory.element(stripe.Direction.OUT, access)
        statements = tuple(
            stripe.Store(s.source, updates.name) if isinstance(s, stripe.Store) else s for s in found.kernel.statements
        )
        views = tuple(updates if view is found.table else view for view in found.kernel.refinements)
        tags = stripe.Tags.of("eltwise")
        self.kernels.append(attrs.evolve(found.kernel, refinements=views, statements=statements, tags=tags, deps=()))
        self.scatter = attrs.evolve(found, updates=_read(updates))

    def order(self) -> None:
        """Add the kernel that sorts the numbers of updates by row."""
        found = self.scatter
        keys = found.whole(found.places, "keys", stripe.Direction.IN)
        if sum(size > 1 for size in keys.shape.sizes) > 1:  # several axes are one row
            dims = (stripe.Dim(found.size, min(dim.stride for dim in keys.shape.dims if dim.size > 1)),)
            keys = attrs.evolve(keys, access=(Affine(),), shape=attrs.evolve(keys.shape, dims=dims))
        counting = DType.I32 if found.size <= DType.I32.maximum else DType.I64
        stored = [
            self._row(stem, dtype, (found.size,), found.outer)
            for stem, dtype in (("places", counting), ("rows", keys.shape.dtype))
        ]
        special = stripe.Special(ORDER, ("keys",), tuple(view.name for view in stored), (("descending", 0),))
        self._kernel("sorted", found.outer, (keys, *stored), special)
        self.keys = [_read(view) for view in reversed(stored)]

    def add(self, threads: int, part: int) -> None:
        """Add the kernels that add updates."""
        found, level = self.scatter, 0
        columns = prod(index.range for index in found.columns)
        assert found.updates is not None  # they have been written
        updates = found.whole(found.updates, "updates", stripe.Direction.IN)
        table = found.whole(found.table, "table", stripe.Direction.INOUT)
        size, (keys, *places), each = found.size, self.keys, (*found.outer, *found.tables)
        while True:
            plan = SegmentParameters(threads, part if size > 2 * part else 0)
            wanted = plan.parts(size) * columns
            plan = attrs.evolve(plan, threads=min(threads, max(_WARP, 1 << (wanted - 1).bit_length())))
            carried: list[stripe.Refinement] = []
            if plan.part:
                both = 2 * plan.parts(size)
                carried.append(self._row("carried_rows", keys.shape.dtype, (both,), each))
                carried.append(self._row("carried_sums", table.shape.dtype, (both, columns), each))
            views = (keys, updates, *places)
            outputs = (table, *carried)
            special = stripe.Special(
                ADD_SEGMENTS, tuple(v.name for v in views), tuple(v.name for v in outputs), plan.parameters()
            )
            grid = sch.present(index.bound(stripe.Binding.GRID) for index in each)
            alone = stripe.Index(
                "whole", 1, binding=stripe.Binding.GRID
            )  # other passes leave kernels with a grid alone
            self._kernel(f"added_{level}" if level else "added", grid or (alone,), (*views, *outputs), special)
            if not plan.part:
                return
            (keys, updates), places, size, level = [_read(view) for view in carried], [], both, level + 1

    def _row(
        self, stem: str, dtype: DType, sizes: tuple[int, ...], outer: tuple[stripe.Index, ...]
    ) -> stripe.Refinement:
        """Return the view of new memory for a point of outer indices."""
        memory = stripe.allocation(self.names.fresh(stem), dtype, (*(index.range for index in outer), *sizes))
        self.memory.append(memory)
        dims = (
            *(attrs.evolve(dim, size=1) for dim in memory.shape.dims[: len(outer)]),
            *memory.shape.dims[len(outer) :],
        )
        access = (*(Affine.index(index.name) for index in outer), *(Affine() for _ in sizes))
        shape = attrs.evolve(memory.shape, dims=dims)
        return stripe.Refinement(memory.name, stripe.Direction.OUT, memory.name, access, shape)

    def _kernel(
        self,
        what: str,
        indices: tuple[stripe.Index, ...],
        views: tuple[stripe.Refinement, ...],
        special: stripe.Special,
    ) -> None:
        kernel = self.scatter.kernel
        name = f"{kernel.name}_{what}" if kernel.name else ""
        outer = (*self.scatter.outer, *self.scatter.tables)
        plain = {index.name: Affine() for index in outer if index not in indices and index.range == 1}
        views = tuple(attrs.evolve(v, access=tuple(a.substitute(plain) for a in v.access)) for v in views)
        tags = stripe.Tags.of("argsort" if special.name == ORDER else ADD_SEGMENTS)
        self.kernels.append(stripe.Block(name, indices, (), views, (special,), kernel.comments, tags=tags))


def _read(view: stripe.Refinement) -> stripe.Refinement:
    return attrs.evolve(view, direction=stripe.Direction.IN)
