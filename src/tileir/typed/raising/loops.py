"""Loops of typed functions as scans of Tile, in which carries before each step are stacked outputs of the step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.core.ops import Op
from tileir.core.text.names import NameScope
from tileir.tile import ir as tile
from tileir.typed.dataflow import loops_of
from tileir.typed.ir import Elementwise, Function, Scan, ScanPart, ScanResult

if TYPE_CHECKING:
    from collections.abc import Mapping


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


def scan_statement(name: str, scan: Scan, names: Mapping[str, str], step: tile.Function) -> tile.Scan:
    """Return the statement of a loop that has no histories."""
    carries, sequences, constants = (
        tuple(tile.Name(names[operand]) for operand in operands)
        for operands in (scan.carries, scan.sequences, scan.constants)
    )
    count = None if sequences else tile.IntLiteral(scan.count)
    return tile.Scan(name, carries, sequences, constants, step, count, scan.reverse, span=scan.span)


def result_place(scan: Scan) -> int:
    """Return which part of the tuple that a scan of Tile makes is this result."""
    return scan.result.number + (0 if scan.result.part is ScanPart.FINAL else len(scan.carries))
