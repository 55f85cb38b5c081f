"""Assembly of recorded steps into a function: drop unread values, nest values that are read once, name the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import Final

from tileir.core import Span, attrs, needed, schema
from tileir.tile.building.recording import Declared, Recorder, Step
from tileir.tile.ir import (
    Access,
    Assignment,
    Constant,
    Constraint,
    Contraction,
    Expr,
    Function,
    Name,
    Output,
    Scan,
    Statement,
    While,
)
from tileir.tile.traversal import LEAVES, children, walk

_MOST_NODES: Final = 12  # of an expression nested into another one; longer expressions are hard to read


def assemble(
    recorder: Recorder,
    outputs: Sequence[str],
    span: Span | None,
    declared: Mapping[str, Output] = MappingProxyType({}),
) -> Function:
    """Make the function whose outputs are the steps or inputs with these references, some of which are declared."""
    sized = [
        node.name
        for output in outputs
        if output in declared
        for root in declared[output].dims or ()
        for node in walk(root)
        if isinstance(node, Name)
    ]
    steps, reads = _live(recorder, (*outputs, *sized))
    values = Counter(name for inside, _ in reads for name in inside)
    others = {*outputs, *sized, *(name for _, others in reads for name in others)}
    exprs: dict[str, Expr] = {}  # replacements of references
    statements: list[Statement] = []
    for step in steps:
        body = step.body if isinstance(step.body, Declared) else substitute(step.body, exprs)
        once = values[step.reference] == 1 and step.reference not in others
        plain = once and step.name is None and not step.attributes
        if plain and not isinstance(body, Declared) and sum(1 for _ in walk(body)) <= _MOST_NODES:
            exprs[step.reference] = body
            continue
        name = recorder.names.fresh(step.stem) if step.name is None else step.name
        exprs[step.reference] = Name(name, span=step.span)
        statements.append(_statement(step, name, body, exprs))
    results = tuple(_output(output, declared.get(output), exprs, span) for output in outputs)
    return Function(tuple(recorder.inputs), results, tuple(statements), span=span)


def _output(output: str, declared: Output | None, exprs: Mapping[str, Expr], span: Span | None) -> Output:
    name = _renamed(output, exprs)
    if declared is None:
        return Output(name, span=span)
    dims = None if declared.dims is None else _substitute_all(declared.dims, exprs)
    return attrs.evolve(declared, name=name, dims=dims)


def substitute(expr: Expr, replacements: Mapping[str, Expr]) -> Expr:
    """Replace names in an expression whose depth is bounded."""
    if isinstance(expr, Name):
        replacement = replacements.get(expr.name)
        return Name(replacement.name, span=expr.span) if isinstance(replacement, Name) else replacement or expr
    if isinstance(expr, LEAVES):
        return expr
    return schema.with_operands(expr, _substitute_all(children(expr), replacements))


def with_operands(
    loop: Scan | While, renamed: Callable[[Name], Name], replacements: Mapping[str, Expr]
) -> Scan | While:
    """Return a loop that passes other tensors to its functions; ``replacements`` are for the number of its steps."""
    carries, constants = (tuple(map(renamed, names)) for names in (loop.carries, loop.constants))
    if isinstance(loop, While):
        return attrs.evolve(loop, carries=carries, constants=constants)
    sequences = tuple(map(renamed, loop.sequences))
    count = None if loop.count is None else substitute(loop.count, replacements)
    return attrs.evolve(loop, carries=carries, sequences=sequences, constants=constants, count=count)


def _substitute_all(exprs: tuple[Expr, ...], replacements: Mapping[str, Expr]) -> tuple[Expr, ...]:
    return tuple([substitute(expr, replacements) for expr in exprs])


def _renamed(reference: str, replacements: Mapping[str, Expr]) -> str:
    """Return the name of a tensor that is a statement or an input."""
    replacement = replacements.get(reference)
    return replacement.name if isinstance(replacement, Name) else reference


def _live(recorder: Recorder, outputs: Sequence[str]) -> tuple[list[Step], list[tuple[list[str], list[str]]]]:
    """Return the steps that an output needs, directly or not, and those that are named, marked or assertions.

    Each comes with the names that it reads: in elementwise values, and elsewhere.
    """
    reads: dict[str, tuple[list[str], list[str]]] = {}

    def read(step: Step) -> list[str]:
        values, others = reads[step.reference] = _value_reads(step), _other_reads(step)
        return values + others

    steps = needed(
        recorder.steps.values(),
        outputs,
        attrgetter("reference"),
        read,
        lambda step: step.name is not None or bool(step.attributes) or step.reference in recorder.kept,
    )
    return steps, [reads[step.reference] for step in steps]


def _value_reads(step: Step) -> list[str]:
    """Return the names in an elementwise value, into which other values can be nested."""
    if isinstance(step.body, Declared):
        return []
    return [node.name for node in walk(step.body) if isinstance(node, Name)]


def _other_reads(step: Step) -> list[str]:
    """Return the names that a contraction or scan reads, which have to be statements."""
    body = step.body
    if isinstance(body, Scan | While):
        counted = () if isinstance(body, While) or body.count is None else walk(body.count)
        return [node.name for node in (*body.operands, *counted) if isinstance(node, Name)]
    if not isinstance(body, Contraction):
        return []
    roots = [*body.indices, *body.sizes, *(index for access in body.inputs for index in access.indices)]
    roots += [root for constraint in body.constraints for root in (constraint.polynomial, constraint.bound)]
    names = [node.name for root in roots for node in walk(root) if isinstance(node, Name)]
    names += [access.tensor for access in body.inputs]
    return names if body.default is None else [*names, body.default.name]


def _statement(step: Step, name: str, body: Expr | Declared, exprs: Mapping[str, Expr]) -> Statement:
    if isinstance(body, Constant):
        return attrs.evolve(body, name=name, attributes=step.attributes)
    if isinstance(body, Scan | While):
        named = attrs.evolve(body, name=name, attributes=step.attributes)
        return with_operands(named, lambda operand: Name(_renamed(operand.name, exprs), span=operand.span), exprs)
    if not isinstance(body, Contraction):
        return Assignment(name, body, step.attributes, span=step.span, name_span=step.span)
    default = body.default
    return attrs.evolve(
        body,
        name=name,
        indices=_substitute_all(body.indices, exprs),
        sizes=_substitute_all(body.sizes, exprs),
        inputs=tuple(
            Access(_renamed(a.tensor, exprs), _substitute_all(a.indices, exprs), span=a.span) for a in body.inputs
        ),
        constraints=tuple(
            Constraint(substitute(c.polynomial, exprs), substitute(c.bound, exprs), span=c.span)
            for c in body.constraints
        ),
        default=None if default is None else Name(_renamed(default.name, exprs), span=default.span),
        attributes=step.attributes,
    )
