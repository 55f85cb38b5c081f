"""Controls of a formula as data: what a page shows for each step, where that stands in the text, and what may.

Every control has the path that :func:`tileir_formula.lower.applying.apply` takes. They are made by
:func:`tileir_formula.editing.control_tree.controls_of`; ``tileir.to_json`` writes them, with ``"$"`` for their kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from tileir.core.nodes import attrs
from tileir_formula.text.layout import Extent


@attrs.frozen(repr=False)
class _Control:
    """Attributes of all controls.

    Attributes:
        path: Of its element.
        label: Its name for users.
        value: The value in the text, or the default in effect; empty if that has no spelling.
        default: The value in effect without one in the text; None if there is always one.
        given: Whether the text has it.
        about: Description in a sentence.
        span: The characters of the value, as offsets in code points; None where it is not in the text.
    """

    path: str
    label: str
    value: str
    default: str | None
    given: bool
    about: str
    span: Extent | None


@attrs.frozen
class NumberControl(_Control):
    """A number: a slider where it has both bounds, else a field.

    Attributes:
        low: The least value; None where there is none.
        high: The greatest one; None where there is none.
        step: How far apart neighbouring values are.
        whole: Whether it takes whole numbers only.

    """

    low: float | None
    high: float | None
    step: float
    whole: bool


@attrs.frozen
class ChoiceControl(_Control):
    """A choice of words.

    Attributes:
        words: The possible words.
    """

    words: tuple[str, ...]


@attrs.frozen
class FlagControl(_Control):
    """``yes`` or ``no``."""


@attrs.frozen
class ColourControl(_Control):
    """A colour, ``#rrggbb``."""


@attrs.frozen
class WeightsControl(_Control):
    """The weights of a window.

    Attributes:
        rows: The numbers, row by row.
        most: How many rows and columns it may have.

    """

    rows: tuple[tuple[float, ...], ...]
    most: int


@attrs.frozen
class NameControl(_Control):
    """The name of a step, or nothing."""


Control: TypeAlias = NumberControl | ChoiceControl | FlagControl | ColourControl | WeightsControl | NameControl


@attrs.frozen
class ConditionControls:
    """Region in which a step applies: everywhere where the kind is ``none``.

    Attributes:
        kind: Of the condition.
        parts: Its numbers, colour, mask and negation.

    """

    kind: ChoiceControl
    parts: tuple[Control, ...]


@attrs.frozen
class MergeControls:
    """Merging of the result of a step: with nothing where the function is ``none``.

    Attributes:
        function: That merges.
        parts: The source and the parameters.

    """

    function: ChoiceControl
    parts: tuple[Control, ...]


@attrs.frozen
class StepControls:
    """A step.

    Attributes:
        path: Of the step.
        number: Its number for references; None inside of a group.
        span: Its characters.
        about: Description of its function.
        name: Its name for references.
        function: All functions that fit.
        sources: Its sources.
        parameters: Of the function.
        boundary: The boundary of windows; None for functions without windows.
        condition: The region of its effect.
        merge: The picture merged with its result.
    """

    path: str
    number: int | None
    span: Extent
    about: str
    name: NameControl
    function: ChoiceControl
    sources: tuple[ChoiceControl, ...]
    parameters: tuple[Control, ...]
    boundary: ChoiceControl | None
    condition: ConditionControls
    merge: MergeControls


@attrs.frozen
class GroupControls:
    """A repeated group of steps.

    Attributes:
        path: Of the group.
        number: Its number for references; None inside of a group.
        span: Its characters.
        count: Largest number of rounds.
        limit: The change with which it stops early.
        steps: The repeated steps.
    """

    path: str
    number: int | None
    span: Extent
    count: NumberControl
    limit: NumberControl
    steps: tuple[StepControls | GroupControls, ...]


@attrs.frozen
class FormulaControls:
    """A formula.

    Attributes:
        inputs: The names of its inputs.
        steps: Its steps and groups.
        results: Its results, followed by an empty one for a further result.
    """

    inputs: tuple[str, ...]
    steps: tuple[StepControls | GroupControls, ...]
    results: tuple[ChoiceControl, ...]


def each_control(controls: FormulaControls) -> Iterator[Control]:
    """Yield all controls, in the order of the text."""
    for step in controls.steps:
        yield from _of_step(step)
    yield from controls.results


def _of_step(step: StepControls | GroupControls) -> Iterator[Control]:
    if isinstance(step, GroupControls):
        yield from (step.count, step.limit)
        for inner in step.steps:
            yield from _of_step(inner)
        return
    yield from (step.name, step.function, *step.parameters, *step.sources)
    if step.boundary is not None:
        yield step.boundary
    yield from (step.condition.kind, *step.condition.parts, step.merge.function, *step.merge.parts)
