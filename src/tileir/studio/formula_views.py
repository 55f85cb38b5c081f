"""What the page shows of the text of a formula: its faults, its controls, and which step reads which, as a drawing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import orjson

from tileir.core.codec import to_json
from tileir.core.errors import ParseError
from tileir.core.span import Source
from tileir.formula.control_tree import controls_of
from tileir.formula.ir import Formula, Step
from tileir.formula.parser import parse
from tileir.formula.references import places_of, references_of
from tileir.formula.verifier import faults_of as rules_broken
from tileir.studio.layering import drawing_of
from tileir.studio.views import Fault, WireView, faults_of, plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.formula.controls import FormulaControls
    from tileir.formula.functions import Function

RESULTS = "results"
"""The node of what the formula returns."""


@attrs.frozen
class PlaceView:
    """Where a node of the drawing goes: ``node`` is the path of an input, a step at the top, or ``results``."""

    node: str
    layer: int
    slot: float


@attrs.frozen
class FormulaView:
    """A text that is a formula, though one that may break rules.

    Attributes:
        text: The formula.
        controls: As JSON of :class:`tileir.formula.controls.FormulaControls`.
        faults: The rules that it breaks.
        places: The nodes of the drawing.
        wires: What reads what.
        layers: How many there are.
        slots: How many the widest one has.

    """

    text: str
    controls: Any
    faults: tuple[Fault, ...]
    places: tuple[PlaceView, ...]
    wires: tuple[WireView, ...]
    layers: int
    slots: float


@attrs.frozen
class BrokenView:
    """A text that is no formula, and why."""

    text: str
    faults: tuple[Fault, ...]


def formula_view(text: str, functions: Mapping[str, Function]) -> FormulaView | BrokenView:
    """Return what there is to show of a text."""
    try:
        formula = parse(text)
    except ParseError as error:
        return BrokenView(text, faults_of(error.diagnostics, Source(text)))
    return view_of(text, formula, controls_of(formula, functions), functions)


def view_of(text: str, formula: Formula, controls: FormulaControls, functions: Mapping[str, Function]) -> FormulaView:
    """Return what there is to show of a formula that was parsed."""
    drawing = drawing_of(reads_of(formula))
    return FormulaView(
        text,
        orjson.loads(to_json(controls))["node"],
        faults_of(rules_broken(formula, functions), Source(text)),
        tuple(PlaceView(node, layer, drawing.slots[node]) for node, layer in drawing.layers.items()),
        drawing.wires,
        drawing.height,
        drawing.width,
    )


def reads_of(formula: Formula) -> dict[str, tuple[str, ...]]:
    """Return what each node reads: inputs nothing, steps and groups at the top inputs and others, and the results."""
    reads: dict[str, dict[str, None]] = {f"inputs[{number}]": {} for number in range(len(formula.inputs))}
    last = "inputs[0]"
    for path, step, scope in places_of(formula):
        if step is None or "." in path:
            continue
        reads[path] = {}
        if not isinstance(step, Step) or not step.sources:
            reads[path][scope.before or "inputs[0]"] = None
        last = path
    for reference in references_of(formula):
        node = reference.path.partition(".")[0]
        target = None if reference.target is None else reference.target.partition(".")[0]
        node = RESULTS if node.startswith(RESULTS) else node
        if target is not None and target in reads and target != node:
            reads.setdefault(node, {})[target] = None
    reads.setdefault(RESULTS, {last: None})
    return {node: tuple(above) for node, above in reads.items()}


def as_event(view: FormulaView | BrokenView) -> Any:
    """Return a view as plain values; ``broken`` says which it is."""
    return {**plain(view), "broken": isinstance(view, BrokenView)}
