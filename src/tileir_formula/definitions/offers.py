"""Completions for a step at a place of a formula: functions, sources, conditions and merges that fit there."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final

from tileir.core import ArgumentError, attrs
from tileir_formula.definitions.bodies import keeps_size
from tileir_formula.definitions.functions import Function
from tileir_formula.ir import Formula, Repeat, Step
from tileir_formula.references import Scope, places_of
from tileir_formula.text.reading import PREVIOUS

MOST_SOURCES: Final = 100
"""Earlier steps that are offered to be read, the nearest ones."""

NEAR, MASK, REGION, NONE = "near", "mask", "region", "none"


@attrs.frozen
class Offers:
    """Suggestions for a place.

    Attributes:
        functions: Names of functions that a step there can call.
        merges: Names of functions that can merge its result with another picture.
        sources: Its possible sources: inputs, the last round of the group around it, and earlier steps.
        implied: Its default source; None where that has neither a name nor a number.
        conditions: Kinds of conditions it can have: ``near``, ``mask`` and ``region``.
    """

    functions: tuple[str, ...]
    merges: tuple[str, ...]
    sources: tuple[str, ...]
    implied: str | None
    conditions: tuple[str, ...]


def offers(formula: Formula, path: str, functions: Mapping[str, Function]) -> Offers:
    """Return the suggestions for the path of a step, or for a further step at the end of a group.

    Raises:
        ArgumentError: TIL221, there is no such place.
    """
    for place, step, scope in places_of(formula):
        if place == path:
            return offered(step, scope, functions)
    raise ArgumentError.of("TIL221", f"the formula has no place {path!r} for a step")


def offered(step: Step | Repeat | None, scope: Scope, functions: Mapping[str, Function]) -> Offers:
    """Return the suggestions for a step, or an empty place, at the current point of a walk over a formula."""
    implied = scope.implied()
    names_second = implied is not None or (isinstance(step, Step) and len(step.sources) > 0)
    merges = tuple(name for name, each in functions.items() if len(each.pictures) == 2)
    called = functions.get(step.function) if isinstance(step, Step) else None
    limits = called is None or keeps_size(called)
    return Offers(
        functions=tuple(name for name, each in functions.items() if len(each.pictures) == 1 or names_second),
        merges=merges,
        sources=_sources(scope),
        implied=implied,
        conditions=(NEAR, MASK, REGION) if limits else (),
    )


def _sources(scope: Scope) -> tuple[str, ...]:
    """Return sources that can be read, the nearest steps last."""
    named = [name for name, path in islice(reversed(scope.names.items()), MOST_SOURCES) if "." in path]
    lines = [scope.spelling(path) for path in islice(reversed(scope.lines), MOST_SOURCES)]
    steps = [each for each in [*named, *lines] if each is not None][:MOST_SOURCES]
    return (*scope.inputs, *((PREVIOUS,) if scope.groups else ()), *reversed(steps))
