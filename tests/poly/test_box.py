from __future__ import annotations

from itertools import product
from unittest.mock import patch

import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.poly import NAMES, affines
from strategies.polyhedra import between, set_of
from tileir.poly import box as box_module
from tileir.poly.affine import Affine
from tileir.poly.box import enclose, feasible, implied, propagate
from tileir.poly.constraint import Row, Span, System, system
from tileir.poly.simplex import Budget

i, j, k, x, y = (Affine.index(name) for name in "ijkxy")

conditions = st.lists(st.tuples(affines(denominators=(1,)), st.integers(1, 30)), max_size=5)
extents = st.fixed_dictionaries({name: st.tuples(st.integers(-9, 0), st.integers(0, 12)) for name in NAMES})


@examples(200)
@given(rows=conditions, box=extents)
def test_the_box_is_that_of_isl(rows: list[tuple[Affine, int]], box: dict[str, Span]) -> None:
    limits = [f"{low} <= {name} <= {high}" for name, (low, high) in box.items()]
    points = set_of(NAMES, [*limits, *(between(p, n) for p, n in rows)])
    given_system = system(NAMES, rows, box)
    bounded = None if given_system is None else enclose(given_system)
    assert (bounded is None) == points.is_empty()
    assert given_system is None or feasible(given_system) is not points.is_empty()
    if bounded is not None:
        for number, name in enumerate(NAMES):
            low, high = bounded.box[name]
            assert (low, high) == (points.dim_min_val(number).to_python(), points.dim_max_val(number).to_python())


@examples(100)
@given(rows=conditions, box=extents)
def test_rows_that_are_left_out_follow_from_the_box(rows: list[tuple[Affine, int]], box: dict[str, Span]) -> None:
    given_system = system(NAMES, rows, {name: (0, min(4, high or 0)) for name, (_, high) in box.items()})
    bounded = None if given_system is None else enclose(given_system)
    if bounded is None:
        return
    assert not any(implied(row, bounded.box) for row in bounded.rows)
    for point in product(*(range(low, high + 1) for low, high in (bounded.box[n] for n in NAMES))):
        binding = dict(zip(NAMES, point, strict=True))
        kept = all(_satisfies(row, binding) for row in bounded.rows)
        assert kept == all(0 <= p.evaluate(binding) < n for p, n in rows)


def _satisfies(row: Row, binding: dict[str, int]) -> bool:
    value = sum(c * binding[name] for name, c in row.terms)
    return (row.low is None or row.low <= value) and (row.high is None or value <= row.high)


def ordinary(text: str) -> System:
    """The system of a well-known contraction at large sizes."""
    rows: dict[str, list[tuple[Affine, int]]] = {
        "matmul": [(i, 10**6), (j, 10**6), (k, 10**6), (i, 10**6)],
        "convolution": [(x, 224), (y, 224), (i, 3), (j, 3), (x + i - 1, 224), (y + j - 1, 224)],
        "strided": [(x, 112), (i, 7), (2 * x + i - 3, 224)],
        "dilated": [(x, 10**6), (i, 3), (x + 3 * i - 3, 10**6)],
        "prefix sum": [(i, 10**6), (k, 10**6), (i - k, 10**6)],
        "subdivision": [(i, 2), (i + 2 * j, 70), (k, 3), (i + 2 * k, 5)],
    }
    found = system(sorted({n for p, _ in rows[text] for n in p.indices}), rows[text])
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "box"),
    [
        ("matmul", {"i": (0, 10**6 - 1), "j": (0, 10**6 - 1), "k": (0, 10**6 - 1)}),
        ("convolution", {"i": (0, 2), "j": (0, 2), "x": (0, 223), "y": (0, 223)}),
        ("strided", {"i": (0, 6), "x": (0, 111)}),
        ("dilated", {"i": (0, 2), "x": (0, 10**6 - 1)}),
        ("prefix sum", {"i": (0, 10**6 - 1), "k": (0, 10**6 - 1)}),
        ("subdivision", {"i": (0, 1), "j": (0, 34), "k": (0, 2)}),
    ],
)
def test_ordinary_systems_need_no_integer_program(text: str, box: dict[str, tuple[int, int]]) -> None:
    with patch.object(box_module, "minimise", side_effect=AssertionError("called")):
        bounded = enclose(ordinary(text))
    assert bounded is not None
    assert bounded.box == box


def test_propagation_that_creeps_is_left_to_integer_programs() -> None:
    given_system = system("ixy", [(x, 10**9), (y, 10**9), (i, 10**9), (y - x - 1, None), (i - y, None), (x - i, None)])
    assert given_system is not None
    assert enclose(given_system) is None
    assert feasible(given_system) is False


def test_a_budget_that_ends_gives_sound_limits() -> None:
    rows = (Row((("x", 2), ("y", 2)), 3, 3),)
    wide: dict[str, Span] = {"x": (0, 10**6), "y": (-(10**6), 10**6)}
    with patch.object(box_module, "Budget", lambda: Budget(200)):
        bounded = enclose(System(wide, rows))
        assert feasible(System(wide, rows)) is None
    assert bounded is not None
    assert bounded.rows == rows


@pytest.mark.parametrize("box", [{"x": (0, None)}, {"x": (None, None)}])
def test_open_indices_are_refused(box: dict[str, Span]) -> None:
    with pytest.raises(ValueError, match="do not confine"):
        enclose(System(box, ()))


def test_propagation_keeps_what_it_cannot_bound() -> None:
    box: dict[str, Span] = {"x": (0, None), "y": (None, 4)}
    rows = (Row((("x", 1), ("y", -1)), None, 3),)
    assert propagate(box, rows) == rows
    assert box == {"x": (0, 7), "y": (-3, 4)}


@pytest.mark.parametrize("sign", [1, -1])
def test_two_open_indices_bound_neither(sign: int) -> None:
    low, high = (None, 5) if sign > 0 else (-5, None)
    box: dict[str, Span] = {"x": (low, high), "y": (low, high)}
    rows = (Row((("x", sign), ("y", sign)), None, 3),)
    assert propagate(box, rows) == rows
    assert box == {"x": (low, high), "y": (low, high)}


def test_crossed_spans_are_empty() -> None:
    crossed = System({"x": (1, 0), "y": (0, 1)}, ())
    assert enclose(crossed) is None
    assert feasible(crossed) is False


def test_each_independent_part_has_to_have_a_point() -> None:
    even = Row((("x", 2), ("y", -2)), 1, 1)
    free = Row((("i", 1), ("j", 1)), 3, 4)
    wide: Span = (0, 1000)
    box = dict.fromkeys("ijxy", wide)
    assert propagate(dict(box), (even,)) == (even,)  # only an integer program tells
    assert feasible(System(box, (free,))) is True
    assert feasible(System(box, (free, even))) is False
    assert feasible(System(box, (even, free))) is False
    assert enclose(System(box, (free, even))) is None


def test_an_exhausted_part_does_not_hide_an_empty_one() -> None:
    wide: dict[str, Span] = {"x": (0, 10**6), "y": (-(10**6), 10**6), "i": (0, 30), "j": (0, 30)}
    hard = Row((("x", 2), ("y", 2)), 3, 3)
    empty = Row((("i", 2), ("j", -2)), 1, 1)
    assert propagate(dict(wide), (empty,)) == (empty,)
    with patch.object(box_module, "Budget", lambda: Budget(20000)):
        assert feasible(System(wide, (hard,))) is None
        assert feasible(System(wide, (empty, hard))) is False


@pytest.mark.parametrize(
    ("low", "high", "empty"),
    [(7, None, True), (6, None, False), (None, -1, True), (None, 0, False), (7, 9, True), (-9, -1, True)],
)
def test_a_row_out_of_the_reach_of_its_box_leaves_nothing(low: int | None, high: int | None, empty: bool) -> None:
    box: dict[str, Span] = {"x": (0, 3), "y": (0, 3)}
    kept = propagate(box, (Row((("x", 1), ("y", 1)), low, high),))
    assert (kept is None) == empty
    assert kept is None or box == {"x": (3, 3), "y": (3, 3)} or box == {"x": (0, 0), "y": (0, 0)}
