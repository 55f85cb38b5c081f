"""Unrolling of small windows: a stencil becomes an elementwise kernel that reads its neighbours.

The module also recognises sliding windows, those cut by borders of their tensors, and chains of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import product
from math import prod
from typing import ClassVar

from tileir.core import Aggregation, DType, NameScope, Op, attrs
from tileir.passes.analysis.accesses import address, is_element, lone_store
from tileir.passes.base import at_least, map_kernels, selected_kernel
from tileir.passes.kernels.merge import made_once
from tileir.passes.kernels.unroll_and_jam import MERGES
from tileir.passes.rewrites.redirected_loads import reading_inside
from tileir.poly.affine import Affine, Rational
from tileir.schedule import Refused, moved, refused, reindexed, renamed
from tileir.stripe.aliases import byte_size
from tileir.stripe.ir import (
    Block,
    Constant,
    Direction,
    Index,
    Intrinsic,
    LoadIndex,
    Program,
    Refinement,
    Special,
    Statement,
    Store,
    scalar_inputs,
    scalar_output,
    views_read,
    views_written,
)


def is_cut_by_border(kernel: Block, window: Collection[str], main: Block) -> bool:
    """Return whether constraints only keep a kernel's views in bounds, each along one axis of its result.

    Args:
        kernel: A flat kernel.
        window: The indices of its reduction.
        main: The tensors that it views.
    """
    edges = {
        edge
        for view in kernel.refinements
        if view.direction is Direction.IN
        for access, size in zip(view.access, main.refinement(view.source).shape.sizes, strict=False)
        for edge in (access, Affine.constant(size - 1) - access)
    }
    alone = all(sum(name not in window for name in test.indices) == 1 for test in kernel.constraints)
    return alone and edges.issuperset(kernel.constraints)


def in_chains(program: Program, windows: Mapping[str, Block]) -> frozenset[str]:
    """Return the windows that read each other's results, at most through elementwise kernels.

    No other kernel stores to their outputs, so elements that they leave out need not keep their content.

    Args:
        program: All kernels.
        windows: Kernels by the tensors that they write.
    """
    found = set[str]()
    blocks = program.main.blocks
    uses = [(kernel, views_read(kernel), views_written(kernel)) for kernel in blocks]
    backward = [(kernel, written, read) for kernel, read, written in reversed(uses)]
    for steps in (uses, backward):
        reached = set[str]()
        for kernel, before, after in steps:
            is_window = any(windows.get(name) is kernel for name in (*before, *after))
            is_next = not reached.isdisjoint(before)
            if is_window and is_next:
                found.update(views_written(kernel))
            if is_window or (is_next and _is_elementwise(kernel)):
                reached.update(after)
    writers = Counter(name for kernel in blocks for name in views_written(kernel))
    return frozenset(name for name in found if writers[name] == 1)


def _is_elementwise(kernel: Block) -> bool:
    flat = not any(isinstance(s, Block | Special) for s in kernel.statements)
    return flat and not any(map(_merges, kernel.refinements))


def _merges(view: Refinement) -> bool:
    return view.merges and view.aggregation is not Aggregation.ASSIGN


@attrs.frozen
class UnrollWindow:
    """Unroll small sliding windows completely: their aggregate becomes a chain of scalar operations.

    The result is elementwise: it can be fused with its neighbours, and neighbouring rows share their loads. A window
    slides if an index of the reduction and an index of the output move along one axis of an input that all indices of
    the output move; other inputs, such as weights, share some of these indices. Contractions in which two inputs are
    reused, as in matrix products, stay as they are. A reduction over the elements of the same window, such as the sum
    of its weights, is unrolled as well, so that both can be fused.

    Windows that a tensor's border cuts are left alone, except large ones that read each other's results, as in time
    steps of a stencil: these guard elements beyond the border. The pass ``split_border`` then finds the interior
    without guards, and ``strips`` tiles the chain. So are small windows whose results are not adjacent, such as every
    second element: the kernels of all residues can be fused, and write whole cache lines.

    Attributes:
        reqs: Tags that a kernel must carry.
        most: Maximum number of points of a window.
        cut_bytes: Minimum size, in bytes, of the result of a window that the border cuts; None never unrolls these.
        most_apart: Maximum number of points of a window that the border cuts and whose results are not adjacent.
    """

    name: ClassVar[str] = "unroll_window"
    reqs: tuple[str, ...] = ()
    most: int = attrs.field(default=64, validator=at_least(1))
    cut_bytes: int | None = attrs.field(default=None, validator=attrs.validators.optional(at_least(0)))
    most_apart: int = attrs.field(default=0, validator=at_least(0))

    def __call__(self, program: Program) -> Program:
        """Return the program with small windows unrolled."""
        sliding: dict[str, Block] = {}
        weighed: set[_Walk] = set()
        for kernel in program.main.blocks:
            found = self._window(kernel) if selected_kernel(kernel, self.reqs) else None
            if found is not None and _slides(kernel, *found):
                sliding[found[0].source] = kernel
        if self.cut_bytes is None or not any(kernel.constraints for kernel in sliding.values()):
            together: Collection[str] = ()
        else:
            together = in_chains(program, sliding)
        written = {name for name, kernel in sliding.items() if self._is_taken(kernel, name in together, program.main)}
        for name in written:
            found = self._window(sliding[name])
            assert found is not None
            weighed.update(() if sliding[name].constraints else _walks(sliding[name], *found))
        return map_kernels(program, partial(self._kernel, program.main, written, weighed), self.reqs)

    def _is_taken(self, kernel: Block, together: bool, main: Block) -> bool:
        """Return whether a sliding window is unrolled."""
        if not kernel.constraints:
            return True
        found = self._window(kernel)
        if not together or found is None or self.cut_bytes is None:
            return False
        large = byte_size(main.refinement(found[0].source)) >= self.cut_bytes
        return large and is_cut_by_border(kernel, [i.name for i in found[1]], main)

    def _window(self, kernel: Block) -> tuple[Refinement, list[Index]] | None:
        """Return the result of a flat kernel that aggregates few points, and their indices."""
        result = _aggregate(kernel)
        if result is None:
            return None
        output = {name for access in result.access for name in access.indices}
        window = [i for i in kernel.indices if i.name not in output]
        return (result, window) if 1 < prod(i.range for i in window) <= self.most else None

    def _kernel(self, main: Block, taken: Collection[str], weighed: set[_Walk], kernel: Block) -> Block | Refused:
        """Return an unrolled kernel, if its window slides, or if it accesses tensors as sliding windows do."""
        found = self._window(kernel)
        if found is None:
            return refused("TR678")
        if kernel.constraints:
            apart = self._is_apart(kernel, main, *found)
            if found[0].source not in taken and not apart:
                return refused("TR678")
            written = reading_inside(_written_out(kernel, *found), main)
            return attrs.evolve(written, tags=written.tags.add("apart")) if apart else written
        walks = _walks(kernel, *found)
        alike = walks and weighed.issuperset(walks)
        return _written_out(kernel, *found) if alike or found[0].source in taken else refused("TR678")

    def _is_apart(self, kernel: Block, main: Block, result: Refinement, window: Sequence[Index]) -> bool:
        """Return whether a small sliding window that the border cuts has results that are not adjacent."""
        small = prod(i.range for i in window) <= self.most_apart
        where = address(result)
        near = any(abs(where.coefficient(i.name)) == 1 for i in kernel.indices)
        cut = small and not near and _slides(kernel, result, window)
        return cut and is_cut_by_border(kernel, [i.name for i in window], main)


def _aggregate(kernel: Block) -> Refinement | None:
    """Return the view through which a flat kernel merges its points; None for other kernels."""
    found = lone_store(kernel)
    return found[1] if found is not None and found[1].merges and found[1].direction is Direction.OUT else None


@attrs.frozen(repr=False)
class _Walk:
    """Elements of a tensor in an aggregate: strides and ranges of the indices of its window, and of others."""

    tensor: str
    start: Rational
    window: frozenset[tuple[Rational, int]]
    others: frozenset[tuple[Rational, int]]


def _walks(kernel: Block, result: Refinement, window: Sequence[Index]) -> list[_Walk]:
    """Return the accesses of an aggregate to each of its inputs."""
    ranges, inner = kernel.ranges, {i.name for i in window}
    walks = []
    for view in kernel.refinements:
        if view is not result:
            where = address(view)
            steps = [(name in inner, (step, ranges[name])) for name, step in where.terms]
            parts = (frozenset(step for inside, step in steps if inside is wanted) for wanted in (True, False))
            walks.append(_Walk(view.source, where.offset, *parts))
    return walks


def _lines(kernel: Block, result: Refinement) -> list[list[str]]:
    """Return the indices along which elements of the result are adjacent, and those along which pixels are."""
    where = address(result)
    single = [i for i in kernel.indices if where.coefficient(i.name) == 1]
    lines = [[i.name for i in single]]
    if len(single) == 1 and single[0].range <= _MOST_CHANNELS:
        pixels = [i.name for i in kernel.indices if where.coefficient(i.name) == single[0].range > 1]
        lines.extend([pixels] if pixels else [])
    return lines


_MOST_CHANNELS = 4
"""Maximum number of channels of a pixel."""


def _slides(kernel: Block, result: Refinement, window: Sequence[Index]) -> bool:
    """Return whether a window slides over one of the inputs, and no other input is reused for other outputs."""
    inner = {i.name for i in window}
    views = [r for r in kernel.refinements if r is not result]
    outer = {r.name: {n for a in r.access for n in a.indices} - inner for r in views}
    lines = _lines(kernel, result)
    for view in views:
        slides = any(inner & set(a.indices) and set(a.indices) - inner for a in view.access)
        whole = all(outer[view.name] >= names for names in outer.values())
        near = any(all(address(view).coefficient(name) == 1 for name in along) for along in lines)
        if slides and whole and near and is_element(view):
            return True
    return False


def _written_out(kernel: Block, result: Refinement, window: Sequence[Index]) -> Block:
    """Return the kernel with a copy of its statements for each point of the window, merged in order.

    Points excluded by constraints are computed, too, but not merged.
    """
    (store,) = (s for s in kernel.statements if isinstance(s, Store))
    scalars = NameScope.of(filter(None, map(scalar_output, kernel.statements)))
    names = NameScope.of(r.name for r in kernel.refinements)
    views: dict[Refinement, str] = {}
    chain = _Chain(result, store.source, _factors(kernel, result, store.source), scalars)
    if kernel.constraints:
        chain.begin_with_identity()
    window = _rows_first(kernel, window)
    by_rows = result.aggregation in (Aggregation.MAX, Aggregation.MIN) and len(window) > 1
    for point in product(*(range(i.range) for i in window)):
        if by_rows and not any(point[1:]):
            chain.begin_row()
        place = {i.name: Affine.constant(value) for i, value in zip(window, point, strict=True)}
        tests = [test.substitute(place) for test in kernel.constraints]
        if any(test.bounds(kernel.ranges)[1] < 0 for test in tests):
            continue
        chosen: dict[str, str] = {}
        for view in kernel.refinements:
            if view is not result:
                there = attrs.evolve(moved(view, place), name="")
                if there not in views:
                    views[there] = names.fresh(view.name) if view.name in views.values() else view.name
                chosen[view.name] = views[there]
        body = reindexed(attrs.evolve(kernel, refinements=()), (), place).statements
        fresh = {s: scalars.fresh(s) for s in filter(None, map(scalar_output, kernel.statements))}
        before = chain.total
        chain.add([renamed(s, fresh, chosen) for s in body if not isinstance(s, Store)], fresh)
        chain.keep(before, [test for test in tests if test.bounds(kernel.ranges)[0] < 0])
    chain.merge_rows()
    stored = attrs.evolve(result, aggregation=None)
    return attrs.evolve(
        kernel,
        indices=tuple(i for i in kernel.indices if i not in window),
        refinements=(*(attrs.evolve(view, name=name) for view, name in views.items()), stored),
        constraints=(),
        statements=(*made_once(chain.statements), Store(chain.total, result.name, tags=store.tags)),
        tags=kernel.tags.add("eltwise", "window"),
        deps=(),
    )


def _rows_first(kernel: Block, window: Sequence[Index]) -> list[Index]:
    """Return the indices of a window, that with the largest stride first."""
    inputs = [address(r) for r in kernel.refinements if r.direction is Direction.IN]
    return sorted(window, key=lambda i: -max(abs(int(where.coefficient(i.name))) for where in inputs))


def _factors(kernel: Block, result: Refinement, value: str) -> tuple[str, str] | None:
    """Return the factors of a product that is only added up: this step is one fused multiply-add."""
    (merged,) = (s for s in kernel.statements if scalar_output(s) == value)
    once = sum(value in scalar_inputs(s) for s in kernel.statements) == 1
    adds = result.aggregation is not None and result.aggregation.op is Op.ADD
    if not isinstance(merged, Intrinsic) or merged.op is not Op.MUL or not once or not adds:
        return None
    return (merged.inputs[0], merged.inputs[1]) if merged.dtype in (DType.F32, DType.F64) else None


@attrs.define(eq=False, repr=False)
class _Chain:
    """The aggregate over the points so far, as a chain of scalars; or as a chain for each row, merged at the end.

    Other windows can share the aggregate of a row, where they are computed together.
    """

    result: Refinement
    value: str
    factors: tuple[str, str] | None
    scalars: NameScope
    statements: list[Statement] = attrs.field(factory=list)
    total: str = ""
    rows: list[str] = attrs.field(factory=list)
    start: str = ""

    def begin_with_identity(self) -> None:
        """Begin chains with the identity, so that any point may be left out."""
        how, dtype = self.result.aggregation, self.result.shape.dtype
        assert how is not None
        self.total = self.start = self.scalars.fresh(f"{self.result.name}_start")
        self.statements.append(Constant(self.start, dtype, how.identity(dtype)))

    def keep(self, before: str, tests: Sequence[Affine]) -> None:
        """Keep the aggregate before the last point where one of some affines is negative there."""
        for test in tests:
            at, zero, holds, total = map(self.scalars.fresh, ("at", "zero", "holds", self.result.name))
            self.statements += [
                LoadIndex(test, at, DType.I64),
                Constant(zero, DType.I64, 0),
                Intrinsic(Op.CMP_GE, (at, zero), holds, DType.BOOL),
                Intrinsic(Op.COND, (holds, self.total, before), total, self.result.shape.dtype),
            ]
            self.total = total

    def begin_row(self) -> None:
        """Begin another chain."""
        if self.total != self.start:
            self.rows.append(self.total)
        self.total = self.start

    def merge_rows(self) -> None:
        """Merge the chains of all rows."""
        last, self.rows = [*self.rows, self.total], []
        self.total = last[0]
        for row in last[1:]:
            self._merge(row)

    def add(self, point: Sequence[Statement], fresh: dict[str, str]) -> None:
        """Add the statements of one point, with scalars renamed by ``fresh``."""
        value = fresh[self.value]
        if not self.total:
            self.statements.extend(point)
            self.total = value
            return
        if self.factors is not None:
            self.statements.extend(s for s in point if scalar_output(s) != value)
            inputs = (fresh[self.factors[0]], fresh[self.factors[1]], self.total)
            self.total = self.scalars.fresh(f"{self.result.name}_part")
            self.statements.append(Intrinsic(Op.FMA, inputs, self.total, self.result.shape.dtype))
            return
        self.statements.extend(point)
        self._merge(value)

    def _merge(self, value: str) -> None:
        how = self.result.aggregation
        assert how is not None
        assert how.op is not None
        before, self.total = self.total, self.scalars.fresh(f"{self.result.name}_part")
        self.statements.append(Intrinsic(how.op, (before, value), self.total, self.result.shape.dtype, MERGES))
