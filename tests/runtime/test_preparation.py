"""Kernels of plans that run once, because they read only constants."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir
from strategies.asynchronous import DistantDevice
from strategies.executors import PlainDevice
from strategies.opencl_device import device as opencl_device
from strategies.plans import plan_of
from tileir import ops
from tileir.core import ArrayValue
from tileir.runtime.plans.preparation import memory_of_constant
from tileir.semtree.ir import Buffer, BufferRole
from tileir.semtree.text.parser import parse_program

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.tile.builder import Tensor

PROGRAM = """\
program {
  input f32 A[4];
  constant f32 K[4] = "0000803f000000400000404000008040";
  temporary f32 T[4];
  temporary f32 U[4];
  temporary f32 V[4];
  output f32 O[4];
  kernel double(out f32 o[4] noalias, in f32 x[4] noalias) grid(1) {
    for (i64 i = 0; i < 4; i += 1) { o[i] = x[i] + x[i]; }
  }
  kernel add(out f32 o[4] noalias, in f32 x[4] noalias, in f32 y[4] noalias) grid(1) {
    for (i64 i = 0; i < 4; i += 1) { o[i] = x[i] + y[i]; }
  }
  launch 0(T, K);
  launch 0(U, T);
  launch 0(V, A);
  launch 1(O, U, V);
}
"""


@pytest.mark.parametrize("device", [PlainDevice, DistantDevice])
def test_constant_works_run_once(device: Callable[[], Any]) -> None:
    made = device()
    plan = plan_of(parse_program(PROGRAM), made)
    assert [len(plan.running.works), len(plan.program.works)] == [2, 4]
    assert plan.memory.constants == 16  # of U alone: neither K nor T is needed afterwards
    assert plan.memory.temporaries == 16
    for number in range(3):
        a, out = np.full(4, number, np.float32), np.empty(4, np.float32)
        plan.run([a], [out])
        np.testing.assert_array_equal(out, 4 * np.array([1, 2, 3, 4]) + 2 * number)


@pytest.mark.parametrize("count", [1024, 300_000])
def test_constants_are_read_where_they_lie(count: int) -> None:
    value = ArrayValue.of(np.arange(count, dtype=np.float32))
    buffer = Buffer("K", value.dtype, value.shape, BufferRole.CONSTANT, value.data)
    device: Any = PlainDevice()
    memory = memory_of_constant(device, buffer)
    assert memory.host() is not None
    assert np.shares_memory(memory.host(), value.numpy())


def _weights(*shape: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def _scaled(f: tileir.FunctionBuilder, x: Tensor) -> Tensor:
    return ops.matmul(x, f.constant(_weights(96, 300)) * 3.0 - 1.0)


def _product(f: tileir.FunctionBuilder, x: Tensor) -> Tensor:
    return ops.matmul(x, ops.matmul(f.constant(_weights(96, 300)), f.constant(_weights(300, 200, seed=1))))


def _normalised(f: tileir.FunctionBuilder, x: Tensor) -> Tensor:
    return ops.matmul(x, ops.softmax(f.constant(_weights(96, 300)), 0)) * 2.0


def _dequantised(f: tileir.FunctionBuilder, x: Tensor) -> Tensor:
    bytes_ = np.random.default_rng(2).integers(-128, 128, (300, 96), np.int8)
    scale = f.constant(_weights(300, 1, seed=3))
    return ops.matmul(x, ops.transpose(ops.cast(f.constant(bytes_), "f32") * scale))


def _summed(f: tileir.FunctionBuilder, x: Tensor) -> Tensor:
    table = ops.matmul(f.constant(_weights(64, 300)), f.constant(_weights(300, 96)))
    return ops.cumsum(ops.cumsum(x, 0) + table, 1)


def _float64(name: str, x: np.ndarray[Any, Any]) -> Any:
    wide = x.astype(np.float64)
    w = _weights(96, 300).astype(np.float64)
    match name:
        case "_scaled":
            return wide @ (3 * w - 1)
        case "_product":
            return wide @ (w @ _weights(300, 200, seed=1).astype(np.float64))
        case "_normalised":
            return wide @ (np.exp(w) / np.exp(w).sum(0)) * 2
        case "_dequantised":
            integers = np.random.default_rng(2).integers(-128, 128, (300, 96), np.int8).astype(np.float64)
            return wide @ (integers * _weights(300, 1, seed=3)).T
        case _:
            return np.cumsum(np.cumsum(wide, 0) + _weights(64, 300).astype(np.float64) @ _weights(300, 96), 1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("device", ["llvm", "opencl"])
@pytest.mark.parametrize("make", [_scaled, _product, _normalised, _dequantised, _summed])
def test_what_is_made_of_weights_is_right_at_each_call(make: Callable[..., Tensor], device: str) -> None:
    f = tileir.FunctionBuilder()
    function = f.build(Y=make(f, f.input("X", 64, 96)))
    chosen = opencl_device() if device == "opencl" else "llvm"
    executable = tileir.compile(function, [(64, 96)], device=chosen)
    assert len(executable.sem.works) > len(executable._plan.running.works)
    failures: list[int] = []

    def call(seed: int) -> None:
        x = _weights(64, 96, seed=seed + 10)
        exact = _float64(make.__name__, x)
        for _ in range(3):
            if not np.allclose(executable(x), exact, rtol=1e-3, atol=1e-4 * np.abs(exact).max()):
                failures.append(seed)

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    launches = executable.dispatch.launches
    assert sum(launch.runs == 0 for launch in launches) == len(launches) - len(executable._plan.running.works)
