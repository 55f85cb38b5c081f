"""Kernels of which a device can run fewer threads than its groups may have: programs are scheduled again for those."""

from __future__ import annotations

import math
import pickle
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pytest

import tileir
from strategies.opencl_device import device
from tileir.core.dtype import DType
from tileir.core.errors import BackendError, Diagnostic, GroupLimitError
from tileir.core.targets.target import Target
from tileir.core.targets.target_file import with_facts
from tileir.driver.compiler import compile_stages
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.tile.text.parser import parse
from tileir.typed.ir import TensorType
from tileir_opencl.run import kernels

if TYPE_CHECKING:
    from tileir.semtree.ir import KernelFunction

SOFTMAX: Final = """function (X[M, N]) -> (O) {
    P[i, 0 : M, 1] = >(X[i, j]);
    E = exp(X - P);
    S[i, 0 : M, 1] = +(E[i, j]);
    O = E / S;
}"""
ROWS: Final = np.random.default_rng(1).normal(size=(16, 16384)).astype(np.float32)


@pytest.fixture(params=[256, 100, 1])
def limit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Make the driver tell that it can run so many threads of any kernel."""
    most: int = request.param

    def check(kernel: KernelFunction, *_: Any) -> None:
        if math.prod(kernel.group) > most:
            raise GroupLimitError((Diagnostic("TIL804", f"{kernel.name}: {most} threads"),), most)

    monkeypatch.setattr(kernels, "check_group", check)
    return most


def expected() -> np.ndarray[Any, np.dtype[Any]]:
    powers = np.exp(ROWS - ROWS.max(axis=1, keepdims=True))
    result: np.ndarray[Any, np.dtype[Any]] = powers / powers.sum(axis=1, keepdims=True)
    return result


def groups(executable: tileir.Executable) -> list[int]:
    return [math.prod(kernel.group) for kernel in executable.sem.kernels]


@pytest.mark.sampled(2)
def test_programs_are_scheduled_for_what_the_device_can_run(limit: int) -> None:
    with tileir.Context(disk_cache=None) as context:
        executable = tileir.compile(SOFTMAX, [ROWS], device=device().id, context=context, target="gpu")
        assert max(groups(executable)) <= limit
        np.testing.assert_allclose(executable(ROWS), expected(), rtol=1e-5)
        found = tileir.explain(SOFTMAX, [ROWS], device=device().id, context=context, target="gpu", measure=True)
        assert found.measured


@pytest.mark.parametrize("limit", [256], indirect=True)
def test_passes_that_were_asked_for_are_not_replaced(limit: int) -> None:
    passes = f"fuse,group_elementwise{{threads={2 * limit},vector_bytes=4,vectors=1}}"
    text = "function (X[N]) -> (O) { O = X + 1; }"
    with tileir.Context(disk_cache=None) as context, pytest.raises(BackendError, match=r"error\[TIL804\].*256 threads"):
        tileir.compile(text, [(1 << 14,)], device=device().id, context=context, passes=parse_pipeline(passes))


def test_long_rows_have_groups_of_many_threads_where_no_driver_objects() -> None:
    with tileir.Context(disk_cache=None) as context:
        executable = tileir.compile(SOFTMAX, [ROWS], device=device().id, context=context, target="gpu")
        assert max(groups(executable)) > 256
        np.testing.assert_allclose(executable(ROWS), expected(), rtol=1e-5)


@pytest.mark.parametrize(
    ("columns", "dtype", "launches"),
    [(8192, DType.F32, 1), (10_000, DType.F32, 1), (16384, DType.F32, 1), (32768, DType.F32, 1), (32768, DType.F16, 1)],
)
def test_rows_of_any_length_fit_groups_of_256_threads(columns: int, dtype: DType, launches: int) -> None:
    """A number of threads that always runs on a card with at most 255 of 65,536 registers for a thread."""
    card = attrs.evolve(with_facts(Target(pipeline="nvidia-hopper")), group_threads=256)
    program = compile_stages(parse(SOFTMAX), {"X": TensorType(dtype, (2048, columns))}, card).sem
    assert max(math.prod(kernel.group) for kernel in program.kernels) <= 256
    assert len(program.works) == launches


def test_the_error_survives_pickling() -> None:
    error = GroupLimitError((Diagnostic("TIL804", "too many"),), 64)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.diagnostics, again.threads) == (GroupLimitError, error.diagnostics, 64)
