"""Mistakes with the Python builder: the code of each, raised at once and at the line of the user."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from strategies.tile_parts import Parts
from tileir import ops
from tileir.core.errors import TileError
from tileir.tile import builder_functions as tf
from tileir.tile.builder import FunctionBuilder

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.tile.builder import Polynomial


@pytest.fixture
def p() -> Parts:
    return Parts()


def _twice(f: FunctionBuilder) -> None:
    c = f.tensor("C", 3)
    i = f.index("i")
    c[i] += f.scalar("S")[()]
    c[i] += f.scalar("R")[()]


MISTAKES: dict[str, tuple[str, Callable[[Any], object]]] = {
    "an index as a tensor": ("TIL203", lambda p: p.x + p.i),
    "an index as a tensor, on the left": ("TIL203", lambda p: p.i * p.x),
    "an index as an argument": ("TIL203", lambda p: tf.exp(p.i)),
    "an index in a combination": ("TIL203", lambda p: p.b[p.i] * p.i),
    "a dimension in a combination": ("TIL205", lambda p: p.b[p.i] * p.n),
    "a number in a combination": ("TIL215", lambda p: p.b[p.i] * 2),
    "a number before a combination": ("TIL215", lambda p: 2 * p.b[p.i]),
    "a tensor in a combination": ("TIL215", lambda p: p.b[p.i] * p.x),
    "a combination with an array": ("TIL215", lambda p: p.b[p.i] * np.ones(3)),
    "an element in an operator": ("TIL215", lambda p: p.x + p.b[p.i]),
    "an element as an argument": ("TIL215", lambda p: tf.exp(p.b[p.i])),
    "a difference of elements": ("TIL215", lambda p: p.b[p.i] - p.b[p.j]),
    "a negated element": ("TIL215", lambda p: -p.b[p.i]),
    "three elements": ("TIL210", lambda p: p.b[p.i] * p.b[p.j] * p.b[p.k]),
    "an element of an element": ("TIL215", lambda p: p.b[p.i][p.j]),
    "the truth of an element": ("TIL215", lambda p: bool(p.b[p.i] == p.b[p.j])),
    "a condition that is no equality": ("TIL210", lambda p: tf.where(p.b[p.i] * p.b[p.j], p.b[p.k])),
    "a conditional of two elements": ("TIL210", lambda p: tf.where(p.b[p.i] == p.b[p.j], p.b[p.k] * p.b[p.i])),
    "an else in a contraction": ("TIL210", lambda p: tf.where(p.b[0] == p.b[1], p.b[2], p.b[3])),
    "no else": ("TIL207", lambda p: tf.where(p.x, p.x)),
    "a product of indices": ("TIL402", lambda p: p.i * p.j),
    "a quotient of indices": ("TIL402", lambda p: p.i / p.j),
    "a number by an index": ("TIL402", lambda p: 3 // p.i),
    "an index by zero": ("TIL402", lambda p: p.i / 0),
    "a remainder of an index": ("TIL402", lambda p: p.i % 2),
    "a power of an index": ("TIL402", lambda p: p.i**2),
    "a power of a dimension": ("TIL215", lambda p: p.n**2),
    "a dimension as an exponent": ("TIL215", lambda p: 2**p.n),
    "an index as an exponent": ("TIL402", lambda p: 2**p.i),
    "a float index": ("TIL217", lambda p: p.b[0.5]),
    "a float factor of an index": ("TIL214", lambda p: p.i * 0.5),
    "a text as an index": ("TIL217", lambda p: p.b["i"]),
    "a mask as an index": ("TIL215", lambda p: p.b[p.b > 0]),
    "a truth value as an index": ("TIL215", lambda p: p.b[True]),
    "a fractional dimension as an index": ("TIL215", lambda p: p.b[p.i + p.n * 0.5]),
    "too few indices": ("TIL209", lambda p: p.a[p.i]),
    "too many indices": ("TIL209", lambda p: p.b[p.i, p.j]),
    "another number of indices than before": ("TIL209", lambda p: (p.x[p.i], p.x[p.i, p.j])),
    "a bound with an index": ("TIL402", lambda p: p.i < p.j),
    "a tensor as a bound": ("TIL204", lambda p: p.i < p.x),
    "another comparison of an index": ("TIL214", lambda p: p.i >= 3),
    "no constraint": ("TIL215", lambda p: p.b[p.i].given(True)),
    "the truth of a tensor": ("TIL215", lambda p: p.x if p.x > 0 else -p.x),
    "the truth of an index": ("TIL215", lambda p: bool(p.i)),
    "the truth of a dimension": ("TIL215", lambda p: bool(p.n)),
    "an iterated tensor": ("TIL215", lambda p: list(p.x)),
    "an iterated index": ("TIL215", lambda p: list(p.i)),
    "an iterated dimension": ("TIL205", lambda p: list(p.n)),
    "the length of a tensor": ("TIL215", lambda p: len(p.x)),
    "an element of a dimension": ("TIL205", lambda p: p.n[p.i]),
    "a range of a dimension": ("TIL215", lambda p: range(p.n)),
    "a range of an index": ("TIL215", lambda p: range(p.i)),
    "an array of a tensor": ("TIL215", lambda p: np.asarray(p.x)),
    "a tensor with a text": ("TIL215", lambda p: p.x + "1"),
    "a tensor with nothing": ("TIL215", lambda p: p.x == None),  # noqa: E711
    "a tensor with a huge integer": ("TIL104", lambda p: p.x + 2**64),
    "a function that there is not": ("TIL206", lambda p: tf.call("exo", p.x)),
    "too few arguments": ("TIL207", lambda p: tf.call("pow", p.x)),
    "arguments without a tensor": ("TIL215", lambda _: tf.exp(2)),
    "a tensor as an axis": ("TIL204", lambda p: tf.index(p.x, p.x)),
    "no element type": ("TIL206", lambda p: tf.cast(p.x, "f8")),
    "a name that is taken": ("TIL202", lambda p: p.f.input("A")),
    "two indices of one name": ("TIL202", lambda p: p.f.indices("x y x")),
    "a tensor called as a dimension": ("TIL202", lambda p: p.f.tensor("N", 3)),
    "a dimension called as a tensor": ("TIL202", lambda p: p.f.input("C", "A")),
    "a name of several lines": ("TIL211", lambda p: p.f.input("a\nb")),
    "a name that is no text": ("TIL211", lambda p: p.f.input(3)),
    "a dimension that is no name": ("TIL211", lambda p: p.f.input("C", 3.5)),
    "a size below 0": ("TIL212", lambda p: p.f.input("C", "K", -3)),
    "a dtype of an input that does not exist": ("TIL206", lambda p: p.f.input("C", dtype="float32")),
    "a declared result that is no tensor": ("TIL205", lambda p: p.f.result(p.n, dtype="f32")),
    "a dimension that is computed": ("TIL215", lambda p: p.f.input("C", p.n + 1)),
    "an index with a bad name": ("TIL211", lambda p: p.f.indices("i 2j")),
    "an attribute with a bad name": ("TIL211", lambda p: p.f.attribute("a b")),
    "a tensor as a size": ("TIL204", lambda p: p.f.tensor("C", p.x)),
    "an index as a size": ("TIL204", lambda p: p.f.tensor("C", p.i)),
    "a float as a size": ("TIL215", lambda p: p.f.tensor("C", 2.0)),
    "a text as a size": ("TIL215", lambda p: p.f.tensor("C", "N")),
    "a default of another rank": ("TIL209", lambda p: p.f.tensor("C", p.n, default=p.a)),
    "a number as a default": ("TIL205", lambda p: p.f.tensor("C", p.n, default=0)),
    "an undefined tensor in an operator": ("TIL201", lambda p: p.f.tensor("C", p.n) + 1),
    "an undefined tensor in a combination": ("TIL201", lambda p: p.f.sum(p.f.tensor("C", 3)[p.i], [], [])),
    "an undefined default": ("TIL201", lambda p: p.f.tensor("D", p.n, default=p.f.tensor("C", p.n))),
    "another number of indices than sizes": ("TIL208", lambda p: p.f.sum(p.b[p.i], [p.i], [])),
    "a tensor to aggregate": ("TIL215", lambda p: p.f.sum(p.x, [p.i], [p.n])),
    "a tensor defined twice": ("TIL202", lambda p: _twice(p.f)),
    "an aggregation onto an input": ("TIL202", lambda p: p.b[p.i].sum(p.b[p.i])),
    "a comparison of elements": ("TIL202", lambda p: p.b[p.i] >= p.b[p.j]),
    "an assignment to an input": ("TIL202", lambda p: operator.setitem(p.b, p.i, p.a[p.i, p.j])),
    "an aggregation of another tensor": (
        "TIL215",
        lambda p: operator.setitem(p.b, p.i, p.f.tensor("C", 3)[p.i].__iadd__(p.b[p.i])),
    ),
    "a chain of comparisons": ("TIL215", lambda p: p.f.tensor("C", 3)[p.i] >= p.b[p.i] == p.b[p.j]),
    "a subtraction onto a tensor": ("TIL215", lambda p: p.f.tensor("C", 3)[p.i].__isub__(p.b[p.i])),
    "sizes that were not declared": ("TIL209", lambda p: p.x.dims),
    "a dimension of another builder": ("TIL216", lambda p: p.f.tensor("C", Parts().n)),
    "a dimension of another builder in arithmetic": ("TIL216", lambda p: p.n + Parts().m),
    "an index of another builder": ("TIL216", lambda p: p.b[Parts().i]),
    "indices of two builders": ("TIL216", lambda p: p.i + Parts().i),
    "a tensor of another builder": ("TIL216", lambda p: p.x + Parts().x),
    "an element of another builder": ("TIL216", lambda p: p.b[p.i] * Parts().b[0]),
    "a dimension name of another builder": ("TIL216", lambda p: p.f.input("C", Parts().n)),
    "an output of another builder": ("TIL216", lambda p: p.f.build(Parts().x)),
    "no output": ("TIL213", lambda p: p.f.build()),
    "a dimension as an output": ("TIL205", lambda p: p.f.build(p.n)),
    "an undefined output": ("TIL201", lambda p: p.f.build(p.f.tensor("C", p.n))),
    "a tensor that no contraction defines": ("TIL201", lambda p: (p.f.tensor("C", p.n), p.f.build(p.x))),
    "a value after the end": ("TIL216", lambda p: (p.f.build(p.x), p.x + 1)),
    "an input after the end": ("TIL216", lambda p: (p.f.build(p.x), p.f.input("C"))),
    "a second end": ("TIL216", lambda p: (p.f.build(p.x), p.f.build(p.x))),
    "a contraction after the end": ("TIL216", lambda p: (p.f.build(p.x), p.f.sum(p.b[p.i], [], []))),
    "an index that is only bounded": ("TIL403", lambda p: p.f.build(p.f.sum(p.b[p.i].given(p.j < 3), [], []))),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(p: Parts, name: str) -> None:
    code, make = MISTAKES[name]
    with pytest.raises(TileError) as caught:
        make(p)
    (fault,) = caught.value.diagnostics
    assert fault.code == code
    assert fault.span is not None
    assert fault.span.source.name == __file__


def test_a_mistake_underlines_the_expression() -> None:
    f = FunctionBuilder()
    a = f.input("A", "N")
    i, j = f.indices("i j")
    with pytest.raises(TileError) as caught:
        a[i * j]  # type: ignore[operator]
    (fault,) = caught.value.diagnostics
    assert (fault.code, fault.underlined) == ("TIL402", "i * j")


def test_a_mistake_in_one_of_several_expressions_of_a_line_underlines_that_one() -> None:
    f = FunctionBuilder()
    a = f.input("A", "N")
    with pytest.raises(TileError) as caught:
        _ = (a + 1, a * a, "é", a - "x", a / 2)  # type: ignore[arg-type]
    assert caught.value.diagnostics[0].underlined == 'a - "x"'


def test_a_mistake_over_several_lines_underlines_all_of_it() -> None:
    f = FunctionBuilder()
    a = f.input("A", "N")
    with pytest.raises(TileError) as caught:
        _ = 1 + ops.softmax(
            a,
            dim=1,  # type: ignore[call-arg]
        )
    assert caught.value.diagnostics[0].underlined.split() == ["ops.softmax(", "a,", "dim=1,", "#", *_IGNORED, ")"]


_IGNORED = ("type:", "ignore[call-arg]")


def test_a_polynomial_without_end_is_refused(p: Parts) -> None:
    def doubled(polynomial: Polynomial, times: int) -> Polynomial:
        return polynomial if times == 0 else doubled(polynomial + polynomial, times - 1)

    assert doubled(p.i, 5).size == 63
    with pytest.raises(TileError) as caught:
        doubled(p.i, 100)
    assert [d.code for d in caught.value.diagnostics] == ["TIL103"]
