"""From typed operations back to the Tile language: an equivalent function for these shapes.

Contractions, loops and numbers become statements, and the steps of loops stack carries before each step as outputs.
Operations become expressions: literals, operators, functions, and index polynomials.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Final, TypeAlias, assert_never

from tileir.core import (
    Aggregation,
    Combination,
    ContractionTypes,
    Diagnostic,
    DType,
    NameScope,
    Op,
    TileError,
    attrs,
    contraction_types,
    fail,
    grouped,
    rounded,
)
from tileir.poly.affine import Affine
from tileir.tile import ir as tile
from tileir.tile.functions import scatter_name
from tileir.tile.ir import (
    Assignment,
    Attribute,
    Binary,
    BinaryOperator,
    Call,
    Conditional,
    Expr,
    FloatLiteral,
    IndexName,
    IntLiteral,
    Name,
    Statement,
    Unary,
    UnaryOperator,
)
from tileir.tile.text.grammar import is_index_name
from tileir.tile.traversal import walk
from tileir.typed.dataflow import loop_of, loops_of, with_operations
from tileir.typed.inference.elementwise import common_dtype
from tileir.typed.inference.values import ConstantScalar, Scalar, Tensor
from tileir.typed.ir import (
    Argsort,
    ArrayConstant,
    Cast,
    Checkpoint,
    Collective,
    Constant,
    Contraction,
    Coordinate,
    Elementwise,
    Function,
    Gather,
    Marker,
    NumberArithmetic,
    NumberCast,
    NumberLiteral,
    NumberStep,
    Operation,
    Override,
    Recall,
    Reduce,
    Reshape,
    Scan,
    ScanPart,
    ScanResult,
    Scatter,
    Shape,
    ShapeOf,
    Upstream,
    Value,
    operands,
)
from tileir.typed.numbers import passed_numbers

_PREFIX: Final[Mapping[Op, UnaryOperator]] = MappingProxyType({Op[sign.name]: sign for sign in UnaryOperator})
_INFIX: Final[Mapping[Op, BinaryOperator]] = MappingProxyType({Op[sign.name]: sign for sign in BinaryOperator})
_DIGITS: Final = 17  # distinguish all numbers of double precision


def application(op: Op, operands: Sequence[Expr]) -> Expr:
    """Return ``op`` on these operands: an operator if Tile has one, else a call."""
    match operands:
        case [operand] if op is Op.IDENT:
            return operand
        case [condition, then, otherwise] if op is Op.COND:
            return Conditional(condition, then, otherwise)
        case [operand] if op in _PREFIX:
            return Unary(_PREFIX[op], operand)
        case [lhs, rhs] if op in _INFIX:
            return Binary(_INFIX[op], lhs, rhs)
        case _:
            return Call(op.value, tuple(operands))


def cast_call(dtype: DType, operand: Expr) -> Expr:
    """Return the cast of ``operand`` to ``dtype``."""
    return Call(f"as_{dtype.value}", (operand,))


def typed_literal(constant: Constant) -> Expr:
    """Return a constant that keeps its dtype in every context."""
    return cast_call(constant.dtype, literal(constant.value, constant.dtype))


def lone_literal(constant: Constant) -> Expr:
    """Return a constant as the only operand, which has nothing to adapt to."""
    return operand_literals([constant], [], constant.dtype)[0]


def operand_literals(constants: Sequence[Constant], others: Sequence[DType], dtype: DType) -> list[Expr]:
    """Return the constants among the operands of one operation, with casts only if they would not adapt.

    Args:
        constants: Operands of ``dtype`` that are constants.
        others: The dtypes of the other operands.
        dtype: The dtype in which the operation works.
    """
    values: list[Scalar] = [Tensor("", other, ()) for other in others]
    values += [ConstantScalar(constant.value) for constant in constants]
    if not dtype.is_bool and common_dtype(values) is dtype:
        return [literal(constant.value, dtype) for constant in constants]
    return [typed_literal(constant) for constant in constants]


def literal(value: bool | int | float, dtype: DType) -> Expr:
    """Return a value of ``dtype`` as an expression without a dtype that is exact in ``dtype``."""
    if isinstance(value, float):
        if math.isnan(value):
            return Binary(BinaryOperator.DIV, FloatLiteral(0.0), FloatLiteral(0.0))
        size: Expr = FloatLiteral(_shortest(abs(value), dtype))
        return Unary(UnaryOperator.NEG, size) if math.copysign(1.0, value) < 0 else size
    return integer(int(value))


def integer(value: int) -> Expr:
    """Return an integer, of any sign."""
    return IntLiteral(value) if value >= 0 else Unary(UnaryOperator.NEG, IntLiteral(-value))


@lru_cache(maxsize=256)  # rounding is slow, and few constants occur again and again
def _shortest(value: float, dtype: DType) -> float:
    """Return the number with the fewest digits that ``dtype`` rounds to ``value``: 0.1 for an f32 near it."""
    if not math.isfinite(value):
        return value
    candidates = (float(f"{value:.{digits}g}") for digits in range(1, _DIGITS))
    return next((number for number in candidates if rounded(number, dtype) == value), value)


def polynomial(affine: Affine, names: Mapping[str, str]) -> Expr:
    """Return an index polynomial: positive terms first, and one division at the end for fractions.

    ``names`` renames index variables in the text.
    """
    divisor = math.lcm(affine.offset.denominator, *(c.denominator for _, c in affine.terms))
    whole = affine * divisor
    terms = [(names.get(index, index), int(coefficient)) for index, coefficient in whole.terms]
    offset = int(whole.offset)
    positive = [_term(index, coefficient) for index, coefficient in terms if coefficient > 0]
    negative = [_term(index, -coefficient) for index, coefficient in terms if coefficient < 0]
    if offset < 0:
        negative.append(IntLiteral(-offset))
    elif offset > 0 or not terms:
        positive.append(IntLiteral(offset))
    result = _sum(positive, negative)
    return result if divisor == 1 else Binary(BinaryOperator.DIV, result, IntLiteral(divisor))


def _term(index: str, coefficient: int) -> Expr:
    name = IndexName(index)
    return name if coefficient == 1 else Binary(BinaryOperator.MUL, IntLiteral(coefficient), name)


def _sum(positive: Sequence[Expr], negative: Sequence[Expr]) -> Expr:
    """Return the difference of two sums; one of them has a term."""
    if positive:
        result, *added = positive
        subtracted = negative
    else:
        first, *subtracted = negative
        result, added = Unary(UnaryOperator.NEG, first), []
    for term in added:
        result = Binary(BinaryOperator.ADD, result, term)
    for term in subtracted:
        result = Binary(BinaryOperator.SUB, result, term)
    return result


def contraction_statement(
    operation: Contraction, names: Mapping[str, str], attributes: tuple[Attribute, ...]
) -> tile.Contraction:
    """Return the statement of a contraction; ``names`` has the spelling of values in Tile."""
    indices = _index_names(operation)

    def spelt(access: Iterable[Affine]) -> tuple[Expr, ...]:
        return tuple(polynomial(index, indices) for index in access)

    return tile.Contraction(
        names[operation.name],
        spelt(operation.output),
        tuple(map(IntLiteral, operation.shape)),
        operation.aggregation,
        operation.combination,
        tuple(tile.Access(names[access.tensor], spelt(access.indices)) for access in operation.inputs),
        tuple(tile.Constraint(polynomial(c.polynomial, indices), integer(c.bound)) for c in operation.constraints),
        no_defract=not operation.reduce,
        default=None if operation.default is None else Name(names[operation.default]),
        attributes=(*attributes, tile.Attribute("finite")) if operation.finite else attributes,
        span=operation.span,
    )


def fill_statement(name: str, shape: Shape, scalar: str, attributes: tuple[Attribute, ...]) -> tile.Contraction:
    """Return the statement that copies the tensor ``scalar``, of rank 0, to every element of ``shape``."""
    return tile.Contraction(
        name,
        tuple(IndexName(f"i{axis}") for axis in range(len(shape))),
        tuple(map(IntLiteral, shape)),
        Aggregation.ASSIGN,
        Combination.NONE,
        (tile.Access(scalar, ()),),
        attributes=attributes,
    )


def has_points(operation: Contraction) -> bool:
    """Return whether index points can count; inference refuses statements that obviously have none."""
    return not (
        any(c.polynomial.is_constant and not 0 <= c.polynomial.offset < c.bound for c in operation.constraints)
        or any(polynomial.is_never_integral for polynomial in _polynomials(operation))
    )


def _index_names(operation: Contraction) -> dict[str, str]:
    """Return other names for index variables that Tile cannot spell."""
    used = dict.fromkeys(index for affine in _polynomials(operation) for index in affine.indices)
    scope = NameScope.of(index for index in used if is_index_name(index))
    return {index: scope.fresh("i") for index in used if not is_index_name(index)}


def _polynomials(operation: Contraction) -> list[Affine]:
    """Return all index polynomials: those of the output, of the inputs, of the constraints."""
    accesses = (operation.output, *(access.indices for access in operation.inputs))
    return [*(index for access in accesses for index in access), *(c.polynomial for c in operation.constraints)]


def with_stacked_histories(function: Function) -> Function:
    """Return a function whose loops have no histories: steps output the old carries; itself if there are none."""
    new: dict[str, Scan] = {}
    for results in loops_of(function).values():
        numbers = sorted({scan.result.number for scan in results if scan.result.part is ScanPart.HISTORY})
        if numbers:
            new.update((scan.name, _stacked(scan, numbers)) for scan in results)
    return with_operations(function, lambda operation: new.get(operation.name, operation))


def _stacked(scan: Scan, numbers: list[int]) -> Scan:
    """Return a result of a loop whose steps output these carries after all other outputs."""
    body = scan.body
    names = NameScope.of(value.name for value in (*body.inputs, *body.operations))
    kept = []
    for number in numbers:
        value = body.inputs[number]
        kept.append(Elementwise(names.fresh(f"{value.name}_kept"), Op.IDENT, (value.name,), value.dtype, value.shape))
    result = scan.result
    if result.part is ScanPart.HISTORY:
        first = len(body.outputs) - len(scan.carries)
        result = ScanResult(ScanPart.OUTPUT, first + numbers.index(result.number))
    outputs = (*body.outputs, *(operation.name for operation in kept))
    wider = attrs.evolve(body, operations=(*body.operations, *kept), outputs=outputs)
    return attrs.evolve(scan, body=wider, result=result)


def scan_statement(name: str, scan: Scan, names: Mapping[str, str], step: tile.Function) -> tile.Scan | tile.While:
    """Return the statement of a loop without histories."""
    carries, sequences, constants = (
        tuple(tile.Name(names[operand]) for operand in operands)
        for operands in (scan.carries, scan.sequences, scan.constants)
    )
    if scan.count is None:
        condition = _first(step)
        return tile.While(name, carries, constants, condition, step, span=scan.span)
    count = None if sequences else tile.IntLiteral(scan.count)
    return tile.Scan(name, carries, sequences, constants, step, count, scan.reverse, span=scan.span)


def _first(step: tile.Function) -> tile.Function:
    """Return the condition of a loop that runs as long as its first carry is true."""
    dims = (dim.name for each in step.inputs for dim in each.dims or () if isinstance(dim, tile.Name))
    names = NameScope.of((*(each.name for each in step.inputs), *dims))
    result, first = names.fresh("More"), step.inputs[0].name
    return tile.Function(step.inputs, (tile.Output(result),), (tile.Assignment(result, tile.Name(first)),))


def result_place(scan: Scan) -> int:
    """Return the position of this result in the tuple of a scan of Tile."""
    return scan.result.number + (0 if scan.result.part is ScanPart.FINAL else len(scan.carries))


def number_statements(function: Function, names: Mapping[str, str], scope: NameScope) -> Iterator[Assignment]:
    """Yield statements that define the number inputs of ``function``, named by ``names``."""
    spelt: dict[str, str] = {}
    for step in function.numbers:
        spelt[step.name] = scope.fresh(step.name)
        yield Assignment(spelt[step.name], _expression(step, spelt), span=step.span)
    for value in function.inputs:
        if value.number is not None:
            source = Name(spelt.get(value.number, value.number))
            yield Assignment(names[value.name], cast_call(value.dtype, source), span=value.span)


def _expression(step: NumberStep, spelt: Mapping[str, str]) -> Expr:
    match step:
        case NumberLiteral(value=value, dtype=dtype):
            number = literal(value, dtype or DType.F64)
            return number if dtype is None else cast_call(dtype, number)
        case NumberCast(input=name, dtype=dtype):
            return cast_call(dtype, Name(spelt.get(name, name)))
        case NumberArithmetic(op=op, inputs=inputs):
            return application(op, [Name(spelt.get(name, name)) for name in inputs])


_MOST_NODES: Final = 12  # of an expression nested into another one, as for functions built in Python
_GENERATED: Final = re.compile(r".*_\d+")  # the form of fresh names, which users do not know
_Expressed: TypeAlias = (
    Elementwise | Cast | Coordinate | ShapeOf | Reshape | Argsort | Gather | Scatter | Reduce | Marker
)
_NO_SIZES: Final[Mapping[str, int]] = MappingProxyType({})


def raise_to_tile(
    function: Function,
    order: Sequence[str] = (),
    sizes: Mapping[str, int] = _NO_SIZES,
) -> tile.Function:
    """Return the Tile function that computes the results of ``function``, to the bit, for arguments of its types.

    Inference of the result gives ``function`` again, except for the order of operations, names of temporaries, and
    constant folding. Arguments of other types are refused. Names that Tile can spell remain. A temporary that is read
    once is nested into its reader. Values recomputed by the backward pass are read instead:
    :class:`tileir.typed.ir.Recall` is a matter of memory, which Tile does not express.

    Args:
        function: A function that :func:`tileir.typed.verifier.verify` accepts.
        order: Names of inputs in the order of their declaration; those that ``function`` does not read are numbers. By
            default arrays come first.
        sizes: Values of integers from which sizes were computed; others are refused.

    Raises:
        TileError: TIL532 for each operation that Tile cannot express.
    """
    function = with_stacked_histories(function)
    raising = _Raising.of(function, sizes)
    arrays = (value for value in function.inputs if value.number is None)
    declared = {value.name: raising.input(value) for value in arrays}
    raising.sizes(sizes)
    raising.numbers(function)
    names = order or (*declared, *sizes, *passed_numbers(function))
    inputs = tuple(declared.get(name) or tile.Input(name, ()) for name in names)
    faults: list[Diagnostic] = []
    for operation in function.operations:
        try:
            raising.operation(operation)
        except TileError as error:
            faults.extend(error.diagnostics)
            raising.define(operation)
    if faults:
        raise TileError(faults)
    outputs = tuple(tile.Output(raising.names[name]) for name in function.outputs)
    return tile.Function(inputs, outputs, tuple(raising.statements))


@attrs.define(eq=False, repr=False)
class _Raising:
    """The statements of one Tile function while it is built.

    Attributes:
        scope: Names in use in the Tile function.
        names: Names of values in the spelling of Tile.
        definitions: Definitions of the values.
        nested: Values that are nested into the one expression that reads them.
        labels: Labels of values.
        arriving: The input of the override of each upstream.
        statements: The statements so far.
    """

    scope: NameScope
    names: Mapping[str, str]
    definitions: Mapping[str, Value | Operation]
    nested: frozenset[str]
    labels: Mapping[str, tuple[str, ...]]
    arriving: Mapping[str, str]
    statements: list[Statement] = attrs.field(factory=list, init=False)
    _loops: dict[Scan, str] = attrs.field(factory=dict, init=False)
    _exprs: dict[str, Expr] = attrs.field(factory=dict, init=False)
    _shaped: dict[Shape, str] = attrs.field(factory=dict, init=False)
    _sized: dict[int, str] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, function: Function, taken: Iterable[str]) -> _Raising:
        """Choose the names of values, none of which is ``taken``, and the values that may be nested."""
        definitions: dict[str, Value | Operation] = {v.name: v for v in (*function.inputs, *function.operations)}
        numbers = {value.name: value for value in function.inputs if value.number is not None}
        spelt = (name for name in definitions if name not in numbers)
        scope = NameScope.of((*spelt, *passed_numbers(function), *taken))
        names = {name: scope.fresh(name) if name in numbers else name for name in definitions}
        labels = {name: tuple(each) for name, each in grouped(function.labels).items()}
        overrides = (operation for operation in function.operations if isinstance(operation, Override))
        arriving = {override.upstream: override.input for override in overrides if override.upstream is not None}
        return cls(scope, names, definitions, _once_read(function, arriving.values()), labels, arriving)

    def input(self, value: Value) -> tile.Input:
        """Declare an input of the type of ``value``."""
        self.define(value)
        dims = tuple(map(IntLiteral, value.shape))
        return tile.Input(self.names[value.name], dims, value.dtype, span=value.span)

    def sizes(self, values: Mapping[str, int]) -> None:
        """Require the values of inputs that are no longer tensors of the typed function."""
        for name, value in values.items():
            check = Call("match", (Name(name), integer(value)))
            self.statements.append(Assignment(self.scope.fresh(name.rstrip("'") + "_value"), check))

    def numbers(self, function: Function) -> None:
        """Compute the inputs that are numbers."""
        self.statements.extend(number_statements(function, self.names, self.scope))
        for value in function.inputs:
            if value.number is not None:
                self.define(value)

    def operation(self, operation: Operation) -> None:
        """Make the statement of one operation, or the expression that is nested later."""
        match operation:
            case Contraction():
                self._contraction(operation)
            case Constant():
                self._constant(operation)
            case Scan():
                self._scan(operation)
            case ArrayConstant(value=array):
                name = self.names[operation.name]
                marks = self._attributes(operation)
                self.statements.append(tile.Constant(name, array, attributes=marks, span=operation.span))
                self.define(operation)
            case _:
                value = self._expression(operation)
                if operation.name in self.nested and sum(1 for _ in walk(value)) <= _MOST_NODES:
                    self._exprs[operation.name] = value
                else:
                    self._assign(operation, value)

    def _expression(self, operation: _Expressed) -> Expr:
        match operation:
            case Cast(dtype=dtype) | Elementwise(op=Op.BITS, dtype=dtype):
                prefix = "as" if isinstance(operation, Cast) else "bits_as"
                return Call(f"{prefix}_{dtype.value}", (self._lone(*operands(operation)),))
            case Elementwise(op=op):
                if op is Op.FMA:
                    raise _inexpressible(operation, "a multiplication and an addition that are rounded once")
                return application(op, self._operands(operation))
            case Coordinate(axis=axis, shape=shape):
                return Call("index", (self._like(shape), IntLiteral(axis)))
            case ShapeOf(dims=dims):
                return Call("shape", (self._like(dims),))
            case Reshape(input=name, shape=shape):
                return Call("reshape", (self._lone(name), *map(IntLiteral, shape)))
            case Argsort(input=name, axis=axis, descending=descending, shape=shape):
                options = (axis, int(descending), shape[axis])
                return Call("argsort", (self._lone(name), *map(IntLiteral, options)))
            case Gather(data=data, indices=indices):
                return Call("gather", (self._lone(data), self._lone(indices)))
            case Scatter(updates=updates, indices=indices, into=into, shape=shape, aggregation=how, ordered=ordered):
                like = self._rows(shape[0]) if into is None else self._lone(into)
                return Call(scatter_name(how, ordered=ordered), (self._lone(updates), self._lone(indices), like))
            case Reduce(combine=combine, input=name, axes=axes, result=result):
                state = Call(f"reduce_{combine.value}", (self._lone(name), *map(IntLiteral, axes)))
                return Call("element", (state, IntLiteral(result)))
            case Override(input=name, pairs=pairs):
                read = (self._lone(name), *(self._lone(value) for pair in pairs for value in pair))
                return Call("override_gradient", read) if pairs else Call("stop_gradient", read)
            case Upstream(name=name):
                if name not in self.arriving:
                    raise _inexpressible(operation, "what arrives at no override")
                return Call("upstream", (self._lone(self.arriving[name]),))
            case Checkpoint(input=name):
                return Call("checkpoint", (self._lone(name),))
            case Recall(input=name) | Collective(input=name):
                return self._lone(name)
            case _:
                assert_never(operation)

    def define(self, value: Value | Operation) -> None:
        """Make ``value`` and its shape available by name."""
        name = self.names[value.name]
        self._exprs[value.name] = Name(name)
        self._shaped.setdefault(value.shape, name)
        if value.shape:
            self._sized.setdefault(value.shape[0], name)

    def _assign(self, operation: Operation, value: Expr) -> None:
        name = self.names[operation.name]
        self.statements.append(Assignment(name, value, self._attributes(operation), span=operation.span))
        self.define(operation)

    def _attributes(self, operation: Operation) -> tuple[Attribute, ...]:
        return tuple(Attribute("pid", (label,)) for label in self.labels.get(operation.name, ()))

    def _constant(self, operation: Constant) -> None:
        """Make a statement if a literal is not enough: expressions contain the value itself."""
        if operation.name not in self.nested:
            self._assign(operation, typed_literal(operation))

    def _read(self, name: str) -> Constant | Expr:
        definition = self.definitions[name]
        return definition if isinstance(definition, Constant) else self._exprs[name]

    def _lone(self, name: str) -> Expr:
        """Return an operand that keeps its dtype if no other operand has one."""
        value = self._read(name)
        return lone_literal(value) if isinstance(value, Constant) else value

    def _operands(self, operation: Elementwise) -> list[Expr]:
        """Return the operands of an elementwise operation, with constants as literals that get the right dtype."""
        values = [self._read(name) for name in operation.inputs]
        if all(isinstance(value, Constant) for value in values):
            return [typed_literal(value) for value in values if isinstance(value, Constant)]
        start = 1 if operation.op is Op.COND else 0
        constants = [value for value in values[start:] if isinstance(value, Constant)]
        dtype = self.definitions[operation.inputs[-1]].dtype
        others = [dtype] * (len(values) - start - len(constants))
        literals = iter(operand_literals(constants, others, dtype))
        condition = [typed_literal(value) if isinstance(value, Constant) else value for value in values[:start]]
        return condition + [next(literals) if isinstance(value, Constant) else value for value in values[start:]]

    def _like(self, shape: Shape) -> Expr:
        """Return a tensor of this shape; its elements do not matter."""
        found = self._shaped.get(shape)
        if found is None:
            found = self._shaped[shape] = self._filled(self.scope.fresh("Like"), shape, DType.BOOL)
        return Name(found)

    def _rows(self, size: int) -> Expr:
        """Return a tensor with ``size`` rows; its elements do not matter."""
        found = self._sized.get(size)
        return self._like((size,)) if found is None else Name(found)

    def _filled(self, name: str, shape: Shape, dtype: DType, attributes: tuple[Attribute, ...] = ()) -> str:
        """Make a statement that fills ``shape`` with zeros, and return its name."""
        zero = self.scope.fresh("Zero")
        self.statements.append(Assignment(zero, typed_literal(Constant(zero, dtype, rounded(0, dtype)))))
        self.statements.append(fill_statement(name, shape, zero, attributes))
        return name

    def _scan(self, operation: Scan) -> None:
        """Make the statement of a loop at its first result; each result is a part of it."""
        loop = loop_of(operation)
        name = self._loops.get(loop)
        if name is None:
            name = self._loops[loop] = self.scope.fresh("Scan")
            step = raise_to_tile(loop.body)
            self.statements.append(scan_statement(name, loop, self.names, step))
        place = Call("element", (Name(name), IntLiteral(result_place(operation))))
        whole = len(operation.body.outputs) == 1
        self._assign(operation, Name(name) if whole else place)

    def _contraction(self, operation: Contraction) -> None:
        names = self._read_by(operation)
        name = self.names[operation.name]
        default = None if operation.default is None else self.names[operation.default]
        attributes = self._attributes(operation)
        if not has_points(operation):
            if default is None:
                self._filled(name, operation.shape, operation.dtype, attributes)
            else:
                self.statements.append(Assignment(name, Name(default), attributes, span=operation.span))
        else:
            self.statements.append(contraction_statement(operation, names, attributes))
        self.define(operation)

    def _read_by(self, operation: Contraction) -> Mapping[str, str]:
        """Return the spelling of values that a contraction reads: a factor that it widens is cast before."""
        dtypes = [self.definitions[access.tensor].dtype for access in operation.inputs]
        wanted = ContractionTypes(operation.operand_dtype, operation.accumulator, operation.dtype)
        if contraction_types(operation.aggregation, operation.combination, dtypes) == wanted:
            return self.names
        first, dtypes[0] = operation.inputs[0].tensor, operation.operand_dtype
        if contraction_types(operation.aggregation, operation.combination, dtypes) != wanted:
            raise _inexpressible(operation, f"a contraction that aggregates in {operation.accumulator.value}")
        wide = self.scope.fresh("Wide")
        self.statements.append(Assignment(wide, cast_call(dtypes[0], Name(self.names[first]))))
        return {**self.names, first: wide}


def _once_read(function: Function, named: Iterable[str]) -> frozenset[str]:
    """Return the values that need no statement: constants, upstreams, and temporaries that one expression reads.

    ``named`` has values that need one nevertheless.
    """
    reads = Counter(name for operation in function.operations for name in operands(operation))
    kept = {*function.outputs, *named, *(name for name, _ in function.labels)}
    for operation in function.operations:
        if isinstance(operation, Contraction | Scan):
            kept.update(operands(operation))
    return frozenset(
        operation.name
        for operation in function.operations
        if operation.name not in kept
        and (
            isinstance(operation, Constant | Upstream)
            or (reads[operation.name] == 1 and _GENERATED.fullmatch(operation.name) is not None)
        )
    )


def _inexpressible(operation: Operation, what: str) -> TileError:
    return fail("TIL532", f"{operation.name!r} is {what}, which Tile cannot express", operation.span)
