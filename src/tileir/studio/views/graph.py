"""The data flow of a typed function as a layered drawing.

Constants are no nodes: those who read them show their values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tileir.core.drawing.layering import drawing_of
from tileir.core.ops import Combination
from tileir.studio.views.views import GraphView, NodeView
from tileir.typed.ir import Cast, Constant, Contraction, Elementwise, Function, Operation, TensorType, Value, operands

if TYPE_CHECKING:
    from tileir.studio.views.linking import Origins

MOST_NODES: Final = 300
"""Values that are drawn: more are a thicket that nobody reads."""


def graph_of(function: Function, found: Origins) -> GraphView:
    """Return the first values of the data flow, in program order, each with its place."""
    definitions = {
        name: data["definition"]
        for name, data in function.graph().nodes(data=True)
        if not isinstance(data["definition"], Constant)
    }
    shown = dict(list(definitions.items())[:MOST_NODES])
    reads = {name: _reads(definition, shown) for name, definition in shown.items()}
    drawing = drawing_of(reads)
    nodes = tuple(
        NodeView(
            name,
            f"{_kind(definition)}: {TensorType(definition.dtype, definition.shape)}",
            "input" if isinstance(definition, Value) else "output" if name in function.outputs else "value",
            reads[name],
            drawing.layers[name],
            drawing.slots[name],
            found.names.get(name),
        )
        for name, definition in shown.items()
    )
    omitted = len(definitions) - len(shown)
    return GraphView(nodes, drawing.wires, drawing.height, drawing.width, omitted)


def _reads(definition: Value | Operation, shown: Mapping[str, object]) -> tuple[str, ...]:
    if isinstance(definition, Value):
        return ()
    return tuple(dict.fromkeys(name for name in operands(definition) if name in shown))


def _kind(definition: Value | Operation) -> str:
    match definition:
        case Value():
            return "input"
        case Elementwise(op=op):
            return op.value
        case Cast():
            return "cast"
        case Contraction(aggregation=aggregation, combination=combination):
            of = "" if combination is Combination.NONE else f" of {combination.value}"
            return f"{aggregation.value}{of}"
        case _:
            return type(definition).__name__.lower()
