from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.kernels import PROGRAMS, inputs, stripe_program
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.core.ops import Aggregation
from tileir.core.targets.target import Target
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.algorithms.scan import Scan
from tileir.passes.analysis.running_aggregates import running
from tileir.passes.base import run
from tileir.passes.fusion.fuse import Fuse
from tileir.passes.rewrites.canonicalise import Canonicalise
from tileir.passes.rewrites.dead_code import DeadCode
from tileir.passes.rewrites.localise import Localise
from tileir.passes.rewrites.scalarise import Scalarise
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.lower.lowering import lower as lower_to_semtree
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Block, Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir.typed.simplify.simplifier import simplify

SCANS = (
    "O[i : N] = AGG(I[i - k]), k < N;",
    "O[i : N] = AGG(I[k]), i - k < N;",
    "O[i : N] = AGG(I[k]), k - i < N;",  # from the end
    "O[i : N] = AGG(I[i + k]), k < N;",
    "O[i : N] = AGG(I[N - 1 - k]), i - k < N;",
    "O[i : N] = AGG(I[k]), i - k - 1 < N;",  # the element of its own left out
    "O[i : N - 3] = AGG(I[k]), i - k + 3 < N;",  # begins with four terms
    "O[i : N] = AGG(I[k]), N - 1 - i - k < N;",
    "O[N - 1 - i : N] = AGG(I[k]), i - k < N;",
    "O[i : N] = AGG(I[k] * I[k]), i - k < N;",
    "O[2*i : 2*N] = AGG(I[k]), i - k < N;",
)
"""Forms of running aggregates over one axis; ``AGG`` is the sign of the aggregation."""

BATCHED = (
    "O[m, i : M, N] = AGG(J[m, i - k]), k < N;",
    "O[i, m : M, N] = AGG(J[k, m]), i - k < M;",
    "O[i, m : M, N] = AGG(J[k, m]), k - i < M;",
    "O[m, i : N, M] = AGG(J[k, m]), i - k < M;",
    "O[m, i : M, N] = AGG(J[m, k]), i - k < N;",
)
"""Forms of running aggregates along one of two axes."""

OPTIONS = st.builds(
    Scan,
    least=st.just(2),
    vector_bytes=st.sampled_from((0, 8, 16, 32)),
    parts=st.integers(1, 5),
    part_terms=st.integers(1, 6),
    stretch_bytes=st.sampled_from((16, 64, 4096)),
)


def program_of(body: str, sizes: dict[str, tuple[int, ...]], dtype: DType = DType.I32) -> Program:
    header = ", ".join(f"{name}[{'N' if len(shape) == 1 else 'M, N'}]" for name, shape in sizes.items())
    text = f"function ({header}) -> (O) {{ {body} }}"
    types = {name: TensorType(dtype, shape) for name, shape in sizes.items()}
    return lower(infer(parse(text), types))


def arrays_of(sizes: dict[str, tuple[int, ...]], dtype: DType = DType.I32) -> dict[str, Any]:
    generator = np.random.default_rng(3)
    return {name: np.asarray(generator.integers(-3, 4, shape), dtype.numpy) for name, shape in sizes.items()}


def serial_blocks(program: Program) -> list[Block]:
    pending, found = list(program.main.blocks), []
    while pending:
        block = pending.pop()
        pending.extend(block.blocks)
        if block.is_serial:
            found.append(block)
    return found


def check(program: Program, options: Scan, arrays: dict[str, Any]) -> None:
    scanned = run((options,), program)
    assert serial_blocks(scanned)
    assert_same_meaning(program, scanned, arrays)
    cleaned = run((Accumulate(), DeadCode(), Fuse(), Localise(), Scalarise(), DeadCode(), Canonicalise()), scanned)
    assert_same_meaning(program, cleaned, arrays)
    kernels = lower_to_semtree(cleaned, Target())
    expected = interpret(program, arrays)
    for name, value in run_program(kernels, arrays, ALL_CHECKS).items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


@examples(50)
@given(
    body=st.sampled_from(SCANS), sign=st.sampled_from("+*<>"), options=OPTIONS, size=st.integers(9, 40), data=st.data()
)
def test_scans_of_one_axis_mean_the_same(body: str, sign: str, options: Scan, size: int, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from((DType.I32, DType.F32, DType.U8) if sign != "*" else (DType.I32, DType.U8)))
    sizes: dict[str, tuple[int, ...]] = {"I": (size,)}
    check(program_of(body.replace("AGG", sign), sizes, dtype), options, arrays_of(sizes, dtype))


@examples(40)
@given(
    body=st.sampled_from(BATCHED),
    sign=st.sampled_from("+*<>"),
    options=OPTIONS,
    rows=st.integers(5, 20),
    columns=st.integers(5, 20),
)
def test_scans_of_one_axis_of_two_mean_the_same(body: str, sign: str, options: Scan, rows: int, columns: int) -> None:
    sizes: dict[str, tuple[int, ...]] = {"J": (rows, columns)}
    check(program_of(body.replace("AGG", sign), sizes), options, arrays_of(sizes))


@pytest.mark.parametrize("name", PROGRAMS)
def test_other_kernels_keep_their_meaning(name: str) -> None:
    program = stripe_program(name)
    assert_same_meaning(program, run((Scan(least=2, vector_bytes=16),), program), inputs(name))


GROUPS = st.builds(
    Scan,
    least=st.just(2),
    threads=st.sampled_from((4, 8, 16)),
    each=st.sampled_from((2, 4)),
    local_bytes=st.just(1 << 20),
    parts=st.integers(1, 4),
    part_terms=st.integers(1, 30),
)


@examples(12)
@given(
    body=st.sampled_from(SCANS),
    sign=st.sampled_from("+*<>"),
    options=GROUPS,
    size=st.integers(9, 90),
    dtype=st.sampled_from((DType.I32, DType.U8)),
)
def test_threads_of_a_group_scan_together(body: str, sign: str, options: Scan, size: int, dtype: DType) -> None:
    sizes: dict[str, tuple[int, ...]] = {"I": (size,)}
    check(program_of(body.replace("AGG", sign), sizes, dtype), options, arrays_of(sizes, dtype))


@examples(8)
@given(body=st.sampled_from(BATCHED), options=GROUPS, rows=st.integers(5, 40), columns=st.integers(5, 40))
def test_groups_scan_rows(body: str, options: Scan, rows: int, columns: int) -> None:
    sizes: dict[str, tuple[int, ...]] = {"J": (rows, columns)}
    check(program_of(body.replace("AGG", "+"), sizes), options, arrays_of(sizes))


TWO_ENDS = SCANS[6]
"""Transposed, its first four elements all have all terms: the intervals begin to shrink after them only."""


@pytest.mark.parametrize("body", [body for body in (*SCANS, *BATCHED) if body is not TWO_ENDS])
def test_gradients_of_running_sums_are_running_sums(body: str) -> None:
    sizes = {"I": (40,), "J": (6, 40)}
    used = "J[M, N]" if "J[" in body else "I[N]"
    text = f"function ({used}) -> (G) {{ {body.replace('AGG', '+')} G = gradient(exp(O), {used[0]}); }}"
    program = lower(simplify(infer(parse(text), {used[0]: TensorType(DType.F32, sizes[used[0]])})))
    sums = [k for k in program.main.blocks if any(r.aggregation is Aggregation.SUM for r in k.refinements)]
    assert len(sums) == 2
    assert all(running(kernel) is not None for kernel in sums)


@pytest.mark.parametrize(
    ("size", "local_bytes", "each"), [(255, 4096, 4), (256, 4096, 8), (256, 1400, 4), (1000, 4096, 8)]
)
def test_threads_take_twice_as_many_terms_where_these_fill_a_tile(size: int, local_bytes: int, each: int) -> None:
    scan = Scan(threads=32, each=4, local_bytes=local_bytes)
    changed = run((scan,), program_of("O[i : N] = +(I[k]), i - k < N;", {"I": (size,)}, DType.F32))
    tile = next(r for block in changed.main.blocks for r in block.refinements if r.name.endswith("_tile"))
    assert tile.shape.sizes == (32, each + 1)
