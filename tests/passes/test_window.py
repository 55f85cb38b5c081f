from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.kernels import PROGRAMS, inputs, stripe_program
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.passes.algorithms.scan import Scan
from tileir.passes.algorithms.window import Window
from tileir.passes.analysis.running_aggregates import terms_of
from tileir.passes.base import run
from tileir.stripe.ir import Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

WINDOWS = (
    "O[i : N - {w} + 1] = AGG(I[i + k]), k < {w};",
    "O[i : N] = AGG(I[i + k - 3]), k < {w};",  # beyond both ends
    "O[i : N] = AGG(I[i - k]), k < {w};",
    "O[i : N] = AGG(I[i + k]), k < {w};",
    "O[i : N + 3] = AGG(I[i - k]), k < {w};",  # one bound after the other
    "O[i : N - {w} + 1] = AGG(I[N - 1 - i - k]), k < {w};",
    "O[i : N] = AGG(I[k]), i - k < {w};",
    "O[2*i : 2*N] = AGG(I[k]), k - i < {w};",
    "O[i : N + 5] = AGG(I[k]), i - k < N + 5;",  # a scan that stops to grow
)
"""Forms of sliding windows; ``AGG`` is the sign of the aggregation, ``w`` the width."""


def program_of(body: str, width: int, size: int, dtype: DType) -> Program:
    text = f"function (I[N]) -> (O) {{ {body.format(w=width)} }}"
    return lower(infer(parse(text), {"I": TensorType(dtype, (size,))}))


def arrays(size: int, dtype: DType) -> dict[str, Any]:
    return {"I": np.asarray(np.random.default_rng(3).integers(-3, 4, size), dtype.numpy)}


@examples(150)
@given(
    body=st.sampled_from(WINDOWS),
    sign=st.sampled_from("+*<>"),
    width=st.integers(2, 9),
    size=st.integers(9, 40),
    dtype=st.sampled_from((DType.I32, DType.F32)),
    scan=st.sampled_from(
        (Scan(least=2), Scan(least=2, vector_bytes=16), Scan(least=2, threads=4, each=2, local_bytes=1 << 16))
    ),
)
def test_windows_keep_their_meaning(body: str, sign: str, width: int, size: int, dtype: DType, scan: Scan) -> None:
    dtype = DType.I32 if sign == "*" else dtype
    program = program_of(body.replace("AGG", sign), width, size, dtype)
    cut = run((Window(least=2, least_outputs=1),), program)
    assert_same_meaning(program, cut, arrays(size, dtype))
    scanned = run((scan,), cut)
    assert_same_meaning(program, scanned, arrays(size, dtype))


@pytest.mark.parametrize("body", WINDOWS)
def test_what_is_left_of_windows_are_short_edges(body: str) -> None:
    program = program_of(body.replace("AGG", "+"), 20, 90, DType.F32)
    after = run((Window(least=16), Scan(least=8)), program)
    left = [kernel for kernel in after.main.blocks if terms_of(kernel) is not None]
    assert all(prod(kernel.ranges.values()) <= 8 * 90 for kernel in left)


@pytest.mark.sampled(14)
@pytest.mark.parametrize("name", PROGRAMS)
def test_other_kernels_keep_their_meaning(name: str) -> None:
    program = stripe_program(name)
    assert_same_meaning(program, run((Window(least=2, least_outputs=1),), program), inputs(name))


def test_narrow_windows_stay() -> None:
    program = program_of(WINDOWS[0].replace("AGG", "+"), 20, 90, DType.F32)
    assert run((Window(least=21),), program) is program


def test_a_window_along_one_axis_of_two() -> None:
    text = "function (I[M, N]) -> (O) { O[i, n : M - 19, N] = +(I[i + k, n]), k < 20; }"
    program = lower(infer(parse(text), {"I": TensorType(DType.F32, (70, 5))}))
    after = run((Window(least=16), Scan(vector_bytes=16)), program)
    given = {"I": np.random.default_rng(1).integers(-9, 9, (70, 5)).astype(np.float32)}
    assert_same_meaning(program, after, given)
    assert all(kernel.ranges.get("k", 0) < 20 for kernel in after.main.blocks)
