"""Memory of ranks: of what operations of the library compute each rank has a part, but for a few that are listed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import pytest

from strategies.derivatives import types_of
from strategies.operations import all_cases
from strategies.sharded import cut_along
from tileir.core import ExecutionUnit, HardwareModel
from tileir.typed.inference.inference import infer
from tileir.typed.ir import Collective
from tileir.typed.sharding.exchanges import largest
from tileir.typed.sharding.mesh import Mesh
from tileir.typed.sharding.needs import reads
from tileir.typed.sharding.partition import partition
from tileir.typed.simplify.simplifier import simplify

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tileir.typed.ir import Operation, Value
    from tileir.typed.sharding.partitioned import Partitioned
    from tileir_testing.programs.case import Array

REPLICATED: Final[Mapping[str, tuple[str, ...]]] = {
    "lstm": ("recurrent-lstm",),
    "median": ("sorting-median_of_nan",),
    "nms": ("detection-nms",),
    "quantile": ("sorting-quantile_nearest_of",),
    "reshape": ("shaping-reshape",),
    "unique": ("counting-unique",),
}
"""Operations some parts of which each rank computes alike, and the beginnings of the names of their cases."""

CUTS: Final[Mapping[str, tuple[Mesh, tuple[tuple[str, int], ...]]]] = {
    "first": (Mesh({"x": 2}), (("x", 0),)),
    "second": (Mesh({"x": 2}), (("x", 1),)),
    "last": (Mesh({"x": 2}), (("x", -1),)),
    "both": (Mesh({"x": 2, "y": 2}), (("x", 0), ("y", -1))),
}
"""Meshes, and the axis of each input that is cut along each of theirs: the last one where there are not as many."""

HALO: Final = 2
"""Places around parts that windows of the cases read, and by which parts that lie beside them are longer."""

MODEL: Final = HardwareModel("slow", 1, execution_units=(ExecutionUnit("CORE"),), link_gbps=1000, link_us=0)
"""Ranks whose links are fast, so that what can be shared out is."""


def test_few_operations_are_replicated() -> None:
    assert len(REPLICATED) <= 25


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("name", "cut"), [(name, cut) for name in all_cases() for cut in CUTS])
def test_ranks_have_parts_of_what_they_compute(name: str, cut: str) -> None:
    """A rank computes its share of each value, but for halos, and the places by which inputs are uneven.

    It has whole copies of what all its elements read, such as weights, while they are read, and of aggregates that are
    merged.
    """
    case, (mesh, cuts) = all_cases()[name], CUTS[cut]
    arrays = case.arrays("f32")
    function = simplify(infer(case.function(), types_of(arrays)))
    program = partition(function, mesh, {n: cut_along(each.ndim, cuts) for n, each in arrays.items()}, None, MODEL)
    if any(name.startswith(prefix) for prefixes in REPLICATED.values() for prefix in prefixes):
        return
    assert program.remarks == ()
    placements = dict(program.placements)
    for each in computed(program):
        placement = placements[each.name]
        if placement.partial or math.prod(each.shape) <= mesh.size * HALO:
            continue
        assert {axis for split in placement.layout for axis in split.axes} == dict(mesh.axes).keys(), each.name
        for split, size in zip(placement.layout, each.shape, strict=True):
            most = max(high - low for low, high in split.intervals)
            assert most <= share(mesh.extent(split.axes), arrays) * size + HALO, each.name
    assert kept_copies(program) <= peak(program) / 2


def share(parts: int, arrays: Mapping[str, Array]) -> float:
    """Return the largest part of an axis of the inputs that one of several ranks has where they are cut evenly."""
    sizes = [size for array in arrays.values() for size in array.shape if size > 1]
    return float(max(1 / parts, *(-(-size // parts) / size for size in sizes), 0.0))


def run(program: Partitioned) -> list[Operation]:
    """Return the operations that results need; those for gradients of overrides do not run."""
    live, found = set(program.function.outputs), []
    for each in reversed(program.function.operations):
        if each.name in live:
            live.update(reads(each))
            found.append(each)
    return found[::-1]


def computed(program: Partitioned) -> list[Operation]:
    """Return what is computed of inputs for results, without exchanges."""
    depend = {value.name for value in program.function.inputs if value.shape}
    found: list[Operation] = []
    for each in run(program):
        if not depend.isdisjoint(reads(each)):
            depend.add(each.name)
            if not isinstance(each, Collective):
                found.append(each)
    return found


def moments(program: Partitioned) -> Iterator[tuple[Operation, list[Value | Operation]]]:
    """Yield each operation, with the values that are there while it runs: inputs, and what somebody still reads."""
    function, operations = program.function, run(program)
    last = {name: number for number, each in enumerate(operations) for name in reads(each)}
    last |= dict.fromkeys([*function.outputs, *(value.name for value in function.inputs)], len(operations))
    there: dict[str, Value | Operation] = {value.name: value for value in function.inputs}
    for number, each in enumerate(operations):
        there[each.name] = each
        yield each, list(there.values())
        there = {name: value for name, value in there.items() if last.get(name, 0) > number}


def peak(program: Partitioned) -> int:
    """Return the most bytes that one device would have at one time."""
    return max(
        sum(math.prod(each.shape) * each.dtype.itemsize for each in there if not isinstance(each, Collective))
        for _, there in moments(program)
    )


def kept_copies(program: Partitioned) -> int:
    """Return the most bytes that a rank has in copies of what others have, while it runs what does not read them."""
    placements, most = dict(program.placements), 0
    for running, there in moments(program):
        kept = [each for each in there if each.name not in (running.name, *reads(running))]
        copies = [each for each in kept if isinstance(each, Collective) or placements[each.name].partial]
        most = max(most, sum(largest(placements[each.name].layout) * each.dtype.itemsize for each in copies))
    return most
