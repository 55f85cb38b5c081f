from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import attrs
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from tileir.core.dtype import DType
from tileir.passes.analysis.dependences import with_dependences
from tileir.poly.affine import Affine
from tileir.stripe import dependences as module
from tileir.stripe.check.scope import Scope, enter
from tileir.stripe.dependences import Order, dependences, requirements
from tileir.stripe.ir import Block, Device, Dim, Direction, Index, Load, Refinement, Special, Store, TensorShape
from tileir.stripe.text.parser import parse_block

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.stripe.ir import Statement


def scope_of(text: str) -> Scope:
    return enter(parse_block(f"0: {text.strip()}"), None, 0)


def test_scalars_order_what_uses_them() -> None:
    scope = scope_of("""
block []:1 (
    none new@0x00000000 A[0] fp32:I(4):(1):16 B
    none new@0x00000000 B[0] fp32:I(4):(1):16 B
) {
  0: $a = load(A)
  1: $c = (fp32)1.0
  2: $b = add($a, $c)
  3: B = store($b)
}
""")
    assert dependences(scope) == ((), (), (0, 1), (2,))


TILES = """
block []:1 (
    none new@0x00000000 A[0, 0] fp32:I(8, 8):(8, 1):256 B
) {{
  0: block [i:4]:4 (
      out A[{first}] fp32:I(1, 1):(8, 1):4 B
  ) {{
    0: $c = (fp32)1.0
    1: A = store($c)
  }}
  1: block [j:4]:4 (
      {direction} A[{second}] fp32:I(1, 1):(8, 1):4 B
  ) {{
    0: $c = {body}
  }}
}}
"""


@pytest.mark.parametrize(
    ("first", "second", "related"),
    [
        ("i, 0", "j, 0", True),
        ("i, 0", "j + 4, 0", False),
        ("i, 0", "j + 3, 0", True),
        ("2*i, 0", "2*j + 1, 0", False),
        ("2*i, 0", "2*j, 0", True),
        ("i, i", "j, j + 1", False),
        ("i, i", "j + 1, j", False),
        ("i, 2*i", "2*j, j", True),
        ("0, i", "1, j", False),
    ],
)
def test_accesses_are_told_apart_exactly(first: str, second: str, related: bool) -> None:
    text = TILES.format(first=first, second=second, direction="in", body="load(A)")
    assert dependences(scope_of(text)) == ((), (0,) if related else ())


def test_reads_do_not_wait_for_each_other() -> None:
    block = parse_block("0: " + TILES.format(first="i, 0", second="j, 0", direction="in", body="load(A)").strip())
    read = block.statements[1]
    more = attrs.evolve(block, statements=(*block.statements, read, block.statements[0]))
    assert dependences(enter(more, None, 0)) == ((), (0,), (0,), (1, 2))


def test_views_of_one_source_are_one_memory() -> None:
    inner = parse_block("""
0: block []:1 (
    out A[0] fp32:I(4):(1):16 B
    out B = A[2] fp32:I(4):(1):16 B
    out C = A[4] fp32:I(4):(1):16 B
) {
  0: (A) = zero()
  1: (B) = zero()
  2: (C) = zero()
}
""")
    shape = TensorShape.dense(DType.F32, (8,))
    outer = Block(refinements=(Refinement("A", Direction.NONE, "", (Affine(),), shape),), statements=(inner,))
    assert dependences(enter(inner, enter(outer, None, 0), 0)) == ((), (0,), (1,))


def _placed(name: str, offset: int | None, unit: int) -> Refinement:
    location = (Device("SRAM", (Affine.constant(unit),)),)
    shape = TensorShape.dense(DType.F32, (4,))
    return Refinement(name, Direction.NONE, "", (Affine(),), shape, location=location, offset=offset)


@pytest.mark.parametrize(
    ("offset", "unit", "related"), [(0, 0, True), (12, 0, True), (16, 0, False), (0, 1, False), (None, 0, False)]
)
def test_placed_memory_is_the_same_where_its_bytes_are(offset: int | None, unit: int, related: bool) -> None:
    views = (_placed("A", 0, 0), _placed("B", offset, unit))
    block = Block(refinements=views, statements=(Special("zero", (), ("A",)), Special("zero", (), ("B",))))
    assert dependences(enter(block, None, 0)) == ((), (0,) if related else ())


def test_parts_of_placed_memory_are_told_apart_by_elements() -> None:
    shape = TensorShape.dense(DType.F32, (2,))
    views = (Refinement("V", Direction.OUT, "A", (Affine.constant(n),), shape) for n in (0, 2, 1))
    writes = tuple(Block(refinements=(v,), statements=(Special("zero", (), ("V",)),)) for v in views)
    block = Block(refinements=(_placed("A", 0, 0),), statements=writes)
    assert dependences(enter(block, None, 0)) == ((), (), (0, 1))


def test_what_reuses_bytes_waits_for_all_parts_of_what_lay_there() -> None:
    parts = [_part("A", first, 2, writes=True) for first in (0, 2)]
    block = Block(refinements=(_placed("A", 0, 0), _placed("B", 0, 0)), statements=(*parts, _part("B", 0, 1, True)))
    assert dependences(enter(block, None, 0)) == ((), (), (0, 1))


def _part(name: str, first: int, size: int, writes: bool) -> Block:
    """Return a statement that reads or writes some elements of a vector."""
    direction = Direction.OUT if writes else Direction.IN
    view = Refinement("V", direction, name, (Affine.constant(first),), TensorShape(DType.F32, (Dim(size, 1),)))
    return Block(refinements=(view,), statements=(Special("zero", (), ("V",)) if writes else Load("V", "x"),))


def _vector(name: str) -> Refinement:
    return Refinement(name, Direction.NONE, "", (Affine(),), TensorShape.dense(DType.F32, (16,)))


def test_a_write_of_everything_stands_for_what_came_before() -> None:
    statements = [_part("A", first, size, writes) for first, size, writes in ((0, 4, True), (2, 1, False))]
    statements += [_part("A", 0, 16, True), _part("A", 1, 1, False), _part("A", 0, 16, True), _part("A", 2, 1, True)]
    scope = enter(Block(refinements=(_vector("A"),), statements=tuple(statements)), None, 0)
    assert list(requirements(scope)) == [(), (0,), (0, 1), (2,), (2, 3), (4,)]


def test_many_partial_writes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_PENDING", 4)
    elements = [_part("A", n, 1, True) for n in range(16)] + [_part("A", n, 1, False) for n in range(16)]
    found = dependences(enter(Block(refinements=(_vector("A"),), statements=tuple(elements)), None, 0))
    assert found[:5] == ((), (), (), (), (0, 1, 2, 3))
    order = _order(found)
    assert all(order.follows(16 + n, n) for n in range(16))


def test_pending_writes_of_one_memory_hold_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_PENDING", 2)
    statements = [_part("A", 0, 1, True), _part("A", 1, 1, True), _part("B", 0, 1, True)]
    apart = attrs.evolve(_placed("B", 0, 0), location=(Device("DRAM", (Affine(),)),))
    for views in ((_vector("A"), _vector("B")), (_placed("A", 0, 0), apart)):
        block = Block(refinements=views, statements=tuple(statements))
        assert dependences(enter(block, None, 0)) == ((), (), ())


def _order(deps: Sequence[Sequence[int]]) -> Order:
    order = Order()
    for direct in deps:
        order.add(direct)
    return order


PARTS = st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(1, 2), st.booleans())
PLACES = st.tuples(st.integers(0, 5), st.integers(0, 1))


@given(st.tuples(PLACES, PLACES, PLACES), st.lists(PARTS, min_size=2, max_size=7), st.integers(1, 8))
@examples(300)
def test_the_closure_of_deps_orders_bytes_that_are_used_again(
    places: Sequence[tuple[int, int]], drawn: list[tuple[int, int, int, bool]], most: int
) -> None:
    """Parts of one memory clash where elements do, and two memories on one unit where their bytes do."""
    views = tuple(_placed("ABC"[n], 4 * offset, unit) for n, (offset, unit) in enumerate(places))
    statements = tuple(_part("ABC"[n], first, size, writes) for n, first, size, writes in drawn)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MOST_PENDING", most)
        found = _order(dependences(enter(Block(refinements=views, statements=statements), None, 0)))
    needed = Order()
    for number, (name, first, size, writes) in enumerate(drawn):
        clash = []
        for other, (known, start, count, also) in enumerate(drawn[:number]):
            elements = first < start + count and start < first + size
            (offset, unit), (place, place_unit) = places[name], places[known]
            meets = elements if name == known else unit == place_unit and abs(offset - place) < 4
            clash += [other] if meets and (writes or also) else []
        needed.add(clash)
    for earlier, later in combinations(range(len(drawn)), 2):
        follows = found.follows(later, earlier)
        assert follows == needed.follows(later, earlier) or (follows and most < len(drawn))


AXES = st.tuples(st.integers(0, 5), st.integers(-2, 2), st.integers(1, 3), st.integers(1, 2))


def _touched(axes: Sequence[tuple[int, int, int, int]]) -> set[tuple[int, ...]]:
    """Return the elements of a block over one index that moves all axes: (offset, coefficient, range, size)."""
    found: set[tuple[int, ...]] = set()
    count = axes[0][2]
    for i in range(count):
        cells = [[offset + step * i + k for k in range(size)] for offset, step, _, size in axes]
        found.update((a, b) for a in cells[0] for b in cells[1])
    return found


def _toucher(axes: Sequence[tuple[int, int, int, int]], writes: bool) -> Statement:
    access = tuple(Affine.of({"i": step}, offset + 8) for offset, step, _, _ in axes)
    dims = tuple(Dim(size, stride) for (_, _, _, size), stride in zip(axes, (32, 1), strict=True))
    direction = Direction.OUT if writes else Direction.IN
    view = Refinement("V", direction, "A", access, TensorShape(DType.F32, dims))
    body: Statement = Special("zero", (), ("V",)) if writes else Load("V", "x")
    return Block(indices=(Index("i", axes[0][2]),), refinements=(view,), statements=(body,))


@given(st.lists(st.tuples(AXES, AXES, st.booleans()), min_size=2, max_size=6))
@examples(200)
def test_the_closure_of_deps_is_the_order_that_elements_ask_for(
    drawn: list[tuple[tuple[int, int, int, int], tuple[int, int, int, int], bool]],
) -> None:
    whole = Refinement("A", Direction.NONE, "", (Affine(), Affine()), TensorShape.dense(DType.F32, (32, 32)))
    statements = tuple(_toucher((a, b), writes) for a, b, writes in drawn)
    deps = dependences(enter(Block(refinements=(whole,), statements=statements), None, 0))
    order = _order(deps)
    needed = Order()
    for number, (a, b, writes) in enumerate(drawn):
        clash = [
            other
            for other, (c, d, also) in enumerate(drawn[:number])
            if (writes or also) and _touched((a, b)) & _touched((c, d))
        ]
        needed.add(clash)
    for earlier, later in combinations(range(len(drawn)), 2):
        assert order.follows(later, earlier) == needed.follows(later, earlier)
    for number, direct in enumerate(deps):
        for one, other in combinations(direct, 2):
            assert not order.follows(other, one), f"{direct} of {number} are not minimal"


def test_a_block_that_has_its_deps_is_returned_itself() -> None:
    views = (_placed("A", None, 0),)
    block = Block(refinements=views, statements=(Special("zero", (), ("A",)), Store("x", "A")))
    done = with_dependences(enter(block, None, 0))
    assert with_dependences(enter(done, None, 0)) is done


@st.composite
def acyclic(draw: st.DrawFn) -> list[tuple[int, ...]]:
    """Draw, for each of some statements, earlier ones that it must follow."""
    count = draw(st.integers(0, 12))
    return [tuple(sorted(draw(st.sets(st.integers(0, n - 1), max_size=4)))) if n else () for n in range(count)]


def followed(needed: list[tuple[int, ...]]) -> list[set[int]]:
    """Return, for each statement, all that it follows, directly or not."""
    closed: list[set[int]] = []
    for several in needed:
        closed.append(set(several).union(*(closed[number] for number in several)))
    return closed


@examples(300)
@given(acyclic(), st.integers(1, 14))
def test_an_order_is_the_transitive_closure_as_far_as_it_looks_back(needed: list[tuple[int, ...]], window: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "WINDOW", window)
        order = Order()
        for several in needed:
            order.add(several)
        closed = followed(needed)
        for later in range(len(needed)):
            assert not order.follows(later, later)
            for earlier in range(later):
                assert not order.follows(earlier, later)
                if order.follows(later, earlier):
                    assert earlier in closed[later]
                    assert later - earlier <= window
                elif later >= len(needed) - window and later - earlier <= window:
                    assert earlier not in closed[later]


@examples(300)
@given(acyclic(), st.integers(1, 14))
def test_direct_dependencies_are_a_transitive_reduction(needed: list[tuple[int, ...]], window: int) -> None:
    order, kept = Order(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "WINDOW", window)
        for several in needed:
            kept.append(order.direct(several))
            order.add(kept[-1])
    closed = followed(needed)
    assert followed(kept) == closed
    for later, several in enumerate(kept):
        for number in several:
            assert later - number > window or not any(number in closed[other] for other in several)
