"""Forks wait for threads inside LLVM, and threads for forks."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tileir_llvm.run.forking import _Gate


def entered(gate: _Gate, done: threading.Event) -> threading.Thread:
    def enter() -> None:
        with gate:
            done.set()

    thread = threading.Thread(target=enter)
    thread.start()
    return thread


def test_threads_are_inside_together() -> None:
    gate, done = _Gate(), threading.Event()
    with gate:
        entered(gate, done).join(60)
    assert done.is_set()


def test_who_closes_waits_for_those_inside() -> None:
    gate, closed = _Gate(), threading.Event()

    def close() -> None:
        gate.close()
        closed.set()
        gate.open()

    thread = threading.Thread(target=close)
    with gate:
        thread.start()
        assert not closed.wait(0.05)
    thread.join(60)
    assert closed.is_set()


def test_nobody_enters_a_closed_gate() -> None:
    gate, done = _Gate(), threading.Event()
    gate.close()
    thread = entered(gate, done)
    assert not done.wait(0.05)
    gate.open()
    thread.join(60)
    assert done.is_set()


def test_an_interrupt_leaves_the_gate_open(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, done = _Gate(), threading.Event()

    def interrupt(_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(gate._left, "wait_for", interrupt)
    with pytest.raises(KeyboardInterrupt):
        gate.close()
    entered(gate, done).join(60)
    assert done.is_set()
