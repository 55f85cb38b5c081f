"""Bytes that move into caches, against caches that drop what was not used for longest."""

from __future__ import annotations

from collections import OrderedDict
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

import pytest

from strategies.passes import program_of
from tileir import explain
from tileir.passes.cost.machine import Storage
from tileir_performance.cost.prediction import Traffic
from tileir_performance.cost.scopes import Scope, scope_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LINE = 64

LOOPS = {
    "product": (
        {"A": (24, 32), "B": (32, 48), "C": (24, 48)},
        """block [i:24, j:48, k:32]:1 ( // product
            in A[i, k] fp32:I(1, 1):(32, 1):4 B
            in B[k, j] fp32:I(1, 1):(48, 1):4 B
            out C[i, j] fp32:I(1, 1):(48, 1):4 B""",
    ),
    "product by rows": (
        {"A": (24, 32), "B": (32, 48), "C": (24, 48)},
        """block [i:24, k:32, j:48]:1 ( // product
            in A[i, k] fp32:I(1, 1):(32, 1):4 B
            in B[k, j] fp32:I(1, 1):(48, 1):4 B
            out C[i, j] fp32:I(1, 1):(48, 1):4 B""",
    ),
    "stencil": (
        {"A": (34, 64), "B": (34, 64), "C": (32, 64)},
        """block [i:32, j:64]:1 ( // stencil
            in A[i, j] fp32:I(1, 1):(64, 1):4 B
            in B = A[i + 2, j] fp32:I(1, 1):(64, 1):4 B
            out C[i, j] fp32:I(1, 1):(64, 1):4 B""",
    ),
    "transpose": (
        {"A": (64, 64), "B": (64, 64), "C": (64, 64)},
        """block [i:64, j:64]:1 ( // transpose
            in A[j, i] fp32:I(1, 1):(64, 1):4 B
            in B[i, j] fp32:I(1, 1):(64, 1):4 B
            out C[i, j] fp32:I(1, 1):(64, 1):4 B""",
    ),
}
BODY = """
    ) {
      0: $a = load(A)
      1: $b = load(B)
      2: $c = mul($a, $b)
      3: C = store($c)
    }"""


def scope(name: str) -> Scope:
    sizes, head = LOOPS[name]
    program = program_of([head + BODY], sizes, ("C",))
    return scope_of(program.main.blocks[0], {r.name: r for r in program.main.refinements})


@cache
def lines(name: str) -> tuple[tuple[int, int], ...]:
    """Return the lines that a block of scalars touches, in order."""
    return tuple(touched(scope(name)))


def touched(kernel: Scope) -> Iterator[tuple[int, int]]:
    """Yield the lines that a block of scalars touches, in order."""
    for point in product(*(range(loop.range) for loop in kernel.loops)):
        at: Mapping[int, int] = dict(zip((loop.number for loop in kernel.loops), point, strict=True))
        for access in kernel.accesses.values():
            place = access.offset + sum(step * at[loop] for loop, step in access.terms)
            yield access.root.number, place * access.dtype.itemsize // LINE


def misses(name: str, capacity: int) -> int:
    """Return how many bytes a cache loads that keeps what was used last."""
    kept: OrderedDict[tuple[int, int], None] = OrderedDict()
    missed = 0
    for line in lines(name):
        if line in kept:
            kept.move_to_end(line)
            continue
        missed += LINE
        kept[line] = None
        if len(kept) * LINE > capacity:
            kept.popitem(last=False)
    return missed


@pytest.mark.sampled(5)
@pytest.mark.parametrize("capacity", [1 << bits for bits in range(9, 17)])
@pytest.mark.parametrize("name", LOOPS)
def test_layer_conditions_are_close_to_what_a_cache_does(name: str, capacity: int) -> None:
    """Off by less than half where a cache is just too small: the rule knows no partial reuse."""
    kernel = scope(name)
    moved = Traffic(kernel, LINE).into(Storage("cache", capacity, LINE, False, 1.0, 1.0))
    simulated = misses(name, capacity)
    assert 0.95 * simulated <= moved.read + moved.written <= 2.2 * simulated


@pytest.mark.parametrize("name", LOOPS)
def test_what_fits_is_loaded_once(name: str) -> None:
    kernel = scope(name)
    moved = Traffic(kernel, LINE).into(Storage("cache", 1 << 20, LINE, False, 1.0, 1.0))
    assert moved.read + moved.written == LINE * len(set(lines(name)))


@pytest.mark.parametrize("rows", [100, 10_000])
def test_chosen_elements_are_one_for_each_point(rows: int) -> None:
    source = "function (A[N], I[M]) -> (B) { B = gather(A, I); }"
    found = explain(source, {"A": "f32[1000000000]", "I": f"i32[{rows}]"}, target="cpu")
    (kernel,) = found.kernels
    read = kernel.levels[-1].read_bytes
    assert rows * 4 <= read <= rows * (2 * LINE + 8)
    assert explain(source, {"A": "f32[64]", "I": f"i32[{rows}]"}, target="cpu").seconds <= found.seconds
