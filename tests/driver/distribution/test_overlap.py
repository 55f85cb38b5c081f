"""Exchanges beside work: merges in pieces, and collectives that begin before others compute."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.contractions import contractions
from strategies.effort import examples
from strategies.sharded import partitioned
from tileir.driver.distribution.distributed import Distributed
from tileir.runtime.transports import THREADS, Message, Transport
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import TensorType
from tileir.typed.sharding import overlapped_merges
from tileir.typed.sharding.borders import ChunkedAggregate, halo_steps, overlapped_exchanges

T = TypeVar("T")
QUICK = tileir.Options(quick=True)
PRODUCT = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
CUT = {"A": (None, "x"), "B": ("x", None)}


class Telling(Transport):
    """A rank's end of another engine, which notes when exchanges begin and end."""

    def __init__(self, end: Transport, told: list[str]) -> None:
        self.end, self.rank, self.size, self.shares_memory, self.told = end, end.rank, end.size, True, told

    def exchange(self, sent: Sequence[Message], received: Sequence[Message]) -> None:
        self.end.exchange(sent, received)

    def begin(self, sent: Sequence[Message], received: Sequence[Message]) -> Callable[[], None]:
        self.told.append("begin")
        end = self.end.begin(sent, received)

        def ended() -> None:
            self.told.append("end")
            end()

        return ended

    def abort(self, error: BaseException) -> None:
        self.end.abort(error)


class TellingThreads:
    """Threads of which each notes what it does."""

    name = "telling"

    def __init__(self) -> None:
        self.told: dict[int, list[str]] = defaultdict(list)

    def launch(self, size: int, work: Callable[[Transport], T]) -> Mapping[int, T]:
        return THREADS.launch(size, lambda end: work(Telling(end, self.told[end.rank])))


def told(program: Any, arrays: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return when the first rank begins and ends exchanges, and when it computes."""
    engine, computed = TellingThreads(), Distributed._computed

    def noted(self: Any, *args: Any, **named: Any) -> Any:
        if threading.current_thread().name.endswith("0"):
            engine.told[0].append("work")
        return computed(self, *args, **named)

    monkeypatch.setattr(Distributed, "_computed", noted)
    tileir.distribute(program, engine, options=QUICK)(**arrays)
    return engine.told[0]


@examples(15)
@given(contractions(), st.data())
def test_merges_in_pieces(case: Any, data: st.DataObject) -> None:
    types = {n: TensorType(case.dtype, shape) for n, shape in case.shapes.items()}
    function = infer(tileir.parse(case.text), types)
    least, random = 0 if case.dtype.name.startswith("U") else -3, np.random.default_rng(0)
    inputs = {n: np.asarray(random.integers(least, 4, s)).astype(case.dtype.numpy) for n, s in case.shapes.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlapped_merges, "cheapest", lambda _, counts: max(counts))
        program = data.draw(partitioned(function))
        found = tileir.distribute(program, context=data.draw(st.sampled_from(contexts(program))), options=QUICK)(
            **inputs
        )
    for actual, right in zip(
        found if isinstance(found, tuple) else (found,), interpret(function, inputs).values(), strict=True
    ):
        assert (actual.dtype, actual.shape) == (right.dtype, right.shape)
        wide = actual.astype(np.float64), right.astype(np.float64)
        np.testing.assert_allclose(*wide, rtol=4e-3 if right.dtype.itemsize == 2 else 1e-5, atol=1e-5)


def contexts(program: Any) -> tuple[tileir.Context | None, tileir.Context]:
    """Return none, so that parts are on the host, and one whose ranks have a device."""
    return None, tileir.Context(devices=["llvm.0"] * program.mesh.size, options=QUICK)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mesh", [{"x": 2}, {"x": 3}, {"x": 4}, {"x": 2, "y": 2}], ids=str)
@pytest.mark.parametrize("rows", [(None, None), ("x", None), (None, "x")], ids=str)
@pytest.mark.parametrize("dtype", ["f4", "f2", "i1"])
def test_products_in_pieces(mesh: dict[str, int], rows: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces are those of what ranks need, also where these are uneven, and merge as whole products do."""
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((9, 9)).astype("f4").astype(dtype) for _ in range(2))
    program = tileir.partition(PRODUCT, mesh, CUT, outputs={"C": rows}, arguments=[a, b])
    assert not any(isinstance(each, ChunkedAggregate) for each in halo_steps(program, 0))
    whole = [tileir.distribute(program, context=context, options=QUICK)(a, b) for context in contexts(program)]
    monkeypatch.setattr(overlapped_merges, "cheapest", lambda _, counts: max(counts))
    assert any(isinstance(each, ChunkedAggregate) for each in halo_steps(program, 0))
    for context, right in zip(contexts(program), whole, strict=True):
        np.testing.assert_array_equal(tileir.distribute(program, context=context, options=QUICK)(a, b), right)


@pytest.mark.parametrize("sizes", [(3, 1, 2), (3, 2, 0), (1, 2, 3)], ids=str)
@pytest.mark.parametrize("rows", [(None, None), (None, "x")], ids=str)
def test_ranks_that_have_nothing_to_merge(
    sizes: tuple[int, int, int], rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlapped_merges, "cheapest", lambda _, counts: max(counts, default=1))
    m, k, n = sizes
    a, b = np.ones((m, k), np.float32), np.ones((k, n), np.float32)
    program = tileir.partition(PRODUCT, {"x": 2}, CUT, outputs={"C": rows}, arguments=[a, b])
    for context in contexts(program):
        np.testing.assert_array_equal(tileir.distribute(program, context=context, options=QUICK)(a, b), a @ b)


@pytest.mark.parametrize(
    ("ranks", "rows", "order"),
    [
        (2, ("x", None), "work begin work end"),
        (2, (None, None), "work begin work begin end end"),
        (3, ("x", None), "work begin work begin work end end"),
        (3, (None, None), "work begin work begin end begin end begin end end"),
    ],
)
def test_pieces_are_sent_while_others_are_computed(
    ranks: int, rows: Any, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than two ranks meet again for a piece that all need when they have begun the next one."""
    monkeypatch.setattr(overlapped_merges, "cheapest", lambda _, counts: min(counts))
    arrays = {"A": np.ones((8, 6), np.float32), "B": np.ones((6, 4), np.float32)}
    program = tileir.partition(PRODUCT, {"x": ranks}, CUT, outputs={"C": rows}, arguments=arrays)
    assert told(program, arrays, monkeypatch) == order.split()
    assert overlapped_exchanges(program) == {"C"}


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("rows", [(None, None), ("x", None)], ids=str)
def test_prices_decide_about_pieces(ranks: int, rows: Any) -> None:
    """Pieces of little are not worth a message, nor those of what travels beside other work anyway."""
    for size, pays in ((64, False), (1024, True)):
        program = tileir.partition(PRODUCT, {"x": ranks}, CUT, outputs={"C": rows}, arguments=[(size, size)] * 2)
        assert bool(overlapped_merges.chunked_merges(program)) == pays
    text = """function (A[M, K], B[K, N]) -> (C, D) {
        C[i, j : M, N] = +(A[i, k] * B[k, j]); D[i, j : K, N] = +(B[i, k] * B[k, j]);
    }"""
    outputs = {"C": rows, "D": ("x", None)}
    program = tileir.partition(text, {"x": ranks}, CUT, outputs=outputs, arguments=[(1024, 1024)] * 2)
    assert not overlapped_merges.chunked_merges(program)


@pytest.mark.parametrize(
    ("text", "cut", "outputs"),
    [
        ("function (A[M, K], B[K, N]) -> (C) { C[] = +(A[i, k] * B[k, j]); }", CUT, {}),
        (PRODUCT, {"A": ("x", None)}, {"C": (None, None)}),
    ],
    ids=["no axes", "no merge"],
)
def test_what_is_not_made_in_pieces(text: str, cut: Any, outputs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlapped_merges, "cheapest", lambda _, counts: max(counts))
    program = tileir.partition(text, {"x": 2}, cut, outputs=outputs, arguments=[(8, 6), (6, 4)])
    assert not overlapped_merges.chunked_merges(program)


def test_gradients_are_added_up_while_others_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exchange begins when its operand is known, and is waited for where its result is read."""
    loss = """function (X[B, I], V[I, H], W[H, O]) -> (L) {
        S[b, h : B, H] = +(X[b, i] * V[i, h]); R = S * S;
        T[b, o : B, O] = +(R[b, h] * W[h, o]); U = T * T; L[] = +(U[b, o]);
    }"""
    shapes = [(6, 3), (3, 4), (4, 2)]
    arrays = {n: np.ones(s, np.float32) for n, s in zip("XVW", shapes, strict=True)}
    whole = {"V": (None, None), "W": (None, None), "DV": (None, None), "DW": (None, None)}
    backward = tileir.gradient(loss, arguments=shapes, wrt=["V", "W"])
    program = tileir.partition(
        backward,
        {"x": 2},
        {"X": ("x", None), **{n: whole[n] for n in "VW"}},
        outputs={n: whole[n] for n in ("DV", "DW")},
        arguments=shapes,
    )
    assert told(program, arrays, monkeypatch) == ["work", "begin", "work", "begin", "end", "end"]
    assert overlapped_exchanges(program) == {"DW"}
