"""Interpreter of partitioned programs: their definition, on tuples with an array for each rank.

A collective joins the whole tensor from the parts of all ranks, and splits it again. It shares nothing with the
geometry by which engines exchange pieces.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from tileir.core import ArgumentError, Combination, contraction_types
from tileir.core.combines import state_rule
from tileir.core.numbers.arithmetic import merge
from tileir.core.numbers.number_system import REAL
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Collective, Function, Operation, ScanPart, Value, operands
from tileir.typed.sharding.local import CollectiveLoop, CollectiveOperation, Step, local_steps
from tileir.typed.sharding.mesh import Layout, Mesh
from tileir.typed.sharding.needs import reads
from tileir.typed.sharding.partitioned import Partitioned

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Parts: TypeAlias = "tuple[Array, ...]"
"""The array of each rank."""


def interpret_partitioned(program: Partitioned, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the whole results of a partitioned program for whole inputs.

    Raises:
        ArgumentError: TIL701, as for :func:`tileir.typed.interpreter.interpret`.
    """
    faults = [value for value in program.function.inputs if value.name not in inputs]
    if faults:
        raise ArgumentError.of("TIL701", f"input {faults[0].name!r} has no array")
    parts = {
        value.name: scattered(inputs[value.name], program.layout(value.name), program.mesh)
        for value in program.function.inputs
    }
    results = interpret_parts(program, parts)
    return {name: gathered(results[name], program.layout(name), program.mesh) for name in program.function.outputs}


def interpret_parts(program: Partitioned, inputs: Mapping[str, Parts]) -> dict[str, Parts]:
    """Return the results of all ranks for the inputs of all ranks."""
    ranks = range(program.mesh.size)
    values = dict(inputs)
    for steps in zip(*(local_steps(program, rank) for rank in ranks), strict=True):
        first = steps[0]
        if isinstance(first, Collective):
            values[first.name] = exchanged(first, [values[name] for name in first.inputs], program.mesh)
        elif isinstance(first, CollectiveLoop):
            values.update(_looped(first, values))
        elif isinstance(first, CollectiveOperation):
            values[first.operation.name] = met(program, first.operation, values)
        else:
            values.update(_run(steps, values))
    return {name: values[name] for name in program.function.outputs}


def _looped(rounds: CollectiveLoop, values: Mapping[str, Parts]) -> dict[str, Parts]:
    """Return the results of a loop in whose steps ranks meet."""
    loop, names = rounds.loop, [value.name for value in rounds.step.function.inputs]
    carries, rest = len(loop.carries), len(loop.carries) + len(loop.sequences)
    passed, count = [values[name] for name in operands(loop)], loop.count or 0
    numbers: Iterable[int] = range(count) if loop.count is not None else itertools.count()
    state = passed[:carries]
    kept: dict[str, list[Parts]] = {name: [] for name in rounds.results}
    for number in numbers:
        if loop.count is None and not all(map(bool, state[0])):
            assert not any(map(bool, state[0])), "ranks disagree on whether there is one more step"
            break
        place = count - 1 - number if loop.reverse else number
        slices = [tuple(part[place] for part in parts) for parts in passed[carries:rest]]
        made = interpret_parts(rounds.step, dict(zip(names, [*state, *slices, *passed[rest:]], strict=True)))
        new = [made[name] for name in rounds.step.function.outputs]
        for name, result in rounds.results.items():
            if result.part is not ScanPart.FINAL:
                kept[name].append(
                    state[result.number] if result.part is ScanPart.HISTORY else new[carries + result.number]
                )
        state = new[:carries]
    found = {}
    for name, result in rounds.results.items():
        steps = kept[name][::-1] if loop.reverse else kept[name]
        stacked = (np.stack(parts) for parts in zip(*steps, strict=True))
        found[name] = state[result.number] if result.part is ScanPart.FINAL else tuple(stacked)
    return found


def met(program: Partitioned, operation: Operation, values: Mapping[str, Parts]) -> Parts:
    """Return each rank's part of an operation in which ranks meet, computed from whole operands."""
    defined = {each.name: each for each in (*program.function.inputs, *program.function.operations)}
    inputs = tuple(Value(name, defined[name].dtype, defined[name].shape) for name in dict.fromkeys(reads(operation)))
    given = {value.name: gathered(values[value.name], program.layout(value.name), program.mesh) for value in inputs}
    made = interpret(Function(inputs, (operation.name,), (operation,)), given)[operation.name]
    return scattered(made, program.layout(operation.name), program.mesh)


def _run(steps: tuple[Step, ...], values: Mapping[str, Parts]) -> dict[str, Parts]:
    """Return the results of the functions of all ranks."""
    made = []
    for rank, step in enumerate(steps):
        assert isinstance(step, Function)
        made.append(interpret(step, {value.name: values[value.name][rank] for value in step.inputs}))
    return {name: tuple(each[name] for each in made) for name in made[0]}


def exchanged(collective: Collective, inputs: list[Parts], mesh: Mesh) -> Parts:
    """Return each rank's array after a collective."""
    merged = inputs[0]
    if collective.combine is not None:
        merged = tuple(
            _state(collective, [[each[r] for each in inputs] for r in mesh.group(rank, collective.axes)])
            for rank in range(mesh.size)
        )
    if collective.aggregation is not None:
        merged = tuple(
            _merged(collective, [merged[r] for r in mesh.group(rank, collective.axes)]) for rank in range(mesh.size)
        )
    return scattered(gathered(merged, collective.source, mesh), collective.target, mesh)


def _merged(collective: Collective, parts: list[Array]) -> Array:
    """Return the aggregate of the parts of some ranks, in their order."""
    how = collective.aggregation
    assert how is not None
    accumulator = contraction_types(how, Combination.NONE, [collective.dtype]).accumulator
    result = REAL.cast(parts[0], accumulator)
    for part in parts[1:]:
        result = merge(how, result, REAL.cast(part, accumulator))
    return REAL.cast(result, collective.dtype)


def _state(collective: Collective, states: list[list[Array]]) -> Array:
    """Return one component of the merge of the states of some ranks, in their order."""
    assert collective.combine is not None
    rule = state_rule(collective.combine, [each.dtype for each in states[0]])
    result = tuple(states[0])
    for state in states[1:]:
        result = rule.merge.run(REAL, *result, *state)
    return np.asarray(result[collective.result])


def scattered(array: Array, layout: Layout, mesh: Mesh) -> Parts:
    """Return the part of an array that each rank has."""
    boxes = (mesh.box(layout, mesh.coordinates(rank)) for rank in range(mesh.size))
    return tuple(array[tuple(slice(*interval) for interval in box)] for box in boxes)


def gathered(parts: Parts, layout: Layout, mesh: Mesh) -> Array:
    """Return the array whose parts ranks have."""
    shape = tuple(max(high for _, high in split.intervals) for split in layout)
    whole = np.zeros(shape, parts[0].dtype)
    for rank, part in reversed(tuple(enumerate(parts))):
        box = mesh.box(layout, mesh.coordinates(rank))
        whole[tuple(slice(*interval) for interval in box)] = part
    return whole
