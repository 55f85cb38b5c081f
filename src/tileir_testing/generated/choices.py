"""Sources of the choices of a random program: a seed, or a tool that also shrinks what fails."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

from tileir.core import attrs

T = TypeVar("T")


class Choices(Protocol):
    """A source of choices."""

    def integer(self, least: int, most: int) -> int:
        """Choose an integer between two bounds, both included."""

    def pick(self, options: Sequence[T]) -> T:
        """Choose one of some options, of which there is at least one."""


@attrs.frozen
class Seeded:
    """Choices determined by a seed: equal on every machine and in every version of Python from 3.11 on."""

    seed: str
    _random: random.Random = attrs.field(init=False, repr=False, eq=False)

    @_random.default
    def _start(self) -> random.Random:
        return random.Random(self.seed)

    def integer(self, least: int, most: int) -> int:
        """Choose an integer between two bounds, both included."""
        return least + int(self._random.random() * (most - least + 1))

    def pick(self, options: Sequence[T]) -> T:
        """Choose one of some options."""
        return options[int(self._random.random() * len(options))]
