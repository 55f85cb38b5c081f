"""Arrays of a running kernel, and what an interpreter can watch about them."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import attrs
import numpy as np

from tileir.core.dtype import DType
from tileir.core.errors import TileError, fail

Array: TypeAlias = np.ndarray[Any, Any]
Place: TypeAlias = int | slice | Array
"""Which elements an access touches: one, neighbours, or those of a vector of offsets."""

_NOBODY: Final = -1
_MANY: Final = -2


@attrs.frozen
class Checks:
    """What to watch beyond bounds, at the cost of speed.

    Attributes:
        races: Fail where two groups touch one element of a parameter and one of them writes it.
        undefined: Fail where an element is read that nothing has written: of a declared array, or of a
            parameter that is only written.

    """

    races: bool = False
    undefined: bool = False


NO_CHECKS: Final = Checks()
ALL_CHECKS: Final = Checks(races=True, undefined=True)


@attrs.define
class Memory:
    """The elements of one array."""

    name: str
    data: Array

    def outside(self, kernel: str, first: int, last: int) -> TileError:
        """Return the error of an access to elements that do not exist."""
        place = str(first) if first == last else f"{first} to {last}"
        size = len(self.data)
        return fail(
            "TIL553", f"kernel {kernel!r} touches element {place} of {self.name!r}, which has {size}: bound the offset"
        )

    def reads(self, place: Place, group: int) -> None:
        """Note that a group reads; only watched memory does."""

    def writes(self, place: Place, group: int) -> None:
        """Note that a group writes; only watched memory does."""


@attrs.define
class WatchedMemory(Memory):
    """Memory that reports reads of undefined elements, and elements that two groups touch while one writes.

    Attributes:
        kernel: The kernel's name, for messages.
        defined: Which elements have a value; None where all have.
        shared: Whether several groups can reach the array.

    """

    kernel: str
    defined: Array | None
    shared: bool
    _writer: Array = attrs.field(init=False)
    _reader: Array = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        size = len(self.data) if self.shared else 0
        self._writer = np.full(size, _NOBODY)
        self._reader = np.full(size, _NOBODY)

    def reads(self, place: Place, group: int) -> None:
        """Check that what a group reads is defined and that no other group writes it."""
        if self.defined is not None and not np.all(self.defined[place]):
            raise fail("TIL557", f"kernel {self.kernel!r} reads elements of {self.name!r} that nothing has written")
        if self.shared:
            self._alone(self._writer[place], place, group)
            before = self._reader[place]
            self._reader[place] = np.where((before == _NOBODY) | (before == group), group, _MANY)

    def writes(self, place: Place, group: int) -> None:
        """Check that no other group reads or writes what a group writes."""
        if self.defined is not None:
            self.defined[place] = True
        if self.shared:
            self._alone(self._writer[place], place, group)
            self._alone(self._reader[place], place, group)
            self._writer[place] = group

    def _alone(self, others: Array, place: Place, group: int) -> None:
        clash = (others != _NOBODY) & (others != group)
        if np.any(clash):
            element = int(np.atleast_1d(np.arange(len(self.data))[place])[np.argmax(np.atleast_1d(clash))])
            raise fail(
                "TIL558",
                f"group {group} of kernel {self.kernel!r} and another one touch element {element} of {self.name!r}, "
                "and one of them writes it: groups are unordered",
            )


def poisoned(dtype: DType, size: int) -> Array:
    """Return elements whose use is likely to be noticed: NaN, an odd bit pattern, or true."""
    if dtype.is_float:
        return np.full(size, np.nan, dtype.numpy)
    if dtype.is_bool:
        return np.ones(size, np.bool_)
    return np.full(size * dtype.itemsize, 0xA5, np.uint8).view(dtype.numpy)
