"""Bytes that are announced of exchanges are those that ranks send each other."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.derivatives import types_of
from strategies.effort import examples
from strategies.sharded import partitioned
from strategies.tile import cases
from tileir.driver.distribution.collectives import carried_out
from tileir.runtime.transports import THREADS, Transport
from tileir.typed.inference.inference import infer
from tileir.typed.sharding import overlapped_merges
from tileir.typed.sharding.interpreter import scattered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tileir.runtime.transports import Message
    from tileir.typed.ir import Collective

T = TypeVar("T")


class Counting(Transport):
    """A rank's end of another engine, which counts what it gets by the place of the program."""

    def __init__(self, end: Transport, counted: dict[str, int], lock: threading.Lock) -> None:
        self.end, self.rank, self.size, self.shares_memory = end, end.rank, end.size, True
        self.counted, self.lock = counted, lock

    def exchange(self, sent: Sequence[Message], received: Sequence[Message]) -> None:
        assert all(array.flags.c_contiguous for _, array in (*sent, *received))
        self.end.exchange(sent, received)
        with self.lock:
            for _, array in received:
                if array.nbytes:
                    self.counted[self.place] = self.counted.get(self.place, 0) + array.nbytes

    def abort(self, error: BaseException) -> None:
        self.end.abort(error)


class CountingThreads:
    """Threads that count what they send each other."""

    name = "counting"

    def __init__(self) -> None:
        self.counted: dict[str, int] = {}

    def launch(self, size: int, work: Callable[[Transport], T]) -> Mapping[int, T]:
        lock = threading.Lock()
        return THREADS.launch(size, lambda end: work(Counting(end, self.counted, lock)))


def announced(program: Any) -> dict[str, int]:
    return {f"{each.collective.kind.value} {each.collective.name!r}": each.size for each in program.exchanges()}


SHAPES = {"A": (8, 6), "B": (6, 5), "D": (1, 6)}
PRODUCT = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
ROWS = {"A": ("x", None)}
KINDS: dict[str, tuple[str, Any, Any]] = {
    "all_reduce": (PRODUCT, {"A": (None, "x"), "B": ("x", None)}, {"C": (None, None)}),
    "reduce_scatter": (PRODUCT, {"A": (None, "x"), "B": ("x", None)}, {"C": ("x", None)}),
    "all_gather": ("function (A[M, K]) -> (C) { C = A + 1; }", ROWS, {"C": (None, None)}),
    "all_to_all": ("function (A[M, K]) -> (C) { C = A + 1; }", ROWS, {"C": (None, "x")}),
    "halo": ("function (A[M, K]) -> (C) { C[i, j : M, K] = +(A[i + k - 1, j]), k < 3; }", ROWS, {"C": ("x", None)}),
    "permute": ("function (A[M, K]) -> (C) { C[i, j : M, K] = =(A[M - 1 - i, j]); }", ROWS, {"C": ("x", None)}),
    "broadcast": ("function (D[M, K]) -> (C) { C[i, j : 4, K] = +(D[0, j]); }", {"D": ("x", None)}, {"C": ("x", None)}),
    "state": (
        "function (A[M, K]) -> (C, D) { S = reduce_argmax(A, 0); C = element(S, 0); D = element(S, 1); }",
        ROWS,
        {},
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_of_collectives(kind: str) -> None:
    text, shardings, outputs = KINDS[kind]
    types = {name: ("f16", shape) for name, shape in SHAPES.items() if f"{name}[" in text.partition(")")[0]}
    program = tileir.partition(text, {"x": 2}, shardings, outputs=outputs, arguments=types)
    assert kind in {"state", *(each.kind.value for each in program.collectives)}
    engine = CountingThreads()
    run = tileir.distribute(program, engine, options=tileir.Options(quick=True))
    run(**{name: np.ones(shape, np.float16) for name, (_, shape) in types.items()})
    engine.counted.pop("the start of a program")
    assert engine.counted == {place: size for place, size in announced(program).items() if size}


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter"])
def test_merges_in_pieces(kind: str, ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlapped_merges, "cheapest", lambda _, counts: max(counts))
    text, shardings, outputs = KINDS[kind]
    types = {name: ("f16", SHAPES[name]) for name in "AB"}
    program = tileir.partition(text, {"x": ranks}, shardings, outputs=outputs, arguments=types)
    assert overlapped_merges.chunked_merges(program)
    engine = CountingThreads()
    run = tileir.distribute(program, engine, options=tileir.Options(quick=True))
    run(**{name: np.ones(SHAPES[name], np.float16) for name in "AB"})
    engine.counted.pop("the start of a program")
    assert engine.counted == announced(program)


@examples(10)
@given(cases(largest_size=5, empty=True), st.data())
def test_exchanges_of_programs(case: Any, data: st.DataObject) -> None:
    """Collectives of programs are carried out alone, on arrays of zeros."""
    program = data.draw(partitioned(infer(case.function, types_of(case.inputs))))
    values = {each.name: each for each in (*program.function.inputs, *program.function.operations)}
    parts: list[tuple[Collective, list[Any]]] = []
    for each in program.collectives:
        arrays = [np.zeros(values[name].shape, values[name].dtype.numpy) for name in each.inputs]
        parts.append((each, [scattered(array, each.source, program.mesh) for array in arrays]))

    def work(end: Transport) -> None:
        for each, inputs in parts:
            carried_out(each, program.mesh, end, [part[end.rank] for part in inputs])

    engine = CountingThreads()
    engine.launch(program.mesh.size, work)
    merged, expected = set(), announced(program)
    for each in program.collectives:  # alone, each result of a tuple reduction is merged anew
        if each.combine is not None and each.inputs in merged:
            engine.counted.pop(f"{each.kind.value} {each.name!r}", None)
        merged.add(each.inputs)
    assert engine.counted == {place: size for place, size in expected.items() if size}
