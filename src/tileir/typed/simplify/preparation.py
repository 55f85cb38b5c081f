"""The last step of the typed stage: what differentiation left behind goes, and only computations remain."""

from __future__ import annotations

import attrs

from tileir.core.ops import Op
from tileir.typed.dataflow import with_bodies, with_operands, without_dead
from tileir.typed.ir import Elementwise, Function, Marker, Operation, Recall, Scan, Upstream
from tileir.typed.reductions import with_components_named
from tileir.typed.simplify.distribution import distributed
from tileir.typed.simplify.factorisation import factorised
from tileir.typed.simplify.prefixes import with_ends
from tileir.typed.simplify.rematerialisation import rematerialised
from tileir.typed.simplify.separation import separated
from tileir.typed.simplify.simplifier import simplify
from tileir.typed.simplify.single_values import with_assignments


def prepared(function: Function, *, doubles: bool = True) -> Function:
    """Return an equivalent function for the stages to come: simplified, without markers, with recalls carried out.

    What is computed twice to save memory stays so: after that, equal operations are no longer merged. Aggregations are
    separated last, since what they become has no derivative as simple as theirs.
    """
    simple = simplify(with_assignments(function))
    if _has_markers(simple):
        recalls = any(isinstance(operation, Recall) for operation in simple.operations)
        simple = simplify(unmarked(simple), merge=not recalls)
    return with_ends(separated(distributed(factorised(with_components_named(simple)), doubles=doubles)))


def unmarked(function: Function) -> Function:
    """Return ``function`` without markers and templates; itself where it has none.

    Recalls become repeated operations, as :mod:`tileir.typed.simplify.rematerialisation` says; all other markers their
    operand.
    """
    if not _has_markers(function):
        return function
    function = rematerialised(with_bodies(function, unmarked))
    outputs = frozenset(function.outputs)
    forwarded: dict[str, str] = {}
    operations: list[Operation] = []
    for old in function.operations:
        operation = with_operands(old, forwarded)
        if not isinstance(operation, Marker) or isinstance(operation, Upstream):
            operations.append(operation)
        elif operation.name in outputs:
            name, shape = operation.name, operation.shape
            operations.append(Elementwise(name, Op.IDENT, (operation.input,), operation.dtype, shape, span=old.span))
        else:
            forwarded[operation.name] = operation.input
    labels = tuple((forwarded.get(name, name), label) for name, label in function.labels)
    return without_dead(attrs.evolve(function, operations=tuple(operations), labels=labels))


def _has_markers(function: Function) -> bool:
    bodies = {operation.body for operation in function.operations if isinstance(operation, Scan)}
    return any(isinstance(operation, Marker) for operation in function.operations) or any(map(_has_markers, bodies))
