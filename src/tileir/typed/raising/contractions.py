"""Typed contractions, loops and numbers as Tile statements.

Loops of typed functions as scans of Tile, in which carries before each step are stacked outputs of the step.

Numbers of typed functions as Tile statements: what calls compute, written out again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tileir.core import Aggregation, Combination, DType, NameScope, Op, attrs
from tileir.poly.affine import Affine
from tileir.tile import ir as tile
from tileir.tile.ir import Assignment, Attribute, Expr, IndexName, IntLiteral, Name
from tileir.tile.text.grammar import is_index_name
from tileir.typed.dataflow import loops_of
from tileir.typed.ir import Contraction, Elementwise, Function, Scan, ScanPart, ScanResult, Shape
from tileir.typed.number_steps import NumberArithmetic, NumberCast, NumberLiteral, NumberStep
from tileir.typed.raising.expressions import application, cast_call, integer, literal, polynomial


def contraction_statement(
    operation: Contraction, names: Mapping[str, str], attributes: tuple[Attribute, ...]
) -> tile.Contraction:
    """Return the statement of a contraction; ``names`` says how Tile spells values."""
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
    """Return whether index points can count; inference refuses statements of which it is plain that none does."""
    return not (
        any(c.polynomial.is_constant and not 0 <= c.polynomial.offset < c.bound for c in operation.constraints)
        or any(polynomial.is_never_integral for polynomial in _polynomials(operation))
    )


def _index_names(operation: Contraction) -> dict[str, str]:
    """Return other names for the index variables that Tile cannot spell."""
    used = dict.fromkeys(index for affine in _polynomials(operation) for index in affine.indices)
    scope = NameScope.of(index for index in used if is_index_name(index))
    return {index: scope.fresh("i") for index in used if not is_index_name(index)}


def _polynomials(operation: Contraction) -> list[Affine]:
    """Return all index polynomials: those of the output, of the inputs, of the constraints."""
    accesses = (operation.output, *(access.indices for access in operation.inputs))
    return [*(index for access in accesses for index in access), *(c.polynomial for c in operation.constraints)]


def with_stacked_histories(function: Function) -> Function:
    """Return a function whose loops have no histories: the steps put the old carries out; itself where none has."""
    new: dict[str, Scan] = {}
    for results in loops_of(function).values():
        numbers = sorted({scan.result.number for scan in results if scan.result.part is ScanPart.HISTORY})
        if numbers:
            new.update((scan.name, _stacked(scan, numbers)) for scan in results)
    if not new:
        return function
    operations = tuple(new.get(operation.name, operation) for operation in function.operations)
    return attrs.evolve(function, operations=operations)


def _stacked(scan: Scan, numbers: list[int]) -> Scan:
    """Return a result of a loop whose steps put out these carries, after all other outputs."""
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
    """Return the statement of a loop that has no histories."""
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
    """Return which part of the tuple that a scan of Tile makes is this result."""
    return scan.result.number + (0 if scan.result.part is ScanPart.FINAL else len(scan.carries))


def number_statements(function: Function, names: Mapping[str, str], scope: NameScope) -> Iterator[Assignment]:
    """Yield statements that define the inputs of ``function`` which are numbers, called as ``names`` says."""
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
