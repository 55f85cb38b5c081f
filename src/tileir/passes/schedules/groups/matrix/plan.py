"""Plans of contractions by matrix instructions: tiles, and their layout in local memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from tileir.core import DType, attrs
from tileir.core.fragments import Fragment, OperandMemory, Run, Swizzle
from tileir.poly.affine import Affine
from tileir.schedule.nest import Nest, Use, product
from tileir.stripe import ir as stripe

_LINE: Final = 128
"""Bytes of all banks of local memory together."""

_PIECE: Final = 16
"""Bytes that an instruction loads from one row."""

_WASTE: Final = 3
"""Divisor of the steps of a reduction that may be past its end for the sake of deeper tiles."""

_BANKS: Final = (4, 8)
"""Rows, and 4-byte elements of each, that an instruction reads together if elements are contiguous along rows."""

SMALL: Final = (
    (128, 64, 64, 32),
    (64, 128, 32, 64),
    (64, 64, 32, 32),
    (32, 64, 16, 32),
    (64, 32, 32, 16),
    (32, 32, 16, 16),
    (64, 16, 16, 16),
    (16, 32, 16, 16),
    (16, 16, 16, 16),  # where there is no other
)
TILES: Final = {2: ((128, 128, 64, 64), *SMALL), 4: ((128, 128, 64, 32), *SMALL)}
"""Rows and columns of a group, then those of the threads of a fragment, by the bytes of an element."""

OF_LOCAL: Final = (
    (128, 256, 64, 256),
    (256, 64, 64, 64),
    (128, 192, 64, 192),
    (192, 128, 64, 128),
    (128, 224, 64, 224),
    (128, 160, 64, 160),
    (128, 128, 64, 128),
    (128, 64, 64, 64),
    (64, 64, 64, 64),
    (64, 32, 64, 32),
)
"""Tiles for fragments that read local memory, whose threads share a wide tile."""

OF_WINDOWS: Final = ((64, 128, 64, 128), *OF_LOCAL)
"""Tiles for windows of halves: with half of the columns, an instruction would read each row again."""


@attrs.frozen(eq=False)
class Panel:
    """One input of the product.

    Attributes:
        use: The reduction's use of the input.
        index: The output index along it.
        along_loop: Whether it is contiguous along the reduction, not along ``index``.
        lanes: Number of neighbours that are copied together.
    """

    use: Use
    index: stripe.Index
    along_loop: bool = True
    lanes: int = 1


@attrs.frozen(eq=False)
class MatrixTiling:
    """Tiles of a product in a group: ``rows`` by ``columns`` outputs, ``tall`` by ``wide`` for threads of a fragment.

    ``depth`` steps of ``loop`` are copied at a time, to one of ``stages`` places in local memory. The other reduction
    indices have ``repeats`` points. If rows continue along another index, ``above``, ``high`` neighbours along it share
    the tile, each with ``least`` rows or more. ``constraints`` select the products to add. ``boxes`` describes the
    copies of both inputs if one thread requests those of a whole tile, ``staged`` is the number of columns of results
    written at a time through local memory, ``slots`` the number of boxes of results in local memory instead, and
    ``beside`` the number of groups that then share a processor. If ``groups`` is not 0, this number of groups takes all
    tiles in turns. With ``registers``, a separate warp copies: these are the registers of its threads, and of those
    that multiply, in ``teams`` that run independently. ``cluster`` neighbours along the rows copy the right input
    together.
    """

    left: Panel
    right: Panel
    loop: stripe.Index
    fragment: Fragment
    constraints: tuple[Affine, ...] = ()
    repeats: int = 1
    above: stripe.Index | None = None
    least: int = 1
    high: int = 1
    rows: int = 0
    columns: int = 0
    tall: int = 0
    wide: int = 0
    depth: int = 0
    stages: int = 1
    boxes: tuple[stripe.Copy, stripe.Copy] | None = None
    staged: int = 0
    slots: int = 0
    beside: int = 1
    groups: int = 0
    registers: tuple[int, ...] = ()
    teams: int = 1
    cluster: int = 1

    @property
    def threads(self) -> int:
        """Threads of a group."""
        return self.rows // self.tall * (self.columns // self.wide) * self.fragment.threads

    @property
    def top(self) -> stripe.Index:
        """The index along which rows of tiles are consecutive in the grid."""
        return self.left.index if self.above is None else self.above

    @property
    def across(self) -> int:
        """Rows of a tile along its row index."""
        return self.rows // self.high

    def own(self, panel: Panel) -> frozenset[str]:
        """Return the output indices along which a tile of an input has several elements."""
        above = self.above if panel is self.left else None
        return frozenset((panel.index.name,) if above is None else (panel.index.name, above.name))

    def tests(self, panel: Panel) -> tuple[Affine, ...]:
        """Return the constraints that do not depend on the place of a product in the tile of the other input."""
        other = self.own(self.left if panel is self.right else self.right)
        return tuple(each for each in self.constraints if other.isdisjoint(each.indices))

    @property
    def masks(self) -> tuple[Affine, ...]:
        """The constraints that hold for only some outputs of a tile, if copies cannot implement them."""
        cut = self.cut
        zeros = {each for panel in (self.left, self.right) for each in self.tests(panel)}
        return () if zeros.issuperset(cut) else cut

    @property
    def promotes(self) -> bool:
        """True if the sums of each step are added to full-precision sums, as the instruction's precision is low."""
        return 0 < self.fragment.exact_depth < self.repeats * self.loop.range

    @property
    def has_parts(self) -> bool:
        """True if threads hold partial sums of some steps beside the totals."""
        return self.promotes or bool(self.masks)

    @property
    def repairs(self) -> bool:
        """True if zeros replace factors that constraints exclude from some outputs of a tile.

        Zero times infinity is NaN: sums with these products are recomputed.
        """
        return bool(self.cut) and not self.masks and self.left.use.dtype.is_float

    @property
    def cut(self) -> tuple[Affine, ...]:
        """The constraints that hold for only some outputs of a tile; all constraints if copies are of boxes."""
        if self.boxes is not None:
            return self.constraints
        tiled = self.own(self.left) | self.own(self.right)
        return tuple(each for each in self.constraints if not tiled.isdisjoint(each.indices))

    def taking(self, loops: Iterable[stripe.Index]) -> tuple[Affine, ...]:
        """Return tests that constraints of :attr:`cut` exclude terms of an output: that their minimum is negative."""
        ranges = {i.name: i.range for i in loops}
        tests = []
        for each in self.cut:
            ends = {name: Affine.constant(n - 1 if each.coefficient(name) < 0 else 0) for name, n in ranges.items()}
            tests.append(-each.substitute(ends) - 1)
        return tuple(tests)

    @property
    def steps(self) -> int:
        """Number of copies of tiles."""
        return self.repeats * -(-self.loop.range // self.depth)

    def extent(self, panel: Panel) -> int:
        """Return rows or columns of an input's tile in local memory: whole pieces if contiguous across the depth."""
        own = self.columns if panel is self.right else self.rows
        line = _LINE // panel.use.dtype.itemsize
        whole = self.fragment.a.where is OperandMemory.LOCAL and not panel.along_loop and own > line
        return -(-own // line) * line if whole else own

    @property
    def stage_bytes(self) -> int:
        """Local memory of one stage."""
        return (self.extent(self.left) + self.extent(self.right)) * self.depth * self.left.use.dtype.itemsize


def cut_rows(run: Run, bit: int) -> tuple[Run, ...]:
    """Return the parts of a run of rows below and from a bit of the row on; other runs unchanged."""
    return run.cut_at((run.start + bit - run.bit,)) if run.axis == "m" else (run,)


def runs_of(runs: Iterable[Run], plan: MatrixTiling) -> list[Run]:
    """Return runs of a layout, the highest first, split where rows of a fragment continue along the index above."""
    bit = plan.across.bit_length() - 1
    return [part for run in reversed(tuple(runs)) for part in reversed(cut_rows(run, bit))]


def is_above(run: Run, plan: MatrixTiling) -> bool:
    """Return whether a run counts places along the index above."""
    return run.axis == "m" and 1 << run.bit >= plan.across


def are_neighbours(run: Run) -> bool:
    """Return whether a run of an element's number counts adjacent elements of a row."""
    return run.start == run.bit == 0 and run.axis == "n"


def piece_of(panel: Panel, fragment: Fragment, width: int) -> int:
    """Return the contiguous elements of a row of ``width`` in local memory.

    Instructions that read local memory themselves take rows across the depth in pieces of all banks.
    """
    line = _LINE // panel.use.dtype.itemsize
    return min(width, line) if fragment.a.where is OperandMemory.LOCAL and not panel.along_loop else width


def swizzle_of(panel: Panel, fragment: Fragment, width: int) -> tuple[int, int]:
    """Return shift and mask for a tile of an input with rows of ``width`` elements, a power of two.

    An instruction reads a piece of each of eight rows; of f32 by columns four rows of eight elements.
    """
    dtype, size = panel.use.dtype, panel.use.dtype.itemsize
    if dtype is DType.F32 and not panel.along_loop and fragment.a.where is not OperandMemory.LOCAL:
        rows, across = _BANKS
        pieces = max(1, min(rows, width // across))  # several rows of a narrow tile share one line of banks
        return max(width, rows * across).bit_length() - across.bit_length(), (pieces - 1) * across
    piece = _PIECE // size
    pieces = max(1, min(width // piece, _LINE // _PIECE))
    apart = max(1, _LINE // (width * size))
    shift = (width * apart // piece).bit_length() - 1
    return shift, (pieces - 1) * piece


def reads_local(plan: MatrixTiling) -> bool:
    """Return whether the fragment reads local memory itself."""
    return plan.fragment.a.where is OperandMemory.LOCAL


def is_readable(plan: MatrixTiling) -> bool:
    """Return whether the fragment, if it reads local memory, can read its factors in the staged tiles.

    Rows there, or the pieces into which they are folded, have power-of-two lengths.
    """
    fragment = plan.fragment
    for panel, operand in ((plan.left, fragment.a), (plan.right, fragment.b)):
        if operand.where is not OperandMemory.LOCAL:
            continue
        width = plan.depth if panel.along_loop else plan.extent(panel)
        piece = piece_of(panel, fragment, width)
        if piece & piece - 1 or width % piece:
            return False
        shift, mask = swizzle_of(panel, fragment, piece)
        if (
            not (panel.along_loop or operand.turns)
            or Swizzle(shift, mask * operand.dtype.itemsize) not in operand.swizzles
        ):
            return False
    return True


def tallest(plan: MatrixTiling) -> int:
    """Return the maximum useful rows of a tile."""
    return plan.left.index.range * (1 if plan.above is None else plan.above.range)


def groups_of(nest: Nest, plan: MatrixTiling) -> int:
    """Return the number of groups."""
    extents = {plan.left.index.name: plan.across, plan.right.index.name: plan.columns}
    if plan.above is not None:
        extents[plan.above.name] = plan.high
    counts = ((i, -(-i.range // extents.get(i.name, 1))) for i in nest.indices)
    return product(whole_clusters(count, plan) if i.name == plan.top.name else count for i, count in counts)


def whole_clusters(count: int, plan: MatrixTiling) -> int:
    """Return the rows of tiles in whole clusters; those past the end compute no results."""
    return -(-count // plan.cluster) * plan.cluster


def in_clusters(plan: MatrixTiling, cluster: int) -> MatrixTiling:
    """Return the plan for clusters of ``cluster`` groups, if all tiles are boxes."""
    if plan.boxes is None:
        return plan
    return attrs.evolve(plan, cluster=cluster, groups=plan.groups // cluster * cluster)


def wastes(loop: stripe.Index, depth: int) -> bool:
    """Return whether a large part of the steps of a depth would be past the end of the reduction."""
    return -loop.range % depth * _WASTE >= loop.range


def deepest(loops: Iterable[stripe.Index], reads: Collection[Use], constrained: Collection[str]) -> stripe.Index:
    """Return the index of the sum along which steps go: the longest, as the rest of a step is past its end.

    Indices with wide copies count double; of long indices, unconstrained indices are best, then those with wide copies:
    along
    others elements are copied one by one.
    """

    def worth(index: stripe.Index) -> tuple[int, bool, bool, int]:
        free = index.name not in constrained
        wide = free and any(use.stride(index.name) == 1 for use in reads)
        return min(index.range * (2 if wide else 1), _STEP), free, wide, index.range

    return max(loops, key=worth)


_STEP: Final = 32
"""Length beyond which longer indices are no better, in terms of a step."""
