"""What repeated groups read from around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.formula.ir import Mask, Repeat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir.formula.ir import Source, Step


def reads_of(steps: tuple[Step | Repeat, ...]) -> Iterator[Source]:
    """Yield every source that steps name, those of groups inside them as well."""
    for step in steps:
        if isinstance(step, Repeat):
            yield from reads_of(step.steps)
            continue
        yield from step.sources
        if isinstance(step.condition, Mask):
            yield step.condition.source
        if step.merge is not None:
            yield step.merge.source


def count_of(steps: tuple[Step | Repeat, ...]) -> int:
    """Return how many steps run, those of groups as often as they are repeated."""
    return sum(int(each.count.value) * count_of(each.steps) if isinstance(each, Repeat) else 1 for each in steps)
