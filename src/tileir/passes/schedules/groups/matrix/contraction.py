"""Contractions by matrix instructions in groups of threads.

A group computes a tile of the output, and the threads of a fragment (:mod:`tileir.core.fragments`) together a part of
that, whose elements stay in their registers. Tiles of both inputs are prefetched to local memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import ClassVar, Final

from tileir.core import DType, attrs
from tileir.core.fragments import Fragment, OperandMemory, usable
from tileir.passes.base import at_least, map_kernels
from tileir.passes.kernels import against_plain, schedule as sch, unscheduled_reduction
from tileir.passes.schedules.groups.matrix.blocks import SWATH, build
from tileir.passes.schedules.groups.matrix.boxes import (
    OF_TWO,
    are_whole_lines,
    boxes,
    copier_pays,
    fits_pairs,
    further_ahead,
    with_copier,
)
from tileir.passes.schedules.groups.matrix.panels import panels, tops, with_windows_apart
from tileir.passes.schedules.groups.matrix.plan import (
    OF_LOCAL,
    OF_WINDOWS,
    SMALL,
    TILES,
    MatrixTiling,
    Panel,
    deepest,
    groups_of,
    in_clusters,
    is_readable,
    reads_local,
    tallest,
    wastes,
)
from tileir.passes.schedules.groups.matrix.refusals import against_constraints, against_product
from tileir.passes.schedules.groups.matrix.results import staged_columns, stored_boxes
from tileir.poly.affine import Affine
from tileir.schedule import Done, Nest, Refused, accepted, emit, product, refused, refusing, rule_out, strongest
from tileir.stripe import ir as stripe


@attrs.frozen
class MatrixContraction:
    """Schedule products on matrix instructions, with software-pipelined tiles in local memory.

    Attributes:
        fragments: Names of matrix instructions by preference; some round their inputs.
        threads: Maximum number of threads in a group.
        most_threads: Maximum number of threads in a group if one thread requests the copies of a whole tile.
        local_bytes: Local memory of a group, in bytes.
        vector_bytes: Width of a thread's copy in bytes.
        groups: Number of groups that keeps the device busy; tiles shrink to reach it.
        stages: Maximum number of steps of the reduction in local memory at a time, for software pipelining.
        rows: Rows of the output tile; 0 for automatic.
        columns: Columns of the output tile; 0 for automatic.
        boxes: Minimum number of outputs of a tile whose inputs are copied as tensor boxes, requested by one thread; 0
            if the device has no box copies. The first box has a long latency: on an H200, products of 1024 took 12.1 us
            instead of 10.8 with tiles of 128 x 64, but those of 4096 207 instead of 223 with 128 x 256.
        turns: Whether to launch persistent groups, only enough to keep the device busy, that take tiles of boxes in
            turns: the prologue of a tile overlaps the epilogue of the previous one.
        stores: Whether persistent groups store results as boxes, asynchronously.
        pairs: Whether two groups share copies of the right input if rows of boxes straddle two cache lines, with a warp
            of its own for copies: on an H200, squares of 1496 in f16 took 24.8 us instead of 27.1.
        roles: Whether to specialise a warp for copying boxes if eight or twelve warps multiply; these get its
            registers.
        cluster: Groups along the rows that form a cluster and share copies of boxes of the right input.
        promote: Whether to periodically add sums of instructions with low-precision accumulators to others.
    """

    name: ClassVar[str] = "matrix_contraction"
    fragments: tuple[str, ...] = ()
    threads: int = attrs.field(default=256, validator=at_least(1))
    most_threads: int = attrs.field(default=1, validator=at_least(1))
    local_bytes: int = attrs.field(default=48 * 1024, validator=at_least(0))
    vector_bytes: int = attrs.field(default=16, validator=at_least(1))
    groups: int = attrs.field(default=1, validator=at_least(1))
    stages: int = attrs.field(default=3, validator=at_least(1))
    rows: int = attrs.field(default=0, validator=at_least(0))
    columns: int = attrs.field(default=0, validator=at_least(0))
    boxes: int = attrs.field(default=0, validator=at_least(0))
    turns: bool = False
    stores: bool = False
    pairs: bool = False
    roles: bool = False
    cluster: int = attrs.field(default=1, validator=attrs.validators.and_(at_least(1), attrs.validators.le(SWATH)))
    promote: bool = True

    def __call__(self, program: stripe.Program) -> stripe.Program:
        """Return the program with these contractions scheduled."""
        sizes = {r.name: r.shape.elements for r in program.main.refinements}
        alone = attrs.evolve(self, boxes=0)  # kernels of one launch fill a card: smaller tiles finish sooner

        def scheduled(kernel: stripe.Block) -> Done | Refused:
            return (alone if stripe.BESIDE in kernel.tags else self)._kernel(kernel, sizes)

        return map_kernels(program, scheduled)

    @refusing
    def _kernel(self, kernel: stripe.Block, sizes: Mapping[str, int]) -> Done | Refused:
        if not self.fragments:
            return refused("TR420")
        nest = accepted(unscheduled_reduction(kernel))
        rule_out(against_plain(nest) or against_product(nest, nest.reductions[0]))
        nest = with_windows_apart(nest) if self.boxes else nest
        plan = accepted(self._plan(nest, {r.name: sizes[r.source] for r in kernel.refinements if r.source in sizes}))
        facts: tuple[tuple[str, int | str], ...] = (("rows", plan.rows), ("columns", plan.columns))
        facts = (*facts, ("depth", plan.depth), ("stages", plan.stages))
        if self.boxes:
            found = plan.boxes or self._boxes(nest, plan)
            facts = (*facts, ("no_boxes", found) if isinstance(found, str) else ("boxes", True))
        joint = plan.cluster if plan.cluster > 1 else 0
        others = (("groups", plan.groups), ("copying", min(1, len(plan.registers))), ("cluster", joint))
        return Done((emit(build(nest, plan), kernel),), (*facts, *(each for each in others if each[1])))

    @refusing
    def _plan(self, nest: Nest, sizes: Mapping[str, int]) -> MatrixTiling | Refused:
        """Choose the indices and the sizes of tiles of a product; refused if no instruction fits.

        ``sizes`` holds the elements of each input.
        """
        segment = nest.reductions[0]
        reads = sch.reads_of(nest, segment)
        if len(reads) != 2:
            return refused("TR423", inputs=len(reads))
        total = next(use.dtype for use in segment.uses if use.direction.writes)
        found = accepted(panels(nest, reads))
        loops = [i for i in segment.loops if all(use.stride(i.name) for use in reads)]
        if not loops:
            return refused("TR431")
        constrained = sch.constrained_indices(nest)
        loop = deepest(loops, reads, constrained)
        dtypes = (found[0].use.dtype, found[1].use.dtype, total)
        fragments = [each for each in usable(self.fragments, rounded=True) if each.dtypes == dtypes]
        if not self.promote:
            fragments = [attrs.evolve(each, exact_depth=0) for each in fragments]
        fragments.sort(key=lambda each: wastes(loop, each.mnk[2]))
        if not fragments:
            told = dict(zip(("left", "right", "sum"), (dtype.value for dtype in dtypes), strict=True))
            return refused("TR429", **told, offered=" ".join(self.fragments))
        said: list[Refused] = []
        plans, others = (
            _fitting_ones(
                (against_constraints(nest, plan, sizes) or plan for plan in self._cut(nest, pair, loop, fragments[0])),
                said,
            )
            for pair in (found, found[::-1])
        )
        fitting: list[MatrixTiling] = []
        for fragment in fragments:
            if fitting and fragment.a.where is not OperandMemory.LOCAL:
                break  # instructions that read local memory are faster if they fit
            either = [*plans, *others] if fragment.a.turns and not fragment.b.turns else plans
            sized = (self._fitting(nest, attrs.evolve(plan, fragment=fragment)) for plan in either)
            fitting += _fitting_ones(sized, said)
            if fitting and fragment.a.where is not OperandMemory.LOCAL:
                break
        best = min(fitting, key=lambda each: (self._cost(nest, each), each.boxes is None), default=None)
        if best is None:
            return strongest(said)
        best = self._in_turns(nest, further_ahead(nest, best, self.stages, self.groups, self.local_bytes))
        return with_copier(best) if self.roles or best.cluster > self.cluster or copier_pays(best) else best

    def _cut(
        self, nest: Nest, pair: tuple[Panel, Panel], loop: stripe.Index, fragment: Fragment
    ) -> Iterator[MatrixTiling]:
        """Yield the possible arrangements of rows of a pair's left input in a tile."""
        segment = nest.reductions[0]
        repeats = product(i.range for i in segment.loops if i is not loop)
        right = self._with_axes(pair[1], loop, segment.constraints)
        for left, above, across in tops(nest, *pair):
            one = self._with_axes(left, loop, segment.constraints)
            yield MatrixTiling(one, right, loop, fragment, segment.constraints, repeats, above, across)

    def _in_turns(self, nest: Nest, plan: MatrixTiling) -> MatrixTiling:
        """Return the plan for persistent groups, if more groups would wait for their first boxes.

        Pairs hide that latency. Boxes with rows in two cache lines are excluded: on an H100, 3000 took 158 us, not 139.
        """
        waits = plan.boxes is not None and plan.beside == 1 and plan.steps >= plan.stages
        waits = waits and (are_whole_lines(plan) or plan.cluster > self.cluster)
        groups = self._running(plan)
        if not self.turns or not waits or groups_of(nest, plan) <= groups:
            return plan
        room = self.local_bytes - plan.stages * plan.stage_bytes - _BARRIERS if self.stores else 0
        return attrs.evolve(plan, groups=groups, slots=stored_boxes(nest, plan, room))

    def _running(self, plan: MatrixTiling) -> int:
        """Return the number of groups that run concurrently, one per processor, in whole clusters."""
        return max(1, self.groups // plan.cluster) * plan.cluster

    def _joined(self, nest: Nest, plan: MatrixTiling) -> MatrixTiling:
        """Return the plan in clusters: pairs if rows of boxes straddle cache lines, and if pairs cost less.

        On an H200, clusters of four took up to twice as long at 2000 to 6000: some did not fit in the first wave.
        """
        alone = in_clusters(plan, self.cluster)
        if not self.pairs or are_whole_lines(plan) or not fits_pairs(plan):
            return alone
        return min(alone, in_clusters(plan, max(_PAIR, self.cluster)), key=lambda each: self._cost(nest, each))

    def _fitting(self, nest: Nest, plan: MatrixTiling) -> MatrixTiling | Refused:
        """Return a plan with tile sizes for its instruction; refused if it does not fit the product."""
        fragment, loop = plan.fragment, plan.loop
        if loop.range * _SHORTEST < fragment.mnk[2]:
            return refused("TR433", index=loop.name, range=loop.range, depth=fragment.mnk[2], least=_SHORTEST)
        rows, columns = tallest(plan), plan.right.index.range
        if rows < _FEWEST or columns < _LEAST:
            return refused("TR432", rows=rows, columns=columns, least=_FEWEST if rows < _FEWEST else _LEAST)
        sized = self._sized(nest, plan)
        if sized is None and reads_local(plan):
            return refused("TR436", instruction=fragment.name)
        return refused("TR435", local_bytes=self.local_bytes, threads=self.threads) if sized is None else sized

    def _with_axes(self, panel: Panel, loop: stripe.Index, constraints: Collection[Affine]) -> Panel:
        """Return a panel whose contiguous elements are copied together, if tests hold for all or none of them."""
        use, most = panel.use, max(1, self.vector_bytes // panel.use.dtype.itemsize)
        lanes = {name: sch.aligned_lanes((use,), name, most) for name in (panel.index.name, loop.name)}
        along = max((loop, panel.index), key=lambda i: lanes[i.name] if use.stride(i.name) == 1 else 0)
        wide = lanes[along.name] if use.stride(along.name) == 1 else 1
        while along.range % wide or not all(_holds_for_all(each, along.name, wide) for each in constraints):
            wide //= 2
        return attrs.evolve(panel, along_loop=along is loop, lanes=wide)

    def _sized(self, nest: Nest, plan: MatrixTiling) -> MatrixTiling | None:
        """Return the plan with the largest tile of which there are enough, else with the smallest one."""
        found = None
        (unit, side, _), word = plan.fragment.mnk, plan.fragment.c.dtype.itemsize
        local = reads_local(plan)
        size, is_window = plan.left.use.dtype.itemsize, plan.constraints or plan.repeats > 1
        # kernels of one launch, of which some may be no windows, need equal numbers of threads
        of_local = OF_WINDOWS if is_window and size == _HALF and self.boxes else OF_LOCAL
        for rows, columns, tall, wide in of_local if local else TILES.get(size, SMALL):
            held = tall * wide * word * (2 if plan.has_parts else 1)
            if tall % unit or wide % side or held > _SUM_BYTES * plan.fragment.threads:
                continue
            if self.rows not in (0, rows) or self.columns not in (0, columns):
                continue
            if found is not None and rows * columns == _LEAST * _LEAST:
                continue
            if rows >= 2 * max(tallest(plan), _LEAST) or columns >= 2 * max(plan.right.index.range, _LEAST):
                continue
            high = 1 if plan.above is None else max(1, rows // plan.least)
            sized = attrs.evolve(plan, rows=rows, columns=columns, tall=tall, wide=wide, high=high)
            tile = self._deep(sized if high > 1 else attrs.evolve(sized, above=None))
            tile = None if tile is None or not is_readable(tile) else self._moved(nest, tile)
            if tile is None or (tile.threads > self.threads and not self._may_be_wide(tile)) or _is_cut(tile):
                continue
            if local:
                found = tile if found is None else min(found, tile, key=lambda each: self._cost(nest, each))
                continue
            found = tile
            if groups_of(nest, tile) >= self.groups:
                return tile
        return found

    def _may_be_wide(self, plan: MatrixTiling) -> bool:
        """Return whether more threads than copy tiles may share one: not if all wait for two cache lines per row."""
        return plan.threads <= self.most_threads and plan.boxes is not None and are_whole_lines(plan)

    def _moved(self, nest: Nest, plan: MatrixTiling) -> MatrixTiling:
        """Return the plan with the copies of its inputs to local memory, and of its results from there."""
        found = self._boxes(nest, plan)
        if not isinstance(found, str):
            plan = attrs.evolve(plan, boxes=found)
            half = (self.local_bytes // 2 - _BARRIERS - _RESULTS) // plan.stage_bytes
            half = half if groups_of(nest, plan) > self.groups else 0
            if plan.rows * plan.columns <= _PAIRED and not plan.has_parts and min(half, plan.stages) >= _OF_PAIRS:
                plan = attrs.evolve(plan, stages=min(half, plan.stages), beside=2)
            plan = self._joined(nest, plan)
        room = self.local_bytes // plan.beside - plan.stages * plan.stage_bytes - _BARRIERS
        return attrs.evolve(plan, staged=staged_columns(nest, plan, room))

    def _boxes(self, nest: Nest, plan: MatrixTiling) -> tuple[stripe.Copy, stripe.Copy] | str:
        """Return how inputs are copied as boxes, or a word for the reason against it."""
        is_window = plan.constraints or plan.repeats > 1
        rounds = plan.fragment.a.dtype is DType.F32  # on the way, so that boxes of any size are better than words
        least = min(1, self.boxes) if rounds else -(-self.boxes // _OF_WINDOWS) if is_window else self.boxes
        if not least or plan.rows * plan.columns < least or plan.stages == 1:
            return "tile"
        return boxes(plan, {i.name: i.range for i in (*nest.indices, *nest.reductions[0].loops)})

    def _cost(self, nest: Nest, plan: MatrixTiling) -> int:
        """Estimate the time of groups, at full occupancy, in products of elements.

        Reading a row or column in a step costs a number of products: on an H200, tiles of 64 columns reached 415
        TFLOP/s and those of 256 reached 607. Two warpgroups hide less of the additions to other sums than three, but
        more if a warp copies for them: on an H200 8-bit floats at 4096 took 111 us then in tiles of 128 x 128, and 117
        in those of 192 x 128, without 125 and 119 on an H100. Pairs wait for the shared cache: the reads of all groups
        count, not those of the last wave.
        """
        groups, running = groups_of(nest, plan), self._running(plan) * plan.beside
        waves = -(-groups // running) * plan.beside
        read = plan.extent(plan.left) + plan.extent(plan.right) // plan.cluster
        if plan.cluster > self.cluster:
            return waves * plan.rows * plan.columns + _SHARED_COST * read * groups // running
        read *= _PARTED_COST if self.boxes and not are_whole_lines(plan) else _READ_COST
        cost = waves * (plan.rows * plan.columns + read)
        copied = self.stores and self.turns and groups > self.groups
        hides = plan.threads == OF_TWO if copied else plan.threads > OF_TWO
        return cost * 9 // 8 if plan.promotes and reads_local(plan) and not hides else cost

    def _deep(self, plan: MatrixTiling) -> MatrixTiling | None:
        """Return the plan with the deepest steps of which enough fit local memory; None if none do."""
        found = None
        for size in _DEPTH_BYTES:
            depth = size // plan.left.use.dtype.itemsize
            depth = min(depth, plan.fragment.exact_depth or depth)
            while depth > plan.fragment.mnk[2] and wastes(plan.loop, depth):
                depth //= 2
            plan = attrs.evolve(plan, depth=depth)
            plan = attrs.evolve(plan, stages=min(self.stages, plan.steps))
            while plan.stages > 1 and plan.stages * plan.stage_bytes > self.local_bytes:
                plan = attrs.evolve(plan, stages=plan.stages - 1)
            if plan.stages * plan.stage_bytes <= self.local_bytes:
                found = plan
            if found is plan and plan.stages == self.stages:
                break
        return found


def _is_cut(plan: MatrixTiling) -> bool:
    """Return whether the instruction would read f32 words from local memory that were not rounded to TF32.

    It truncates their last 13 bits, which makes products too small by 3e-4 per factor. Box copies round.
    """
    return reads_local(plan) and plan.fragment.a.dtype is DType.F32 and plan.boxes is None


_READ_COST: Final = 64

_PARTED_COST: Final = 112
""":data:`_READ_COST` if rows of boxes straddle cache lines: at 3000, 430 with 256 columns and 347 with 128."""

_SHARED_COST: Final = 160
""":data:`_READ_COST` for pairs: at 5000, 420 with 256 columns and 440 with 224, and at 1496, 20.4 with 192 and 24.9
with 160.
"""

_HALF: Final = 2
"""Bytes of an element of f16 and bf16."""

_PAIR: Final = 2
"""Groups that copy a factor together if its rows straddle cache lines."""

_PAIRED: Final = 128 * 128
"""Outputs of tiles of which two share a processor, so that one multiplies during the other's prologue or epilogue."""

_OF_PAIRS: Final = 3
"""Minimum stages of tiles that share a processor."""

_OF_WINDOWS: Final = 2
"""Factor by which tiles copied as boxes may be smaller if threads would have to test each element for borders."""

_SUM_BYTES: Final = 512
"""Maximum bytes of sums in a thread's registers."""

_BARRIERS: Final = 1024
"""Bytes of local memory reserved for the barriers of all stages."""

_RESULTS: Final = 16 * 1024
"""Bytes of local memory for results of tiles that share a processor, some columns at a time."""

_LEAST: Final = 16
"""Rows of the smallest tiles, and minimum columns, to make use of an instruction."""

_FEWEST: Final = 8
"""Minimum rows, to make use of an instruction."""

_SHORTEST: Final = 6
"""Maximum ratio of the depth of an instruction to that of the product; the remaining factors are zero."""

_DEPTH_BYTES: Final = (128, 64)
"""Bytes of a staged row, best first: the deepest that leaves room for all stages is used, else the last."""


def _holds_for_all(constraint: Affine, index: str, lanes: int) -> bool:
    """Return whether a constraint holds for all of ``lanes`` aligned neighbours along an index, or for none."""
    step = constraint.coefficient(index)
    if not step or lanes == 1:
        return True
    others = all(each % lanes == 0 for name, each in constraint.terms if name != index)
    return step in (1, -1) and others and constraint.offset % lanes == (0 if step == 1 else lanes - 1)


def _fitting_ones(plans: Iterable[MatrixTiling | Refused], said: list[Refused]) -> list[MatrixTiling]:
    """Return the valid plans; ``said`` gets the refusals."""
    found = list(plans)
    said += [each for each in found if isinstance(each, Refused)]
    return [each for each in found if not isinstance(each, Refused)]
