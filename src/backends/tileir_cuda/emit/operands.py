"""Layouts in shared memory of operands of wgmma."""

from __future__ import annotations

from typing import Final

from tileir.core.nodes import attrs
from tileir.semtree.ir import MatrixOperand
from tileir.semtree.swizzles import PLAIN

CODES: Final = {128: 1, 64: 2, 32: 3}
"""Codes of swizzles in descriptors, by bytes of a row."""

_UNIT: Final = 16


@attrs.frozen
class Matrix:
    """Layout of an operand in shared memory, in bytes.

    Attributes:
        row: Length of a row, and of the swizzle.
        across: Whether rows lie across the depth.
        chunk: Distance of the next chunk of rows across the depth; 0 if there is none.
        step: Distance of two steps of an instruction.
        extent: Bytes that an instruction takes across the depth: of rows across it, else of all rows.
    """

    row: int
    across: bool
    chunk: int
    step: int
    extent: int

    @classmethod
    def of(cls, operand: MatrixOperand, step: int, extent: int, *, right: bool) -> Matrix | None:
        """Return the layout of an operand for instructions of ``step`` by ``extent``; None if unsupported."""
        size = operand.start.type.dtype.itemsize
        major, minor = operand.strides[::-1] if right else operand.strides
        across = major == 1
        piece, whole, rows = operand.fold
        row = (minor if across else major) * size
        chunk = 0
        if operand.fold != PLAIN:
            if not across or minor != whole:
                return None
            row, chunk = piece * size, piece * rows * size
        swizzle = operand.mask * size + _UNIT
        lowest = operand.mask & -operand.mask
        spans = row if operand.mask else 0
        matches = swizzle == row and lowest * size == _UNIT and (1 << operand.shift) * lowest * size == 128
        if row not in CODES or not operand.mask or not matches or not spans:
            return None
        if across:
            return cls(row, True, chunk, step * row, extent * size) if chunk or extent * size <= row else None
        return cls(row, False, 0, step * size, extent * row) if minor == 1 else None

    def start(self, part: int, number: int) -> int:
        """Return the offset of step ``number`` of part ``part`` across the depth."""
        pieces, rest = divmod(part * self.extent, self.row) if self.chunk else (0, part * self.extent)
        return pieces * self.chunk + rest + self.step * number
