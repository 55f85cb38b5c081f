"""Places in a memory of several banks, and where in it something new can go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

ALL_BANKS: Final = -1
"""The bank of what is spread over all of them, the same bytes in each."""


@attrs.frozen
class Slot:
    """Bytes ``offset`` to ``offset + size`` of one bank, or of each."""

    bank: int
    offset: int
    size: int

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.offset + self.size

    def meets(self, other: Slot) -> bool:
        """Return whether some byte belongs to both."""
        banks = self.bank == other.bank or ALL_BANKS in (self.bank, other.bank)
        return banks and self.offset < other.end and other.offset < self.end


@attrs.frozen
class Memory:
    """A memory of equal banks.

    Attributes:
        bank_bytes: Size of a bank; 0 for one without end.
        banks: How many there are.
        alignment: What offsets are multiples of.

    """

    bank_bytes: int
    banks: int = 1
    alignment: int = 1

    @property
    def total_bytes(self) -> int:
        """Size of all banks together."""
        return self.bank_bytes * self.banks

    def fits(self, size: int) -> bool:
        """Return whether something of ``size`` bytes, in one bank, fits at all."""
        return self.bank_bytes == 0 or size <= self.bank_bytes

    def place(self, size: int, taken: Iterable[Slot], *, spread: bool = False, first_bank: int = 0) -> Slot | None:
        """Return the lowest free place for ``size`` bytes; of several banks the first one from ``first_bank`` on.

        With ``spread`` it takes these bytes in each bank. None where there is no such place.
        """
        others = sorted(taken, key=lambda slot: slot.offset)
        banks = [ALL_BANKS] if spread else [(first_bank + n) % self.banks for n in range(self.banks)]
        best: Slot | None = None
        for bank in banks:
            slot = self._lowest(size, bank, others)
            if slot is not None and (best is None or slot.offset < best.offset):
                best = slot
        return best

    def _lowest(self, size: int, bank: int, taken: Iterable[Slot]) -> Slot | None:
        """Return the lowest free place in one bank; ``taken`` are sorted by offset."""
        slot = Slot(bank, 0, size)
        for other in taken:
            if slot.meets(other):
                slot = Slot(bank, self.aligned(other.end), size)
        return slot if self.fits(slot.end) else None

    def aligned(self, offset: int) -> int:
        """Return the least offset from ``offset`` on at which something may begin."""
        return -(-offset // self.alignment) * self.alignment
