"""Views of a formula: its faults, its controls, and a drawing of the steps that read one another."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

from tileir.core import ParseError, Source, attrs, to_json
from tileir_cli.drawing.layering import Wire, drawing_of
from tileir_formula.definitions.functions import Function
from tileir_formula.editing.control_tree import controls_of
from tileir_formula.editing.controls import FormulaControls
from tileir_formula.ir import Formula, Repeat, Step
from tileir_formula.references import Scope, places_of, references_of
from tileir_formula.text.parser import parse
from tileir_formula.text.reading import PREVIOUS
from tileir_formula.verifier import faults_of as rules_broken
from tileir_studio.views.views import Fault, faults_of, plain

RESULTS = "results"
"""The node of the results of the formula."""

_FIRST: Final = re.compile(r"steps\[\d+\]")


@attrs.frozen
class PlaceView:
    """Place of a node in the drawing: ``node`` is the path of an input, a step at the top, or ``results``."""

    node: str
    layer: int
    slot: float


@attrs.frozen
class OutsideView:
    """A tensor outside of a group that its steps read: ``label`` is its name in the text."""

    node: str
    label: str


@attrs.frozen
class GroupDrawing:
    """The steps of a group; all but ``path``, that of the group, and ``outside`` as in :class:`FormulaView`."""

    path: str
    outside: tuple[OutsideView, ...]
    places: tuple[PlaceView, ...]
    wires: tuple[Wire, ...]
    layers: int
    slots: float


@attrs.frozen
class FormulaView:
    """A text that is a formula, though it may break rules.

    Attributes:
        text: The formula.
        controls: As JSON of :class:`tileir_formula.editing.controls.FormulaControls`.
        faults: The rules that it breaks.
        places: The nodes of the drawing.
        wires: From each node to those that read it.
        layers: The number of layers.
        slots: The width of the widest layer.
        groups: The drawings of all groups.
    """

    text: str
    controls: Any
    faults: tuple[Fault, ...]
    places: tuple[PlaceView, ...]
    wires: tuple[Wire, ...]
    layers: int
    slots: float
    groups: tuple[GroupDrawing, ...] = ()


@attrs.frozen
class BrokenView:
    """A text that is no formula, and its faults."""

    text: str
    faults: tuple[Fault, ...]


def formula_view(text: str, functions: Mapping[str, Function]) -> FormulaView | BrokenView:
    """Return the view of a text."""
    try:
        formula = parse(text)
    except ParseError as error:
        return BrokenView(text, faults_of(error.diagnostics, Source(text)))
    return view_of(text, formula, controls_of(formula, functions), functions)


def view_of(text: str, formula: Formula, controls: FormulaControls, functions: Mapping[str, Function]) -> FormulaView:
    """Return the view of a parsed formula."""
    drawing = drawing_of(reads_of(formula))
    return FormulaView(
        text,
        orjson.loads(to_json(controls))["node"],
        faults_of(rules_broken(formula, functions), Source(text)),
        tuple(PlaceView(node, layer, drawing.slots[node]) for node, layer in drawing.layers.items()),
        drawing.wires,
        drawing.height,
        drawing.width,
        tuple(group_drawing(formula, path) for path, step, _ in places_of(formula) if isinstance(step, Repeat)),
    )


def reads_of(formula: Formula) -> dict[str, tuple[str, ...]]:
    """Return the nodes that each node reads: none for inputs; inputs and steps or groups at the top for the rest."""
    inputs = [f"inputs[{number}]" for number in range(len(formula.inputs))]
    reads, last = _reads_in(formula, "", dict.fromkeys(inputs, ""))
    reads.setdefault(RESULTS, {last or inputs[0]: None})
    return {node: tuple(above) for node, above in reads.items()}


def group_drawing(formula: Formula, group: str) -> GroupDrawing:
    """Return the drawing of the steps of a group, below the nodes that they read from outside of it."""
    outside: dict[str, str] = {}
    reads, _ = _reads_in(formula, f"{group}.", outside)
    steps = {node: tuple(above) for node, above in reads.items() if node not in outside}
    drawing = drawing_of({**dict.fromkeys(outside, ()), **steps})
    places = tuple(PlaceView(node, layer, drawing.slots[node]) for node, layer in drawing.layers.items())
    labels = tuple(OutsideView(node, label) for node, label in outside.items())
    return GroupDrawing(group, labels, places, drawing.wires, drawing.height, drawing.width)


def _reads_in(formula: Formula, prefix: str, outside: dict[str, str]) -> tuple[dict[str, dict[str, None]], str | None]:
    """Return the nodes read by the steps and groups right below a prefix, and the last of these steps.

    Other nodes are added to ``outside``, with their labels on the page.
    """
    reads: dict[str, dict[str, None]] = {node: {} for node in outside}
    last = None

    def note(node: str, target: str, label: str) -> None:
        above = _node_below(prefix, target)
        if above is None or above not in reads:
            above = target
            outside.setdefault(target, label)
        if above != node:
            reads.setdefault(node, {})[above] = None

    for path, step, scope in places_of(formula):
        node = _node_below(prefix, path)
        if step is None or node is None:
            continue
        if node == path:
            reads[path] = {}
            last = path
        implied = not isinstance(step, Step) or not step.sources
        if node == path and implied:
            note(node, *_implied(scope))
    for reference in references_of(formula):
        node = RESULTS if not prefix and reference.path.startswith(RESULTS) else _node_below(prefix, reference.path)
        if node is not None and reference.target is not None and not reference.target.startswith(f"{node}."):
            name = reference.source.name
            note(node, reference.target, f"${name}" if isinstance(name, int) else name)
    return reads, last


def _implied(scope: Scope) -> tuple[str, str]:
    """Return the node that a step without named sources reads, and its label on the page."""
    if scope.before is not None:
        return scope.before, scope.before
    return (f"{scope.groups[-1]}.{PREVIOUS}", PREVIOUS) if scope.groups else ("inputs[0]", scope.inputs[0])


def _node_below(prefix: str, path: str) -> str | None:
    """Return the path of the step or group right below a prefix that holds a path; None where none does."""
    found = _FIRST.match(path, len(prefix)) if path.startswith(prefix) else None
    return None if found is None else path[: found.end()]


def as_event(view: FormulaView | BrokenView) -> Any:
    """Return a view as plain values; ``broken`` tells the two classes apart."""
    return {**plain(view), "broken": isinstance(view, BrokenView)}
