"""Index boxes that enumerate the same elements: which point of one is which point of the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tileir.core.nodes import attrs
from tileir.poly.affine import Affine


@attrs.frozen
class Correspondence:
    """One box of new indices, and the old indices of two boxes as affines of them.

    Going over the new box goes over both old ones, each point once, so that two given addresses agree at every point.
    Indices that stay as they are take no part in ``first`` and ``second``.
    """

    ranges: tuple[tuple[str, int], ...]
    first: Mapping[str, Affine]
    second: Mapping[str, Affine]


@attrs.define(eq=False, repr=False)
class _Digits:
    """The indices of one box as the digits of an address, least significant first; consumed piece by piece."""

    rest: list[tuple[int, int, str]]
    taken: int = 1  # product of the ranges of the pieces taken from the current digit
    values: dict[str, Affine] = attrs.field(factory=dict)

    @property
    def stride(self) -> int:
        return self.rest[-1][0] * self.taken

    @property
    def left(self) -> int:
        return self.rest[-1][1] // self.taken

    @property
    def name(self) -> str:
        return self.rest[-1][2]

    def is_whole(self, count: int) -> bool:
        return self.rest[-1][1] == count

    def changes(self) -> dict[str, Affine]:
        """Return the values of the indices that are not just themselves."""
        return {name: value for name, value in self.values.items() if value.terms != ((name, 1),)}

    def take(self, count: int, piece: str) -> None:
        """Bind the lowest ``count`` values that are left of the current digit to the index ``piece``."""
        name = self.name
        self.values[name] = self.values.get(name, Affine()) + Affine.of({piece: self.taken})
        self.taken *= count
        if self.is_whole(self.taken):
            self.rest.pop()
            self.taken = 1


def correspond(
    first: Affine,
    first_ranges: Mapping[str, int],
    second: Affine,
    second_ranges: Mapping[str, int],
    fresh: Callable[[str], str],
) -> Correspondence | None:
    """Return how two boxes correspond when equal addresses mean equal points; None where they do not.

    Digits of different ranges are split: with ``8·i + j`` over 4 x 8 on one side and ``k`` over 32 on the other,
    ``k`` becomes ``8·i + j``. Whole indices of the first box keep their names, pieces get names by ``fresh``.
    """
    if first.offset != second.offset:
        return None
    left, right = _digits(first, first_ranges), _digits(second, second_ranges)
    if left is None or right is None:
        return None
    ranges: list[tuple[str, int]] = []
    while left.rest and right.rest:
        count = min(left.left, right.left)
        if left.stride != right.stride or left.left % count or right.left % count:
            return None
        piece = left.name if left.is_whole(count) else fresh(left.name)
        ranges.append((piece, count))
        left.take(count, piece)
        right.take(count, piece)
    if left.rest or right.rest:
        return None
    return Correspondence(tuple(reversed(ranges)), left.changes(), right.changes())


def _digits(address: Affine, ranges: Mapping[str, int]) -> _Digits | None:
    """Return the indices as digits; None where an index that moves takes no part in the address."""
    coefficients = {name: int(c) for name, c in address.terms}
    if any(count > 1 and name not in coefficients for name, count in ranges.items()):
        return None
    digits = [(coefficients[name], count, name) for name, count in ranges.items() if count > 1]
    # The least digit stands last, from where it is taken; a digit is never 0, so the sign decides nothing else.
    digits.sort(key=lambda digit: abs(digit[0]), reverse=True)
    return _Digits(digits, values={name: Affine() for name, count in ranges.items() if count == 1})
