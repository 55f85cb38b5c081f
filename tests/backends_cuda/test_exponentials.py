"""Exponentials in f32 by powers of two: their errors, the ends of their range, and how few instructions they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir
from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.semtree.interpret.interpreter import run
from tileir.semtree.ir import Apply, Assign, Const, For, KernelFunction, Param, ParamAccess, Subscript, Type, Var
from tileir.semtree.transform.expansions import expand_kernel
from tileir_cuda.emit.exponentials import OWN

Array = np.ndarray[Any, Any]

LANES = 512


def exponentials(x: Array) -> Array:
    """Return what kernels compute, but powers of two as the interpreter does."""
    padded = np.resize(x, -(-x.size // LANES) * LANES).astype(np.float32)
    index, kind, result = Var("i", Type(DType.I64)), Type(DType.F32, LANES), np.zeros_like(padded)
    store = Assign(Subscript("y", index, kind), Apply(Op.EXP, (Subscript("x", index, kind),)))
    params = tuple(
        Param(name, DType.F32, padded.size, access)
        for name, access in (("x", ParamAccess.READ), ("y", ParamAccess.WRITE))
    )
    loop = For(index, Const(0, index.type), Const(padded.size, index.type), LANES, (store,))
    changed = expand_kernel(KernelFunction("k", params, (loop,)), frozenset(), own=OWN)
    run(changed, [padded, result])
    return result[: x.size]


@pytest.mark.parametrize("seed", range(4))
def test_what_is_added_to_the_error_of_a_power_of_two_is_small(seed: int) -> None:
    """The interpreter rounds more: it multiplies the exponent of a power by ln 2, and the power."""
    random = np.random.default_rng(seed)
    x = np.concatenate(
        [random.uniform(-104, 88.7, 4000), random.normal(size=1000), 2.0 ** random.uniform(-30, 0, 1000)]
    )
    x = x.astype(np.float32)
    exact = np.exp(x.astype(np.float64))
    unit = np.maximum(np.exp2(np.floor(np.log2(exact)) - 23), 2.0**-149)
    assert (np.abs(exponentials(x) - exact) / unit).max() < 2.0


def test_ends_of_the_range() -> None:
    x = np.array([0.0, -0.0, 1e-45, 88.72283, 88.722840, 1e30, np.inf, -103.9, -104.1, -300.0, -1e30, -np.inf, np.nan])
    expected = [1, 1, 1, 3.4028e38, np.inf, np.inf, np.inf, 1e-45, 0, 0, 0, 0, np.nan]
    np.testing.assert_allclose(exponentials(x.astype(np.float32)), np.array(expected, np.float32), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_an_exponential_is_one_instruction_for_powers_and_few_others(dtype: str) -> None:
    text = tileir.compile("function (X[N]) -> (Y) { Y = exp(X); }", [f"{dtype}[4096]"], device="cuda.sm_90a")
    code = text.listing("ptx")
    powers = code.count("ex2.approx")
    assert powers
    assert code.count("fma.rn.f32") == 3 * powers
    assert code.count("add.rn.f32") == 2 * powers
    assert code.count("mul.rn.f32") == powers


def test_no_exponential_is_split_where_sums_may_be_reordered() -> None:
    """A sum with a large number rounds; folding it with the difference would give back the number before."""
    options = tileir.Options(fast_math=True)
    code = tileir.compile(
        "function (X[N]) -> (Y) { Y = exp(X); }", ["f32[4096]"], device="cuda.sm_90a", options=options
    )
    assert "ex2.approx" not in code.listing("ptx")
