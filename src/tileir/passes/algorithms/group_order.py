"""Merge sort for devices whose threads form groups: first parts of a row, then merges of pairs of runs.

```text (O) = order(X)   ->   (P, S) = order(X, part of 4352 elements)              a group sorts each part
                      (Q, T) = order(S, P, part of 8704, runs of 4352)      groups join two of them
                      (O)    = order(T, Q, runs of 8704)
```

If only the first k elements are needed, each part keeps k, and the rest is sorted.
"""

from __future__ import annotations

from typing import ClassVar, Final

from tileir.core import DType, NameScope, attrs
from tileir.passes.algorithms.count_order import lone_order
from tileir.passes.base import at_least
from tileir.passes.kernels import schedule as sch
from tileir.passes.kernels.replacement import Outcome, Replacement, ReplacingPass
from tileir.poly.affine import Affine
from tileir.schedule.remarks import refused
from tileir.stripe import ir as stripe
from tileir.stripe.sorting import ORDER, SortParameters

ROW: Final = "row"
"""Name of the index of a kernel that sorts a single row."""

_SHORT: Final = 9
"""Maximum elements per thread if a group with less than the maximum number of threads sorts a row."""

_WARP: Final = 32

_SHRINK: Final = 4
"""Minimum factor by which dropping elements of parts shortens the next row; otherwise parts keep all."""


@attrs.frozen
class GroupOrder(ReplacingPass):
    """Sort rows by merges in groups of threads, with further kernels for rows that exceed a group's local memory.

    Attributes:
        threads: Maximum number of threads in a group; the greatest power of two up to it is used.
        items: Maximum number of elements of a thread, for keys and places of 4 bytes each; an odd number avoids bank
            conflicts in local memory.
        least: Minimum length of a row; shorter rows are left to other passes.
        local_bytes: Local memory of a group, in bytes.
    """

    name: ClassVar[str] = "group_order"
    threads: int = attrs.field(default=256, validator=at_least(1))
    items: int = attrs.field(default=17, validator=at_least(1))
    least: int = attrs.field(default=65, validator=at_least(2))
    local_bytes: int = attrs.field(default=49152, validator=at_least(0))

    def _kernel(self, kernel: stripe.Block, names: NameScope) -> Outcome:
        order = lone_order(kernel)
        if order is None:
            return refused("TR661")
        keys, (places, *beside) = kernel.refinement(order.inputs[0]), [kernel.refinement(n) for n in order.outputs]
        size, count = keys.shape.elements, places.shape.elements
        items = self._items(keys.shape.dtype, places.shape.dtype)
        if size < self.least or items < 1 or self.threads < _WARP:
            return refused("TR679", elements=size, least=self.least, threads=self.threads)
        descending = bool(dict(order.parameters)["descending"])
        plans = self._plans(size, count, items, SortParameters(descending))
        made = _Stages.of(kernel, keys, [places, *beside], names)
        for number, plan in enumerate(plans):
            made.add(plan, is_last=number == len(plans) - 1)
        return Replacement(tuple(made.kernels), tuple(made.memory), (("kernels", len(plans)),))

    @property
    def _group(self) -> int:
        return sch.power_of_two_below(self.threads)

    def _items(self, keys: DType, places: DType) -> int:
        """Return the number of elements per thread that fit, an odd number; 0 if none do."""
        each = max(keys.itemsize, 4) + places.itemsize
        beside = (self._group + 2) * DType.I64.itemsize  # data that threads exchange when they merge runs
        fitting = (self.local_bytes - beside - each) // ((self._group + 1) * each)
        return max(0, (min(self.items * 8 // each, fitting) - 1) // 2 * 2 + 1)

    def _plans(self, size: int, count: int, items: int, start: SortParameters) -> list[SortParameters]:
        """Return the steps in which a row is sorted."""
        plans: list[SortParameters] = []
        whole = attrs.evolve(start, threads=self._group, items=items)
        tile = whole.tile
        while size > tile and count * _SHRINK <= tile:
            plans.append(attrs.evolve(whole, part=tile, keep=count))
            size = plans[-1].stored(size)
        if size <= tile:
            threads = min(self._group, max(_WARP, 1 << (-(-size // min(_SHORT, items)) - 1).bit_length()))
            return [*plans, attrs.evolve(start, threads=threads, items=-(-size // threads) | 1)]
        plans.append(attrs.evolve(whole, part=tile))
        run = tile
        while 2 * run < size:
            plans.append(attrs.evolve(whole, part=2 * run, runs=run))
            run *= 2
        return [*plans, attrs.evolve(whole, runs=run)]


@attrs.define(eq=False, repr=False)
class _Stages:
    """Kernels that sort rows step by step, and the memory between them.

    Attributes:
        kernel: The kernel that they replace.
        rows: Inputs of the next kernel: keys and, after the first kernel, their original places.
        stored: Outputs of the last kernel: places, and optionally sorted keys.
        names: Names for memory.
        kernels: The kernels so far.
        memory: The memory so far.
    """

    kernel: stripe.Block
    rows: list[stripe.Refinement]
    stored: list[stripe.Refinement]
    names: NameScope
    kernels: list[stripe.Block] = attrs.field(factory=list)
    memory: list[stripe.Refinement] = attrs.field(factory=list)

    @classmethod
    def of(
        cls, kernel: stripe.Block, keys: stripe.Refinement, stored: list[stripe.Refinement], names: NameScope
    ) -> _Stages:
        """Return the initial state."""
        indices = sch.present(index.bound(stripe.Binding.GRID) for index in kernel.indices)
        row = stripe.Index(ROW, 1, binding=stripe.Binding.GRID)  # other passes leave kernels with a grid alone
        plain = {index.name: Affine() for index in kernel.indices if index.range == 1}
        bare = attrs.evolve(kernel, indices=indices or (row,), statements=(), refinements=())
        views = [
            attrs.evolve(view, access=tuple(place.substitute(plain) for place in view.access))
            for view in (keys, *stored)
        ]
        return cls(bare, views[:1], views[1:], names)

    def add(self, plan: SortParameters, *, is_last: bool) -> None:
        """Add a kernel."""
        size = self.rows[0].shape.elements
        if is_last:
            outputs = self.stored
        else:
            dtypes = self.stored[0].shape.dtype, self.rows[0].shape.dtype
            outputs = [self._memory(stem, dtype, plan.stored(size)) for stem, dtype in zip(_STEMS, dtypes, strict=True)]
        special = stripe.Special(
            ORDER, tuple(row.name for row in self.rows), tuple(view.name for view in outputs), plan.parameters()
        )
        name = f"{self.kernel.name}_{len(self.kernels)}" if self.kernel.name and self.kernels else self.kernel.name
        views = (*self.rows, *outputs)
        self.kernels.append(attrs.evolve(self.kernel, name=name, refinements=views, statements=(special,)))
        places, *keys = (attrs.evolve(view, direction=stripe.Direction.IN) for view in outputs)
        self.rows = [*keys, places]

    def _memory(self, stem: str, dtype: DType, size: int) -> stripe.Refinement:
        """Return the view of a row of new memory."""
        indices = sch.present(self.kernel.indices)
        memory = stripe.allocation(self.names.fresh(stem), dtype, (*(index.range for index in indices), size))
        self.memory.append(memory)
        dims = (*(attrs.evolve(dim, size=1) for dim in memory.shape.dims[:-1]), memory.shape.dims[-1])
        access = (*(Affine.index(index.name) for index in indices), Affine())
        shape = attrs.evolve(memory.shape, dims=dims)
        return stripe.Refinement(memory.name, stripe.Direction.OUT, memory.name, access, shape)


_STEMS: Final = ("sorted_places", "sorted_keys")
