"""Partitioned programs whose ranks are devices of one process, which keep their parts of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir
from tileir.core import ArgumentError
from tileir.driver.distribution.on_device import merged_together
from tileir.runtime.devices.array import DeviceArray
from tileir.runtime.transports import THREADS, Transport
from tileir.typed.sharding.local import local_steps
from tileir_testing.transports import PROGRAMS

TWO = ("llvm.0", "opencl.0" if any(each.id == "opencl.0" for each in tileir.Context().devices()) else "llvm.0")
"""Devices of two back ends where there are two."""


@pytest.fixture(scope="module")
def context() -> tileir.Context:
    return tileir.Context(devices=TWO, options=tileir.Options(quick=True))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("text", "sharding", "target"), PROGRAMS)
def test_results_are_those_of_one_device(text: str, sharding: Any, target: Any, context: tileir.Context) -> None:
    array = np.arange(35, dtype=np.float32).reshape(7, 5) - 9
    program = tileir.partition(text, {"x": 2}, {"A": sharding}, outputs={"B": target}, arguments=[array])
    found = tileir.distribute(program, context=context)(array)
    np.testing.assert_array_equal(found, tileir.evaluate(text, [array]))
    assert isinstance(found, np.ndarray)


def test_states_of_tuples_are_merged(context: tileir.Context) -> None:
    array = np.random.default_rng(0).integers(-9, 9, (700, 5), np.int32)
    text = "function (A[M, N]) -> (P) { T = reduce_argmax(A, 0); P = element(T, 1); }"
    program = tileir.partition(text, {"x": 2}, {"A": ("x", None)}, arguments=[array])
    assert [each.kind.value for each in program.collectives] == ["all_reduce"]
    np.testing.assert_array_equal(tileir.distribute(program, context=context)(array), array.argmax(0))


def test_merges_alike_are_made_at_once() -> None:
    text = """function (A[M, N]) -> (B, C, D, E) {
        B[j : N] = +(A[i, j]); C[j : N] = +(A[i, j] * A[i, j]); D[j : N] = >(A[i, j]); E[j : N] = +(A[i, N - 1 - j]);
    }"""
    whole = dict.fromkeys("BCDE", (None,))
    array = np.arange(8 * 256, dtype=np.float32).reshape(8, 256)
    program = tileir.partition(text, {"x": 2}, {"A": ("x", None)}, outputs=whole, arguments=[array])
    steps = local_steps(program, 0)
    for microseconds, groups in ((4, ["BC", "D", "E"]), (1, ["B", "C", "D", "E"])):
        found = merged_together(steps, microseconds, 1.0)
        assert ["".join(each.name for each in group) for group in found.values()] == groups


def test_parts_stay_on_the_device_of_their_rank(context: tileir.Context) -> None:
    text, sharding, _ = PROGRAMS[0]
    array = np.arange(35, dtype=np.float32).reshape(7, 5)
    program = tileir.partition(text, {"x": 2}, {"A": sharding}, arguments=[array])
    run = tileir.distribute(program, context=context)

    def work(end: Transport) -> tuple[str, Any]:
        part: Any = array[4 * end.rank : 4 + 3 * end.rank]
        for _ in range(3):
            part = run.run(end, {"A": part})["B"]
        assert isinstance(part, DeviceArray)
        return part.device.id, part.numpy()

    found = run.engine.launch(2, work)
    assert [found[rank][0] for rank in range(2)] == list(TWO)
    right = array
    for _ in range(3):
        right = np.asarray(tileir.evaluate(text, [right]))
    np.testing.assert_array_equal(np.concatenate([found[0][1], found[1][1]]), right)


def test_devices_of_ranks_are_named() -> None:
    program = tileir.partition(PROGRAMS[0][0], {"x": 2}, {"A": ("x", None)}, arguments=[(4, 3)])
    context = tileir.Context(devices=["llvm.0"] * 3)
    with pytest.raises(ArgumentError, match=r"TIL813.*for 2 ranks, and the context has 3 devices"):
        tileir.distribute(program, context=context)(np.ones((4, 3), np.float32))
    with pytest.raises(ArgumentError, match=r"TIL707.*list of their ids, not by 'llvm.0'"):
        tileir.Context(devices="llvm.0")
    assert tileir.Context(devices=[tileir.Context().device("llvm.0")]).rank_devices == ("llvm.0",)
    assert tileir.distribute(program, device="llvm.0", context=context).engine is THREADS
