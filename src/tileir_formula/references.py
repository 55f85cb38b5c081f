"""Resolution of the sources of a formula: to an input, to a step by its path, or to nothing."""

from __future__ import annotations

from collections.abc import Iterator

from tileir.core.nodes import attrs
from tileir_formula.ir import Formula, Mask, Repeat, Source, Step
from tileir_formula.text.reading import PREVIOUS


@attrs.frozen
class Reference:
    """A source of a formula.

    Attributes:
        path: Of the source.
        source: As it stands there.
        target: The path of the step or group that it reads, ``inputs[0]``, or the path of a group and ``.previous`` for
            its last round; None where there is no such target.
    """

    path: str
    source: Source
    target: str | None


@attrs.define(eq=False, repr=False)
class Scope:
    """Names that can be read at a place; they change while the walk over the formula goes on.

    Attributes:
        inputs: The names of the inputs.
        names: The paths of steps by their names, in the order of the steps.
        lines: The paths of the steps and groups at the top.
        before: The path of the step before the place in its own group; None at the first one.
        groups: The paths of the groups around it.

    """

    inputs: tuple[str, ...]
    names: dict[str, str] = attrs.field(factory=dict)
    lines: list[str] = attrs.field(factory=list)
    before: str | None = None
    groups: list[str] = attrs.field(factory=list)
    _spellings: dict[str, str] = attrs.field(factory=dict, init=False)

    def define(self, path: str, step: Step | Repeat) -> None:
        """Go on behind a step."""
        if not self.groups:
            self.lines.append(path)
            self._spellings[path] = f"${len(self.lines)}"
        if not isinstance(step, Repeat) and step.name is not None and step.name not in self.names:
            self.names[step.name] = path
            self._spellings[path] = step.name
        self.before = path

    def enter(self, path: str) -> None:
        """Go into a group."""
        self.groups.append(path)
        self.before = None

    def leave(self, names: int) -> None:
        """Leave a group, outside of which this many names are known."""
        self.groups.pop()
        while len(self.names) > names:
            self.names.popitem()

    def target(self, source: Source) -> str | None:
        """Return the target of a source."""
        name = source.name
        if isinstance(name, int):
            return self.lines[name - 1] if name <= len(self.lines) else None
        if name == PREVIOUS:
            return f"{self.groups[-1]}.{PREVIOUS}" if self.groups else None
        if name in self.names:
            return self.names[name]
        return f"inputs[{self.inputs.index(name)}]" if name in self.inputs else None

    def spelling(self, path: str) -> str | None:
        """Return a source that refers to a step; None where it has neither a name nor a number."""
        return self._spellings.get(path)

    def implied(self) -> str | None:
        """Return a source for a step without any; None if it cannot be spelled."""
        if self.before is not None:
            return self.spelling(self.before)
        return PREVIOUS if self.groups else self.inputs[0]


def places_of(formula: Formula) -> Iterator[tuple[str, Step | Repeat | None, Scope]]:
    """Yield the path of each step, the step, and its available sources; None as the step at the end of each group.

    The last path is the place of a further step at the end.
    """
    yield from _places("", formula.steps, Scope(formula.inputs))


def _places(
    prefix: str, steps: tuple[Step | Repeat, ...], scope: Scope
) -> Iterator[tuple[str, Step | Repeat | None, Scope]]:
    for number, step in enumerate(steps):
        path = f"{prefix}steps[{number}]"
        yield path, step, scope
        if isinstance(step, Repeat):
            names = len(scope.names)
            scope.enter(path)
            yield from _places(f"{path}.", step.steps, scope)
            scope.leave(names)
        scope.define(path, step)
    yield f"{prefix}steps[{len(steps)}]", None, scope


def references_of(formula: Formula) -> Iterator[Reference]:
    """Yield all sources of a formula with what they refer to, in the order of the text."""
    scope = Scope(formula.inputs)
    for path, step, scope in places_of(formula):
        if isinstance(step, Step):
            for place, source in sources_of(step):
                yield Reference(f"{path}.{place}", source, scope.target(source))
    for number, source in enumerate(formula.results):
        yield Reference(f"results[{number}]", source, scope.target(source))


def sources_of(step: Step) -> Iterator[tuple[str, Source]]:
    """Yield the sources of a step, with their paths below it."""
    for number, source in enumerate(step.sources):
        yield f"sources[{number}]", source
    if isinstance(step.condition, Mask):
        yield "condition.source", step.condition.source
    if step.merge is not None:
        yield "merge.source", step.merge.source
