"""Functions of a text as one program: the scopes of calls, the choice of the program, and the check for recursion.

The result has no calls of functions: callees are inlined.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from tileir.core import ArgumentError, Diagnostic, Span, VerifyError, attrs, fail, held_at, meant, schema
from tileir.tile.building.assembly import assemble, substitute
from tileir.tile.building.indices import Dim
from tileir.tile.building.inlining import Inlining, called_from, inline
from tileir.tile.building.recording import Recorder
from tileir.tile.building.tensors import Operand, Tensor, computed, value_of
from tileir.tile.checks.verifier import faults_beside, refuse, verify
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
from tileir.tile.text.file import Definition, File
from tileir.tile.traversal import LEAVES, called, dimensions, named, walk

MAX_STATEMENTS: Final = 2**20
"""Greatest number of statements of a function, with those of all functions that it calls."""


def without_calls(function: Function, callees: Mapping[str, Function]) -> Function:
    """Return an equivalent function without calls of others; itself if it has none.

    Args:
        function: A function that follows the rules.
        callees: The functions that it may call, by name, which themselves call no others.

    Raises:
        TileError: A call does not match its function, as in :func:`tileir.tile.building.inlining.inline`; TIL103, it
            has
            too many statements.
    """
    if not any(call.function in callees for call in called(function)):
        return function
    recorder = Recorder()
    calling = _CallingFunction(recorder, callees=callees)
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
class _CallingFunction(Inlining):
    """A function that is recorded unchanged, except for its calls."""

    callees: Mapping[str, Function] = attrs.field(kw_only=True)

    def declare(self, function: Function) -> None:
        """Declare inputs, and claim the names of all definitions."""
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
        """Map dimensions to themselves."""
        for dim in named(declaration):
            self.recorder.dims[dim.name] = None
            self.names[dim.name] = self.sizes[dim.name] = Name(dim.name)

    def define(self, statement: Statement) -> None:
        """Record a statement under its own name; a tuple of results is known by its parts alone."""
        value = self.take(statement)
        if isinstance(value, Name):
            self.recorder.steps[value.name].name = statement.name

    def output(self, output: Output) -> Output:
        """Return a result in terms of the recorded statements."""
        value = self.names[output.name]
        reference = value.name if isinstance(value, Name) else self.recorder.record(value)
        dims = None if output.dims is None else self.all(output.dims)
        return attrs.evolve(output, name=reference, dims=dims)

    def recorded(self, statement: Statement) -> Expr:
        """Record a statement without its calls, and return a reference to its result."""
        match statement:
            case Assignment(value=value):
                value = self.computed(substitute(value, self.names))
                step = self.recorder.steps.get(value.name) if isinstance(value, Name) else None
                if (step is not None and step.name is None) or (isinstance(value, Call) and value.function == "tuple"):
                    return value  # the result of a call
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
        """Return an expression with calls replaced by their results."""
        if isinstance(expr, LEAVES):
            return expr
        expr = schema.with_operands(expr, tuple(map(self.computed, schema.operands(expr))))
        return self.result_of(expr) if isinstance(expr, Call) and expr.function in self.callees else member(expr)

    def result_of(self, call: Call) -> Expr:
        """Return the result of a call: a tensor by its name, or a tuple of several."""
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


@attrs.frozen(eq=False)
class Unit:
    """A function with those that it may call, each by its name there."""

    name: str
    function: Function
    scope: Mapping[str, Unit]

    def calls(self) -> Iterator[tuple[Call, Unit]]:
        """Yield the calls of functions that are no builtins."""
        return ((call, self.scope[call.function]) for call in called(self.function) if call.function in self.scope)


def units_of(file: File, scope: dict[str, Unit]) -> tuple[Unit, ...]:
    """Return the functions of a file, which may call those in ``scope``, and add them to it."""
    units = tuple(Unit(each.name or "", each.function, scope) for each in file.definitions)
    scope.update((unit.name, unit) for unit in reversed(units) if unit.name)
    return units


def program_of(file: File, scope: dict[str, Unit], entry: str | None) -> Function:
    """Return the program of a text without calls: the function ``entry``, that without a name, or the last one.

    ``scope`` has its imports.

    Raises:
        VerifyError: A function breaks a rule, or calls itself.
        ArgumentError: TIL206, there is no such entry.
        TileError: A call does not match its function.
    """
    units = units_of(file, scope)
    found = _chosen(file.definitions, units, entry)
    check(file, units)
    if not found.scope:
        return found.function
    order = _callees_first(units)
    flat: dict[Unit, Function] = {}
    for unit in order:
        callees = {call.function: flat[callee] for call, callee in unit.calls()}
        flat[unit] = without_calls(unit.function, callees)
    if flat[found] is not found.function:
        verify(flat[found])
    return flat[found]


def check(file: File, units: Sequence[Unit]) -> None:
    """Check the functions of a file, except for recursion.

    Raises:
        VerifyError: One breaks a rule, or has an invalid name.
    """
    refuse(chain(name_faults(file), *(faults_beside(each.function, callees=signatures(each)) for each in units)))


def signatures(unit: Unit) -> Mapping[str, Function]:
    """Return the functions that one may call."""
    return {name: each.function for name, each in unit.scope.items()}


def name_faults(file: File) -> Iterator[Diagnostic]:
    """Yield faults of the names of functions: a name that stands for two of them, or for a builtin."""
    known: dict[str, Span | None] = {}
    named: list[tuple[str | None, Span | None]] = [(each.name, each.span) for each in file.imports]
    named += [(each.name, each.span) for each in file.definitions]
    for name, span in named:
        if name is None:
            other = known.get("")
            message = "a second function without a name; only the program itself goes without one"
        else:
            other = known.get(name)
            message = f"two functions are called {name!r}"
            if name in WORDS or builtin(name) is not None:
                yield Diagnostic("TIL202", f"{name!r} is a function of Tile itself; choose another name", span)
        if (name or "") in known:
            note = () if other is None else (f"the other one is in {other.where}",)
            yield Diagnostic("TIL202", message, span, note)
        known.setdefault(name or "", span)


WORDS: Final = frozenset({"scan", "while", "constant"})
"""Words that begin statements, or follow their ``=``."""


def _chosen(definitions: Sequence[Definition], units: Sequence[Unit], entry: str | None) -> Unit:
    """Return the function that is the program of a text."""
    if entry is None:
        unnamed = (unit for unit in units if not unit.name)
        return next(unnamed, units[-1])
    found = next((unit for unit in units if unit.name == entry), None)
    if found is not None:
        return found
    names = [each.name for each in definitions if each.name is not None]
    near = meant(entry, names)
    has = f"it has {', '.join(names[:20])}" if names else "its only function has no name"
    hint = has if near is None else f"did you mean {near!r}?"
    raise ArgumentError.of("TIL206", f"the text has no function {entry!r}; {hint}")


def _callees_first(units: Sequence[Unit]) -> list[Unit]:
    """Return functions and all that they call, each after its callees.

    Raises:
        VerifyError: TIL229, a function calls itself.
    """
    order: list[Unit] = []
    done: set[Unit] = set()
    for root in units:
        path: dict[Unit, Iterator[tuple[Call, Unit]]] = {} if root in done else {root: root.calls()}
        while path:
            unit, calls = next(reversed(path.items()))
            call, callee = next(calls, (None, unit))
            if call is None:
                order.append(unit)
                done.add(unit)
                del path[unit]
            elif callee in path:
                raise VerifyError((_cycle(call, callee, list(path)),))
            elif callee not in done:
                path[callee] = callee.calls()
    return order


def _cycle(call: Call, callee: Unit, path: Sequence[Unit]) -> Diagnostic:
    """Build the error for a call that closes a cycle."""
    circle = [*path[path.index(callee) :], callee]
    names = " -> ".join(unit.name for unit in circle[:_MOST_NAMED])
    long = "" if len(circle) <= _MOST_NAMED else " -> …"
    message = f"{callee.name!r} calls itself: {names}{long}; write the loop as a scan or while, which do not recurse"
    return Diagnostic("TIL229", message, call.span)


_MOST_NAMED: Final = 12
