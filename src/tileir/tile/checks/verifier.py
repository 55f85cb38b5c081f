"""Verifier of Tile functions: the rules that hold for all shapes. One check for each rule; all faults at once.

It checks the arguments and results of steps, constants and their dimensions, and the scope of a function: each name is
a dimension, a constant or a tensor, with its definition and its rank.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterator, Mapping, Set as AbstractSet
from itertools import chain, islice
from types import MappingProxyType
from typing import Final, assert_never

from tileir.core import MAX_FAULTS, ArrayValue, Diagnostic, Span, VerifyError, attrs, meant, own_form
from tileir.tile.checks.integers import sizing_inputs
from tileir.tile.checks.polynomial_rules import check_affine
from tileir.tile.functions import SIZE, advice, builtin
from tileir.tile.ir import (
    Access,
    Assignment,
    Binary,
    Call,
    Conditional,
    Constant,
    Contraction,
    Expr,
    FloatLiteral,
    Function,
    IndexName,
    IntLiteral,
    Name,
    Scan,
    Statement,
    Unary,
    While,
    parts,
)
from tileir.tile.text.grammar import (
    MAX_DEPTH,
    MAX_INTEGER,
    MAX_NAME,
    MAX_NODES,
    MAX_SCANS,
    is_index_name,
    is_tensor_name,
)
from tileir.tile.traversal import (
    Role,
    dimensions,
    expressions,
    index_names,
    named,
    result_sizes,
    walk,
    walk_known,
    walk_with_depth,
)


class Kind(enum.Enum):
    """Kind of a name."""

    DIMENSION = "dimension"  # a size of an input or of a constant array
    CONSTANT = "constant"  # a constant without axes, or assigned from dimensions and numbers: also a tensor of rank 0
    SCALAR = "scalar"  # an input that may be an integer of rank 0, or assigned from these: a constant on demand
    TENSOR = "tensor"

    __hash__ = object.__hash__


@attrs.frozen
class Definition:
    """Definition of a name.

    ``position`` counts statements, and is -1 for the inputs. ``rank`` is None if it depends on shapes.
    """

    kind: Kind
    position: int
    rank: int | None
    span: Span | None


NO_CALLEES: Final[Mapping[str, Function | None]] = MappingProxyType({})
"""Callees of a function that may call only builtins."""


@attrs.frozen
class Scope:
    """The first definition of each name, in program order, and further functions that may be called."""

    definitions: dict[str, Definition]
    callees: Mapping[str, Function | None] = NO_CALLEES

    @classmethod
    def of(cls, function: Function, callees: Mapping[str, Function | None] = NO_CALLEES) -> Scope:
        """Collect the definitions of a function, which may break any rule except that of depth."""
        scope = cls({}, callees)
        for parameter in function.inputs:
            rank = None if parameter.dims is None else len(parameter.dims)
            kind = Kind.TENSOR if rank else Kind.SCALAR
            scope._define(parameter.name, Definition(kind, -1, rank, parameter.span))
            for dim in named(parameter):
                scope._define(dim.name, Definition(Kind.DIMENSION, -1, 0, dim.span))
        for position, statement in enumerate(function.statements):
            scope._define(statement.name, scope._definition(position, statement))
            for dim in named(statement) if isinstance(statement, Constant) else ():
                scope._define(dim.name, Definition(Kind.DIMENSION, position, 0, dim.span))
        return scope

    def is_tensor(self, name: str) -> bool:
        """Return whether ``name`` is defined, and certainly no constant."""
        definition = self.definitions.get(name)
        return definition is not None and definition.kind is Kind.TENSOR

    def kind(self, expr: Expr) -> Kind:
        """Return the kind of a name with the value ``expr``: a constant if it reads only constants."""
        found = Kind.CONSTANT
        for node in walk_known(expr):
            if isinstance(node, Name):
                definition = self.definitions.get(node.name)
                if definition is None or definition.kind is Kind.TENSOR:
                    return Kind.TENSOR
                if definition.kind is Kind.SCALAR:
                    found = Kind.SCALAR
            elif isinstance(node, Call):
                function = builtin(node.function)
                if node.function in self.callees:
                    found = Kind.SCALAR  # the function decides
                elif function is None or not function.folds:
                    return Kind.TENSOR
        return found

    def unknown(self, expr: Expr) -> Iterator[Name | Call]:
        """Yield the names and calls below ``expr`` that are known only at run time, except undefined names."""
        for node in walk_known(expr):
            if isinstance(node, Name) and self.is_tensor(node.name):
                yield node
            elif isinstance(node, Call):
                function = builtin(node.function)
                if node.function in self.callees or (function is not None and not function.folds):
                    yield node

    def rank(self, expr: Expr) -> int | None:
        """Return the rank of an elementwise expression, or None if it depends on shapes."""
        match expr:
            case Name(name=name):
                definition = self.definitions.get(name)
                return None if definition is None else definition.rank
            case Binary(lhs=lhs, rhs=rhs):
                return self._broadcast((lhs, rhs))
            case IntLiteral() | FloatLiteral() | IndexName():
                return 0
            case Unary(operand=operand):
                return self.rank(operand)
            case Conditional(condition=condition, then=then, otherwise=otherwise):
                return self._broadcast((condition, then, otherwise))
            case Call():
                return self._call_rank(expr)
            case _:
                assert_never(expr)

    def _define(self, name: str, definition: Definition) -> None:
        self.definitions.setdefault(name, definition)

    def _definition(self, position: int, statement: Statement) -> Definition:
        match statement:
            case Contraction():
                return Definition(Kind.TENSOR, position, len(statement.sizes), statement.name_span)
            case Assignment(value=value):
                return Definition(self.kind(value), position, self.rank(value), statement.name_span)
            case Scan() | While():
                return Definition(Kind.TENSOR, position, None, statement.name_span)
            case Constant(shape=shape):
                kind = Kind.TENSOR if shape else Kind.CONSTANT
                return Definition(kind, position, len(shape), statement.name_span)
            case _:
                assert_never(statement)

    def _broadcast(self, operands: tuple[Expr, ...]) -> int | None:
        greatest = 0
        for operand in operands:
            rank = self.rank(operand)
            if rank is None:
                return None
            greatest = max(greatest, rank)
        return greatest

    def _call_rank(self, call: Call) -> int | None:
        arguments = call.arguments
        function = builtin(call.function)
        if function is None or not function.takes(len(arguments)):
            return None
        if function.elementwise:
            return self._broadcast(arguments)
        match call.function:
            case "index":
                return self.rank(arguments[0])
            case "shape":
                return 1
            case "size":
                return 0
            case "reshape" | "simple_reduce" | "expect_sizes":
                return len(arguments) - 1
            case _:
                return None


def check_scan(statement: Scan, scope: Scope) -> Iterator[Diagnostic]:
    """Yield the faults of a scan, except those of its step."""
    where, step, given = statement.name_span or statement.span, statement.step, statement.operands
    if statement.count is None and not statement.sequences:
        message = f"{statement.name!r} has no sequences, so say how many steps there are: scan(…) N times function"
        yield Diagnostic("TIL218", message, where)
    if len(step.inputs) != len(given):
        passed, taken = count_of(len(given), "tensor", "tensors"), count_of(len(step.inputs), "input", "inputs")
        note = "the inputs of a step are the carries, a slice of each sequence, and the constants, in this order"
        yield Diagnostic("TIL218", f"{statement.name!r} passes {passed}, but its step has {taken}", where, (note,))
    if len(step.outputs) < len(statement.carries):
        carries = count_of(len(statement.carries), "carry", "carries")
        made = count_of(len(step.outputs), "output", "outputs")
        note = "the outputs of a step are a new value for each carry, and then what it puts out"
        yield Diagnostic("TIL218", f"{statement.name!r} has {carries}, but its step has {made}", where, (note,))
    yield from _check_operands((*statement.carries, *statement.sequences), given, step, scope)


def check_while(statement: While, scope: Scope) -> Iterator[Diagnostic]:
    """Yield the faults of a while loop, except those of its functions."""
    where, given, carries = statement.name_span or statement.span, statement.operands, statement.carries
    if not carries:
        message = f"{statement.name!r} has no carries, so its condition would never change"
        yield Diagnostic("TIL218", message, where)
    for function, kind in ((statement.condition, "condition"), (statement.step, "step")):
        if len(function.inputs) != len(given):
            passed, taken = count_of(len(given), "tensor", "tensors"), count_of(len(function.inputs), "input", "inputs")
            note = "the inputs of condition and step are the carries and the constants, in this order"
            yield Diagnostic(
                "TIL218", f"{statement.name!r} passes {passed}, but its {kind} has {taken}", where, (note,)
            )
        wanted = len(carries) if function is statement.step else 1
        if len(function.outputs) != wanted:
            made, needed = count_of(len(function.outputs), "output", "outputs"), f"{wanted}"
            note = "the output of a condition is one bool, and those of a step are a new value for each carry"
            message = f"the {kind} of {statement.name!r} has {made}, but {needed} is needed"
            yield Diagnostic("TIL218", message, where, (note,))
        yield from _check_operands(carries, given if function is statement.step else (), function, scope)


def _check_operands(
    changing: tuple[Name, ...], given: tuple[Name, ...], step: Function, scope: Scope
) -> Iterator[Diagnostic]:
    """Check that no sizes are computed from values that change, and that operands are tensors."""
    sizing = sizing_inputs(step)
    for operand, parameter in zip(changing, step.inputs, strict=False):
        if parameter.name in sizing:
            message = f"{operand.name!r} changes from step to step, but sizes of the step are computed from it"
            note = "pass what sizes are computed from among the constants of the loop"
            yield Diagnostic("TIL204", message, operand.span, (note,))
    for operand in given:
        definition = scope.definitions.get(operand.name)
        if definition is not None and definition.kind is Kind.DIMENSION:
            message = f"{operand.name!r} is a dimension, not a tensor; a step has the dimensions of its own inputs"
            yield Diagnostic("TIL205", message, operand.span)


def count_of(number: int, one: str, many: str) -> str:
    """Return a number with the counted noun."""
    return f"{number} {one if number == 1 else many}"


def check_constant_arrays(function: Function, scope: Scope) -> Iterator[Diagnostic]:
    """Check that numbers fit 64 bits, and that constants name one dimension for each axis, with consistent sizes."""
    sizes: dict[str, tuple[int, str]] = {}
    for statement in function.statements:
        if not isinstance(statement, Constant):
            continue
        value, dims = statement.value, statement.dims
        if type(value) is int and not -(1 << 63) <= value <= MAX_INTEGER:
            yield Diagnostic("TIL212", f"{value} is no constant: an integer has at most 64 bits", statement.span)
        if dims is None:
            continue
        if len(dims) != len(statement.shape):
            rank = f"is {value}" if isinstance(value, ArrayValue) else "is a number, which has no axes"
            message = f"the constant {statement.name!r} {rank}, but names {len(dims)} dimensions"
            yield Diagnostic("TIL305", message, statement.name_span or statement.span)
            continue
        for axis, (dim, size) in enumerate(zip(dims, statement.shape, strict=True)):
            place = f"axis {axis} of {statement.name!r}"
            if isinstance(dim, IntLiteral):
                if dim.value != size:
                    message = f"{place} is declared as {dim.value}, but has {size} elements"
                    yield Diagnostic("TIL304", message, dim.span)
                continue
            known, where = sizes.setdefault(dim.name, (size, place))
            if scope.definitions[dim.name].kind is not Kind.DIMENSION:
                yield Diagnostic("TIL202", f"{dim.name!r} is a tensor, so no dimension can have that name", dim.span)
            elif known != size:
                yield Diagnostic("TIL304", f"{dim.name!r} is {known} on {where}, but {size} on {place}", dim.span)


@attrs.frozen
class Nodes:
    """The nodes of all expressions by kind, with the roles of their expressions, in the order of the text.

    A name comes with the position of its statement, too; the sizes of results come after all statements.
    """

    names: list[tuple[int, Role, Name]] = attrs.field(factory=list)
    calls: list[tuple[Role, Call]] = attrs.field(factory=list)
    indices: list[tuple[Role, IndexName]] = attrs.field(factory=list)
    numbers: list[IntLiteral | FloatLiteral] = attrs.field(factory=list)
    too_deep: list[Span | None] = attrs.field(factory=list)


def collect(function: Function) -> Nodes:
    """Sort the nodes of all expressions by kind; an expression that nests too deeply is cut off."""
    nodes = Nodes()
    for position, statement in enumerate(function.statements):
        for place, root in expressions(statement):
            _collect(nodes, position, place, root, statement.span)
    for root in result_sizes(function):
        _collect(nodes, len(function.statements), Role.CONSTANT, root, function.span)
    nodes.numbers.extend(dim for each in function.inputs for dim in each.dims or () if isinstance(dim, IntLiteral))
    return nodes


def _collect(nodes: Nodes, position: int, place: Role, root: Expr, span: Span | None) -> None:
    measured: set[int] = set()  # names of tensors in requests for their sizes only
    for count, (node, depth) in enumerate(walk_with_depth(root)):
        if isinstance(node, Name):
            nodes.names.append((position, Role.VALUE if id(node) in measured else place, node))
        elif isinstance(node, IndexName):
            nodes.indices.append((place, node))
        elif isinstance(node, IntLiteral | FloatLiteral):
            nodes.numbers.append(node)
        elif isinstance(node, Call):
            nodes.calls.append((place, node))
            if node.function == SIZE:
                measured.update(id(each) for argument in node.arguments[:1] for each in walk(argument))
        if depth > MAX_DEPTH or count > MAX_NODES:
            nodes.too_deep.append(node.span or span)
            break


def check_depth(nodes: Nodes) -> Iterator[Diagnostic]:
    """Check that expressions nest at most ``MAX_DEPTH`` levels, and are no larger than any text."""
    for span in nodes.too_deep:
        message = f"this is nested more than {MAX_DEPTH} levels deep; split it into several statements"
        yield Diagnostic("TIL103", message, span)


@attrs.frozen
class CheckedFunction:
    """A function with the inputs of all checks; its scope has the functions that it may call.

    Attributes:
        function: The function.
        scope: Its names.
        nodes: Its expressions.
        around: Names that are known around a step.
        unread: Names that unreadable parts may define: statements, or the header.
    """

    function: Function
    scope: Scope
    nodes: Nodes
    around: AbstractSet[str] = frozenset()
    unread: AbstractSet[str] = frozenset()


def verify(function: Function) -> None:
    """Check every rule that needs no shapes.

    Raises:
        VerifyError: One diagnostic for each fault, in the order of the text.

    """
    refuse(faults_beside(function))


def refuse(faults: Iterator[Diagnostic]) -> None:
    """Raise the faults, if there are any.

    Raises:
        VerifyError: One diagnostic for each fault, in the order of the text.
    """
    found = list(islice(faults, MAX_FAULTS))
    if found:
        found.sort(key=lambda fault: -1 if fault.span is None else fault.span.start)
        raise VerifyError(found)


def faults_beside(
    function: Function, unread: AbstractSet[str] = frozenset(), callees: Mapping[str, Function | None] = NO_CALLEES
) -> Iterator[Diagnostic]:
    """Yield faults of a function beside statements that could not be read, which may define ``unread``.

    ``callees`` are functions that it may call beside the builtins; None stands for one that could not be read.
    """
    return _faults(function, frozenset(), 0, unread, callees)


def _faults(
    function: Function,
    around: AbstractSet[str],
    scans: int,
    unread: AbstractSet[str],
    callees: Mapping[str, Function | None],
) -> Iterator[Diagnostic]:
    """Yield the faults of a function inside ``scans`` scans, and of its own steps."""
    nodes = collect(function)
    too_deep = list(islice(check_depth(nodes), MAX_FAULTS))
    if too_deep:  # the other checks may recurse
        yield from too_deep
        return
    checked = CheckedFunction(function, Scope.of(function, callees), nodes, around, unread)
    yield from chain.from_iterable(check(checked) for check in CHECKS)
    names = around | checked.scope.definitions.keys()
    for statement in function.statements:
        if isinstance(statement, Scan | While) and scans < MAX_SCANS:
            for inner in statement.functions:
                yield from _faults(inner, names, scans + 1, unread, callees)
        elif isinstance(statement, Scan | While):
            yield Diagnostic("TIL103", f"scans stand inside one another at most {MAX_SCANS} deep", statement.span)


def check_spelling(checked: CheckedFunction) -> Iterator[Diagnostic]:
    """Check that a text can spell every name."""
    function = checked.function
    for parameter in function.inputs:
        yield from _tensor_name(parameter.name, parameter.span)
    for dim in dimensions(function):
        yield from _tensor_name(dim.name, dim.span)
    for statement in function.statements:
        yield from _tensor_name(statement.name, statement.name_span)
        for attribute in statement.attributes:
            for name in (attribute.name, *attribute.parameters):
                if not (is_index_name(name) or (name is not attribute.name and is_tensor_name(name))):
                    rule = _SPELLING if name is attribute.name else _PRINTED
                    yield Diagnostic("TIL211", f"no attribute can hold {name!r:.80}: {rule}", attribute.span)
    for _, index in checked.nodes.indices:
        if not is_index_name(index.name):
            yield Diagnostic("TIL211", f"no index can be called {index.name!r}: {_SPELLING}", index.span)


def check_numbers(checked: CheckedFunction) -> Iterator[Diagnostic]:
    """Check that literals are numbers that a text can hold: no NaN, nothing negative, integers of at most 64 bits."""
    for node in checked.nodes.numbers:
        match node:
            case IntLiteral(value=value):
                if isinstance(value, bool) or not 0 <= value <= MAX_INTEGER:
                    message = f"{value!r} is no integer literal, which is 0 to 2**64 - 1; negate it for a sign"
                    yield Diagnostic("TIL212", message, node.span)
            case FloatLiteral(value=value):
                if isinstance(value, int) or math.isnan(value) or math.copysign(1, value) < 0:
                    message = f"{value!r} is no float literal; write 0.0 / 0.0 for NaN, and negate it for a sign"
                    yield Diagnostic("TIL212", message, node.span)


def check_inputs(checked: CheckedFunction) -> Iterator[Diagnostic]:
    """Check that inputs have distinct names; a repeated dimension means the same size."""
    tensors: set[str] = set()
    for parameter in checked.function.inputs:
        if parameter.name in tensors:
            yield Diagnostic("TIL202", f"two inputs are called {parameter.name!r}", parameter.span)
        tensors.add(parameter.name)
    for parameter in checked.function.inputs:
        for dim in named(parameter):
            if dim.name in tensors:
                yield Diagnostic("TIL202", f"{dim.name!r} is an input, so no dimension can have that name", dim.span)


def check_single_assignment(checked: CheckedFunction) -> Iterator[Diagnostic]:
    """Check that no name is assigned twice, and no input or dimension is assigned."""
    for position, statement in enumerate(checked.function.statements):
        first = checked.scope.definitions[statement.name]
        if first.position != position:
            kind = "an input or dimension" if first.position < 0 else "defined before"
            message = f"{statement.name!r} is {kind}; tensors never change, so choose a new name"
            yield Diagnostic("TIL202", message, statement.name_span or statement.span, _defined_at(first.span))


def check_defined(checked: CheckedFunction) -> Iterator[Diagnostic]:
    """Check that every tensor and dimension is defined before it is used."""
    for position, place, name, span in _names(checked):
        definition = checked.scope.definitions.get(name)
        if definition is None and name in checked.unread:
            continue
        if definition is None:
            origin = "assign it first, or make it an input"
            if name in checked.around:
                origin = "a step reads nothing but its inputs: pass it to the scan, and make it an input of the step"
                yield Diagnostic("TIL201", f"{name!r} is defined around the scan only; {origin}", span)
                continue
            if place is not Role.VALUE:
                origin = f"a dimension is named by an input, as in A[{name}]"
            yield Diagnostic("TIL201", f"{name!r} is not defined; {origin}", span, _similar(name, checked.scope))
        elif definition.position == position:
            yield Diagnostic("TIL201", f"{name!r} is read by its own definition; tensors never change", span)
        elif definition.position > position:
            message = f"{name!r} is used before it is defined; move its definition up"
            yield Diagnostic("TIL201", message, span, _defined_at(definition.span))


def check_outputs(checked: CheckedFunction) -> Iterator[Diagnostic]:
    """Check that there is an output, each is a tensor that is defined, and none is listed twice."""
    function, scope = checked.function, checked.scope
    if not function.outputs and not checked.unread:
        yield Diagnostic("TIL213", "a function needs at least one output", function.span)
    seen: set[str] = set()
    for output in function.outputs:
        definition = scope.definitions.get(output.name)
        if definition is None and not checked.unread:
            message = f"output {output.name!r} is never defined; assign it, or take it out of the outputs"
            yield Diagnostic("TIL201", message, output.span, _similar(output.name, scope))
        elif definition is not None and definition.kind is Kind.DIMENSION:
            message = f"output {output.name!r} is a dimension; assign it to a tensor and make that the output"
            yield Diagnostic("TIL205", message, output.span)
        elif definition is not None and output.dims is not None and definition.rank not in (None, len(output.dims)):
            axes = count_of(len(output.dims), "size", "sizes")
            message = f"{output.name!r} has rank {definition.rank}, but is declared with {axes}"
            yield Diagnostic("TIL209", message, output.span, _defined_at(definition.span))
        if output.name in seen:
            yield Diagnostic("TIL202", f"output {output.name!r} is listed twice", output.span)
        seen.add(output.name)


def check_tensors(checked: CheckedFunction) -> Iterator[Diagnostic]:
    """Check that the operands and the default of a contraction are tensors."""
    for statement in _contractions(checked.function):
        named = [(access.tensor, access.span) for access in statement.inputs]
        if statement.default is not None:
            named.append((statement.default.name, statement.default.span))
        for name, span in named:
            definition = checked.scope.definitions.get(name)
            if definition is not None and definition.kind is Kind.DIMENSION:
                yield Diagnostic("TIL205", f"{name!r} is a dimension, not a tensor", span)


def check_scans_and_constants(checked: CheckedFunction) -> Iterator[Diagnostic]:
    """Check the numbers of steps and the arguments of loops, and constants."""
    yield from check_constant_arrays(checked.function, checked.scope)
    for statement in checked.function.statements:
        if isinstance(statement, Scan):
            yield from check_scan(statement, checked.scope)
        elif isinstance(statement, While):
            yield from check_while(statement, checked.scope)


def check_constants(checked: CheckedFunction) -> Iterator[Diagnostic]:
    """Check that sizes, bounds, polynomials and the constant arguments of functions are known when compiling."""
    where = "sizes, bounds and index polynomials need"
    for _, place, name in checked.nodes.names:
        if place is not Role.VALUE and checked.scope.is_tensor(name.name):
            yield _not_constant(name, where)
    for place, call in checked.nodes.calls:
        function = builtin(call.function)
        if function is None:
            if place is not Role.VALUE and call.function in checked.scope.callees:
                yield _not_constant(call, where)
            continue
        if place is Role.CONSTANT and not function.folds:
            yield _not_constant(call, where)
        if function.constants is not None:
            for argument in call.arguments[function.constants :]:
                for node in checked.scope.unknown(argument):
                    yield _not_constant(node, f"this argument of {function.name!r} needs")


def check_calls(checked: CheckedFunction) -> Iterator[Diagnostic]:
    """Check that functions exist and get as many arguments as they take."""
    for _, call in checked.nodes.calls:
        name, count = call.function, len(call.arguments)
        function = builtin(name)
        if name in checked.scope.callees:
            yield from _call_of(name, checked.scope.callees[name], call)
        elif function is None and name not in checked.unread:
            yield Diagnostic("TIL206", f"there is no function {name!r}", call.span, _meant(name, checked.scope.callees))
        elif function is None:
            continue
        elif not function.takes(count):
            form = own_form(name)
            notes = () if form is None else (form,)
            yield Diagnostic("TIL207", f"{name!r} takes {function.arity}, not {count}", call.span, notes)


def _call_of(name: str, callee: Function | None, call: Call) -> Iterator[Diagnostic]:
    """Check that a function of the text, or an imported one, gets as many arguments as it has inputs."""
    if callee is not None and len(call.arguments) != len(callee.inputs):
        takes = count_of(len(callee.inputs), "argument", "arguments")
        message = f"{name!r} takes {takes}, not {len(call.arguments)}"
        yield Diagnostic("TIL207", message, call.span, _defined_at(callee.span))


def check_tuples(checked: CheckedFunction) -> Iterator[Diagnostic]:
    """Check that as many names are given to the results of a function as it has."""
    statements = checked.function.statements
    for position, statement in enumerate(statements):
        value = statement.value if isinstance(statement, Assignment) else None
        callee = checked.scope.callees.get(value.function) if isinstance(value, Call) else None
        taken = parts(statements, position) if callee is not None else ()
        if callee is not None and isinstance(value, Call) and taken and len(taken) != len(callee.outputs):
            results = count_of(len(callee.outputs), "result", "results")
            message = f"{value.function!r} has {results}, but {len(taken)} names are given to them"
            yield Diagnostic("TIL207", message, statement.name_span, _defined_at(callee.span))


def check_index_places(checked: CheckedFunction) -> Iterator[Diagnostic]:
    """Check that index variables occur in index polynomials only."""
    for place, index in checked.nodes.indices:
        if place is not Role.POLYNOMIAL:
            message = f"{index.name!r} is an index variable, which stands only in index polynomials"
            yield Diagnostic("TIL203", message, index.span)


def check_polynomials(checked: CheckedFunction) -> Iterator[Diagnostic]:
    """Check that index polynomials are affine, with integers, dimensions and indices."""
    for statement in checked.function.statements:
        for place, root in expressions(statement):
            if place is Role.POLYNOMIAL and not isinstance(root, IndexName):
                yield from check_affine(root)


def check_index_counts(checked: CheckedFunction) -> Iterator[Diagnostic]:
    """Check that a contraction has as many output indices as sizes."""
    for statement in _contractions(checked.function):
        indices, sizes = len(statement.indices), len(statement.sizes)
        if indices != sizes:
            message = (
                f"{statement.name!r} has {count_of(indices, 'index', 'indices')} but {count_of(sizes, 'size', 'sizes')}"
            )
            form = "write one size for each index: O[i, j : M, N]"
            yield Diagnostic("TIL208", message, statement.name_span or statement.span, (form,))


def check_ranks(checked: CheckedFunction) -> Iterator[Diagnostic]:
    """Check that a tensor is read with as many indices as it has dimensions, and a default has its target's rank."""
    definitions = checked.scope.definitions.items()
    ranks = {name: definition.rank for name, definition in definitions if definition.kind is not Kind.DIMENSION}
    for statement in _contractions(checked.function):
        for access in statement.inputs:
            rank, count = ranks.get(access.tensor), len(access.indices)
            if rank is None and access.tensor in ranks:
                ranks[access.tensor] = count  # all other uses must agree with this one
            elif rank is not None and rank != count:
                message = f"{access.tensor!r} has rank {rank}, but is read with {count_of(count, 'index', 'indices')}"
                yield Diagnostic("TIL209", message, access.span)
        default = statement.default
        if default is not None and (rank := ranks.get(default.name)) not in (None, len(statement.sizes)):
            message = (
                f"default {default.name!r} has rank {rank}, but {statement.name!r} has rank {len(statement.sizes)}"
            )
            yield Diagnostic("TIL209", message, default.span)


def check_inputs_of_combinations(checked: CheckedFunction) -> Iterator[Diagnostic]:
    """Check that a contraction reads as many tensors as its combination needs."""
    for statement in _contractions(checked.function):
        count, arity = len(statement.inputs), statement.combination.arity
        if count != arity:
            message = f"{statement.combination.value!r} combines {count_of(arity, 'tensor', 'tensors')}, not {count}"
            yield Diagnostic("TIL210", message, statement.span)


def check_index_bounds(checked: CheckedFunction) -> Iterator[Diagnostic]:
    """Check that every index variable of a constraint occurs in an access to a tensor."""
    for statement in _contractions(checked.function):
        if not statement.constraints:
            continue
        roots = [*statement.indices, *(index for access in statement.inputs for index in access.indices)]
        used = frozenset(node.name for root in roots for node in index_names(root))
        known = set(used)
        for constraint in statement.constraints:
            for node in index_names(constraint.polynomial):
                if node.name not in known:
                    known.add(node.name)
                    near = meant(node.name, used)
                    hint = "no tensor is read or written with it" if near is None else f"did you mean {near!r}?"
                    message = f"index {node.name!r} stands only in constraints; {hint}"
                    yield Diagnostic("TIL403", message, node.span or constraint.span)


CHECKS: Final[tuple[Callable[[CheckedFunction], Iterator[Diagnostic]], ...]] = (
    check_spelling,
    check_numbers,
    check_inputs,
    check_single_assignment,
    check_defined,
    check_outputs,
    check_tensors,
    check_scans_and_constants,
    check_constants,
    check_calls,
    check_tuples,
    check_index_places,
    check_polynomials,
    check_index_counts,
    check_ranks,
    check_inputs_of_combinations,
    check_index_bounds,
)

_MOST_COMPARED: Final = 500  # names; comparing each fault with more of them takes seconds
_SPELLING: Final = "such a name has letters, digits and _, and begins with no digit"
_PRINTED: Final = f"a name has 1 to {MAX_NAME} characters, all of which can be printed"


def _tensor_name(name: str, span: Span | None) -> Iterator[Diagnostic]:
    if not is_tensor_name(name):
        yield Diagnostic("TIL211", f"no tensor or dimension can be called {name!r:.80}: {_PRINTED}", span)


def _names(checked: CheckedFunction) -> Iterator[tuple[int, Role, str, Span | None]]:
    """Yield every use of a tensor or dimension: position of its statement, role, name and place."""
    for position, place, node in checked.nodes.names:
        yield position, place, node.name, node.span
    for position, statement in enumerate(checked.function.statements):
        if isinstance(statement, Contraction):
            for access in statement.inputs:
                yield position, Role.VALUE, access.tensor, _name_of(access)
            if statement.default is not None:
                yield position, Role.VALUE, statement.default.name, statement.default.span


def _name_of(access: Access) -> Span | None:
    """Return the span of the tensor's name alone; an access built in Python keeps the user's line."""
    span = access.span
    if span is None or not span.text.endswith("]"):
        return span
    bracket = span.text.find("[")
    return span if bracket < 0 else attrs.evolve(span, stop=span.start + len(span.text[:bracket].rstrip()))


def _not_constant(node: Name | Call, where: str) -> Diagnostic:
    what = f"the tensor {node.name!r}" if isinstance(node, Name) else f"the result of {node.function!r}"
    return Diagnostic("TIL204", f"{what} is known only when running, but {where} dimensions and integers", node.span)


def _contractions(function: Function) -> Iterator[Contraction]:
    return (statement for statement in function.statements if isinstance(statement, Contraction))


def _similar(name: str, scope: Scope) -> tuple[str, ...]:
    found = meant(name, scope.definitions) if len(scope.definitions) <= _MOST_COMPARED else None
    return () if found is None else (f"did you mean {found!r}?",)


def _meant(name: str, callees: Mapping[str, Function | None]) -> tuple[str, ...]:
    """Return notes about a name that no function has."""
    found = meant(name, callees) if callees else None
    return advice(name) if found is None else (f"did you mean {found!r}?",)


def _defined_at(span: Span | None) -> tuple[str, ...]:
    return () if span is None else (f"its definition is in {span.where}",)
