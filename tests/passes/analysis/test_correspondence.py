from __future__ import annotations

from itertools import product
from math import prod

from hypothesis import given, strategies as st

from tileir.core.text.names import NameScope
from tileir.passes.fusion.match import Correspondence, correspond
from tileir.poly.affine import Affine


def match(
    first: dict[str, int], one: dict[str, int], second: dict[str, int], two: dict[str, int]
) -> Correspondence | None:
    return correspond(Affine.of(first), one, Affine.of(second), two, NameScope.of([*one, *two]).fresh)


def test_equal_boxes_take_the_names_of_the_first() -> None:
    found = match({"i": 8, "j": 1}, {"i": 4, "j": 8}, {"a": 1, "b": 8}, {"a": 8, "b": 4})
    assert found is not None
    assert found.ranges == (("i", 4), ("j", 8))
    assert found.first == {}
    assert found.second == {"a": Affine.index("j"), "b": Affine.index("i")}


def test_a_linear_index_is_split() -> None:
    found = match({"i": 8, "j": 1}, {"i": 4, "j": 8}, {"k": 1}, {"k": 32})
    assert found is not None
    assert found.second == {"k": Affine.of({"i": 8, "j": 1})}
    found = match({"k": 1}, {"k": 32}, {"i": 8, "j": 1}, {"i": 4, "j": 8})
    assert found is not None
    assert found.ranges == (("k_1", 4), ("k_0", 8))
    assert found.first == {"k": Affine.of({"k_1": 8, "k_0": 1})}


def test_indices_of_one_point_are_0() -> None:
    found = match({"i": 1}, {"i": 4, "z": 1}, {"k": 1}, {"k": 4})
    assert found is not None
    assert found.first["z"] == Affine()


def test_boxes_that_do_not_correspond() -> None:
    assert match({"i": 1}, {"i": 4}, {"k": 1}, {"k": 5}) is None
    assert match({"i": 1}, {"i": 4}, {"k": -1}, {"k": 4}) is None
    assert match({"i": 1}, {"i": 4}, {"k": 2}, {"k": 4}) is None
    assert match({"i": 1}, {"i": 4, "j": 2}, {"k": 1}, {"k": 4}) is None
    assert match({"i": 4, "j": 1}, {"i": 3, "j": 4}, {"a": 3, "b": 1}, {"a": 4, "b": 3}) is None
    assert correspond(Affine.index("i"), {"i": 4}, Affine.index("k") + 1, {"k": 4}, str) is None


@st.composite
def radices(draw: st.DrawFn, prefix: str) -> tuple[Affine, dict[str, int]]:
    counts = draw(st.lists(st.sampled_from((1, 2, 3, 4, 6)), max_size=4))
    names = [f"{prefix}{number}" for number in range(len(counts))]
    strides = {name: prod(counts[:number]) for number, name in enumerate(names)}
    return Affine.of(strides), dict(draw(st.permutations(list(zip(names, counts, strict=True)))))


@given(radices("a"), radices("b"))
def test_corresponding_points_have_equal_addresses(
    first: tuple[Affine, dict[str, int]], second: tuple[Affine, dict[str, int]]
) -> None:
    names = NameScope.of([*first[1], *second[1]])
    found = correspond(first[0], first[1], second[0], second[1], names.fresh)
    if found is None:
        return
    assert first[0].substitute(found.first) == second[0].substitute(found.second)
    for values, ranges in ((found.first, first[1]), (found.second, second[1])):
        seen = set()
        for point in product(*(range(count) for _, count in found.ranges)):
            at = dict(zip((name for name, _ in found.ranges), point, strict=True))
            old = tuple((name, values.get(name, Affine.index(name)).evaluate(at)) for name in ranges)
            assert all(0 <= value < ranges[name] for name, value in old)
            seen.add(old)
        assert len(seen) == prod(ranges.values()) == prod(count for _, count in found.ranges)
