"""What repeated groups read from around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.formula.ir import Repeat
from tileir.formula.references import sources_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir.formula.ir import Source, Step


def reads_of(steps: tuple[Step | Repeat, ...]) -> Iterator[Source]:
    """Yield every source that steps name, those of groups inside them as well."""
    for step in steps:
        if isinstance(step, Repeat):
            yield from reads_of(step.steps)
            continue
        for _, source in sources_of(step):
            yield source


def count_of(steps: tuple[Step | Repeat, ...]) -> int:
    """Return how many steps run, those of groups as often as they are repeated."""
    return sum(int(each.count.value) * count_of(each.steps) if isinstance(each, Repeat) else 1 for each in steps)
