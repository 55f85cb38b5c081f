"""Dot products of like bytes by instructions for unlike ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from passes.registers.test_dots import FRAGMENTS, TARGET, dots_of, product, tiled
from strategies.effort import examples
from tileir.core import attrs
from tileir.core.dtype import DType
from tileir.semtree import ir as sem
from tileir.semtree.check.verifier import verify
from tileir.semtree.dots import fragment_of
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.lower.lowering import lower
from tileir.semtree.rewrite import statements
from tileir_llvm.dots.compensated import compensated_dots

LIKE = [DType.I8, DType.U8]


def kernels(dtype: DType, sizes: tuple[int, int, int], second: str = "k, n") -> sem.Program:
    return lower(tiled(product(dtype, dtype, sizes, second)), TARGET)


def with_dots(program: sem.Program) -> sem.KernelFunction:
    (kernel,) = (each for each in program.kernels if dots_of(each))
    return kernel


def compensated(program: sem.Program) -> sem.Program:
    made = tuple(compensated_dots(kernel, FRAGMENTS) for kernel in program.kernels)
    for kernel in made:
        verify(kernel)
    return attrs.evolve(program, kernels=made)


@pytest.mark.parametrize("dtype", LIKE)
def test_a_panel_that_rows_share_is_summed_before_the_loop_over_rows(dtype: DType) -> None:
    kernel = with_dots(compensated(kernels(dtype, (60, 32, 32))))
    assert {fragment_of(dot) for dot in dots_of(kernel)} == {"dot_m1n4k4_u8_i8"}
    outermost = [stmt.name for stmt in kernel.body if isinstance(stmt, sem.DeclareArray)]
    every = [stmt.name for stmt in statements(kernel.body) if isinstance(stmt, sem.DeclareArray)]
    (name,) = (name for name in every if name.startswith("compensation"))
    assert name in outermost


@pytest.mark.parametrize("dtype", LIKE)
@examples(12)
@given(
    rows=st.integers(1, 40),
    depth=st.integers(1, 24),
    columns=st.integers(1, 40),
    second=st.sampled_from(["k, n", "n, k"]),
)
def test_extreme_bytes_have_the_sums_of_integers(
    dtype: DType, rows: int, depth: int, columns: int, second: str
) -> None:
    program = kernels(dtype, (rows, depth, columns), second)
    random = np.random.default_rng(rows + 64 * depth)
    least, most = int(dtype.minimum), int(dtype.maximum)
    shape = (depth, columns) if second == "k, n" else (columns, depth)
    left, right = (
        random.choice([least, least + 1, 0, most], each).astype(dtype.numpy) for each in ((rows, depth), shape)
    )
    (found,) = run_program(compensated(program), {"A": left, "B": right}, ALL_CHECKS).values()
    wide = right.astype(np.int64)
    exact = left.astype(np.int64) @ (wide if second == "k, n" else wide.T)
    assert np.array_equal(found.reshape(exact.shape), exact)


def test_what_has_no_such_instruction_is_returned_itself() -> None:
    kernel = with_dots(kernels(DType.I8, (60, 32, 32)))
    assert compensated_dots(kernel, ()) is kernel
    unlike = with_dots(lower(tiled(product(DType.U8, DType.I8, (60, 32, 32))), TARGET))
    assert compensated_dots(unlike, FRAGMENTS) is unlike


def test_a_sum_that_nothing_repeats_keeps_its_products() -> None:
    kernel = with_dots(kernels(DType.I8, (64, 32, 32)))  # the last four rows are a block of their own
    kept = [dot for dot in dots_of(compensated_dots(kernel, FRAGMENTS)) if fragment_of(dot) == "dot_m1n4k4_i8"]
    assert kept == [dot for dot in dots_of(kernel) if dot in kept]
    assert kept
