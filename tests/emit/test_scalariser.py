"""Kernels without lanes compute the same, whatever lanes read and write of each other's elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from fuzz.semtree.kernel_case import kernel
from tileir.core.dtype import DType
from tileir.semtree.check.verifier import verify
from tileir.semtree.interpret.interpreter import run
from tileir.semtree.rewrite import mentions, statements, walk
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.text.printer import to_text
from tileir.semtree.transform.expansions import expand_kernel
from tileir.semtree.transform.threads import one_thread
from tileir_emit.scalariser import scalarised
from tileir_testing.generated.choices import Seeded
from tileir_testing.semtree_kernels import PLAIN

if TYPE_CHECKING:
    from tileir.semtree.ir import KernelFunction


def scalar(before: KernelFunction) -> KernelFunction:
    made = scalarised(expand_kernel(one_thread(before), frozenset()))
    verify(made)
    assert all(node.type.lanes == 1 for stmt in statements(made.body) for root in mentions(stmt) for node in walk(root))
    return made


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", range(20))
def test_generated_kernels(number: int) -> None:
    for seed in range(number * 3, number * 3 + 3):
        case = kernel(Seeded(f"scalarise {seed}"), tuple(DType), threads=seed % 3 == 2)
        arrays = case.arrays()
        run(scalar(case.kernel), arrays)
        case.check(arrays)


@pytest.mark.parametrize("name", PLAIN)
def test_kernels_by_hand(name: str) -> None:
    before = parse_kernel(PLAIN[name].replace("$index", "i64"))
    made = scalar(before)
    random = np.random.default_rng(0)
    first = [(random.integers(0, 9, param.size) % 7).astype(param.dtype.numpy) for param in before.params]
    second = [array.copy() for array in first]
    run(before, first)
    run(made, second)
    for ours, theirs in zip(second, first, strict=True):
        # Functions are expanded, which may give others than the interpreter by a unit.
        np.testing.assert_allclose(ours.astype(np.float64), theirs.astype(np.float64), rtol=1e-5)


PARAMS: Final = "inout i32 A[64] align(4) noalias, in i32 B[64] align(4) noalias"


def text_of(text: str) -> str:
    """Return the statements of a kernel without lanes."""
    made = scalar(parse_kernel(f"kernel k({PARAMS}) grid(4) index(i64) {{\n{text}\n}}"))
    return "\n".join(line.strip() for line in to_text(made).partition("{")[2].splitlines()[1:-1])


def test_neighbours_share_a_loop_and_need_no_array() -> None:
    assert text_of("i32x4 x = B[8 : 4];\nA[group_id(0) * 4 : 4] = x * x + broadcast<4>(B[0]);") == (
        "for (i64 lane = 0; lane < 4; lane += 1) {\ni32 x = B[8 + lane];\nA[group_id(0) * 4 + lane] = x * x + B[0];\n}"
    )


def test_what_other_lanes_have_read_is_written_behind_the_loop() -> None:
    text = text_of("A[1 : 8] = A[0 : 8];")
    assert "private i32 values[8]" in text
    assert text.count("for (") == 2


def test_variables_that_live_longer_are_arrays() -> None:
    text = text_of("i32x4 x = B[0 : 4];\nA[0 : 4] = x;\nA[1 : 4] = x;")
    assert "private i32 x[4]" in text


def test_offsets_are_short_sums() -> None:
    assert text_of("A[(group_id(0) - 1) * 8 + (12 - group_id(0))] = B[3];") == "A[group_id(0) * 7 + 4] = B[3];"
