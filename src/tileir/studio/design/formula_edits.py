"""Edits of a formula as the page asks for them: one table of actions, each from a text to a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from tileir.core.errors import fail
from tileir.formula.definitions.functions import Function
from tileir.formula.definitions.offers import offers
from tileir.formula.editing import step_edits
from tileir.formula.editing.changes import Edited
from tileir.formula.editing.control_tree import controls_of
from tileir.formula.lower.applying import apply
from tileir.formula.text.parser import parse
from tileir.studio.views.formula_views import FormulaView, view_of
from tileir.studio.views.subject import text_of, word_of

Functions = Mapping[str, Function]


def edited_view(request: Mapping[str, Any], functions: Functions) -> FormulaView:
    """Return a formula after an edit: ``action`` names it, ``path`` says where.

    Raises:
        TileError: TIL913, the request is of another form; or what the edit raises.
    """
    text, action, path = text_of(request), word_of(request, "action"), word_of(request, "path")
    if action not in _ACTIONS:
        raise fail("TIL913", f"there is no edit {action[:64]!r}; they are {', '.join(_ACTIONS)}")
    made = _ACTIONS[action](text, path, request, functions)
    return view_of(made.text, made.formula, controls_of(made.formula, functions), functions)


def _set(text: str, path: str, request: Mapping[str, Any], functions: Functions) -> Edited:
    value = request.get("value")
    if value is not None and not isinstance(value, str):
        raise fail("TIL913", "`value` is a text, or null")
    return apply(text, path, value, functions).edited


def _add(text: str, path: str, request: Mapping[str, Any], functions: Functions) -> Edited:
    """Insert a step that calls a function; where that reads two pictures, the step names them."""
    name = word_of(request, "function")
    if name not in functions:
        raise fail("TIL221", f"there is no function {name[:64]!r}")
    fits = offers(parse(text), path, functions)
    step = name
    if len(functions[name].pictures) > 1:
        first = fits.implied or fits.sources[0]
        others = [source for source in fits.sources if source != first] or [first]
        step = f"{name} of {first}, {others[0]}"
    return step_edits.inserted(text, path, step)


def _remove(text: str, path: str, _: Mapping[str, Any], __: Functions) -> Edited:
    """Take a step away; what read it reads what it read."""
    return step_edits.removed(text, path, redirect=True)


def _duplicate(text: str, path: str, _: Mapping[str, Any], __: Functions) -> Edited:
    return step_edits.duplicated(text, path)


def _move(text: str, path: str, request: Mapping[str, Any], _: Functions) -> Edited:
    return step_edits.moved(text, path, word_of(request, "target"))


_ACTIONS: Final[Mapping[str, Callable[[str, str, Mapping[str, Any], Functions], Edited]]] = MappingProxyType(
    {"set": _set, "add": _add, "remove": _remove, "duplicate": _duplicate, "move": _move}
)
