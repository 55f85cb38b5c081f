"""What may be offered at each place of a formula: the flexibility diagram of seed 002, for a place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from tileir.formula.definitions.functions import Function
from tileir.formula.definitions.offers import offered
from tileir.formula.diagrams.diagram import Legend, Node, diagram_of
from tileir.formula.ir import Formula, Repeat, Step
from tileir.formula.references import places_of
from tileir.formula.text.parser import parse

_NUMBER: Final = re.compile(r"\[(\d+)\]")


@attrs.frozen
class PlaceName:
    """A place where a step can go.

    Attributes:
        path: Where an edit inserts it.
        label: What the page calls it.

    """

    path: str
    label: str


@attrs.frozen
class OffersView:
    """What fits at a place.

    Attributes:
        text: The formula.
        path: The place.
        places: All that there are.
        primaries: Functions of one picture.
        merges: Functions of two.
        sources: What a step there can read.
        implied: What it reads where it names nothing; None where nothing spells it.
        conditions: What the letters of functions say.

    """

    text: str
    path: str
    places: tuple[PlaceName, ...]
    primaries: tuple[Node, ...]
    merges: tuple[Node, ...]
    sources: tuple[str, ...]
    implied: str | None
    conditions: tuple[Legend, ...]


def offers_view(text: str, path: str | None, functions: Mapping[str, Function]) -> OffersView:
    """Return what fits at a place; by default, and where there is no such place, at the end.

    Raises:
        ParseError: The text is no formula.
    """
    formula = parse(text)
    places = tuple(_places(formula))
    last = places[-1].path
    chosen = path if path in {each.path for each in places} else last
    fits = next(offered(None, scope, functions) for place, _, scope in places_of(formula) if place == chosen)
    diagram = diagram_of({name: functions[name] for name in fits.functions})
    return OffersView(
        text, chosen, places, diagram.primaries, diagram.merges, fits.sources, fits.implied, diagram.conditions
    )


def _places(formula: Formula) -> Iterator[PlaceName]:
    """Yield all places, in the order of the text, that at the end last."""
    for path, step, scope in places_of(formula):
        numbers = [str(int(number) + 1) for number in _NUMBER.findall(path)]
        if step is not None:
            yield PlaceName(path, f"above {'.'.join(numbers)} {_name(step)}")
        else:
            yield PlaceName(path, f"at the end of group {'.'.join(numbers[:-1])}" if scope.groups else "at the end")


def _name(step: Step | Repeat) -> str:
    return step.name or step.function if isinstance(step, Step) else "repeat"
