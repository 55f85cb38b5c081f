"""Thumbnails of the result of each step of a formula, from small pictures; of groups, in their first round."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import numpy as np

from tileir.core import TileError, attrs
from tileir_cli.pictures.files import as_levels
from tileir_formula.ir import Formula, Number, Repeat, Source, Step
from tileir_formula.references import places_of
from tileir_formula.running.crafting import craft
from tileir_studio.design.bench import Array, Assignment
from tileir_studio.design.previews import shown_pixels
from tileir_studio.serve.session import Event

_SIDE: Final = 96
"""Pixels of the longer side, at most."""

_MOST: Final = 24
"""Steps at the top that have one."""

_MOST_IN_GROUPS: Final = 12
"""Steps in groups that have one, since each of these takes kernels of its own."""

_NUMBER: Final = re.compile(r"\[(\d+)\]")


def thumbnails(assignment: Assignment) -> Iterator[Event]:
    """Yield what the steps and groups at the top make."""
    formula = assignment.formula.formula
    numbers = range(1, min(len(formula.steps), _MOST) + 1)
    if numbers:
        every_step = attrs.evolve(formula, results=tuple(Source(number) for number in numbers))
        yield _event([f"steps[{number - 1}]" for number in numbers], _made(assignment, every_step))


def thumbnails_in_groups(assignment: Assignment) -> Iterator[Event]:
    """Yield what each step in a group makes in the first round, one after the other."""
    formula = assignment.formula.formula
    inside = (path for path, step, scope in places_of(formula) if scope.groups and isinstance(step, Step))
    for path in islice(inside, _MOST_IN_GROUPS):
        try:
            yield _event([path], _made(assignment, in_first_round(formula, path)))
        except TileError:  # a group that ends here breaks a rule
            continue


def in_first_round(formula: Formula, path: str) -> Formula:
    """Return a formula whose result is what a step in groups makes in the first round of all of these."""
    numbers = [int(number) for number in _NUMBER.findall(path)]
    return attrs.evolve(formula, steps=_until(formula.steps, numbers), results=(Source(numbers[0] + 1),))


def _until(steps: Sequence[Step | Repeat], numbers: Sequence[int]) -> tuple[Step | Repeat, ...]:
    """Return the steps until one, and groups on the way to it with one round that ends with it."""
    first, *rest = numbers
    last = steps[first]
    if isinstance(last, Repeat) and rest:
        last = attrs.evolve(last, count=Number(1), limit=None, steps=_until(last.steps, rest))
    return (*steps[:first], last)


def _made(assignment: Assignment, formula: Formula) -> tuple[Array, ...]:
    made = craft(formula, device=assignment.formula.device)(*map(_small, assignment.pictures))
    return made if isinstance(made, tuple) else (made,)


def _event(paths: Sequence[str], made: Sequence[Array]) -> Event:
    pictures, sizes = {}, {}
    for path, picture in zip(paths, made, strict=True):
        try:
            shown = shown_pixels(as_levels(_small(picture)))
        except TileError:  # of two channels, say
            continue
        pictures[path] = shown.tobytes()
        sizes[path] = shown.shape[:2]
    return Event("thumbnails", {"sizes": sizes}, pictures)


def _small(picture: Array) -> Array:
    """Return every n-th pixel of a picture."""
    step = max(1, -(-max(picture.shape[:2]) // _SIDE))
    return np.ascontiguousarray(picture[::step, ::step])
