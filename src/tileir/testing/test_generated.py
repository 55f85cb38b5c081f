"""Programs made at random, against the typed interpreter; each is determined by the seed and its number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import pytest

from tileir.testing.generated.case import Case, Manner, assert_equal, generate

if TYPE_CHECKING:
    from tileir.testing.batches import Batches
    from tileir.testing.subject import Array

MANNERS: Final = {
    "exact": Manner(special=True, least_size=0),
    "functions": Manner(special=True, functions=True),
    "long axes": Manner(special=True, largest_size=20, statements=2),
}


@attrs.frozen(eq=False)
class Generated:
    """A generated program with its results."""

    case: Case

    @property
    def text(self) -> str:
        """The program."""
        return self.case.text

    @property
    def inputs(self) -> dict[str, Array]:
        """The arguments."""
        return self.case.inputs

    def check(self, actual: dict[str, Array]) -> None:
        """Compare results with those of the interpreter."""
        try:
            assert_equal(actual, self.case.expected(), self.case.tolerance)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.case!r}") from None


@pytest.fixture(scope="module")
def programs(request: pytest.FixtureRequest) -> list[Generated]:
    option = request.config.getoption
    numbers = range(option("--start"), option("--start") + option("--programs"))
    manners = list(MANNERS.values())
    return [Generated(generate(option("--seed"), number, manners[number % len(manners)])) for number in numbers]


def test_generated(batches: Batches, programs: list[Generated], position: int) -> None:
    batches.check(programs, position)
