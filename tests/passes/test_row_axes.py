"""Rows along any axes of tensors: one kernel on cards, with the same meaning, whatever lies beside what."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import attrs
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from tileir import ops
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.core.targets.target_file import with_facts
from tileir.driver.compiler import compile_stages
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.typed.interpreter import interpret as interpret_typed
from tileir.typed.ir import TensorType
from tileir_cuda.architectures import ARCHITECTURES, target_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.driver.compiler import Stages

Axes = int | tuple[int, ...]

_CARD: Final = ARCHITECTURES["sm_90a"]
HOPPER: Final = target_of(_CARD, _CARD.card, _CARD.multiprocessors, _CARD.cache_bytes)
TARGETS: Final = {
    "cuda": HOPPER,
    "opencl": with_facts(Target(pipeline="nvidia-hopper")),
    "cdna": with_facts(Target(pipeline="amd-cdna3")),
    "few threads": Target(
        vector_bytes=16, threads=2, group_threads=16, group_width=4, local_bytes=2048, index_dtype=DType.I32,
        pipeline="gpu",
    ),
    "more threads": Target(
        vector_bytes=16, threads=2, group_threads=64, group_width=8, local_bytes=16384, index_dtype=DType.I32,
        pipeline="gpu",
    ),
}  # fmt: skip


def standardised(x: Any, axes: Axes) -> Any:
    centred = x - ops.mean(x, axes, keepdims=True)
    return centred * ops.rsqrt(ops.mean(centred * centred, axes, keepdims=True) + 1e-5)


def of_unit_range(x: Any, axes: Axes) -> Any:
    least = ops.min(x, axes, keepdims=True)
    return (x - least) / (ops.max(x, axes, keepdims=True) - least + 0.5)


ALONG: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "softmax": ops.softmax,
    "log softmax": ops.log_softmax,
    "logarithm of a sum": ops.logsumexp,
    "root mean square": lambda x, axes: x * ops.rsqrt(ops.mean(x * x, axes, keepdims=True) + 1e-6),
    "standardised": standardised,
    "share of a sum": lambda x, axes: x / ops.sum(x, axes, keepdims=True),
    "unit range": of_unit_range,
    "spread": ops.std,
}
ALONG_ONE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "place of the greatest": ops.argmax,
    "greatest as one": ops.hardmax,
    "running sum": lambda x, axis: ops.cumsum(x, axis) / ops.sum(x, axis, keepdims=True),
}


def compiled(name: str, shape: tuple[int, ...], axes: Axes, dtype: DType, target: Target, weights: Axes = ()) -> Stages:
    """Compile a function of X, times weights along some axes of it where there are any."""
    builder = tileir.FunctionBuilder()
    types = {"X": TensorType(dtype, shape)}
    x = builder.input("X", *(f"D{axis}" for axis in range(len(shape))))
    if weights:
        held = tuple(n if axis in np.atleast_1d(weights) else 1 for axis, n in enumerate(shape))
        types["W"] = TensorType(dtype, held)
        x = x * builder.input("W", *(f"E{axis}" for axis in range(len(shape))))
    return compile_stages(builder.build(R={**ALONG, **ALONG_ONE}[name](x, axes)), types, target)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((1000, 1000), 0),
        ((4097, 33), 0),
        ((64, 5000), 0),
        ((5000, 7), 0),
        ((2, 1000), 0),
        ((7, 3, 1000), 1),
        ((7, 3, 1000), (0, 1)),
        ((32, 64, 3136), (0, 2)),  # two axes, with one between them
        ((32, 64, 56, 56), 1),
        ((32, 64, 56, 56), (0, 2, 3)),
        ((64, 70000), 0),
        ((64, 70000), 1),
        ((2048, 100000), 1),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", [*ALONG, "place of the greatest", "greatest as one"])
def test_each_is_one_kernel(name: str, shape: tuple[int, ...], axes: Axes) -> None:
    if name in ALONG_ONE and not isinstance(axes, int):
        pytest.skip("goes along one axis")
    program = compiled(name, shape, axes, DType.F32, HOPPER).sem
    assert len(program.works) == 1
    (kernel,) = program.kernels
    threads = math.prod(kernel.grid) * math.prod(kernel.group)
    assert threads >= min(8192, math.prod(shape) // 64)  # several threads share a long row


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, tuple[int, ...], Axes, Axes]:
    """Draw a function, a shape, the axes that it goes along, and those along which there are weights."""
    count = draw(st.integers(2, 4))
    sizes = st.sampled_from([1, 2, 7, 33, 64, 100, 259] if count == 2 else [1, 2, 3, 5, 8, 16])
    shape = tuple(draw(st.lists(sizes, min_size=count, max_size=count)))
    axes = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=2, unique=True))
    weights = draw(st.lists(st.integers(0, count - 1), max_size=count, unique=True))
    name = draw(st.sampled_from([*ALONG, *(ALONG_ONE if len(axes) == 1 else ())]))
    return name, shape, axes[0] if len(axes) == 1 else tuple(sorted(axes)), tuple(weights)


TOLERANCES: Final = {DType.F16: 2e-2, DType.BF16: 1e-1, DType.F32: 2e-4, DType.F64: 1e-9}


@given(
    case=cases(),
    target=st.sampled_from(sorted(TARGETS)),
    dtype=st.sampled_from(list(TOLERANCES)),
    seed=st.integers(0, 1000),
)
@examples(40)
def test_all_mean_the_same(case: tuple[str, tuple[int, ...], Axes, Axes], target: str, dtype: DType, seed: int) -> None:
    name, shape, axes, weights = case
    stages = compiled(name, shape, axes, dtype, TARGETS[target], weights)
    assert stages.graph is not None
    random = np.random.default_rng(seed)
    held = ml_dtypes.bfloat16 if dtype is DType.BF16 else np.dtype(dtype.value.replace("f", "float"))
    values = {p.name: (random.random(p.shape) + 0.5).astype(held) for p in stages.graph.inputs}
    checks = attrs.evolve(ALL_CHECKS, undefined=name != "running sum")  # one thread reads what it does not store
    found = run_program(stages.sem, values, checks)["R"].astype(np.float64)
    expected = interpret_typed(stages.graph, values)["R"].astype(np.float64)
    tolerance = TOLERANCES[dtype] * max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


def test_a_scan_of_a_single_row_stays_a_kernel() -> None:
    """Its threads have no grid around them: other loops cannot stand beside these."""
    for weights in ((), (0, 1)):
        stages = compiled("running sum", (1, 33), 1, DType.F16, TARGETS["more threads"], weights)
        values = {name: np.ones((1, 33), np.float16) for name in ("X", "W")[: 1 + bool(weights)]}
        found = run_program(stages.sem, values)["R"].astype(np.float64)
        np.testing.assert_allclose(found, np.arange(1, 34)[None] / 33, atol=1e-2)
