"""Sizes of the builder's tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import tileir
from tileir.tile import builder_functions as tf
from tileir.tile.builder import FunctionBuilder, Tensor
from tileir.tile.text.printer import expression_text

if TYPE_CHECKING:
    from collections.abc import Callable


class Parts:
    def __init__(self) -> None:
        self.f = FunctionBuilder()
        self.x, self.y = self.f.input("X", "N", "C"), self.f.input("Y", "M", "C")
        self.v, self.one = self.f.input("V", "C"), self.f.sum(self.x[self.f.index("i"), 0], [0], [1])
        self.any, self.scalar = self.f.input("Any"), self.f.scalar("S")
        self.n, self.c = self.x.dims
        self.m = self.y.dims[0]


@pytest.fixture
def p() -> Parts:
    return Parts()


@pytest.mark.parametrize(
    ("build", "sizes"),
    [
        (lambda p: -p.x + 1, ["N", "C"]),
        (lambda p: p.x * p.v, ["N", "C"]),
        (lambda p: 2 - p.v * p.n, ["C"]),
        (lambda p: p.x + p.y, ["broadcast(N, M)", "C"]),
        (lambda p: (p.x + p.y) * p.y + p.x, ["broadcast(N, M)", "C"]),
        (lambda p: p.x * p.one, ["N", "C"]),
        (lambda p: p.one * p.v, ["C"]),
        (lambda p: p.scalar * 2, []),
        (lambda p: tf.where(p.scalar < 1, p.v, p.x), ["N", "C"]),
        (lambda p: tf.cast(p.x, "f16") ** 2, ["N", "C"]),
        (lambda p: tf.index(p.y, 0), ["M", "C"]),
        (lambda p: tf.shape(p.y), ["2"]),
        (lambda p: tf.shape(p.any + p.x), None),
        (lambda p: tf.reshape(p.any, 2, p.n * p.c), ["2", "N * C"]),
        (lambda p: tf.gather(p.x, tf.cast(p.y, "i32")), ["M", "C", "C"]),
        (lambda p: tf.scatter(p.y, tf.cast(p.y, "i32"), p.v), ["C"]),
        (lambda p: tf.scatter(p.y, tf.cast(p.y, "i32"), p.any), None),
        (lambda p: tf.simple_reduce(p.x, 1, p.c), ["1", "C"]),
        (lambda p: tf.softmax(p.x), ["N", "C"]),
        (lambda p: tf.prng(p.any, p.n, 3)[0], ["N", "3"]),
        (lambda p: tf.prng(p.any, p.n, 3)[1], ["4"]),
        (lambda p: tf.call("element", tf.call("tuple", p.x, p.v), 1), ["C"]),
        (lambda p: tf.gradient(p.x * p.v, p.v), ["C"]),
        (lambda p: tf.gradient(p.x * p.v, p.v, p.x)[1], ["N", "C"]),
        (lambda p: tf.vjp([p.x, p.v], [p.x, 2], p.x), ["N", "C"]),
        (lambda p: tf.vjp([p.x, p.v], [1, 2], p.x), ["N", "C"]),
        (lambda p: tf.jvp(p.x * p.v, [p.x, p.v], [1, 2.0]), ["N", "C"]),
        (lambda p: tf.vjp(p.x * p.v, 1, p.x, p.v)[1], ["C"]),
        (lambda p: tf.jvp(p.x * p.v, p.v, 1), ["N", "C"]),
        (lambda p: tf.jvp([p.x, p.v], p.v, 1)[1], ["C"]),
        (lambda p: tf.call("element", tf.call("jvp", p.any, p.x, p.x), 0), None),
        (lambda p: tf.call("element", p.any, 0), None),
        (lambda p: tf.call("override_gradient", p.x, p.v, p.v), ["N", "C"]),
        (lambda p: tf.call("stop_gradient", p.x), ["N", "C"]),
        (lambda p: p.f.let("Named", p.v * 2), ["C"]),
        (lambda p: p.f.let("Size", p.n), []),
        (lambda p: p.f.tensor("T", p.n + 1, 3 * 4), ["N + 1", "12"]),
        (lambda p: p.any + p.v, None),
        (lambda p: tf.gather(p.any, tf.cast(p.y, "i32")), None),
    ],
)
def test_sizes_of_every_kind_of_statement(p: Parts, build: Callable[[Parts], Tensor], sizes: list[str] | None) -> None:
    tensor = build(p)
    if sizes is None:
        with pytest.raises(tileir.TileError, match="TIL209"):
            tensor.dims  # noqa: B018
        return
    assert tensor.rank == len(sizes)
    assert [expression_text(dim.expr) for dim in tensor.dims] == sizes


def test_literals_fold(p: Parts) -> None:
    three = p.f.sum(p.x[p.f.index("i"), p.f.index("j")], [p.f.index("i")], [3]).dims[0]
    assert three.value == 3
    values = [three + 1, 1 - three, three * 2, 7 // three, three % 2, three.max(4), three.min(2), -three]
    assert [dim.value for dim in values] == [4, -2, 6, 2, 1, 4, 2, -3]
    assert (p.n + 0, 0 + p.n, p.n * 1, 1 * p.n, p.n / 1, p.n - 0) == (p.n,) * 6
    assert [dim.value for dim in (1 / p.n, 0 - p.n, p.n, three / 0, three % 0)] == [None] * 5


def test_quotients_of_literals_are_those_of_tile(p: Parts) -> None:
    three = p.f.sum(p.x[p.f.index("i"), p.f.index("j")], [p.f.index("i")], [3]).dims[0]
    values = [three / 2, -three / 2, three / -2, -three / -2, three % -2, -three % 2, -three % 3]
    assert [dim.value for dim in values] == [1, -1, -1, 1, 1, -1, 0]


def test_a_literal_is_the_size_of_what_it_is_broadcast_with(p: Parts) -> None:
    i = p.f.index("i")
    three = p.f.sum(p.v[i], [i], [3])
    assert [(three + p.v).dims[0].value, (p.v + three).dims[0].value] == [3, 3]


def test_rank_is_that_of_accesses_where_sizes_are_unknown(p: Parts) -> None:
    p.f.sum(p.any[p.f.index("i"), 0], [0], [1])
    assert p.any.rank == 2
    with pytest.raises(tileir.TileError, match="TIL209"):
        (p.any + 1).rank  # noqa: B018


@pytest.mark.sampled(0)
def test_long_chains_need_no_stack(p: Parts) -> None:
    value: Any = p.x
    for _ in range(20_000):
        value = value + p.y
    assert value.dims[1] == p.c
    assert value.dims[0] == (p.x + p.y).dims[0]


def test_sizes_cost_nothing_where_nobody_asks(p: Parts) -> None:
    value = p.x + p.y * 2
    assert set(p.f._recorder.sizes) == {"X", "Y", "V", "Any", "S"}
    assert value.rank == 2
