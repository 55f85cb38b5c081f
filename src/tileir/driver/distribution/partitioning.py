"""Partitioning of programs of any kind: text, files, functions of Python, and typed functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from tileir.core import ArgumentError, fail, nearest, with_short_traceback
from tileir.driver.calls.stepper import check_updates
from tileir.driver.distribution.arrays import places_of
from tileir.driver.programs import Program, Source, described, stage_name, types_of
from tileir.driver.targets import Named, model_of
from tileir.tile.ir import Function as TileFunction
from tileir.typed.inference.inference import infer
from tileir.typed.ir import Function as TypedFunction
from tileir.typed.repetition import repeated as several_steps
from tileir.typed.sharding.mesh import Layout, Mesh, Sharding, Split
from tileir.typed.sharding.partition import partition as typed_partition
from tileir.typed.sharding.partitioned import Partitioned
from tileir.typed.simplify.simplifier import simplify

Shardings: TypeAlias = "Mapping[str, Sharding | Layout | tuple[str | tuple[str, ...] | None, ...]]"
"""Shardings by the names of values, such as ``{"A": ("x", None)}``."""

ATTRIBUTE: Final = "shard"
"""Tile attribute with the layout of a statement's value, or of another value that is named first."""

WHOLE: Final = "whole"
"""Word for an uncut axis."""


@with_short_traceback
def partition(
    source: Source | Partitioned,
    mesh: Mesh | Mapping[str, int],
    shardings: Shardings = MappingProxyType({}),
    *,
    outputs: Shardings | None = None,
    arguments: Any = (),
    reshard: bool = True,
    target: Named | None = None,
) -> Partitioned:
    """Return the program that all ranks of a mesh run together to compute the results of ``source``.

    Each contraction is distributed over ranks by one index, according to the layout of its operands: by an index of its
    result, or by a reduction index, with a merge of the parts. Ranks exchange exactly the halos that accesses at the
    borders of their parts need. Operations that cannot be distributed are computed by each rank, which
    :attr:`Partitioned.remarks` report.

    Args:
        source: A program: a typed function, a function, its text or file, or a Python function.
        mesh: Number of ranks along each named axis.
        shardings: By the name of an input, or of another value, for each of its axes the mesh axis along which it is
            cut, several, or None; or a :class:`~tileir.distributed.Split`, as in layouts of arrays, with parts of any
            sizes. An attribute of a Tile statement is equivalent: ``[[shard(A, x, whole)]]``. Shardings of other values
            are chosen to minimise the total time of exchanges and work.
        outputs: Shardings of results.
        arguments: Dtypes and shapes of the inputs, as for :func:`tileir.compile`.
        reshard: Whether values may be redistributed for their readers. Halos, merges of parts, and requested layouts
            are made in any case.
        target: Device of each rank, whose hardware model gives the speed of work and links; by default one that is
            equal on all machines, so that all ranks choose alike.

    Returns:
        A program with collectives, whose text is ``str`` of it; :func:`tileir.distribute` runs it.

    Raises:
        TileError: The program is wrong, or does not fit the arguments.
        ArgumentError: TIL351, the mesh is invalid; TIL352, a sharding does not fit its tensor or the mesh; TIL353, a
            value would have to be redistributed; TIL712, the program is of a later stage.
    """
    made = mesh if isinstance(mesh, Mesh) else Mesh(mesh)
    written: dict[str, Sharding] = {}
    if isinstance(source, Partitioned):
        function = source.function
    else:
        program, arguments = described(source, arguments)
        function = _typed(program, arguments)
        written = _written(program, function, made) if isinstance(program, TileFunction) else {}
    asked, results = (_shardings(each, function, made) for each in (shardings, outputs or {}))
    return typed_partition(function, made, {**written, **asked}, results, model_of(target), reshard=reshard)


@with_short_traceback
def repeated(source: Source, updates: Mapping[str, str], count: int, *, arguments: Any = ()) -> TypedFunction:
    """Return the program that makes several steps, each with some of the results of the previous.

    A call is equivalent to ``count`` calls of a stepper. Partitioned, it may need one exchange for all steps.

    Args:
        source: A program that makes one step.
        updates: Names of inputs, each with the name of the result that is its value in the next step. Other inputs are
            constant over the steps.
        count: Number of steps.
        arguments: Dtypes and shapes of the inputs, as for :func:`tileir.compile`.

    Returns:
        A typed function with the inputs of a step, and the results of the last one.

    Raises:
        TileError: The program is wrong, or does not fit the arguments.
        ArgumentError: TIL709, an update names an unknown input or result, or one with another type; TIL707, ``count``
            is below 1; TIL712, the program is of a later stage.
    """
    if count < 1:
        raise ArgumentError.of("TIL707", f"count is a number of steps, 1 or more, not {count!r:.80}")
    program, arguments = described(source, arguments)
    function = _typed(program, arguments)
    inputs = {value.name: f"{value.dtype.value}{list(value.shape)}" for value in function.inputs}
    check_updates(updates, updates, inputs, function.outputs)
    made = {each.name: f"{each.dtype.value}{list(each.shape)}" for each in function.operations}
    for name, result in updates.items():
        new = {**inputs, **made}[result]
        if inputs[name] != new:
            message = f"result {result!r} is {new}, but input {name!r}, which it updates, is {inputs[name]}"
            raise ArgumentError.of("TIL709", message)
    return several_steps(function, updates, count)


def _shardings(given: object, function: TypedFunction, mesh: Mesh) -> dict[str, Sharding | Layout]:
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        message = f"shardings are given by the names of values, as in {{'A': ('x', None)}}, not as {given!r:.80}"
        raise ArgumentError.of("TIL352", message)
    shapes = {each.name: each.shape for each in (*function.inputs, *function.operations)}
    return {name: _sharding(name, each, shapes.get(name), mesh) for name, each in given.items()}


def _sharding(name: str, given: Any, shape: tuple[int, ...] | None, mesh: Mesh) -> Sharding | Layout:
    """Return a sharding, or the layout given instead."""
    if not isinstance(given, Sequence) or not given or not all(isinstance(split, Split) for split in given):
        return Sharding(given)
    layout = places_of(given, mesh)
    extents = tuple(max(high for _, high in split.intervals) for split in layout)
    if shape is not None and extents != shape:
        message = f"the layout [{', '.join(map(str, layout))}] of {name!r} is of a tensor of shape {list(extents)}"
        raise ArgumentError.of("TIL352", f"{message}, and not of {list(shape)}")
    return layout


def _written(program: TileFunction, function: TypedFunction, mesh: Mesh) -> dict[str, Sharding]:
    """Return the shardings of attributes, checked so that faults have their positions."""
    shapes = {each.name: each.shape for each in (*function.inputs, *function.operations)}
    found = {}
    for statement in program.statements:
        for attribute in statement.attributes:
            if attribute.name == ATTRIBUTE:
                given = attribute.parameters
                named = bool(given) and given[0][0].isupper()
                name, entries = (given[0], given[1:]) if named else (statement.name, given)
                if name not in shapes:
                    raise fail("TIL352", f"there is no value {name!r} to shard{nearest(name, shapes)}", attribute.span)
                sharding = Sharding(tuple(None if entry == WHOLE else entry for entry in entries))
                try:
                    sharding.layout(name, shapes[name], mesh)
                except ArgumentError as error:
                    raise fail("TIL352", error.diagnostics[0].message, attribute.span) from None
                found[name] = sharding
    return found


def _typed(program: Program, arguments: Any) -> TypedFunction:
    if isinstance(program, TileFunction):
        return simplify(infer(program, types_of(program, arguments)))
    if isinstance(program, TypedFunction):
        return program
    message = f"partitioning begins with a function of Tile, or a typed one: {stage_name(program)} is too late"
    raise ArgumentError.of("TIL712", message)
