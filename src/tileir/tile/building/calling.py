"""Functions of a text that call each other, as functions without calls: what is called stands where it is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tileir.core import attrs, fail, held_at, schema
from tileir.tile.building.assembly import assemble, substitute
from tileir.tile.building.indices import Dim
from tileir.tile.building.inlining import Inlining, called_from, inline
from tileir.tile.building.recording import Recorder
from tileir.tile.building.tensors import Operand, Tensor, computed, value_of
from tileir.tile.functions import builtin
from tileir.tile.ir import (
    Assignment,
    Call,
    Constant,
    Expr,
    Function,
    Input,
    Name,
    Output,
    Scan,
    Statement,
    While,
    member,
)
from tileir.tile.traversal import LEAVES, called, dimensions, named, walk

MAX_STATEMENTS: Final = 2**20
"""Most statements that a function may come to, with those of all functions that it calls."""


def without_calls(function: Function, callees: Mapping[str, Function]) -> Function:
    """Return a function that computes the same without calling others; itself where it calls none.

    Args:
        function: A function that follows the rules.
        callees: The functions that it may call, by name, which themselves call no others.

    Raises:
        TileError: A call does not fit its function, as :func:`tileir.tile.building.inlining.inline` tells; TIL103,
            it comes to too many statements.

    """
    if not any(call.function in callees for call in called(function)):
        return function
    recorder = Recorder()
    calling = _Calling(recorder, callees=callees)
    calling.declare(function)
    for statement in function.statements:
        with held_at(statement.span):
            calling.define(statement)
        if len(recorder.steps) > MAX_STATEMENTS:
            message = f"the calls in this come to more than {MAX_STATEMENTS} statements"
            raise fail("TIL103", message, statement.span)
    outputs = [calling.output(output) for output in function.outputs]
    made = assemble(recorder, [output.name for output in outputs], function.span, {o.name: o for o in outputs})
    places = {statement.name: statement.name_span for statement in function.statements}
    return attrs.evolve(
        made,
        statements=tuple(
            attrs.evolve(each, name_span=places[each.name]) if each.name in places else each for each in made.statements
        ),
    )


@attrs.define(eq=False, repr=False)
class _Calling(Inlining):
    """A function that is recorded as it stands, but for its calls."""

    callees: Mapping[str, Function] = attrs.field(kw_only=True)

    def declare(self, function: Function) -> None:
        """Declare inputs, and take the names of all that is defined."""
        recorder = self.recorder
        for parameter in function.inputs:
            name = parameter.name
            recorder.inputs.append(parameter)
            recorder.dtypes[name] = parameter.dtype
            recorder.sizes[name] = None if parameter.dims is None else tuple(Dim(d, recorder) for d in parameter.dims)
            if parameter.dims is not None:
                recorder.ranks[name] = len(parameter.dims)
            self.names[name] = Name(name)
            self.know(parameter)
        for each in (*function.inputs, *function.statements, *dimensions(function)):
            recorder.names.add(each.name)

    def know(self, declaration: Input | Constant) -> None:
        """Let dimensions stand for themselves."""
        for dim in named(declaration):
            self.recorder.dims[dim.name] = None
            self.names[dim.name] = self.sizes[dim.name] = Name(dim.name)

    def define(self, statement: Statement) -> None:
        """Record a statement under its own name; a tuple of results is known by its parts alone."""
        value = self.take(statement)
        if isinstance(value, Name):
            self.recorder.steps[value.name].name = statement.name

    def output(self, output: Output) -> Output:
        """Return a result in terms of what was recorded."""
        value = self.names[output.name]
        reference = value.name if isinstance(value, Name) else self.recorder.record(value)
        dims = None if output.dims is None else self.all(output.dims)
        return attrs.evolve(output, name=reference, dims=dims)

    def recorded(self, statement: Statement) -> Expr:
        """Record a statement without its calls, and return what reads its result."""
        match statement:
            case Assignment(value=value):
                value = self.computed(substitute(value, self.names))
                step = self.recorder.steps.get(value.name) if isinstance(value, Name) else None
                if (step is not None and step.name is None) or (isinstance(value, Call) and value.function == "tuple"):
                    return value  # what a call gave
                return Name(self.recorder.record(value), span=statement.span)
            case Constant():
                self.know(statement)
                reference = self.recorder.record(attrs.evolve(statement, name="", attributes=()))
                self.recorder.ranks[reference] = len(statement.shape)
                return Name(reference, span=statement.span)
            case Scan():
                return super().recorded(attrs.evolve(statement, step=without_calls(statement.step, self.callees)))
            case While():
                condition, inner = (without_calls(each, self.callees) for each in statement.functions)
                return super().recorded(attrs.evolve(statement, condition=condition, step=inner))
            case _:
                return super().recorded(statement)

    def computed(self, expr: Expr) -> Expr:
        """Return an expression with the results of calls instead of these."""
        if isinstance(expr, LEAVES):
            return expr
        expr = schema.with_operands(expr, tuple(map(self.computed, schema.operands(expr))))
        return self.result_of(expr) if isinstance(expr, Call) and expr.function in self.callees else member(expr)

    def result_of(self, call: Call) -> Expr:
        """Return what a call gives: a tensor by its name, or a tuple of several."""
        callee = self.callees[call.function]
        with held_at(call.span):
            results = inline(called_from(callee, call.span), *map(self.operand, call.arguments), name=call.function)
            values = tuple(value_of(self.recorder, result) for result in results)
        return values[0] if len(values) == 1 else Call("tuple", values, span=call.span)

    def operand(self, expr: Expr) -> Operand:
        """Return a tensor by its name, a size by its expression, and any other value as a statement."""
        dims = self.recorder.dims
        if isinstance(expr, Name) and expr.name not in dims:
            return Tensor(self.recorder, expr.name)
        names = all(node.name in dims for node in walk(expr) if isinstance(node, Name))
        calls = (builtin(node.function) for node in walk(expr) if isinstance(node, Call))
        folds = names and all(function is not None and function.folds for function in calls)
        return Dim(expr, self.recorder) if folds else computed(self.recorder, expr)
