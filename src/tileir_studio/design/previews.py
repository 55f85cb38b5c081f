"""Previews of the results of a formula: of large pictures the visible part first, then the rest.

Compiling with optimisation takes too long for a control that is dragged. So the first picture comes from kernels that
exist, or from a program compiled with :attr:`tileir.Options.quick`. Unless a newer request comes meanwhile, the
optimised program is then compiled, and its picture is the final one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from tileir import Executable, default_context
from tileir.core import CancelledError, TileError, attrs, cancelled_if, fail
from tileir_cli.pictures.files import as_levels
from tileir_formula.running.crafting import CraftedFormula
from tileir_formula.running.picture_parts import Rectangle
from tileir_performance.explain.explanation import explain_program
from tileir_studio.design.bench import Array, Assignment
from tileir_studio.serve.session import STALE, Event, Session

LARGE: Final = 1 << 20
"""The fewest pixels of a picture whose visible part is worth a kernel of its own."""

QUICK: Final = "quick"
"""The event of the picture until the optimised program is there."""

_GRID: Final = 256
"""The grid, in pixels, of the corners of parts, so that few sizes need kernels."""


Region = tuple[int, int, int, int]

LONGEST: Final = 0.25
"""The longest predicted run, in seconds, of a quick program: the optimised one is there soon after."""

SMOOTH: Final = 0.05
"""That limit where it ran before: fast moves would never see the optimised program, so one of them waits."""

_predicted: Final[WeakKeyDictionary[Executable, float]] = WeakKeyDictionary()
"""A cache of predicted seconds, since each move of a control asks."""


def preview(session: Session, request: Mapping[str, Any]) -> Iterator[Event]:
    """Yield one result of a formula, as the colours of its pixels, row by row.

    With ``region``, the top, left, height and width of the visible part, that part of a large picture comes first. An
    event ``quick``, which has the form of ``preview``, or ``part`` comes before where more has to be compiled;
    ``preview`` then has a picture only if it differs.
    """
    assignment = session.bench.assignment(request, session.folder)
    region = _region(request, assignment.pictures[0].shape)
    place = None if region is None else attrs.astuple(region)
    quick = None
    if not assignment.formula.is_compiled(*assignment.pictures, region=place):
        with _given_up_with(session):
            quick = _quick(request, assignment, place)
        if quick is not None:
            yield quick
        with _given_up_with(session):
            assignment.formula.executable(*assignment.pictures, region=place)
        if session.is_stale:
            yield Event(STALE, None)
            return
    if region is None:
        results, seconds = run(assignment)
        shown = shown_pixels(as_levels(results[chosen(request, len(results))]))
        yield _whole(assignment, shown, seconds, len(results), quick)
    else:
        yield from _by_parts(session, request, assignment, region)


@contextmanager
def _given_up_with(session: Session) -> Iterator[None]:
    """Leave the block once the request is stale."""
    with suppress(CancelledError), cancelled_if(lambda: session.is_stale):
        yield


def _quick(request: Mapping[str, Any], assignment: Assignment, region: Region | None) -> Event | None:
    """Return a picture for the time until the optimised program is there; None where it takes too long."""
    begun = time.perf_counter()
    found = quick_results(assignment, region)
    if found is None:
        return None
    place, results = found
    shown = shown_pixels(as_levels(results[chosen(request, len(results))]))
    if place is not None and attrs.astuple(place) == region:  # else steps depend on places, and it is the whole
        return _part(assignment, place, shown)
    return attrs.evolve(_whole(assignment, shown, time.perf_counter() - begun, len(results)), name=QUICK)


def _by_parts(
    session: Session, request: Mapping[str, Any], assignment: Assignment, region: Rectangle
) -> Iterator[Event]:
    """Yield the visible part, then the whole, unless a newer request comes between the parts."""
    begun = time.perf_counter()
    whole: Array | None = None
    rows, columns = assignment.pictures[0].shape[:2]
    for place, found in assignment.formula.parts(attrs.astuple(region), *assignment.pictures):
        results = found if isinstance(found, tuple) else (found,)
        shown = shown_pixels(as_levels(results[chosen(request, len(results))]))
        if place == region:
            yield _part(assignment, place, shown)
            whole = np.empty((rows, columns, 4), np.uint8)
        if whole is None:  # where steps depend on places
            whole = shown
        else:
            whole[place.slices] = shown
        if session.is_stale:
            yield Event(STALE, None)
            return
    assert whole is not None
    yield _whole(assignment, whole, time.perf_counter() - begun, len(results))


def _part(assignment: Assignment, place: Rectangle, shown: Array) -> Event:
    size = assignment.pictures[0].shape[:2]
    view = {"place": attrs.astuple(place), "size": size, "text": assignment.formula.text}
    return Event("part", view, {"part": shown.tobytes()})


def _whole(assignment: Assignment, shown: Array, seconds: float, count: int, before: Event | None = None) -> Event:
    """Return the event of a whole picture, without the picture where the event before it had an equal one."""
    view = {"size": shown.shape[:2], "seconds": seconds, "results": count, "text": assignment.formula.text}
    pictures = {"preview": shown.tobytes()}
    return Event("preview", view, {} if before is not None and before.pictures == pictures else pictures)


def _region(request: Mapping[str, Any], shape: tuple[int, ...]) -> Rectangle | None:
    """Return the region that comes first; None where the whole comes at once.

    Raises:
        TileError: TIL913, it is not four whole numbers.
    """
    found = request.get("region")
    if found is None:
        return None
    if not isinstance(found, list) or len(found) != 4 or not all(type(each) is int for each in found):
        raise fail("TIL913", "`region` is four whole numbers: top, left, height and width")
    (rows, columns), (top, left, height, width) = shape[:2], found
    if not (0 <= top < top + height <= rows and 0 <= left < left + width <= columns):
        return None
    (first, high), (last, wide) = _on_grid(top, height, rows), _on_grid(left, width, columns)
    region = Rectangle(first, last, high, wide)
    return region if rows * columns >= LARGE and 2 * high * wide <= rows * columns else None


def _on_grid(start: int, size: int, whole: int) -> tuple[int, int]:
    """Return the start and size of a range of pixels, widened to a multiple of the grid inside the picture."""
    first = start // _GRID * _GRID
    widened = min(-(-(start + size - first) // _GRID) * _GRID, whole)
    return min(first, whole - widened), widened


def run(assignment: Assignment) -> tuple[tuple[Array, ...], float]:
    """Return the results of a formula, and the seconds that they took once it was compiled."""
    assignment.formula.executable(*assignment.pictures)
    begun = time.perf_counter()
    results = assignment.formula(*assignment.pictures)
    seconds = time.perf_counter() - begun
    return results if isinstance(results, tuple) else (results,), seconds


def shown_pixels(levels: Array) -> Array:
    """Return levels as red, green, blue and opacity for a canvas."""
    from PIL import Image  # slow to import, and most jobs need none

    return np.asarray(Image.fromarray(levels).convert("RGBA"))


def chosen(request: Mapping[str, Any], count: int) -> int:
    """Return the number of the requested result; 0 where there is none of it."""
    number = request.get("result", 0)
    return number if isinstance(number, int) and 0 <= number < count else 0


def quick_results(assignment: Assignment, region: Region | None) -> tuple[Rectangle | None, tuple[Any, ...]] | None:
    """Return results, or a part with its place, of kernels that are soon ready; None where they take too long.

    Errors are dropped: the optimised program raises them too, or does not fail.
    """
    pictures = assignment.pictures
    candidates = tuple(_candidates(assignment))
    try:
        ready = next((each for each in candidates if each.is_compiled(*pictures, region=region)), None)
        formula = candidates[-1] if ready is None else ready
        ran_before = ready is not None and ready.options is not None and ready.options.quick
        executable = formula.executable(*pictures, region=region)
        if executable not in _predicted:
            _predicted[executable] = explain_program(executable.scheduled, executable.device.target).seconds
        if _predicted[executable] > (SMOOTH if ran_before else LONGEST):
            return None
        place, found = (None, formula(*pictures)) if region is None else next(formula.parts(region, *pictures))
    except (TileError, MemoryError):
        return None
    return place, found if isinstance(found, tuple) else (found,)


def _candidates(assignment: Assignment) -> Iterator[CraftedFormula]:
    """Yield equivalent formulas, first the dragged formula, so that a release reuses the kernels of the last move."""
    if assignment.dragged is not None:
        yield assignment.dragged
        yield _quickly(assignment.dragged)
    yield _quickly(assignment.formula)


def _quickly(formula: CraftedFormula) -> CraftedFormula:
    return formula.with_options(attrs.evolve((formula.context or default_context()).options, quick=True))
