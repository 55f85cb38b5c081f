"""Templates: texts with parts to fill in, ``{{ NUM_SRAM }}``, ``{{ SRAM_SIZE_KiB / NUM_SRAM }}``, and loops over units.

The language is a subset of jinja2's: values, ``for``, ``if`` with ``elif`` and ``else``, ``set`` and comments. Blocks
are marked ``{% … %}`` or, as on Stripe's slides, ``[% … %]``. Values are spelt as in JSON, except texts, which are
inserted verbatim. A template from a stranger takes bounded time and memory: it reads and calls nothing but the names of
:mod:`tileir.core.targets.template_expressions`, and each step and each character counts against a limit.
"""

from __future__ import annotations

import ast
import json
from bisect import bisect_right
from collections import ChainMap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from tileir.core.errors import Diagnostic, TileError
from tileir.core.nodes import attrs
from tileir.core.targets.template_expressions import (
    Budget,
    ExhaustedError,
    ExpressionError,
    MissingError,
    Value,
    evaluate,
)
from tileir.core.targets.template_parser import Choice, Loop, Output, Part, Setting, Text, parse_template
from tileir.core.text.names import nearest
from tileir.core.text.span import Source, Span

_MOST_CHARACTERS: Final = 1 << 20
"""Greatest growth of a template."""


@attrs.frozen
class FilledTemplate:
    """A text with all parts filled in.

    Attributes:
        text: The text.
        starts: The start of each piece in it.
        spans: The place of each piece in the template: its characters, or the part that produced it.
    """

    text: str = attrs.field(repr=False)
    starts: tuple[int, ...]
    spans: tuple[Span, ...]

    def place(self, start: int, stop: int) -> Span:
        """Return the origin of characters ``start`` to ``stop`` of the text."""
        return self._place(start).to(self._place(max(start, stop - 1)))

    def _place(self, position: int) -> Span:
        """Return the place of one character; that of the whole part if a part produced it."""
        piece = max(0, bisect_right(self.starts, position) - 1)
        span, offset = self.spans[piece], position - self.starts[piece]
        copied = self.text[self.starts[piece] : (*self.starts, len(self.text))[piece + 1]] == span.text
        return Span(span.source, span.start + offset, span.start + offset + 1) if copied else span


def fill(text: str, names: Mapping[str, Value], name: str = "<template>") -> str:
    """Return a text with all parts filled in; itself if there are none.

    Args:
        text: The template.
        names: The values of names in it.
        name: The name of the text in messages.

    Raises:
        TileError: TIL546, a name without a value, an invalid template, a part without a value, or excessive time or
            memory,
            with the place.
    """
    return filled(Source(text, name), 0, len(text), names).text


def filled(source: Source, start: int, stop: int, names: Mapping[str, Value]) -> FilledTemplate:
    """Return characters ``start`` to ``stop`` of a text with all parts filled in, and their origin.

    Raises:
        TileError: As :func:`fill`.
    """
    rendering = _Rendering(names, _MOST_CHARACTERS + stop - start)
    with suppress(_StoppedError):
        rendering.render(parse_template(source, start, stop), ChainMap({}, dict(names)))
    if rendering.faults:
        raise TileError(rendering.faults.values())
    return FilledTemplate("".join(rendering.texts), tuple(rendering.starts), tuple(rendering.spans))


class _StoppedError(Exception):
    """A template exceeds a limit; the fault is recorded."""


@attrs.define(eq=False, repr=False)
class _Rendering:
    """The text of a template so far: this and its budget are the only state."""

    names: Mapping[str, Value]
    room: int
    budget: Budget = attrs.field(factory=Budget)
    texts: list[str] = attrs.field(factory=list)
    starts: list[int] = attrs.field(factory=list)
    spans: list[Span] = attrs.field(factory=list)
    faults: dict[tuple[int, str], Diagnostic] = attrs.field(factory=dict)
    length: int = 0

    def render(self, parts: Sequence[Part], scope: ChainMap[str, Value]) -> None:
        for part in parts:
            match part:
                case Text(span=span):
                    self._write(span.text, span)
                case Output(span=span, value=value):
                    if (found := self._value(value, scope, span)) is not None:
                        self._write(_spelt(found[0]), span)
                case Setting(span=span, name=name, value=value):
                    found = self._value(value, scope, span)
                    scope[name] = found[0] if found else None
                case Choice(span=span, test=test):
                    if (found := self._value(test, scope, span)) is not None:
                        self.render(part.body if found[0] else part.other, scope)
                case Loop():
                    self._repeat(part, scope)

    def _repeat(self, loop: Loop, scope: ChainMap[str, Value]) -> None:
        found = self._value(loop.items, scope, loop.span)
        if found is None:
            return
        if not isinstance(found[0], tuple):
            self._fault(loop.span, f"this has no value: a loop takes a list, not {_spelt(found[0]):.40}")
            return
        length = len(found[0])
        for number, item in enumerate(found[0]):
            turn: dict[str, Value] = {"loop.index": number + 1, "loop.index0": number, "loop.length": length}
            turn |= {"loop.first": number == 0, "loop.last": number == length - 1, loop.name: item}
            self._take(loop.span)
            self.render(loop.body, scope.new_child(turn))

    def _value(self, node: ast.expr, scope: Mapping[str, Value], span: Span) -> tuple[Value] | None:
        """Return the value of an expression, in a tuple; None if it has none, which is recorded."""
        try:
            return (evaluate(node, scope, self.budget),)
        except MissingError as error:
            name = str(error.args[0])
            message = f"{name[:64]} has no value here{nearest(name, self.names)}"
            self.faults.setdefault((-1, message), Diagnostic("TIL546", message, span))  # at its first place
        except ExpressionError as error:
            self._fault(span, f"this is no template: {error}")
        except ExhaustedError as error:
            self._stop(span, str(error))
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            self._fault(span, f"this has no value: {error}")
        return None

    def _write(self, text: str, span: Span) -> None:
        self._take(span)
        self.room -= len(text)
        if self.room < 0:
            self._stop(span, f"it grows by more than {_MOST_CHARACTERS} characters")
        self.texts.append(text)
        self.starts.append(self.length)
        self.spans.append(span)
        self.length += len(text)

    def _take(self, span: Span) -> None:
        try:
            self.budget.take()
        except ExhaustedError as error:
            self._stop(span, str(error))

    def _stop(self, span: Span, problem: str) -> None:
        self._fault(span, f"this template is too large: {problem}")
        raise _StoppedError

    def _fault(self, span: Span, message: str) -> None:
        self.faults.setdefault((span.start, message), Diagnostic("TIL546", message, span))


def _spelt(value: Value) -> str:
    return value if isinstance(value, str) else json.dumps(value)
