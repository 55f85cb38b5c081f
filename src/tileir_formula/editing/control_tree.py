"""Controls of a formula, from its text, the parameters of its functions, and the suggestions for each place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypedDict

from tileir.core.nodes import attrs
from tileir_formula.definitions.functions import Function
from tileir_formula.definitions.offers import MASK, NEAR, NONE, REGION, Offers, offered
from tileir_formula.definitions.parameters import (
    NO,
    YES,
    ChoiceParameter,
    ColourParameter,
    FlagParameter,
    NumberParameter,
    Parameter,
    WeightsParameter,
)
from tileir_formula.editing.controls import (
    ChoiceControl,
    ColourControl,
    ConditionControls,
    Control,
    FlagControl,
    FormulaControls,
    GroupControls,
    MergeControls,
    NameControl,
    NumberControl,
    StepControls,
    WeightsControl,
)
from tileir_formula.editing.edits import extents
from tileir_formula.ir import (
    Argument,
    Boundary,
    Condition,
    Formula,
    Mask,
    Merge,
    Near,
    Region,
    Repeat,
    Step,
    Subject,
    Value,
    Weights,
)
from tileir_formula.references import places_of
from tileir_formula.text.layout import Extent
from tileir_formula.text.parser import parse
from tileir_formula.text.printer import source_text, to_text, value_text
from tileir_formula.verifier import MOST_ROUNDS

_SIDE: Final = float(1 << 30)
"""The largest number of a region."""


def controls_of(formula: Formula | str, functions: Mapping[str, Function]) -> FormulaControls:
    """Return the controls of a formula, or of its text; of one that was not parsed, those of the text it is printed as.

    What its functions do not know has no controls, and what is wrong with it (:mod:`tileir_formula.verifier`) is no
    obstacle: the text may be in the middle of a change.

    Raises:
        ParseError: The text is no formula.

    """
    if isinstance(formula, str):
        parsed = parse(formula)
    else:
        parsed = formula if formula.span is not None else parse(to_text(formula))
    return _Building(parsed, functions, extents(parsed)).formula_controls()


class _Common(TypedDict):
    """Attributes of all controls."""

    path: str
    label: str
    value: str
    default: str | None
    given: bool
    about: str
    span: Extent | None


@attrs.frozen(repr=False)
class _Building:
    formula: Formula
    functions: Mapping[str, Function]
    extents: Mapping[str, Extent]

    def formula_controls(self) -> FormulaControls:
        made: dict[str, list[StepControls | GroupControls]] = {}
        results: tuple[ChoiceControl, ...] = ()
        for path, step, scope in places_of(self.formula):
            prefix = path.rpartition("steps[")[0]
            number = None if prefix else len(scope.lines) + 1
            match step:
                case Step():
                    controls = self.step(path, number, step, offered(step, scope, self.functions))
                    made.setdefault(prefix, []).append(controls)
                case Repeat():
                    made.setdefault(prefix, []).append(self.group(path, number, step))
                case None if prefix:
                    around = made[prefix[:-1].rpartition("steps[")[0]]
                    group = around[-1]
                    assert isinstance(group, GroupControls)  # it comes before its steps
                    around[-1] = attrs.evolve(group, steps=tuple(made.pop(prefix, ())))
                case None:
                    results = self.results(offered(None, scope, self.functions))
        return FormulaControls(self.formula.inputs, tuple(made.get("", ())), results)

    def common(
        self, path: str, label: str, value: str | None, default: str | None = None, about: str = "", place: str = ""
    ) -> _Common:
        """Return the attributes of all controls; a value of None stands for the default, ``place`` for its position."""
        return _Common(
            path=path,
            label=label,
            value=(default or "") if value is None else value,
            default=default,
            given=value is not None,
            about=about,
            span=None if value is None else self.extents.get(place or path),
        )

    def step(self, path: str, number: int | None, step: Step, fits: Offers) -> StepControls:
        function = self.functions.get(step.function)
        return StepControls(
            path=path,
            number=number,
            span=self.extents[path],
            about="" if function is None else function.about,
            name=NameControl(**self.common(f"{path}.name", "name", step.name, "", "by which later steps read it")),
            function=_choice(
                self.common(f"{path}.function", "function", step.function, about="what the step does"),
                fits.functions,
            ),
            sources=tuple(self.sources(path, step, function, fits)),
            parameters=self.parameters(path, function, step.arguments),
            boundary=self.boundary(path, step, function),
            condition=self.condition(path, step.condition, fits),
            merge=self.merge(path, step.merge, fits),
        )

    def sources(self, path: str, step: Step, function: Function | None, fits: Offers) -> Iterator[ChoiceControl]:
        given = [source_text(source) for source in step.sources]
        pictures = ("Image",) if function is None else function.pictures
        for place in range(max(len(given), len(pictures))):
            label = pictures[place].lower() if place < len(pictures) else "too many"
            value = given[place] if place < len(given) else None
            default = (fits.implied or "") if place == 0 and len(pictures) == 1 else None
            common = self.common(f"{path}.sources[{place}]", label, value, default, "what the step reads")
            yield _choice(common, fits.sources)

    def parameters(self, path: str, function: Function | None, arguments: tuple[Argument, ...]) -> tuple[Control, ...]:
        if function is None:
            return ()
        given = {argument.name: argument.value for argument in arguments}
        return tuple(self.parameter(path, each, given.get(each.name)) for each in function.parameters)

    def parameter(self, path: str, parameter: Parameter, value: Value | None) -> Control:
        """Return the control of a parameter, which is at its default without a value."""
        common = self.common(
            f"{path}.arguments.{parameter.name}",
            parameter.name,
            None if value is None else value_text(value),
            value_text(parameter.default),
            parameter.about,
        )
        match parameter:
            case NumberParameter(low=low, high=high, step=step):
                return NumberControl(**common, low=low, high=high, step=step, whole=parameter.is_whole)
            case ChoiceParameter(words=words):
                return _choice(common, words)
            case FlagParameter():
                return FlagControl(**common)
            case ColourParameter():
                return ColourControl(**common)
            case WeightsParameter(most=most):
                weights = value if isinstance(value, Weights) else parameter.default
                return WeightsControl(**common, rows=weights.rows, most=most)

    def boundary(self, path: str, step: Step, function: Function | None) -> ChoiceControl | None:
        if function is None or not (function.has_window or step.boundary is not None):
            return None
        value = None if step.boundary is None else step.boundary.value
        about = "what windows see outside the picture"
        common = self.common(f"{path}.boundary", "outside", value, function.boundary.value, about)
        return _choice(common, tuple(each.value for each in Boundary))

    def condition(self, path: str, condition: Condition | None, fits: Offers) -> ConditionControls:
        place = f"{path}.condition"
        kinds: dict[type[Condition], str] = {Near: NEAR, Mask: MASK, Region: REGION}
        value = None if condition is None else kinds[type(condition)]
        common = self.common(f"{place}.kind", "where", value, NONE, "where the step applies", place)
        kind = _choice(common, (NONE, *fits.conditions))
        if condition is None:
            return ConditionControls(kind, ())
        parts: list[Control] = [self.flag(f"{place}.negated", "not", condition.negated, "whether it applies elsewhere")]
        match condition:
            case Near():
                parts += self.near(place, condition)
            case Mask(source=source):
                mask = self.common(f"{place}.source", "mask", source_text(source), about="applies where it is not 0")
                parts.append(_choice(mask, fits.sources))
            case Region():
                for side in ("top", "left", "height", "width"):
                    number = value_text(getattr(condition, side))
                    common = self.common(f"{place}.{side}", side, number, about="in pixels")
                    parts.append(NumberControl(**common, low=0.0, high=_SIDE, step=1.0, whole=True))
        return ConditionControls(kind, tuple(parts))

    def flag(self, path: str, label: str, value: bool, about: str) -> FlagControl:
        return FlagControl(**self.common(path, label, YES if value else None, NO, about))

    def near(self, place: str, condition: Near) -> Iterator[Control]:
        subject = self.common(f"{place}.subject", "value of", condition.subject.value, about="whose value is compared")
        yield _choice(subject, tuple(each.value for each in Subject))
        about = "the most that each channel may be away"
        limit = self.common(f"{place}.limit", "within", value_text(condition.limit), about=about)
        yield NumberControl(**limit, low=0.0, high=None, step=1.0 if condition.relative else 0.01, whole=False)
        about = "whether the limit is in percent of the pixel that would be replaced"
        yield self.flag(f"{place}.relative", "percent", condition.relative, about)
        pixel = condition.reference is None
        colour = "#000000" if condition.reference is None else value_text(condition.reference)
        about = "whether it is compared with the pixel that would be replaced, not with a colour"
        value = YES if pixel else None
        yield FlagControl(**self.common(f"{place}.pixel", "of the pixel", value, NO, about, f"{place}.reference"))
        if not pixel:
            yield ColourControl(**self.common(f"{place}.reference", "colour", colour, about="what it is compared with"))

    def merge(self, path: str, merge: Merge | None, fits: Offers) -> MergeControls:
        place = f"{path}.merge"
        about = "merges the result with a second picture"
        name = None if merge is None else merge.function
        common = self.common(f"{place}.function", "with", name, NONE, about)
        function = _choice(common, (NONE, *fits.merges))
        if merge is None:
            return MergeControls(function, ())
        source = self.common(f"{place}.source", "picture", source_text(merge.source), about="the second picture")
        parameters = self.parameters(place, self.functions.get(merge.function), merge.arguments)
        return MergeControls(function, (_choice(source, fits.sources), *parameters))

    def group(self, path: str, number: int | None, group: Repeat) -> GroupControls:
        count = self.common(f"{path}.count", "rounds", value_text(group.count), about="how often, at most")
        limit = None if group.limit is None else value_text(group.limit)
        about = "stops where no value changes by as much"
        return GroupControls(
            path=path,
            number=number,
            span=self.extents[path],
            count=NumberControl(**count, low=0.0, high=float(MOST_ROUNDS), step=1.0, whole=True),
            limit=NumberControl(
                **self.common(f"{path}.limit", "until change below", limit, "", about),
                low=0.0,
                high=None,
                step=0.001,
                whole=False,
            ),
            steps=(),
        )

    def results(self, fits: Offers) -> tuple[ChoiceControl, ...]:
        given = [source_text(source) for source in self.formula.results]
        about = "what the formula returns"
        further = self.common(f"results[{len(given)}]", "result", None, "", about)
        named = [self.common(f"results[{place}]", "result", value, about=about) for place, value in enumerate(given)]
        return tuple(_choice(common, fits.sources) for common in (*named, further))


def _choice(common: _Common, words: tuple[str, ...]) -> ChoiceControl:
    """Return a choice; the current word is always included, even where it does not fit."""
    value = common["value"]
    others = (value,) if common["given"] and value not in words else ()
    return ChoiceControl(**common, words=(*words, *others))
