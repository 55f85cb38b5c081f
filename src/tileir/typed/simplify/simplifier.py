"""Simplification of typed functions: the table of rules, common subexpressions, forwarding, and dead values.

One walk in program order does nearly all of it, since operands are simplified before their users; the cost is linear.
Outputs keep their names.
"""

from __future__ import annotations

import operator

from tileir.core import NameScope, Op, attrs, schema
from tileir.core.nodes.patterns import MOST_CHANGES, Changes
from tileir.core.nodes.rewrite import Rule, fixpoint
from tileir.typed.dataflow import with_operands, without_dead, without_idle_parts
from tileir.typed.inference.emission import nameless
from tileir.typed.ir import Elementwise, Function, Operation, Override, Recall, Scan, Upstream, Value
from tileir.typed.simplify.simplifier_rules import Site, rules_of


def simplify(function: Function, *, merge: bool = True, rules: tuple[Rule[Site], ...] = ()) -> Function:
    """Return an equivalent function that does no more work; ``function`` itself if nothing changes.

    Without ``merge``, equal operations are not merged. Gradients do not change: markers of differentiation block only
    simplifications that would change them. ``rules`` are tried if none of the table fits;
    :func:`tileir.typed.simplify.laws.rule_of` makes rules of laws.

    Raises:
        DivergenceError: ``rules`` still fit after many changes.
    """
    return fixpoint(lambda before: _pass(before, merge, rules), function)


def _pass(function: Function, merge: bool, rules: tuple[Rule[Site], ...]) -> Function:
    walk = _Walk(frozenset(function.outputs), {value.name: value for value in function.inputs}, merge, rules)
    if rules:
        walk.names = NameScope.of((*walk.definitions, *(each.name for each in function.operations)))
        walk.changes.left *= len(function.operations) + 1
    for operation in function.operations:
        walk.visit(operation)
    new = attrs.evolve(
        function,
        operations=tuple(walk.operations),
        labels=tuple((walk.forwarded.get(name, name), label) for name, label in function.labels),
    )
    new = without_idle_parts(without_dead(_named_by_outputs(new)))
    same = len(new.operations) == len(function.operations) and all(
        map(operator.is_, new.operations, function.operations)
    )
    return function if same and new.labels == function.labels else new


@attrs.define(eq=False, repr=False)
class _Walk:
    """The operations so far, and replacements of values that were removed or became copies."""

    outputs: frozenset[str]
    definitions: dict[str, Value | Operation]
    merge: bool
    rules: tuple[Rule[Site], ...] = ()
    names: NameScope | None = attrs.field(default=None, init=False)
    changes: Changes = attrs.field(factory=lambda: Changes(MOST_CHANGES), init=False)
    operations: list[Operation] = attrs.field(factory=list, init=False)
    forwarded: dict[str, str] = attrs.field(factory=dict, init=False)
    _seen: dict[Operation, str] = attrs.field(factory=dict, init=False)
    _bodies: dict[Function, Function] = attrs.field(factory=dict, init=False)

    def visit(self, operation: Operation) -> None:
        """Simplify one operation and the operations that rules put before it, and keep them."""
        pending = [operation]
        while pending:
            site = self._apply_rules(with_operands(pending.pop(), self.forwarded))
            if site.before:
                pending += [site.operation, *reversed(site.before)]
            else:
                self._keep(site.operation)

    def _keep(self, operation: Operation) -> None:
        """Keep a simplified operation, unless its value exists already."""
        if isinstance(operation, Scan):
            operation = self._with_simple_body(operation)
        name = operation.name
        source = _copied(operation)
        if source is None:
            source = self._seen.setdefault(nameless(operation), name) if self.merge and _merges(operation) else name
            if source != name and name in self.outputs:
                shape = operation.shape
                operation = Elementwise(name, Op.IDENT, (source,), operation.dtype, shape, span=operation.span)
        if source != name:
            self.forwarded[name] = source
        if source == name or name in self.outputs:
            self.definitions[name] = operation
            self.operations.append(operation)

    def _apply_rules(self, operation: Operation) -> Site:
        """Apply the first rule that fits, repeatedly; rules of the table leave cheaper operations."""
        site = Site(operation, self.definitions, names=self.names)
        while not site.before:
            after = next((after for rule in rules_of(site.operation) if (after := rule(site)) is not None), None)
            if after is None:
                after = self._changed(site)
            if after is None:
                return site
            site = after
        return site

    def _changed(self, site: Site) -> Site | None:
        """Apply the first of the given rules that fits."""
        for given in self.rules:
            if (after := given(site)) is not None:
                self.changes.note(given.law)
                return after
        return None

    def _with_simple_body(self, scan: Scan) -> Scan:
        body = self._bodies.get(scan.body)
        if body is None:
            body = self._bodies[scan.body] = simplify(scan.body, merge=self.merge, rules=self.rules)
        return scan if body is scan.body else attrs.evolve(scan, body=body)


def _copied(operation: Operation) -> str | None:
    """Return the value that ``operation`` only copies, or None."""
    if isinstance(operation, Elementwise) and operation.op is Op.IDENT:
        return operation.inputs[0]
    return None


def _merges(operation: Operation) -> bool:
    """Return whether equal operations may be merged.

    Each upstream stands for another gradient, an override need not be linear in its gradient, and each recall
    determines when a value is computed.
    """
    return not isinstance(operation, Override | Upstream | Recall)


def _named_by_outputs(function: Function) -> Function:
    """Give the source of an output that is a copy the name of the output, unless the source has to keep its own."""
    positions = {operation.name: position for position, operation in enumerate(function.operations)}
    names: dict[str, str] = {}
    for output in function.outputs:
        source = _copied(function.operations[positions[output]])
        if source is not None and source in positions and source not in names and source not in function.outputs:
            names[source] = output
    if not names:
        return function
    dropped = frozenset(names.values())
    kept = (operation for operation in function.operations if operation.name not in dropped)
    return attrs.evolve(
        function,
        operations=tuple(schema.with_names(operation, names) for operation in kept),
        labels=tuple((names.get(name, name), label) for name, label in function.labels),
    )
