"""Memory of ranks: of what operations of the library compute each rank has a part, but for a few that are listed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from strategies.derivatives import types_of
from strategies.operations import all_cases
from tileir.core import ExecutionUnit, HardwareModel
from tileir.typed.inference.inference import infer
from tileir.typed.ir import Collective
from tileir.typed.sharding.mesh import Mesh, Sharding
from tileir.typed.sharding.needs import reads
from tileir.typed.sharding.partition import partition
from tileir.typed.simplify.simplifier import simplify

if TYPE_CHECKING:
    from collections.abc import Mapping

REPLICATED: Final[Mapping[str, tuple[str, ...]]] = {
    "compress": ("counting-compress",),
    "ctc_loss": ("alignment-",),
    "gru": ("recurrent-gru",),
    "lstm": ("recurrent-lstm",),
    "max_unpool": ("pooling-unpool",),
    "nms": ("detection-nms",),
    "non_max_suppression": ("detection-boxes",),
    "nonzero": ("counting-nonzero",),
    "permutation": ("random-permutation",),
    "quantile": ("sorting-quantile_nearest_of",),
    "reshape": ("shaping-reshape",),
    "scatter": ("scattering-scatter_dropped",),
    "scatter_along_axis": ("scattering-scatter_along_axis_set",),
    "shuffle": ("random-shuffle",),
    "unique": ("counting-unique",),
    "update_cache": ("scattering-cache",),
}
"""Operations some parts of which each rank computes alike, and the beginnings of the names of their cases."""

TWO: Final = Mesh({"x": 2})
HALO: Final = 2
"""Places around parts that windows of the cases read, and by which parts that lie beside them are longer."""

MODEL: Final = HardwareModel("slow", 1, execution_units=(ExecutionUnit("CORE"),), link_gbps=1000, link_us=0)
"""Ranks whose links are fast, so that what can be shared out is."""


def test_few_operations_are_replicated() -> None:
    assert len(REPLICATED) <= 25


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", all_cases())
def test_ranks_have_parts_of_what_they_compute(name: str) -> None:
    """A rank computes half of each value, but for halos, and the places by which rows of inputs are uneven.

    It has whole copies of what all its elements read, such as weights, and of aggregates that are merged.
    """
    case = all_cases()[name]
    arrays = case.arrays("f32")
    function = simplify(infer(case.function(), types_of(arrays)))
    rows = {each: Sharding(("x", *[None] * (array.ndim - 1)) if array.ndim else ()) for each, array in arrays.items()}
    program = partition(function, TWO, rows, None, MODEL)
    if any(name.startswith(prefix) for prefixes in REPLICATED.values() for prefix in prefixes):
        return
    assert program.remarks == ()
    placements = dict(program.placements)
    share = max([1 / 2, *(-(-array.shape[0] // 2) / array.shape[0] for array in arrays.values() if array.ndim)])
    live = set(program.function.outputs)
    for each in reversed(program.function.operations):
        live.update(reads(each) if each.name in live else ())
    depend = {value.name for value in program.function.inputs if value.shape}
    for each in program.function.operations:
        if depend.isdisjoint(reads(each)) or each.name not in live:
            continue
        depend.add(each.name)
        placement = placements[each.name]
        if isinstance(each, Collective) or placement.partial or max(each.shape, default=1) == 1:
            continue
        assert any(split.axes for split in placement.layout), each.name
        for split, size in zip(placement.layout, each.shape, strict=True):
            most = max(high - low for low, high in split.intervals)
            assert not split.axes or most <= share * size + HALO, each.name
