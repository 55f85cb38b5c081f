"""Operands of the warp instruction ``mma.sync``: the layout of fragments in threads.

Fragments follow NVIDIA, "PTX ISA" (mma.m16n8k16, mma.m16n8k8, ldmatrix): lane ``4 * g + t`` has rows ``g`` and ``g +
8`` of the left operand, column ``g`` of the right operand, and neighbours along the depth from ``t`` words on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tileir.core import DType, attrs
from tileir.core.fragments import FRAGMENTS
from tileir.semtree.analysis.ranges import Ranges
from tileir.semtree.expressions import Expr
from tileir.semtree.ir import MatrixMultiply, MatrixOperand
from tileir.semtree.rewrite import summands
from tileir.semtree.swizzles import period

ROWS: Final = 16
"""Rows of the left operand, and columns of the right operand, per load."""

ROW_BYTES: Final = 16
"""Bytes that ldmatrix takes from one address."""

_EIGHT: Final = 8


def steps(stmt: MatrixMultiply) -> Iterator[tuple[int, range, range, list[tuple[int, int, int]]]]:
    """Yield the offset along the depth and a thread's work for each step of a product.

    The work is: first rows of the left operand and first columns of the right operand of each load of sixteen; then the
    products: number of a row fragment, number of a column fragment, and number of their first accumulator.
    """
    fragment = FRAGMENTS[stmt.fragment]
    (rows, columns, step), (height, width, depth) = fragment.mnk, stmt.tile
    pairs = [(row, column) for row in range(height // rows) for column in range(width // columns)]
    products = [(*pair, number * fragment.sums.held) for number, pair in enumerate(pairs)]
    for begin in range(0, depth // step * step, step):
        yield begin, range(0, height, ROWS), range(0, width, ROWS), products


@attrs.frozen(eq=False)
class WarpOperand:
    """Operand loaded sixteen rows (left) or columns (right) at a time.

    Attributes:
        dtype: Dtype of its elements.
        major: Elements from one row, or column of the right operand, to the next.
        minor: Elements from one step along the depth to the next.
        swizzle: Shift and mask.
        terms: Terms of the start, and whether the swizzle changes them.
        half: Half of the depth of an instruction.
        end: Number of rows or columns.
        right: Whether it is the right operand.
        by_rows: Whether ldmatrix may be used; otherwise fragments are assembled from single elements.
    """

    dtype: DType
    major: int
    minor: int
    swizzle: tuple[int, int]
    terms: tuple[tuple[Expr, bool], ...]
    half: int
    end: int
    right: bool
    by_rows: bool

    @classmethod
    def of(cls, stmt: MatrixMultiply, ranges: Ranges, alignment: int, *, right: bool) -> WarpOperand:
        """Return an operand, whose array is aligned to ``alignment`` bytes; the right operand by its columns."""
        operand: MatrixOperand = stmt.right if right else stmt.left
        start, shift, mask, end = operand.start, operand.shift, operand.mask, stmt.tile[1 if right else 0]
        unit = period(shift, mask) if mask else 1
        terms = tuple((term, ranges.at(term).divisor % unit != 0) for term in summands(start.offset))
        major, minor = operand.strides[::-1] if right else operand.strides
        dtype = start.type.dtype
        eight = ROW_BYTES // dtype.itemsize
        units = (ranges.at(start.offset).divisor, minor if major == 1 else major, mask & -mask if mask else eight)
        along = minor == 1 or (major == 1 and dtype.itemsize == 2)
        by_rows = along and end % ROWS == 0 and alignment % ROW_BYTES == 0 and not any(n % eight for n in units)
        half = FRAGMENTS[stmt.fragment].mnk[2] // 2
        return cls(dtype, major, minor, (shift, mask), terms, half, end, right, by_rows)

    @property
    def turned(self) -> bool:
        """True if ldmatrix transposes the fragments."""
        return self.minor != 1

    @property
    def words(self) -> tuple[tuple[int, int], ...]:
        """Starts of the four words of a thread: row and step offsets."""
        down, along = (_EIGHT, 0), (0, self.half)
        return ((0, 0), *((along, down) if self.right else (down, along)), (_EIGHT, self.half))

    def split(self, distance: int) -> tuple[int, int]:
        """Return the part of a constant distance that the swizzle affects, and the rest."""
        inner = distance % (period(*self.swizzle) if self.swizzle[1] else 1)
        return inner, distance - inner
