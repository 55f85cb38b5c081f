"""Passes and schedules of installed distributions, by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from tileir.core import Target, attrs
from tileir.core.extensions import EXTENSIONS, Kind
from tileir.core.protocols import mistakes
from tileir.passes.base import Named, Pass, aliases_of, for_target
from tileir.passes.offers import OFFERS
from tileir.passes.pipelines import pipeline
from tileir.stripe.ir import Program


@attrs.frozen
class Schedule:
    """A step that an entry point names, with its options already set."""

    name: ClassVar[str] = ""
    step: ClassVar[Pass]

    def __call__(self, program: Program) -> Program:
        """Apply the pass."""
        return self.step(program)

    def for_target(self, target: Target) -> Pass:
        """Return the pass with the facts of ``target``, under the name of the schedule."""
        return Named(self.name, for_target((self.step,), target)[0])


def passes_installed(names: Iterable[str]) -> list[type[Pass]]:
    """Return the named passes and schedules that distributions offer; other names are left out.

    Raises:
        BackendError: TIL811 or TIL812, one cannot be loaded.
    """
    found: list[type[Pass]] = []
    for name in names:
        if name in EXTENSIONS.entries(Kind.PASS):
            found.append(_pass(name))
        elif name in EXTENSIONS.entries(Kind.SCHEDULE):
            found.append(_schedule(name))
    return found


def names_installed() -> tuple[str, ...]:
    """Return the names of all passes and schedules that distributions offer."""
    return (*EXTENSIONS.names(Kind.PASS), *EXTENSIONS.names(Kind.SCHEDULE))


def wrong_pass(offer: object, name: str) -> str | None:
    """Return why an object cannot serve as the pass of that name; None if it can."""
    if not (isinstance(offer, type) and attrs.has(offer) and "__call__" in dir(offer)):
        return f"is {_shown(offer)}, not an attrs class whose instances take a program"
    if name not in (getattr(offer, "name", None), *aliases_of(offer)):
        return f"calls itself {getattr(offer, 'name', None)!r}; its entry point must have the same name"
    try:
        offer()
    except TypeError as error:
        return f"cannot be made without options: {error}"
    return next(mistakes(offer, Pass, OFFERS), None)


def schedule_of(offer: object) -> Pass:
    """Return the pass of a schedule offer: the text of one step, a script, or a pass.

    Raises:
        TypeError: It is something else.
        TileError: The text is no pipeline.
    """
    from tileir.passes.pipelines.resolution import passes_called  # it asks this module for names
    from tileir.passes.schedules.scripted import Scripted
    from tileir.schedule.script import Script

    if isinstance(offer, str):
        steps = pipeline.parse(offer, passes_called)
        if len(steps) != 1:
            raise TypeError(f"it has {len(steps)} steps; a schedule is one, such as script{{…}}")
        return steps[0]
    if isinstance(offer, Script):
        return Scripted.of(offer)
    if callable(offer) and isinstance(getattr(offer, "name", None), str) and not isinstance(offer, type):
        return offer  # type: ignore[return-value]  # a pass is no more than that
    raise TypeError(f"it is {_shown(offer)}, not the text of a step, a Script or a pass")


def wrong_schedule(offer: object) -> str | None:
    """Return why an object cannot serve as a schedule; None if it can."""
    try:
        schedule_of(offer)
    except TypeError as error:
        return f"is no schedule: {error}"
    return None


def _pass(name: str) -> type[Pass]:
    found: type[Pass] = EXTENSIONS.get(Kind.PASS, name, lambda offer: wrong_pass(offer, name))  # type: ignore[assignment]
    return found


def _schedule(name: str) -> type[Pass]:
    offer = EXTENSIONS.get(Kind.SCHEDULE, name, wrong_schedule)
    return attrs.frozen(type("Schedule", (Schedule,), {"name": name, "step": schedule_of(offer), "__slots__": ()}))


def _shown(offer: object) -> str:
    return f"the class {offer.__name__}" if isinstance(offer, type) else f"a {type(offer).__name__}"
