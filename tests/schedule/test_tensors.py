"""Scripts that hand dot products to instructions of processors, and packed factors whose terms are neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.passes.base import for_target
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.schedule.remarks import Remark, Remarks, listening
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import Dot
from tileir.semtree.rewrite import expressions, statements, walk
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from tileir.semtree.ir import Program

PRODUCT = """function (A[M, K], B[K, N]) -> (C) {
    P = as_int(A, 32);
    Q = as_int(B, 32);
    C[i, j : M, N] = +(P[i, k] * Q[k, j]);
}"""
FRAGMENT = "dot_m1n16k4_u8_i8"
LOOPS = """
    split{loop=j, by=16, into=(vector, lane), tail=peel}, jam{loops=(lane)},
    split{loop=k, by=4, into=(step, term), tail=even}, reorder{loops=(step, lane, term)}, reorder{loops=(vector, i)}"""
PACKED = """
    stage{tensor=B, at=vector, into=packed}, split{loop=packed_0, by=4, into=(packed_step, packed_term), tail=even},
    interleave{memory=packed, axis=0, by=4}"""
DOTS = f"tensorise{{lanes=lane, terms=term, fragment={FRAGMENT}}}"


def product(
    steps: str, shape: tuple[int, int, int], dtypes: tuple[DType, DType] = (DType.U8, DType.I8)
) -> tuple[Program, Remark]:
    """Return what a script makes of a product, and what it says."""
    rows, terms, columns = shape
    types = {"A": TensorType(dtypes[0], (rows, terms)), "B": TensorType(dtypes[1], (terms, columns))}
    target = Target(vector_bytes=64, fragments=(FRAGMENT,))
    passes = for_target(parse_pipeline(script(steps)), target)
    heard = Remarks()
    with listening(heard):
        stages = compile_stages(PRODUCT, types, target, passes=passes)
    return stages.sem, [remark for remark in heard.all() if remark.step == "script"][-1]


def script(steps: str) -> str:
    match = "match={loops=(i, j), reductions=(k), reads=(B, A), writes=(C)}"
    return f"inline,accumulate,dead_code,canonicalise,script{{{match},steps=({steps})}}"


def arrays(rows: int, terms: int, columns: int) -> dict[str, np.ndarray[Any, Any]]:
    random = np.random.default_rng(0)
    left, right = random.integers(0, 256, (rows, terms)), random.integers(-128, 128, (terms, columns))
    return {"A": left.astype(np.uint8), "B": right.astype(np.int8)}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", [(3, 8, 32), (2, 16, 16), (3, 8, 37), (5, 12, 17), (2, 8, 31)])
def test_lanes_add_dot_products(shape: tuple[int, int, int]) -> None:
    sem, remark = product(f"{LOOPS},{PACKED},{DOTS}", shape)
    assert remark.fired
    (kernel,) = sem.kernels
    found = [node for stmt in statements(kernel.body) for each in expressions(stmt) for node in walk(each)]
    assert sum(isinstance(node, Dot) for node in found) == 1  # what fills no vector is added term by term
    given = arrays(*shape)
    expected = given["A"].astype(np.int32) @ given["B"].astype(np.int32)
    np.testing.assert_array_equal(run_program(sem, given, ALL_CHECKS)["C"], expected)
    compiled = tileir.compile(PRODUCT, given, passes=script(f"{LOOPS},{PACKED},{DOTS}"))
    np.testing.assert_array_equal(compiled(*given.values()), expected)


REFUSALS = {
    f"{LOOPS},{DOTS}": "TR745",  # terms of a lane are a row apart
    f"{LOOPS},{PACKED},tensorise{{lanes=lane, terms=term, fragment=dot_m1n8k4_u8_i8}}": "TR743",
    f"{LOOPS},{PACKED},tensorise{{lanes=lane, terms=term, fragment=dots}}": "TR742",
    f"{LOOPS},{PACKED},tensorise{{lanes=step, terms=lane, fragment={FRAGMENT}}}": "TR743",
    f"{LOOPS},{PACKED},bind{{loop=lane, to=vector}},{DOTS}": "TR720",
    f"{LOOPS},{PACKED},{DOTS},split{{loop=lane, by=4, into=(a, b)}}": "TR707",
    f"{LOOPS.replace('tail=even', 'tail=guard').replace('by=4', 'by=5')},{DOTS}": "TR743",
    f"{LOOPS}, stage{{tensor=B, at=vector, into=packed}}, interleave{{memory=packed, axis=0, by=4}}": "TR746",
    f"{LOOPS}, stage{{tensor=B, at=vector, into=packed}}, interleave{{memory=packed, axis=2, by=4}}": "TR714",
    "interleave{memory=packed, axis=0, by=4}": "TR716",
    "split{loop=k, by=0, into=(step, term)}": "TR704",
}


@pytest.mark.parametrize("steps", REFUSALS)
def test_refusals_say_why(steps: str) -> None:
    assert product(steps, (3, 8, 32))[1].code == REFUSALS[steps]


def test_terms_that_are_tested_are_no_dot_products() -> None:
    guarded = LOOPS.replace("tail=even", "tail=guard")
    packed = PACKED.replace("tail=even", "tail=guard")
    assert product(f"{guarded},{packed},{DOTS}", (3, 10, 32))[1].code == "TR722"


def test_other_dtypes_are_another_instruction() -> None:
    assert product(f"{LOOPS},{PACKED},{DOTS}", (3, 8, 32), (DType.I16, DType.I16))[1].code == "TR744"
