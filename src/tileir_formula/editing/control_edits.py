"""Edits of the characters that a control stands for, by its path in the formula."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from tileir.core import ArgumentError, attrs, nearest
from tileir_formula.definitions.bodies import keeps_size
from tileir_formula.definitions.functions import Function
from tileir_formula.definitions.offers import MASK, NEAR, NONE, REGION
from tileir_formula.definitions.parameters import NO, YES
from tileir_formula.editing.changes import BLANKS, Change, with_argument_changed, without_arguments
from tileir_formula.editing.edits import Element, check_steps, check_value, elements, extents, no_element
from tileir_formula.ir import Argument, Formula, Near, Repeat, Step
from tileir_formula.references import places_of, references_of
from tileir_formula.text.layout import Call, Extent, Layout, layout_of
from tileir_formula.text.parser import (
    parse_argument,
    parse_condition,
    parse_merge,
    parse_name,
    parse_number,
    parse_source,
)

_PATH: Final = re.compile(r"(?P<step>(?:steps\[\d+\]\.)*steps\[\d+\])(?:\.(?P<part>.+))?|results\[(?P<result>\d+)\]")
_NEW_COLOUR: Final = "#808080"


@attrs.frozen
class ControlEdits:
    """Changes of the text of a formula by its controls."""

    text: str
    formula: Formula
    functions: Mapping[str, Function]
    elements: Mapping[str, Element]
    extents: Mapping[str, Extent]

    @classmethod
    def of(cls, text: str, formula: Formula, functions: Mapping[str, Function]) -> ControlEdits:
        """Return the edits of a formula that was read from a text."""
        return cls(text, formula, functions, dict(elements(formula)), extents(formula))

    def changes(self, path: str, value: str | None) -> list[Change]:
        """Return the changes that write a value; None restores the default.

        Raises:
            ParseError: The value has another kind.
            ArgumentError: TIL221, there is no such element.
        """
        match = _PATH.fullmatch(path)
        if match is None:
            raise no_element(path, self.extents)
        if match["result"] is not None:
            return self.result(int(match["result"]), value)
        step = self.elements.get(match["step"])
        if isinstance(step, Repeat):
            return self.group(step, match["step"], match["part"], value)
        if isinstance(step, Step):
            return _StepEdits(self, step, match["step"], layout_of(step)).changes(match["part"], value)
        raise no_element(path, self.extents)

    def result(self, place: int, value: str | None) -> list[Change]:
        """Return the changes that replace a result, or add one at the end."""
        given = self.formula.results
        spans = [self.extents[f"results[{number}]"] for number in range(len(given))]
        if value is not None:
            parse_source(value)
        if place < len(given):
            if value is not None:
                return [Change(*spans[place], value)]
            if len(given) > 1:
                return [_without_item(spans, place)]
            start = self.text.rindex("results", 0, spans[0][0])
            return [Change(len(self.text[:start].rstrip(BLANKS)), spans[0][1], "")]
        if place > len(given):
            raise no_element(f"results[{place}]", self.extents)
        if value is None:
            return []
        if given:
            return [Change(spans[-1][1], spans[-1][1], f", {value}")]
        before = "\n" if self.text and not self.text.endswith("\n") else ""
        return [Change(len(self.text), len(self.text), f"{before}results {value}\n")]

    def group(self, group: Repeat, path: str, part: str | None, value: str | None) -> list[Change]:
        """Return the changes of a group's rounds, its limit, or the whole group."""
        place = f"{path}.{part}"
        if part is None and value is not None:
            check_steps(value, most=1)
            return [Change(*self.extents[path], value)]
        if part not in ("count", "limit") or (part == "count" and value is None):
            raise no_element(place, self.extents)
        if value:
            parse_number(value)
        if place in self.extents and value:
            return [Change(*self.extents[place], value)]
        end = self.extents[f"{path}.count"][1]
        if value:
            return [Change(end, end, f" until change below {value}")]
        return [] if group.limit is None else [Change(end, self.extents[place][1], "")]


@attrs.frozen(repr=False)
class _StepEdits:
    """Edits by the controls of one step."""

    formula: ControlEdits
    step: Step
    path: str
    layout: Layout

    def changes(self, part: str | None, value: str | None) -> list[Change]:
        name, _, rest = (part or "").partition(".")
        match name:
            case "" if value is not None:
                check_steps(value, most=1)
                return [self.at(None, value)]
            case "name":
                return self.name(value or None)
            case "function" if value is not None:
                return self.function(value)
            case "arguments" if rest:
                return self.argument(self.layout.call, self.step.arguments, rest, value)
            case "boundary":
                return self.clause("outside", "boundary", value)
            case "condition":
                return self.condition(rest, value)
            case "merge":
                return self.merge(rest, value)
            case _ if number := re.fullmatch(r"sources\[(\d+)\]", name):
                return self.source(int(number[1]), value)
        raise no_element(f"{self.path}.{part}", self.formula.extents)

    def at(self, part: str | None, value: str) -> Change:
        """Return the change of an element in the text.

        Raises:
            ParseError: The value has another kind.
            ArgumentError: TIL221, there is no such element.
        """
        path = self.path if part is None else f"{self.path}.{part}"
        if path not in self.formula.extents:
            raise no_element(path, self.formula.extents)
        check_value(self.formula.elements.get(path), path, value)
        return Change(*self.formula.extents[path], value)

    def clause(self, word: str, part: str, value: str | None) -> list[Change]:
        """Return the changes that write, change or remove a clause with a checked value."""
        if value is None:
            return [self.without(word)] if word in self.layout.clauses else []
        if word in self.layout.clauses:
            return [self.at(part, value)]
        check_value(None, f"{self.path}.{part}", value)
        return [self.added(word, value)]

    def added(self, word: str, value: str) -> Change:
        place = self.layout.end_before(word)
        return Change(place, place, f" {word} {value}")

    def without(self, word: str) -> Change:
        start, stop = self.layout.clauses[word]
        return Change(len(self.formula.text[:start].rstrip(BLANKS)), stop, "")

    def name(self, value: str | None) -> list[Change]:
        """Return the changes that rename a step and its references."""
        readers = [
            each
            for each in references_of(self.formula.formula)
            if each.target == self.path and isinstance(each.source.name, str)
        ]
        start = self.layout.call.function[0]
        if value is None:
            if self.layout.name is None:
                return []
            changes = [Change(self.layout.name[0], start, "")]
            value = None if "." in self.path else f"${int(self.path[6:-1]) + 1}"
        else:
            parse_name(value)
            named = self.layout.name
            changes = [Change(start, start, f"{value} = ") if named is None else Change(*named, value)]
        spans = [each.source.span for each in readers if each.source.span is not None]
        return changes if value is None else [*changes, *(Change(span.start, span.stop, value) for span in spans)]

    def function(self, name: str) -> list[Change]:
        """Return the changes that make the step call another function, without arguments that it does not take."""
        parse_name(name)
        changes = [Change(*self.layout.call.function, name)]
        function = self.formula.functions.get(name)
        if function is None:
            raise ArgumentError.of("TIL206", f"there is no function {name!r}{nearest(name, self.formula.functions)}")
        if name == self.step.function:
            return []
        changes += without_arguments(self.layout.call, self.step.arguments, _refused(function, self.step.arguments))
        changes += self.sources_for(function)
        if self.step.boundary is not None and not function.has_window:
            changes.append(self.without("outside"))
        if self.step.condition is not None and not keeps_size(function):
            changes.append(self.without("where"))
        return changes

    def sources_for(self, function: Function) -> list[Change]:
        """Return the changes that give a step the number of sources of a function."""
        wanted, given = len(function.pictures), self.step.sources
        spans = [self.formula.extents[f"{self.path}.sources[{place}]"] for place in range(len(given))]
        if len(given) > wanted:
            return [Change(spans[wanted - 1][1], spans[-1][1], "")]
        if len(given) == wanted or wanted == 1:
            return []
        second = self.formula.formula.inputs[0]
        if given:
            return [Change(spans[0][1], spans[0][1], f", {second}")]
        implied = next(scope.implied() for path, _, scope in places_of(self.formula.formula) if path == self.path)
        if implied is None:
            message = f"{function.name} reads two; give the step before it a name, so that it can be one of them"
            raise ArgumentError.of("TIL222", message, self.step.span)
        return [self.added("of", f"{implied}, {second}")]

    def argument(self, call: Call, arguments: tuple[Argument, ...], name: str, value: str | None) -> list[Change]:
        if value is None:
            return without_arguments(call, arguments, [name])
        parse_argument(f"{name}={value}")
        return [with_argument_changed(call, arguments, name, value)]

    def source(self, place: int, value: str | None) -> list[Change]:
        """Return the changes that replace, remove or append a source."""
        given = self.step.sources
        spans = [self.formula.extents[f"{self.path}.sources[{number}]"] for number in range(len(given))]
        if place > len(given):
            raise no_element(f"{self.path}.sources[{place}]", self.formula.extents)
        if value is None or value == "":
            if place == len(given):
                return []
            return [self.without("of") if len(given) == 1 else _without_item(spans, place)]
        parse_source(value)
        if place < len(given):
            return [Change(*spans[place], value)]
        return [Change(spans[-1][1], spans[-1][1], f", {value}") if given else self.added("of", value)]

    def condition(self, part: str, value: str | None) -> list[Change]:
        """Return the changes of a condition, or a part of it."""
        condition, place = self.step.condition, f"condition.{part}"
        if part == "kind":
            return self.clause_of_kind(None if value == NONE else value)
        if not part:
            return self.clause("where", "condition", value)
        if value is None and part in ("negated", "relative", "pixel"):
            value = NO
        if condition is None or value is None:
            raise no_element(f"{self.path}.{place}", self.formula.extents)
        if part in ("negated", "relative", "pixel"):
            if value not in (YES, NO):
                raise ArgumentError.of("TIL221", f"{place} is yes or no; it was {value!r:.80}")
            return self.flag(part, value == YES)
        return [self.at(place, value)]

    def clause_of_kind(self, kind: str | None) -> list[Change]:
        """Return the changes that write a new condition of a kind, unless there is one."""
        if kind is None:
            return self.clause("where", "condition", None)
        new = {NEAR: "output within 10% of pixel", REGION: "region(0, 0, 64, 64)"}
        new[MASK] = f"mask {self.formula.formula.inputs[0]}"
        if kind not in new:
            message = f"a condition is one of {', '.join(new)}; it was {kind!r:.80}{nearest(kind, new)}"
            raise ArgumentError.of("TIL221", message)
        if type(self.step.condition) is type(parse_condition(new[kind])):
            return []
        return self.clause("where", "condition", new[kind])

    def flag(self, part: str, value: bool) -> list[Change]:
        """Return the changes that set a flag of a condition, if it differs."""
        condition, extents_, place = self.step.condition, self.formula.extents, f"{self.path}.condition"
        assert condition is not None
        if part == "negated":
            start = extents_[place][0]
            if condition.negated == value:
                return []
            if value:
                return [Change(start, start, "not ")]
            end = extents_[f"{place}.negated"][1]
            rest = self.formula.text[end:]
            return [Change(start, end + len(rest) - len(rest.lstrip(BLANKS)), "")]
        if not isinstance(condition, Near):
            raise no_element(f"{place}.{part}", extents_)
        if part == "pixel":
            if (condition.reference is None) == value:
                return []
            return [Change(*extents_[f"{place}.reference"], "pixel" if value else _NEW_COLOUR)]
        if condition.relative == value:
            return []
        end = extents_[f"{place}.limit"][1]
        return [Change(end, end, "%")] if value else [Change(end, extents_[f"{place}.relative"][1], "")]

    def merge(self, part: str, value: str | None) -> list[Change]:
        """Return the changes of the merge, or a part of it."""
        merge, call = self.step.merge, self.layout.merge
        if (not part and value is None) or (part == "function" and value in (None, NONE)):
            return self.clause("with", "merge", None)
        if not part and value is not None:
            parse_merge(value)
            if "with" not in self.layout.clauses:
                return [self.added("with", value)]
            return [Change(*self.layout.clauses["with"], f"with {value}")]
        if part == "function" and value is not None:
            parse_name(value)
            if merge is None or call is None:
                return [self.added("with", f"{value} {self.formula.formula.inputs[0]}")]
            function = self.formula.functions.get(value)
            gone = () if function is None else _refused(function, merge.arguments)
            return [Change(*call.function, value), *without_arguments(call, merge.arguments, gone)]
        if merge is not None and call is not None:
            if part == "source" and value is not None:
                return [self.at("merge.source", value)]
            if part.startswith("arguments."):
                return self.argument(call, merge.arguments, part.removeprefix("arguments."), value)
        raise no_element(f"{self.path}.merge.{part}", self.formula.extents)


def _refused(function: Function, arguments: tuple[Argument, ...]) -> list[str]:
    """Return the names of arguments that a function does not take."""
    parameters = {argument.name: function.parameter(argument.name) for argument in arguments}
    return [
        argument.name
        for argument in arguments
        if (parameter := parameters[argument.name]) is None or parameter.fault(argument.value) is not None
    ]


def _without_item(spans: Sequence[Extent], place: int) -> Change:
    """Return the change that removes an item from a list, with its comma."""
    if place:
        return Change(spans[place - 1][1], spans[place][1], "")
    return Change(spans[0][0], spans[1][0], "")
