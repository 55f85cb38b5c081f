"""The values of one function for several examples: its names, and expressions of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import assert_never

from tileir.core import Span, attrs, schema
from tileir.tile.batches.calls import CALLS
from tileir.tile.batches.layout import Group, Layout, Part, Stream, Value
from tileir.tile.building.assembly import substitute
from tileir.tile.building.recording import Recorder
from tileir.tile.building.tensors import Tensor
from tileir.tile.functions import SIZE, builtin
from tileir.tile.ir import Binary, Call, Conditional, Expr, FloatLiteral, IndexName, IntLiteral, Name, Unary
from tileir.tile.traversal import LEAVES, is_alias, walk


@attrs.define(eq=False, repr=False)
class Plan:
    """Findings about a function during batching, which is repeated until nothing changes.

    Attributes:
        forced: Names whose values are repeated for each example, since each needs a derivative of its own by them.
        carries: For each scan, flags of the carries that differ among examples.
        steps: The plans of the steps of its scans.
        changed: Whether there were new findings since the last query.
    """

    forced: set[str] = attrs.field(factory=set)
    carries: dict[str, list[bool]] = attrs.field(factory=dict)
    steps: dict[str, Plan] = attrs.field(factory=dict)
    changed: bool = False

    def step(self, name: str) -> Plan:
        """Return the plan of a step."""
        return self.steps.setdefault(name, Plan())

    def settled(self) -> bool:
        """Return whether there were no new findings since the last call, here or in a step."""
        pending, settled = [self], True
        while pending:
            plan = pending.pop()
            settled = settled and not plan.changed
            plan.changed = False
            pending.extend(plan.steps.values())
        return settled


@attrs.define(eq=False, repr=False)
class Body:
    """Values of the names of a function.

    Attributes:
        layout: The destination of statements.
        plan: Findings of earlier attempts.
        values: Tensors and tuples, by name.
        sizes: Dimensions, by name.
        definitions: The original values of assigned names.
    """

    layout: Layout
    plan: Plan
    values: dict[str, Value] = attrs.field(factory=dict)
    sizes: dict[str, Expr] = attrs.field(factory=dict)
    definitions: dict[str, Expr] = attrs.field(factory=dict)

    @property
    def recorder(self) -> Recorder:
        """Destination of statements."""
        return self.layout.recorder

    def value(self, expr: Expr) -> Value:
        """Record an expression, whose depth is bounded; a single name is replaced by its value."""
        if isinstance(expr, Name) and expr.name in self.values:
            return self.values[expr.name]
        if isinstance(expr, Call) and expr.function in CALLS:
            return CALLS[expr.function](self, expr)
        leaves: dict[str, Part] = {}
        tree = self._lifted(expr, leaves)
        batched = [leaf for leaf in leaves.values() if leaf.axis is not None]
        if not batched:
            return Part(self.recorded(tree))
        axis, padded = self._aligned(leaves, batched)
        return Part(self.recorded(substitute(tree, padded)), axis)

    def part(self, expr: Expr) -> Part:
        """Record an expression that is one tensor.

        Raises:
            TileError: TIL309, it is a tuple or a stream of random numbers.
        """
        value = self.value(expr)
        if not isinstance(value, Part):
            kind = "a tuple; take a part of it with element(…, position)"
            stream = "a prng_step; read it with prng_value or prng_state"
            raise self.layout.fault("TIL309", f"this is {kind if isinstance(value, Group) else stream}", expr.span)
        return value

    def parts(self, expr: Expr) -> list[Part]:
        """Record an expression, and return its tensors."""
        return list(self.flat(self.value(expr), expr.span))

    def flat(self, value: Value, span: Span | None) -> Iterator[Part]:
        """Yield the tensors of a value in order; tuples are nested as deeply as expressions."""
        match value:
            case Part():
                yield value
            case Group(items=items):
                for item in items:
                    yield from self.flat(item, span)
            case Stream():
                raise self.layout.fault("TIL309", "this is a prng_step; read it with prng_value or prng_state", span)
            case _:
                assert_never(value)

    def recorded(self, expr: Expr) -> Tensor:
        """Record an expression of the batched function."""
        return Tensor(self.recorder, self.recorder.record(expr))

    def constant(self, expr: Expr) -> Expr:
        """Return a size, bound, polynomial or other argument that is known when compiling.

        Raises:
            TileError: TIL220, it depends on a value that differs among examples.
        """
        measured = self._measured(expr)
        return substitute(measured, self._known(measured))

    def _measured(self, expr: Expr) -> Expr:
        """Return a constant with the sizes of tensors in place of their names."""
        if isinstance(expr, LEAVES):
            return expr
        if isinstance(expr, Call) and expr.function == SIZE:
            return self.part(expr).name
        return schema.with_operands(expr, tuple(map(self._measured, schema.operands(expr))))

    def _known(self, expr: Expr) -> Mapping[str, Expr]:
        known: dict[str, Expr] = {}
        for node in walk(expr):
            if isinstance(node, Name):
                value = self.values.get(node.name)
                if node.name in self.sizes:
                    known[node.name] = self.sizes[node.name]
                elif isinstance(value, Part) and value.axis is None:
                    known[node.name] = value.name
                elif value is not None:
                    message = f"{node.name!r} differs among examples, but sizes are computed from it"
                    raise self.layout.refused(message, node.span)
        return known

    def force(self, expr: Expr) -> None:
        """Repeat the value of an expression for each example at its definition, in the next attempt."""
        pending = [expr]
        while pending:
            match pending.pop():
                case Call(function=function, arguments=(first, *_)) if is_alias(function):
                    pending.append(first)
                case Name(name=name) if name in self.values and name not in self.plan.forced:
                    definition = self.definitions.get(name)
                    alias = isinstance(definition, Name) or (
                        isinstance(definition, Call)
                        and (is_alias(definition.function) or definition.function == "tuple")
                    )
                    if definition is not None and alias:
                        pending.append(definition)
                    else:
                        self.plan.forced.add(name)
                        self.plan.changed = True
                case Name() | IntLiteral() | FloatLiteral() | IndexName():
                    pass
                case Unary(operand=operand):
                    pending.append(operand)
                case Binary(lhs=lhs, rhs=rhs):
                    pending += (lhs, rhs)
                case Conditional(condition=condition, then=then, otherwise=otherwise):
                    pending += (condition, then, otherwise)
                case Call(arguments=arguments):
                    pending += arguments

    def _lifted(self, expr: Expr, leaves: dict[str, Part]) -> Expr:
        """Return an elementwise expression over tensors of the batched function, which are added to ``leaves``."""
        match expr:
            case IntLiteral() | FloatLiteral() | IndexName():
                return expr
            case Name(name=name) if name in self.sizes:
                return self.sizes[name]
            case Unary(operand=operand):
                return attrs.evolve(expr, operand=self._lifted(operand, leaves))
            case Binary(lhs=lhs, rhs=rhs):
                return attrs.evolve(expr, lhs=self._lifted(lhs, leaves), rhs=self._lifted(rhs, leaves))
            case Conditional(condition=condition, then=then, otherwise=otherwise):
                condition, then, otherwise = (self._lifted(part, leaves) for part in (condition, then, otherwise))
                return Conditional(condition, then, otherwise, span=expr.span)
            case Call(function=function, arguments=arguments) if function not in CALLS:
                return attrs.evolve(expr, arguments=tuple(self._arguments(function, arguments, leaves)))
            case Name() | Call():
                part = self.part(expr)
                leaves[part.tensor.reference] = part
                return Name(part.tensor.reference, span=expr.span)
            case _:
                assert_never(expr)

    def _arguments(self, function: str, arguments: tuple[Expr, ...], leaves: dict[str, Part]) -> Iterator[Expr]:
        row = builtin(function)
        first = len(arguments) if row is None or row.constants is None else row.constants
        for place, argument in enumerate(arguments):
            yield self._lifted(argument, leaves) if place < first else self.constant(argument)

    def _aligned(self, leaves: Mapping[str, Part], batched: list[Part]) -> tuple[int, dict[str, Expr]]:
        """Return the axis of the examples in an elementwise result, and replacements for operands of fewer axes."""
        ranks = {name: self.layout.rank(leaf) for name, leaf in leaves.items()}
        rank, axis = max(ranks.values()), batched[0].axis or 0
        alike = all(leaf.axis == axis and ranks[leaf.tensor.reference] == rank for leaf in batched)
        shared = max((ranks[name] for name, leaf in leaves.items() if leaf.axis is None), default=0)
        if alike and shared <= rank - axis:
            return axis, {}
        return 0, {leaf.tensor.reference: self.layout.padded(leaf, rank).name for leaf in batched}
