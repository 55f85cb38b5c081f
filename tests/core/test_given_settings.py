"""The settings of PlaidML v0 in target files: the numbers of the slide, some of them, and what is no number."""

from __future__ import annotations

import json

import attrs
import numpy as np
import pytest

import tileir
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.core.targets.target_file import hardware_of, with_facts
from tileir.driver.compiler import compile_stages
from tileir.passes.pipelines import pipeline
from tileir.passes.pipelines.resolution import pipeline_for
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.ir import DeclareArray, Region
from tileir.semtree.rewrite import statements
from tileir.tile.text.parser import parse
from tileir.typed.tensor_type import TensorType

SLIDE = """
"settings": {
    "threads": 256,
    "vec_size": 1,
    "mem_width": 128,
    "max_mem": 32768,
    "max_regs": 16384,
    "goal_groups": 16,
    "goal_flops_per_byte": 50
}
"""
PRODUCT = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"


def target_of(settings: str, more: str = "") -> tileir.Target:
    return with_facts(tileir.Target(threads=2, pipeline=f'{{"name": "v0", {more}{settings}}}'))


def test_the_numbers_of_the_slide_are_facts() -> None:
    target = target_of(SLIDE)
    assert (target.name, target.group_threads, target.group_width, target.local_bytes) == ("v0", 256, 32, 32768)
    assert (target.lanes(DType.F32), target.max_lanes, target.threads) == (1, 1, 4)
    assert target.vector_registers * target.vector_bytes * 256 == 16384
    assert hardware_of(target).memory("LOCAL").size_bytes == 32768


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", [(33, 20, 17), (64, 64, 64), (1, 1, 1)])
def test_programs_are_scheduled_by_them(shape: tuple[int, int, int]) -> None:
    rows, columns, depth = shape
    types = {"A": TensorType(DType.F32, (rows, depth)), "B": TensorType(DType.F32, (depth, columns))}
    program = compile_stages(parse(PRODUCT), types, target_of(SLIDE)).sem
    for kernel in program.kernels:
        assert max(kernel.group) <= 256
        arrays = [stmt for stmt in statements(kernel.body) if isinstance(stmt, DeclareArray)]
        assert sum(a.size * a.dtype.itemsize for a in arrays if a.region is Region.LOCAL) <= 32768
    if rows == 64:
        assert program.kernels[0].group == (256,)
    generator = np.random.default_rng(5)
    a, b = (generator.integers(-3, 4, kind.shape).astype(np.float32) for kind in types.values())
    np.testing.assert_array_equal(run_program(program, {"A": a, "B": b})["C"], a @ b)


def test_a_slide_in_a_file_runs() -> None:
    text = f'{{"name": "v0", {SLIDE}}}'
    target = tileir.parse(text, stage="target")
    assert tileir.to_text(target) == text
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(tileir.compile(PRODUCT, [a, a.T], target=target)(a, a.T), a @ a.T)


def test_one_thread_means_vectors_of_a_processor() -> None:
    settings = '"settings": { "threads": 1, "vec_size": 8, "max_mem": 16384 }'
    target = target_of(settings)
    assert (target.group_threads, target.vector_bytes, target.cache_bytes[0], target.local_bytes) == (1, 32, 16384, 0)
    assert pipeline_for(target) == pipeline_for(attrs.evolve(target, pipeline="cpu"))


def test_passes_of_the_file_may_use_them() -> None:
    passes = '"passes": [{ "tile": { "sizes": [{{ MEM_WIDTH }}, {{ GOAL_FLOPS_PER_BYTE }}, {{ GOAL_GROUPS }}] } }],'
    (step,) = pipeline_for(target_of(SLIDE, passes))
    assert pipeline.to_text((step,)) == "tile{sizes=(128,50,16)}"


def test_facts_count_more_and_parameters_are_known() -> None:
    more = '"parameters": { "N": { "default": 64 } }, "facts": { "group_width": 64 },'
    target = target_of('"settings": { "threads": {{ 256 / N * 32 }} }', more)
    assert (target.group_threads, target.group_width) == (128, 64)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"threads": 0}, "settings.threads: write a whole number from 1 on, not 0"),
        ({"vec_size": 1.5}, "settings.vec_size: write a whole number from 1 on, not 1.5"),
        ({"max_mem": "32 KiB"}, "settings.max_mem: write a whole number from 1 on"),
        ({"max_regs": True}, "settings.max_regs: write a whole number"),
        ({"goal_groups": None}, "settings.goal_groups: write a whole number"),
        ({"vecsize": 1}, "did you mean vec_size?"),
        ([256, 1], "write an object"),
    ],
)
def test_what_is_wrong_is_told(settings: object, message: str) -> None:
    with pytest.raises(TileError) as caught:
        target_of(f'"settings": {json.dumps(settings)}')
    (fault,) = caught.value.diagnostics
    assert fault.code == "TIL602"
    assert message in fault.message
    assert fault.span is not None
