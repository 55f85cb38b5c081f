"""Application of a control's value to the text of a formula, with the controls that changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tileir.core import VerifyError, attrs
from tileir_formula.definitions.functions import Function
from tileir_formula.editing.changes import EditedText, composed, edited
from tileir_formula.editing.control_edits import ControlEdits
from tileir_formula.editing.control_tree import controls_of
from tileir_formula.editing.controls import Control, FormulaControls, each_control
from tileir_formula.editing.edits import elements
from tileir_formula.editing.given_values import GivenValue, given_text
from tileir_formula.editing.step_edits import moved_path, removed
from tileir_formula.ir import Formula, Repeat, Step
from tileir_formula.text.parser import parse
from tileir_formula.verifier import faults_of


@attrs.frozen
class ControlEffect:
    """Effect of a control.

    Attributes:
        edited: The text after it, and what changed in it.
        controls: The controls of that text.
        changed: The paths of controls that are other ones now, each before and after; None before for those that are
            new, and after for those that are gone. Where characters stand is no part of that.

    """

    edited: EditedText
    controls: FormulaControls
    changed: tuple[tuple[str | None, str | None], ...]


def apply(
    text: str, path: str | Sequence[str], value: GivenValue | None, functions: Mapping[str, Function]
) -> ControlEffect:
    """Set a control: write a value at its path, and change nothing else.

    ``None`` removes the element, so that the default holds: an argument, source, boundary, condition, merge, name,
    limit of a group, result, or step. ``kind`` of a condition writes a new one, ready to be changed. A new function
    keeps the arguments that it takes, and gets its number of sources. A new name goes to all references of the step.

    Args:
        text: The formula.
        path: Of a control; or of several, which all get the value, as where one slider controls several steps.
        value: A value of the control: text; or a bool, a number, or rows of weights, which are written as text.
        functions: Functions available to steps.

    Raises:
        ParseError: The text is not a formula, or the value has another kind.
        VerifyError: The formula would break a rule that it does not break.
        ArgumentError: TIL221, there is no such element; TIL228, other steps refer to the removed step; TIL707, formulas
            have no spelling for the value.
    """
    formula = parse(text)
    paths = (path,) if isinstance(path, str) else tuple(path)
    written = None if value is None else given_text(", ".join(paths), value)
    if isinstance(path, str) and value is None and isinstance(dict(elements(formula)).get(path), Step | Repeat):
        made = removed(text, path)
    else:
        made = edited(text, ())
        for each in paths:
            now = ControlEdits.of(made.text, made.formula, functions)
            then = edited(made.text, now.changes(each, written))
            made = edited(text, composed(text, made.changes, then.changes))
    _check(formula, made.formula, functions)
    return following(formula, made, functions)


def following(before: Formula, made: EditedText, functions: Mapping[str, Function]) -> ControlEffect:
    """Return the controls after an edit, including those of :mod:`tileir_formula.editing.step_edits`, and changes."""
    after = controls_of(made.formula, functions)
    return ControlEffect(made, after, tuple(_changed(controls_of(before, functions), after, made.moved)))


def _check(before: Formula, after: Formula, functions: Mapping[str, Function]) -> None:
    """Check that a formula breaks no rule more often than before the edit; it may be in the middle of a change."""
    known = faults_of(before, functions)
    counts = Counter(fault.code for fault in known)
    found = faults_of(after, functions)
    grown = {code for code, count in Counter(fault.code for fault in found).items() if count > counts[code]}
    said = {(fault.code, fault.message) for fault in known}
    new = [fault for fault in found if fault.code in grown]
    if new:
        raise VerifyError(tuple(fault for fault in new if (fault.code, fault.message) not in said) or tuple(new))


def _changed(
    before: FormulaControls, after: FormulaControls, moved: Mapping[str, str | None]
) -> Iterator[tuple[str | None, str | None]]:
    now = {control.path: control for control in each_control(after)}
    for control in each_control(before):
        path = moved_path(control.path, moved)
        new = None if path is None else now.pop(path, None)
        if new is None:
            yield control.path, None
        elif path != control.path or _placeless(new) != _placeless(control):
            yield control.path, new.path
    for path in now:
        yield None, path


def _placeless(control: Control) -> Control:
    return attrs.evolve(control, path="", span=None)
