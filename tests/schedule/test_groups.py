"""Scripts that share a kernel out to the threads of groups, as cards want it, and what does not fit them."""

from __future__ import annotations

import re
from typing import Any

import attrs
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
from tileir.semtree.ir import AsyncCopy, Barrier, DeclareArray, If, KernelFunction, Program, Region
from tileir.semtree.rewrite import statements
from tileir.semtree.text.printer import to_text
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


def compiled(steps: str, size: int, target: Target = TARGET) -> Program:
    """Return the kernel of a product by a script."""
    types = dict.fromkeys("AB", TensorType(DType.F32, (size, size)))
    passes = for_target(parse_pipeline(f"accumulate,canonicalise,script{{steps=({steps})}}"), target)
    return compile_stages(PRODUCT, types, target, passes=passes).sem


def scripted(steps: str, size: int, target: Target = TARGET) -> tuple[KernelFunction, Any, dict[str, Any]]:
    """Return the kernel of a product by a script, its result for two matrices, and these."""
    program = compiled(steps, size, target)
    random = np.random.default_rng(0)
    arrays = {name: random.integers(-4, 5, (size, size)).astype(np.float32) for name in "AB"}
    (kernel,) = program.kernels
    return kernel, run_program(program, arrays, ALL_CHECKS)["C"], arrays


@pytest.mark.parametrize("size", [16, 17, 21])
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


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [8, 9, 25, 24])
@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("ahead", [False, True])
def test_copies_run_ahead_where_a_card_copies_so(size: int, stages: int, ahead: bool) -> None:
    target = attrs.evolve(TARGET, async_copies=ahead)
    kernel, result, arrays = scripted(f"{TILES}, pipeline{{loop=step, stages={stages}}}", size, target)
    np.testing.assert_array_equal(result, arrays["A"] @ arrays["B"])
    several = size > 8  # else all of the reduction is one part
    assert any(isinstance(stmt, AsyncCopy) for stmt in statements(kernel.body)) == (ahead and several)
    (plain,) = compiled(TILES, size, target).kernels
    assert _local(kernel) == _local(plain) * (stages if ahead and several else 1)


def _local(kernel: KernelFunction) -> int:
    """Return how many elements of local memory a kernel has."""
    declared = [stmt for stmt in statements(kernel.body) if isinstance(stmt, DeclareArray)]
    return sum(stmt.size for stmt in declared if stmt.region is Region.LOCAL)


REFUSALS: dict[str, tuple[str, dict[str, Any]]] = {
    "bind{loop=k, to=thread}": ("TR718", {"memory": "C_acc"}),
    "jam{loops=(j)}, bind{loop=i, to=thread}, bind{loop=j, to=thread}": ("TR727", {"outer": "i", "inner": "j"}),
    "bind{loop=i, to=thread}, bind{loop=j, to=thread}": ("TR728", {"threads": 81, "most": 64}),
    "bind{loop=i, to=thread}, place{memory=C_acc, level=local}": ("TR729", {"memory": "C_acc"}),
    "stage{tensor=B, at=k, into=own, level=local}, stage{tensor=A, at=i, into=row, level=local}, "
    "bind{loop=row_1, to=thread}": (
        "TR729",
        {"step": "0 stage", "memory": "own"},
    ),
    "stage{tensor=B, at=i, into=own, level=register}, bind{loop=own_1, to=thread}": ("TR730", {"memory": "own"}),
    "stage{tensor=B, at=i, into=own}, bind{loop=own_1, to=thread}": ("TR731", {"memory": "own"}),
    "stage{tensor=B, at=i, into=own, level=local}, bind{loop=own_1, to=thread}": ("TR732", {"bytes": 324}),
    "pipeline{loop=k}": ("TR739", {"loop": "k"}),
    "pipeline{loop=()}": ("TR708", {}),
    "pipeline{loop=(i, k)}": ("TR709", {}),
    "stage{tensor=B, at=k, into=own}, pipeline{loop=k}": ("TR739", {"memory": "own"}),
    "stage{tensor=B, at=k, into=own, level=local}, pipeline{loop=k, stages=1}": ("TR740", {"stages": 1}),
    "stage{tensor=B, at=k, into=own, level=local}, pipeline{loop=k}, split{loop=k, by=3, into=(a, b)}": (
        "TR707",
        {"binding": "pipeline"},
    ),
    "stage{tensor=B, at=i, into=own, level=local}, pipeline{loop=i}, bind{loop=own_1, to=thread}": (
        "TR741",
        {"loop": "i"},
    ),
    "jam{loops=(j)}, stage{tensor=B, at=k, into=own, level=local}, bind{loop=own_1, to=thread}, "
    "pipeline{loop=k, stages=6}": ("TR732", {"bytes": 216}),
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


TURNED = """
    split{loop=j, by=8, into=(j, column)}, split{loop=i, by=8, into=(i, row)}, reorder{loops=(j, i, column, row)},
    bind{loop=j, to=grid}, bind{loop=i, to=grid}, stage{tensor=A, at=i, into=tile, level=local, MORE},
    reorder{loops=(tile_1, tile_0)}, bind{loop=tile_1, to=thread}, bind{loop=tile_0, to=thread},
    bind{loop=column, to=thread}, bind{loop=row, to=thread}"""


def turned(more: str, rows: int, columns: int) -> KernelFunction:
    """Return the kernel of a transpose by tiles in local memory, which is compared with NumPy."""
    text, steps = "function (A[M, N]) -> (O) { O[j, i : N, M] = =(A[i, j]); }", TURNED.replace("MORE", more)
    passes = for_target(parse_pipeline(f"accumulate,canonicalise{{merge=false}},script{{steps=({steps})}}"), TARGET)
    program = compile_stages(text, {"A": TensorType(DType.F32, (rows, columns))}, TARGET, passes=passes).sem
    values = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    np.testing.assert_array_equal(run_program(program, {"A": values}, ALL_CHECKS)["O"], values.T)
    return program.kernels[0]


@pytest.mark.parametrize(
    ("more", "sizes", "expected", "tests"),
    [
        ("over=(column, row), pad=1", (16, 24), "f32 copied = A[", 0),
        ("over=(column, row), pad=1", (13, 19), "f32 copied = A[", 2),
        ("over=(column, row), pad=1, outside=clamp", (13, 19), "f32 copied = A[min(max(place, 0), 246)]", 1),
        ("over=(column, row), pad=1, lanes=4", (16, 24), "f32x4 copied = A[", 1),  # not all threads copy
        ("over=(column, row), pad=1, lanes=4, outside=clamp", (13, 20), "A[min(max(place, 0), 64) * 4 : 4]", 2),
        ("over=(column, row), pad=1, outside=zero", (13, 19), "= 0.0;", 2),
        ("over=(column, row), pad=1, lanes=4, outside=zero", (13, 20), "= f32x4(0.0);", 3),
        ("pad=1, outside=zero", (13, 19), "= 0.0;", 2),
        ("order=(1, 0), pad=1, lanes=2, outside=clamp", (12, 18), "A[min(max(place, 0), 107) * 2 : 2]", 2),
    ],
)
def test_tiles_of_a_transpose_go_through_local_memory(
    more: str, sizes: tuple[int, int], expected: str, tests: int
) -> None:
    kernel = turned(more, *sizes)
    text = to_text(kernel)
    assert "local f32 tile[72]" in text  # 8 rows of 9, in different banks
    assert expected in text
    assert sum(isinstance(stmt, If) for stmt in statements(kernel.body)) == tests


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ("over=(column)", "TR762"),
        ("over=(column, row, i)", "TR762"),
        ("lanes=3", "TR763"),
        ("lanes=4, outside=clamp", "TR763"),
        ("lanes=4, outside=zero", "TR763"),
        ("pad=-1", "TR714"),
    ],
)
def test_what_a_copy_cannot_be_is_an_error_of_the_step(more: str, code: str) -> None:
    heard = Remarks()
    with listening(heard):
        turned(more, 13, 19)
    assert heard.all()[-1].code == code


PADDED = """
    split{loop=i, by=4, into=(i, row), tail=mask}, split{loop=j, by=4, into=(j, column), tail=mask},
    split{loop=k, by=4, into=(k, term), tail=mask}, reorder{loops=(i, j, row, column)}, jam{loops=(row, column)},
    stage{tensor=A, at=k, into=left, over=(term, row), pad=1, outside=OUTSIDE},
    stage{tensor=B, at=k, into=right, over=(term, column), outside=OUTSIDE}"""


@pytest.mark.parametrize("outside", ["test", "clamp", "zero"])
@pytest.mark.parametrize("product", [True, False])
def test_products_of_zeros_are_added_without_tests(outside: str, product: bool) -> None:
    text = f"function (A[M, K], B[K, N]) -> (C) {{ C[i, j : M, N] = +(A[i, k] {'*' if product else '+'} B[k, j]); }}"
    passes = for_target(
        parse_pipeline(f"accumulate,canonicalise,script{{steps=({PADDED.replace('OUTSIDE', outside)})}}"), TARGET
    )
    types = {name: TensorType(DType.F32, (9, 9)) for name in "AB"}
    program = compile_stages(text, types, TARGET, passes=passes).sem
    generator = np.random.default_rng(4)
    a, b = (generator.integers(-9, 9, (9, 9)).astype(np.float32) for _ in "AB")
    expected = a @ b if product else a.sum(axis=1)[:, None] + b.sum(axis=0)
    np.testing.assert_array_equal(run_program(program, {"A": a, "B": b}, ALL_CHECKS)["C"], expected)
    (kernel,) = program.kernels
    tested = re.search(r"min\(4, 9 - k \* 4\).*[^}]*left\[", to_text(kernel)) is not None
    assert tested == (not product or outside != "zero")


def test_loops_that_are_pipelined_together_fill_memory_once_before_them() -> None:
    text = "function (A[P, M, K], B[P, K, N]) -> (C) { C[i, j : M, N] = +(A[p, i, k] * B[p, k, j]); }"
    steps = """
        split{loop=k, by=4, into=(step, term)}, reorder{loops=(p, step, term)}, jam{loops=(i, j), above=(term)},
        stage{tensor=A, at=step, into=left, level=local}, stage{tensor=B, at=step, into=right, level=local},
        bind{loop=(i, j, left_1, right_1), to=thread}, pipeline{loop=LOOPS}"""
    target = attrs.evolve(TARGET, async_copies=True)
    types = {"A": TensorType(DType.F32, (3, 4, 8)), "B": TensorType(DType.F32, (3, 8, 4))}
    generator = np.random.default_rng(4)
    values = {name: generator.integers(-9, 9, kind.shape).astype(np.float32) for name, kind in types.items()}
    for loops, steps_at_a_time in (("step", 2), ("(p, step)", 6)):
        passes = parse_pipeline(f"accumulate,canonicalise,script{{steps=({steps.replace('LOOPS', loops)})}}")
        program = compile_stages(text, types, target, passes=for_target(passes, target)).sem
        result = run_program(program, values, ALL_CHECKS)["C"]
        np.testing.assert_array_equal(result, np.einsum("pik,pkj->ij", values["A"], values["B"]))
        (kernel,) = program.kernels
        assert f"if (ahead < {steps_at_a_time})" in to_text(kernel)
        assert _local(kernel) == 2 * (16 + 16)


def test_a_processor_has_groups_of_one_thread() -> None:
    heard = Remarks()
    with listening(heard):
        scripted("bind{loop=i, to=thread}", 9, Target())
    assert (heard.all()[-1].code, dict(heard.all()[-1].facts)["most"]) == ("TR728", 1)


def test_groups_do_not_share_iterations_that_copy_ahead() -> None:
    """A loop that runs ahead is one of a group: as a grid, each group would run all of it, and write what others do."""
    passes = """accumulate,canonicalise{merge=false},script{steps=(
        stage{tensor=A, at=i1, into=row, level=local}, bind{loop=row_1, to=thread}, pipeline{loop=i1, stages=3}
    )},thread"""
    text, values = "function (A[M, N]) -> (B) { B = A * 2; }", np.arange(35, dtype=np.float32).reshape(5, 7)
    target = attrs.evolve(TARGET, async_copies=True)
    types = {"A": TensorType(DType.F32, (5, 7))}
    program = compile_stages(text, types, target, passes=for_target(parse_pipeline(passes), target)).sem
    assert [kernel.grid for kernel in program.kernels] == [(1,)]
    np.testing.assert_array_equal(run_program(program, {"A": values}, ALL_CHECKS)["B"], 2 * values)


SHARED = """
    split{loop=i, by=2, into=(group, row)}, split{loop=k, by=32, into=(step, part)}, reorder{loops=(part, step)},
    accumulate{memory=S_acc, at=part, into=own},
    rfactor{memory=S_acc, loop=part, into=parts, level=local, through=(4), stores=true},
    sink{loop=row}, distribute{loop=row, after=(1, 2)}, reorder{loops=(row, parts_left_0, parts_more_0)},
    bind{loop=group, to=grid}, bind{loop=(row, part, parts_left_0), to=thread}"""


@pytest.mark.parametrize("shape", [(4, 256), (5, 200), (3, 33)])
def test_threads_of_a_group_share_sums_level_by_level(shape: tuple[int, int]) -> None:
    text = "function (A[M, K]) -> (S) { S[i : M] = +(A[i, k]); }"
    passes = for_target(parse_pipeline(f"accumulate,canonicalise,script{{steps=({SHARED})}}"), TARGET)
    program = compile_stages(text, {"A": TensorType(DType.F32, shape)}, TARGET, passes=passes).sem
    values = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    np.testing.assert_array_equal(run_program(program, {"A": values}, ALL_CHECKS)["S"], values.sum(axis=1))
    (kernel,) = program.kernels
    assert (kernel.grid, kernel.group) == ((-(-shape[0] // 2),), (64,))
    assert sum(isinstance(stmt, Barrier) for stmt in statements(kernel.body)) == 2
    assert _local(kernel) == 64
