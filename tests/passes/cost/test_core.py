"""Cycles of blocks whose schedules say what they issue."""

from __future__ import annotations

from typing import Any

import pytest

from strategies.passes import program_of
from tileir.core.targets.target import Target
from tileir.core.targets.target_file import hardware_of
from tileir.passes.cost.figures import Cycles
from tileir.passes.cost.machine import LATENCY, Machine, machine_of
from tileir_performance.cost.core import cycles_of
from tileir_performance.cost.scopes import Scope, scope_of

CPU = Target("cpu", vector_bytes=64, vector_registers=32, threads=2, cache_bytes=(32 << 10, 1 << 20), pipeline="cpu")
GPU = Target("gpu", 16, 0, 132, (50 << 20,), local_bytes=48 << 10, group_threads=1024, group_width=32)

TILE = """
    block [k:512]:512 ( // product
        none new@0x00000000 S<REGISTER>[0, 0] fp32:I({rows}, {width}):({width}, 1):4 B
        in A[0, k] fp32:I({rows}, 1):(512, 1):4 B
        in B[k, 0] fp32:I(1, {width}):({width}, 1):4 B
        out C[0, 0] fp32:I({rows}, {width}):({width}, 1):4 B
    ) {{
      0:
      block [(#unroll i:{rows}), (#unroll j:{columns}), (#vector l:16)]:1 (
          in A[i, 0] fp32:I(1, 1):(512, 1):4 B
          in B[0, 16*j + l] fp32:I(1, 1):({width}, 1):4 B
          inout S[i, 16*j + l]:add fp32:I(1, 1):({width}, 1):4 B
      ) {{
        0: $a = load(A)
        1: $b = load(B)
        2: $c = mul($a, $b)
        3: S = store($c)
      }}
    }}
"""


def machine(target: Target) -> Machine:
    return machine_of(hardware_of(target), target)


def leaf(text: str, **sizes: tuple[int, ...]) -> Scope:
    program = program_of([text], sizes, ("C",))
    (kernel,) = program.main.blocks
    *_, last = scope_of(kernel, {r.name: r for r in program.main.refinements}).walk()
    return last


def tile(rows: int, columns: int) -> Cycles:
    width = 16 * columns
    text = TILE.format(rows=rows, columns=columns, width=width)
    return cycles_of(leaf(text, A=(rows, 512), B=(512, width), C=(rows, width)), machine(CPU))


def test_a_register_tile_issues_one_product_for_each_vector() -> None:
    cycles = tile(6, 4)
    assert cycles.arithmetic == 24  # one vector of 64 bytes in a cycle
    assert cycles.transfer == pytest.approx((6 * 32 + 4 * 64) / 128)
    assert cycles.latency == LATENCY
    assert cycles.overhead == 0


def test_few_sums_wait_for_themselves() -> None:
    cycles = tile(1, 2)
    assert cycles.arithmetic < cycles.latency


def test_tiles_beyond_the_registers_are_slow() -> None:
    assert tile(6, 4).overhead < tile(7, 4).overhead
    assert tile(14, 2).overhead == tile(6, 4).overhead


STAGED = """
    block []:1 ( // staged
        none new@0x00000000 A<LOCAL>[0, 0] fp32:I(16, 16):(16, 1):4 B
        in B[0, 0] fp32:I(16, 256):(256, 1):4 B
        out C[0, 0] fp32:I(16, 16):(16, 1):4 B
    ) {{
      0:
      block [(#thread y:16), (#thread x:16)]:256 (
          in A[{place}] fp32:I(1, 1):(16, 1):4 B
          in B[y, {column}] fp32:I(1, 1):(256, 1):4 B
          out C[y, x] fp32:I(1, 1):(16, 1):4 B
      ) {{
        0: $a = load(A)
        1: $b = load(B)
        2: $c = add($a, $b)
        3: C = store($c)
      }}
    }}
"""


def staged(place: str, column: str) -> Cycles:
    return cycles_of(leaf(STAGED.format(place=place, column=column), B=(16, 256), C=(16, 16)), machine(GPU))


@pytest.mark.parametrize(("place", "share"), [("y, x", 4), ("0, x", 4), ("y, 0", 4), ("0, 0", 4)])
def test_local_memory_serves_threads_in_lock_step_at_once(place: str, share: float) -> None:
    assert staged(place, "x").local == share


def test_threads_apart_move_whole_sectors() -> None:
    rate = machine(GPU).storages[0].unit_rate / machine(GPU).clock
    beside, apart = staged("0, 0", "x"), staged("0, 0", "16*x")
    assert apart.transfer - beside.transfer == pytest.approx((32 - 4) / rate)


def test_machines_are_the_numbers_of_their_models() -> None:
    cpu, gpu = machine(CPU), machine(GPU)
    facts: dict[str, Any] = {"units": 2, "vector_bytes": 64, "registers": 32, "width": 1, "local_rate": 0.0}
    assert {name: getattr(cpu, name) for name in facts} == facts
    assert [(each.name, each.shared) for each in cpu.storages] == [("L1", False), ("L2", False), ("DRAM", True)]
    assert (gpu.units, gpu.vector_bytes, gpu.width) == (132, 0, 32)
    assert gpu.local_rate > 0
    assert [each.name for each in gpu.storages] == ["L2", "DRAM"]
