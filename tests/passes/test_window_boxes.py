"""Windows of convolutions that are copied as boxes of tensors, beyond whose ends lies what borders leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
from hypothesis import given, strategies as st

from passes.test_masked_products import OF_INPUT, check
from passes.test_matrix_boxes import STEP, TARGET, body_of
from strategies.effort import examples
from strategies.pipelines import fused
from tileir.core.dtype import DType
from tileir.core.json.codec import from_json, to_json
from tileir.driver.compiler import Stages, compile_stages
from tileir.passes.schedules.groups.distribute import Distribute
from tileir.schedule.remarks import Remarks, listening
from tileir.semtree.ir import BulkCopy, Const, DeclareArray, MatrixMultiply, Region
from tileir.stripe.ir import Program
from tileir.stripe.text.parser import parse
from tileir.stripe.text.printer import to_text
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.passes.schedules.groups.matrix.contraction import MatrixContraction

WINDOW = """function (A[N, Y, X, C], B[P, Q, C, F]) -> (R) {{
    R[n, y, x, f : N, {rows}, {columns}, F] = +(A[n, {s}*y + {d}*p - {b}, {s}*x + {d}*q - {left}, c] * B[p, q, c, f]);
}}"""
GROUPS = """function (A[N, Y, X, G, C], B[P, Q, G, C, F]) -> (R) {
    R[n, y, x, g, f : N, Y, X, G, F] = +(A[n, y + p - 1, x + q - 1, g, c] * B[p, q, g, c, f]);
}"""
SHARED = """function (A[N, Y, X, C], B[P, Q, G, K, F]) -> (R) {
    R[n, y, x, g, f : N, Y, X, G, F] = +(A[n, y + p - 1, x + q - 1, 24 * g + c] * B[p, q, g, c, f]);
}"""
TAIL = """function (A[N, Y, X, C], B[F, P, Q, C], D[F], E[N, Y, X, F]) -> (R) {
    S[n, y, x, f : N, Y, X, F] = +(A[n, y + p - 1, x + q - 1, c] * B[f, p, q, c]);
    T = S + D + E;
    R = max(T, 0);
}"""


def window(rows: int, columns: int, s: int = 1, d: int = 1, b: int = 1, left: int = 1) -> str:
    return WINDOW.format(rows=rows, columns=columns, s=s, d=d, b=b, left=left)


def stages(text: str, shapes: Mapping[str, tuple[int, ...]], step: MatrixContraction = STEP) -> Stages:
    types = {name: TensorType(DType.F16, shape) for name, shape in shapes.items()}
    target = attrs.evolve(TARGET, approximate=True)
    return compile_stages(text, types, target, passes=(*fused(target), step, Distribute(threads=128)))


def copies(found: Stages) -> list[BulkCopy]:
    return [stmt for stmt in body_of(found) if isinstance(stmt, BulkCopy)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("text", "shapes", "spots"),
    [
        (window(5, 8), {"A": (9, 5, 8, 16), "B": (3, 3, 16, 32)}, 2),
        (window(6, 9, b=5, left=0), {"A": (9, 3, 9, 8), "B": (7, 1, 8, 32)}, 1),
        (window(4, 9, s=2), {"A": (8, 8, 17, 16), "B": (3, 3, 16, 32)}, 1),
        (window(8, 8, d=2, b=2, left=2), {"A": (2, 8, 8, 24), "B": (3, 3, 24, 40)}, 1),
        (window(7, 9, b=0, left=2), {"A": (1, 9, 9, 8), "B": (3, 3, 8, 32)}, 0),
        (window(4, 8, s=2, b=0, left=0), {"A": (9, 7, 15, 128), "B": (1, 1, 128, 32)}, 0),
        (window(5, 8, b=0, left=0), {"A": (9, 7, 10, 16), "B": (3, 3, 16, 32)}, 0),
        (window(5, 8, b=0, left=0), {"A": (9, 5, 8, 128), "B": (1, 1, 128, 32)}, 0),
        (window(5, 8, b=0, left=0), {"A": (9, 7, 10, 128), "B": (3, 3, 128, 32)}, 0),
        (GROUPS, {"A": (9, 3, 8, 2, 16), "B": (3, 3, 2, 16, 32)}, 1),
        (OF_INPUT, {"A": (9, 4, 8, 16), "B": (3, 3, 32, 16)}, 1),
        (TAIL, {"A": (9, 4, 8, 16), "B": (32, 3, 3, 16), "D": (32,), "E": (9, 4, 8, 32)}, 1),
    ],
)
def test_windows_are_boxes(text: str, shapes: dict[str, tuple[int, ...]], spots: int) -> None:
    """An infinite weight makes those outputs infinite or none that read a pixel under it, and no others."""
    found = stages(text, shapes)
    assert copies(found)
    assert parse(to_text(found.scheduled)) == found.scheduled
    assert from_json(to_json(found.scheduled), Program) == found.scheduled
    check(found, shapes, spots, lowered=False)


@pytest.mark.sampled(0)
@pytest.mark.parametrize("spots", [0, 1])
@pytest.mark.parametrize(("stride", "turns"), [(1, False), (2, True)])
def test_kernels_copy_what_their_windows_see(stride: int, turns: bool, spots: int) -> None:
    shapes = {"A": (8, 3 * stride, 8 * stride, 16), "B": (3, 3, 16, 24)}
    step = attrs.evolve(STEP, turns=turns, groups=2)
    found = stages(window(3, 8, s=stride), shapes, step)
    assert copies(found)
    check(found, shapes, spots)


@given(
    picture=st.tuples(st.integers(1, 17), st.integers(4, 17)),
    batch=st.integers(1, 9),
    channels=st.tuples(st.integers(1, 9), st.integers(3, 6)),
    shape=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    form=st.fixed_dictionaries(
        {"s": st.integers(1, 3), "d": st.integers(1, 2), "b": st.integers(0, 4), "left": st.integers(0, 4)}
    ),
    places=st.integers(2, 3),
    turns=st.booleans(),
)
@examples(16)
def test_windows_of_any_size(
    picture: tuple[int, int],
    batch: int,
    channels: tuple[int, int],
    shape: tuple[int, int],
    form: dict[str, int],
    places: int,
    turns: bool,
) -> None:
    """The block's declared box is compared with its copies, whose results are compared here."""
    reach = (form["d"] * (side - 1) + 1 for side in shape)
    borders = (form["b"], form["left"])
    sizes = [(n + 2 * edge - r) // form["s"] + 1 for n, edge, r in zip(picture, borders, reach, strict=True)]
    shapes = {"A": (batch, *picture, 8 * channels[0]), "B": (*shape, 8 * channels[0], 8 * channels[1])}
    step = attrs.evolve(STEP, stages=places, turns=turns)
    found = stages(window(*(max(1, size) for size in sizes), **form), shapes, step)
    check(found, shapes, 1, lowered=False)


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    ("text", "shapes", "word"),
    [
        (window(5, 8), {"A": (9, 5, 8, 12), "B": (3, 3, 12, 32)}, "alignment"),
        (SHARED, {"A": (9, 3, 8, 48), "B": (3, 3, 2, 24, 32)}, "window"),  # steps end within those of the next group
    ],
)
def test_other_windows_are_copied_by_threads(text: str, shapes: dict[str, tuple[int, ...]], word: str) -> None:
    heard = Remarks()
    with listening(heard):
        found = stages(text, shapes)
    assert any(isinstance(stmt, MatrixMultiply) for stmt in body_of(found))
    assert not copies(found)
    (done,) = (each for each in heard.all() if each.fired and "no_boxes" in dict(each.facts))
    assert dict(done.facts)["no_boxes"] == word
    check(found, shapes, 0, lowered=False)


def test_boxes_begin_outside_and_leave_out_what_strides_do() -> None:
    found = stages(window(4, 9, s=2), {"A": (8, 8, 17, 16), "B": (3, 3, 16, 32)})
    of_pixels = [copy for copy in copies(found) if copy.source.array == "A"]
    assert {copy.extents for copy in of_pixels} == {(8, 8, 17, 16)}
    assert {(max(copy.every), copy.every[-1]) for copy in of_pixels} == {(2, 1)}
    starts = {at.value for copy in of_pixels for at in copy.at if isinstance(at, Const)}
    assert -1 in starts
    assert "every" in to_text(found.scheduled)


@pytest.mark.sampled(0)
def test_results_of_tiles_along_two_indices_go_through_local_memory() -> None:
    shapes = {"A": (16, 3, 8, 16), "B": (3, 3, 16, 64)}
    found = stages(window(3, 8), shapes, attrs.evolve(STEP, rows=128, columns=64))
    assert copies(found)
    local = {s.name for s in body_of(found) if isinstance(s, DeclareArray) and s.region is Region.LOCAL}
    assert any(name.startswith("R") for name in local)
    check(found, shapes, 0)


@pytest.mark.sampled(0)
def test_three_warpgroups_write_rows_along_two_indices() -> None:
    """Their threads are no multiple of the rows along an index, nor the other way round."""
    shapes = {"A": (32, 8, 3, 64), "B": (3, 2, 64, 128)}
    step = attrs.evolve(STEP, rows=192, columns=128, threads=256, most_threads=384)
    found = stages(window(6, 2, b=0, left=0), shapes, step)
    assert [kernel.group for kernel in found.sem.kernels] == [(384,)]
    check(found, shapes, 0, lowered=False)
