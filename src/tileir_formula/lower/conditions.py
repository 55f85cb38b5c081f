"""Conditions of steps as Tile: tensors that are 1 where a step applies, and 0 elsewhere.

Also the outer values that repeated groups read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial, reduce
from typing import Final

from tileir.core.ops import Aggregation
from tileir.ops.shared.foundation import aggregate, call, dims_of, indices_of
from tileir.tile.builder import Operand, Tensor
from tileir_formula.ir import Condition, Mask, Near, Region, Repeat, Source, Step, Subject
from tileir_formula.lower.channels import channel
from tileir_formula.references import sources_of

Lookup = Callable[[str], Operand]
"""From the name of a number of a condition to what computes with it."""

COLOURS: Final = 3
"""Channels of a colour: red, green and blue."""


def chosen_by(
    condition: Condition, subjects: Mapping[Subject, Tensor], mask: Tensor | None, colour: Tensor | None, number: Lookup
) -> Tensor:
    """Return the tensor of a condition.

    Args:
        condition: The condition.
        subjects: The input and the result of the step, and the first input.
        mask: The mask of a condition that has one.
        colour: The colour of a condition that has one, as a vector from 0 to 1.
        number: Looks up the numbers of the condition.
    """
    pixel = subjects[Subject.INPUT]
    match condition:
        case Near():
            holds = _near(condition, subjects[condition.subject], pixel, colour, number)
        case Mask():
            assert mask is not None
            holds = call("cmp_ne", mask, 0)
        case Region():
            holds = _inside(pixel, number)
    return call("logical_not", holds) if condition.negated else holds


def _near(condition: Near, subject: Tensor, pixel: Tensor, colour: Tensor | None, number: Lookup) -> Tensor:
    """Return where all channels of the subject are near enough; for a colour the first three, without alpha."""
    given = number("limit")
    share = call("mul", given, 0.01) if condition.relative else None

    def near(subject: Tensor, pixel: Tensor, reference: Tensor) -> Tensor:
        limit = given if share is None else call("mul", call("abs", pixel), share)
        return call("cmp_le", call("abs", subject - reference), limit)

    if colour is None:
        return _over_channels(call("as_int", near(subject, pixel, pixel), 32)) > 0
    planes = (
        near(channel(subject, place), channel(pixel, place), aggregate(Aggregation.ASSIGN, colour[place], [], []))
        for place in range(COLOURS)
    )
    return reduce(partial(call, "logical_and"), planes)


def _over_channels(holds: Tensor) -> Tensor:
    """Return the least value of all channels, for each of them."""
    *axes, channel = indices_of(holds)
    *sizes, _ = dims_of(holds)
    return aggregate(Aggregation.MIN, holds[(*axes, channel)], [*axes, 0], [*sizes, 1])


def _inside(pixel: Tensor, number: Lookup) -> Tensor:
    """Return where rows and columns are those of a rectangle."""
    row, column = call("index", pixel, 0), call("index", pixel, 1)
    top, left = number("top"), number("left")
    rows = call("logical_and", row >= top, row - top < number("height"))
    columns = call("logical_and", column >= left, column - left < number("width"))
    return call("logical_and", rows, columns)


def reads_of(steps: tuple[Step | Repeat, ...]) -> Iterator[Source]:
    """Yield every source that steps name, those of groups inside them as well."""
    for step in steps:
        if isinstance(step, Repeat):
            yield from reads_of(step.steps)
            continue
        for _, source in sources_of(step):
            yield source


def count_of(steps: tuple[Step | Repeat, ...]) -> int:
    """Return the number of steps that run, with those of groups counted once per round."""
    return sum(int(each.count.value) * count_of(each.steps) if isinstance(each, Repeat) else 1 for each in steps)
