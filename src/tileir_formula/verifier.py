"""The rules of formulas, given the functions that they may call; all faults at once, each with its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from tileir.core import Diagnostic, Span, VerifyError, nearest
from tileir_formula.definitions.functions import Function
from tileir_formula.ir import Formula, Mask, Merge, Near, Number, Region, Repeat, Source, Step
from tileir_formula.text import spelling
from tileir_formula.text.reading import PREVIOUS

MOST_ROUNDS: Final = 100_000
"""The most rounds of a group, so that a typing error does not run for days."""


def verify(formula: Formula, functions: Mapping[str, Function]) -> None:
    """Check a formula.

    Raises:
        VerifyError: It breaks rules; one diagnostic for each.

    """
    found = faults_of(formula, functions)
    if found:
        raise VerifyError(tuple(found))


def faults_of(formula: Formula, functions: Mapping[str, Function]) -> list[Diagnostic]:
    """Return the faults of a formula."""
    unspellable = list(spelling.faults_of(formula))
    if unspellable:
        return unspellable
    check = _Check(functions)
    for name in formula.inputs:
        check.define(name, formula.span)
    check.steps(formula.steps, top=True)
    for source in formula.results:
        check.source(source)
    if not formula.steps and not formula.results:
        check.fault("TIL213", "a formula has a step, or names its results", formula.span)
    return check.found


@attrs.define(eq=False, repr=False)
class _Check:
    """The names in scope at a step, and the faults found so far."""

    functions: Mapping[str, Function]
    names: dict[str, None] = attrs.field(factory=dict)
    lines: int = 0  # steps and groups before it, at the top
    depth: int = 0
    found: list[Diagnostic] = attrs.field(factory=list)

    def fault(self, code: str, message: str, span: Span | None) -> None:
        self.found.append(Diagnostic(code, message, span))

    def define(self, name: str, span: Span | None) -> None:
        if name in self.names:
            self.fault("TIL202", f"{name!r} is defined before; choose a new name", span)
        self.names[name] = None

    def steps(self, steps: tuple[Step | Repeat, ...], top: bool = False) -> None:
        for step in steps:
            if isinstance(step, Repeat):
                self.repeat(step)
            else:
                self.step(step)
            self.lines += top

    def repeat(self, group: Repeat) -> None:
        if not _is_whole(group.count, 0, MOST_ROUNDS):
            self.fault("TIL104", f"rounds are a whole number from 0 to {MOST_ROUNDS:,}", group.count.span)
        if group.limit is not None and group.limit.value < 0:
            self.fault("TIL104", "a change is never below a negative number", group.limit.span)
        if not group.steps:
            self.fault("TIL213", "a group has a step", group.span)
        outside = len(self.names)
        self.depth += 1
        self.steps(group.steps)
        self.depth -= 1
        while len(self.names) > outside:
            self.names.popitem()

    def step(self, step: Step) -> None:
        function = self.function(step.function, step.span)
        if function is not None:
            self.found.extend(function.faults(step.arguments))
            self.sources(step, function)
            if step.boundary is not None and not function.has_window:
                message = f"{step.function} looks at no pixel but its own, so nothing lies outside; drop `outside`"
                self.fault("TIL225", message, step.span)
        for source in step.sources:
            self.source(source)
        self.condition(step)
        if step.merge is not None:
            self.merge(step.merge)
        if step.name is not None:
            self.define(step.name, step.span)

    def function(self, name: str, span: Span | None) -> Function | None:
        known = self.functions.get(name)
        if known is None:
            self.fault("TIL206", f"there is no function {name!r}{nearest(name, self.functions)}", span)
        return known

    def sources(self, step: Step, function: Function) -> None:
        """Check that a step names the number of pictures that its function reads; a single one may be implied."""
        wanted = len(function.pictures)
        if len(step.sources) != wanted and (step.sources or wanted != 1):
            names = " and ".join(function.pictures)
            message = f"{step.function} reads {wanted}: {names}; write `of` and {wanted}, it has {len(step.sources)}"
            self.fault("TIL222", message, step.span)

    def source(self, source: Source) -> None:
        name = source.name
        if isinstance(name, int):
            if not 1 <= name <= self.lines:
                message = f"there are {self.lines} lines before this one, so ${name} is nothing yet"
                self.fault("TIL223", message, source.span)
        elif name == PREVIOUS:
            if not self.depth:
                self.fault("TIL223", "previous is the last round of a group, but this is in none", source.span)
        elif name not in self.names:
            message = f"neither an input nor an earlier step is named {name!r}{nearest(name, self.names)}"
            self.fault("TIL223", message, source.span)

    def condition(self, step: Step) -> None:
        match step.condition:
            case Mask(source=source):
                self.source(source)
            case Near(limit=limit) if limit.value < 0:
                self.fault("TIL104", "nothing is within a negative distance", limit.span)
            case Region() as region:
                for side in (region.top, region.left, region.height, region.width):
                    if not _is_whole(side, 0, 1 << 30):
                        self.fault("TIL104", "sides of a region are whole pixels from 0 on", side.span)

    def merge(self, merge: Merge) -> None:
        self.source(merge.source)
        function = self.function(merge.function, merge.span)
        if function is None:
            return
        self.found.extend(function.faults(merge.arguments))
        if len(function.pictures) != 2:
            self.fault("TIL222", f"{merge.function} reads one picture, so it cannot merge two", merge.span)


def _is_whole(number: Number, low: int, high: int) -> bool:
    return float(number.value).is_integer() and low <= number.value <= high
