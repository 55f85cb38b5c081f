"""Scripts that share a kernel out to the threads of groups, as cards want it, and what does not fit them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.passes.base import for_target
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.schedule.remarks import Remarks, listening
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import Barrier, DeclareArray, KernelFunction, Region
from tileir.semtree.rewrite import statements
from tileir.typed.ir import TensorType

PRODUCT = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
TARGET = Target(index_dtype=DType.I32, group_threads=64, local_bytes=4096)
TILES = """
    split{loop=i, by=16, into=(block_i, tile_i)}, split{loop=j, by=16, into=(block_j, tile_j)},
    reorder{loops=(block_i, block_j, tile_i, tile_j)},
    split{loop=tile_i, by=4, into=(thread_i, own_i)}, split{loop=tile_j, by=4, into=(thread_j, own_j)},
    reorder{loops=(thread_i, thread_j, own_i, own_j)}, split{loop=k, by=8, into=(step, term)},
    jam{loops=(thread_i, thread_j), above=(term)}, jam{loops=(own_i, own_j)},
    stage{tensor=A, at=step, into=left, level=local}, stage{tensor=B, at=step, into=right, level=local},
    bind{loop=block_i, to=grid}, bind{loop=block_j, to=grid}, bind{loop=thread_i, to=thread},
    bind{loop=thread_j, to=thread}, bind{loop=left_0, to=thread}, reorder{loops=(right_1, right_0)},
    bind{loop=right_1, to=thread}"""


def scripted(steps: str, size: int, target: Target = TARGET) -> tuple[KernelFunction, Any, dict[str, Any]]:
    """Return the kernel of a product by a script, its result for two matrices, and these."""
    types = dict.fromkeys("AB", TensorType(DType.F32, (size, size)))
    passes = for_target(parse_pipeline(f"accumulate,canonicalise,script{{steps=({steps})}}"), target)
    stages = compile_stages(PRODUCT, types, target, passes=passes)
    random = np.random.default_rng(0)
    arrays = {name: random.integers(-4, 5, (size, size)).astype(np.float32) for name in "AB"}
    (kernel,) = stages.sem.kernels
    return kernel, run_program(stages.sem, arrays, ALL_CHECKS)["C"], arrays


@pytest.mark.parametrize("size", [16, 33, 37])
def test_a_script_schedules_a_product_for_cards(size: int) -> None:
    kernel, result, arrays = scripted(TILES, size)
    np.testing.assert_array_equal(result, arrays["A"] @ arrays["B"])
    assert kernel.group == (16,)
    assert np.prod(kernel.grid) == (-(-size // 16)) ** 2
    assert sum(isinstance(stmt, Barrier) for stmt in statements(kernel.body)) == 2
    declared = [stmt for stmt in statements(kernel.body) if isinstance(stmt, DeclareArray)]
    assert {each.name: (each.size, each.region) for each in declared} == {
        "C_acc": (16, Region.PRIVATE),  # of one thread
        "left": (128, Region.LOCAL),
        "right": (128, Region.LOCAL),
    }


REFUSALS: dict[str, tuple[str, dict[str, Any]]] = {
    "bind{loop=k, to=thread}": ("TR718", {"memory": "C_acc"}),
    "jam{loops=(j)}, bind{loop=i, to=thread}, bind{loop=j, to=thread}": ("TR727", {"outer": "i", "inner": "j"}),
    "bind{loop=i, to=thread}, bind{loop=j, to=thread}": ("TR728", {"threads": 81, "most": 64}),
    "bind{loop=i, to=thread}, place{memory=C_acc, level=local}": ("TR729", {"memory": "C_acc"}),
    "stage{tensor=B, at=i, into=own, level=register}, bind{loop=own_1, to=thread}": ("TR730", {"memory": "own"}),
    "stage{tensor=B, at=i, into=own}, bind{loop=own_1, to=thread}": ("TR731", {"memory": "own"}),
    "stage{tensor=B, at=i, into=own, level=local}, bind{loop=own_1, to=thread}": ("TR732", {"bytes": 324}),
}


@pytest.mark.parametrize("steps", REFUSALS)
def test_what_does_not_fit_a_group_is_an_error_of_the_step(steps: str) -> None:
    heard = Remarks()
    with listening(heard):
        _, result, arrays = scripted(steps, 9, Target(group_threads=64, local_bytes=200))
    np.testing.assert_array_equal(result, arrays["A"] @ arrays["B"])
    said = heard.all()[-1]
    code, facts = REFUSALS[steps]
    assert said.code == code
    assert facts.items() <= dict(said.facts).items()


def test_a_processor_has_groups_of_one_thread() -> None:
    heard = Remarks()
    with listening(heard):
        scripted("bind{loop=i, to=thread}", 9, Target())
    assert (heard.all()[-1].code, dict(heard.all()[-1].facts)["most"]) == ("TR728", 1)
