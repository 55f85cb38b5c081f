"""The table of matrix fragments: every layout is whole, and says what the vendors' documents say."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tileir import TileError
from tileir.core.fragments import FRAGMENTS, NOTHING, Fragment, Layout, OperandMemory, Run, named, usable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir.core.fragments import Operand

ALL = pytest.mark.parametrize("fragment", FRAGMENTS.values(), ids=FRAGMENTS)


def in_registers(fragment: Fragment) -> Iterator[tuple[str, Operand, Layout]]:
    for axes, operand in (("mk", fragment.a), ("kn", fragment.b), ("mn", fragment.c)):
        if operand.layout is not None:
            yield axes, operand, operand.layout


def places(fragment: Fragment, axes: str, layout: Layout) -> np.ndarray:
    """Return row and column of each element of each thread: [threads, elements, 2]."""
    threads, elements = range(fragment.threads), range(layout.held)
    return np.array([[[layout.at(axis, t, e) for axis in axes] for e in elements] for t in threads])


@pytest.mark.sampled(4)
@ALL
def test_each_element_is_held_as_often_as_any_other(fragment: Fragment) -> None:
    extents = dict(zip("mnk", fragment.mnk, strict=True))
    for axes, _, layout in in_registers(fragment):
        assert 1 << len(layout.threads) == fragment.threads
        held = Counter(map(tuple, places(fragment, axes, layout).reshape(-1, 2).tolist()))
        assert set(held) == {(i, j) for i in range(extents[axes[0]]) for j in range(extents[axes[1]])}
        times = 2 ** (*layout.threads, *layout.elements).count(NOTHING)
        assert set(held.values()) == {times}
    assert NOTHING not in (*fragment.sums.threads, *fragment.sums.elements)


@pytest.mark.sampled(4)
@ALL
def test_what_threads_hold_multiplies_to_the_product(fragment: Fragment) -> None:
    generator = np.random.default_rng(len(fragment.name))
    m, n, k = fragment.mnk
    left, right = generator.integers(-9, 10, (m, k)), generator.integers(-9, 10, (k, n))
    matrices = {"mk": left, "kn": right, "mn": np.full((m, n), 99)}
    for axes, _, layout in in_registers(fragment):
        rows, columns = np.moveaxis(places(fragment, axes, layout), 2, 0)
        held = matrices[axes][rows, columns] if axes != "mn" else np.einsum("tek,tek->te", left[rows], right.T[columns])
        matrices[axes] = np.full_like(matrices[axes], 77)
        matrices[axes][rows, columns] = held
    np.testing.assert_array_equal(matrices["mk"], left)
    np.testing.assert_array_equal(matrices["kn"], right)
    np.testing.assert_array_equal(matrices["mn"], left @ right)


@pytest.mark.sampled(33)
@ALL
def test_runs_say_what_bits_say(fragment: Fragment) -> None:
    for axes, _, layout in in_registers(fragment):
        for axis in axes:
            for thread in {0, 1, fragment.threads // 3, fragment.threads - 1}:
                for element in range(0, layout.held, 3):
                    parts = (
                        *((r, thread) for r in layout.thread_runs()),
                        *((r, element) for r in layout.element_runs()),
                    )
                    found = sum(
                        (number >> run.start) % run.extent << run.bit for run, number in parts if run.axis == axis
                    )
                    assert found == layout.at(axis, thread, element)


@pytest.mark.parametrize(
    ("name", "operand", "thread", "element", "place"),
    [
        # PTX ISA: a_i has row lane / 4 (+ 8 for odd pairs), column 2 * (lane % 4) + i % 2 (+ 8 behind the fourth)
        ("mma_m16n8k16_f16", "a", 13, 7, (11, 11)),
        ("mma_m16n8k16_f16", "b", 13, 2, (10, 3)),
        ("mma_m16n8k16_bf16", "c", 13, 3, (11, 3)),
        ("mma_m16n8k8_f32", "a", 13, 2, (3, 5)),
        ("mma_m16n8k8_f32", "b", 13, 1, (5, 3)),
        ("mma_m16n8k32_u8_i8", "a", 13, 13, (11, 21)),
        ("mma_m16n8k32_i8", "b", 13, 6, (22, 3)),
        ("mma_m8n8k4_f64", "a", 13, 0, (3, 1)),
        ("mma_m8n8k4_f64", "c", 13, 1, (3, 3)),
        # warp w of four has rows 16 w, and blocks of eight columns follow each other
        ("wgmma_m64n64k16_f16", "c", 3 * 32 + 13, 4 * 5 + 3, (48 + 11, 40 + 3)),
        # AMD: column lane % 32, row 8 * (i / 4) + 4 * (lane / 32) + i % 4; f64 has row 4 * i + lane / 16
        ("mfma_m32n32k8_f16", "c", 37, 6, (8 + 4 + 2, 5)),
        ("mfma_m32n32k8_f16", "a", 37, 2, (5, 6)),
        ("mfma_m16n16k32_i8", "b", 37, 5, (21, 5)),
        ("mfma_m16n16k4_f64", "c", 37, 3, (14, 5)),
        # Khronos: work items are columns of B and of the sums, and hold neighbours along the depth of A
        ("xmx_m8n16k16_f16", "a", 13, 5, (5, 13)),
        ("xmx_m8n16k32_i8", "a", 13, 11, (5, 27)),
        ("xmx_m8n16k32_i8", "b", 13, 11, (11, 13)),
        ("xmx_m8n16k8_f32", "c", 13, 5, (5, 13)),
        ("amx_m16n16k32_bf16", "b", 0, 32 * 3 + 7, (7, 3)),
        ("dot_m1n16k4_u8_i8", "a", 0, 4 * 9 + 2, (0, 2)),
        ("dot_m1n16k4_u8_i8", "b", 0, 4 * 9 + 2, (2, 9)),
    ],
)
def test_places_in_the_documents(name: str, operand: str, thread: int, element: int, place: tuple[int, int]) -> None:
    layout = getattr(FRAGMENTS[name], operand).layout
    axes = {"a": "mk", "b": "kn", "c": "mn"}[operand]
    assert tuple(layout.at(axis, thread, element) for axis in axes) == place


def test_runs_of_a_layout() -> None:
    layout = Layout.of("n1 n2 m0 - -", "n0 m3 m4 k0")
    assert layout.thread_runs() == (Run("n", 0, 1, 2), Run("m", 2, 0, 1))
    assert layout.element_runs() == (Run("n", 0, 0, 1), Run("m", 1, 3, 2), Run("k", 3, 0, 1))
    assert (layout.held, Run("m", 1, 3, 2).extent) == (16, 4)


def test_rows_are_found_by_feature_and_name() -> None:
    assert named("cdna3")[0] == "mfma_m16n16k16_f16"
    assert named("nothing") == ()
    assert {row.is_async for row in map(FRAGMENTS.get, named("sm_90a")) if row} == {True}
    assert all(FRAGMENTS[name].a.where is OperandMemory.LOCAL for name in named("sm_90a"))
    names = ("mma_m16n8k8_f32", "mma_m16n8k16_f16")
    assert [row.name for row in usable(names)] == ["mma_m16n8k16_f16"]
    assert [row.name for row in usable(names, rounded=True)] == list(names)
    with pytest.raises(TileError, match="did you mean mma_m16n8k8_f32") as caught:
        usable(("mma_m16n8k8_f33",))
    assert caught.value.diagnostics[0].code == "TIL547"
    assert {name for name, row in FRAGMENTS.items() if row.is_dot} == {name for name in FRAGMENTS if "_m1n" in name}


@given(st.integers(0, 3), st.integers(0, 3), st.integers(1, 4), st.sets(st.integers(0, 8)))
def test_parts_of_a_run_have_its_bits(start: int, bit: int, count: int, cuts: set[int]) -> None:
    run = Run("m", start, bit, count)
    parts = run.cut_at(cuts)
    assert {part.start for part in parts} == {start} | {cut for cut in cuts if start < cut < start + count}
    bits = [(part.start + n, part.bit + n) for part in parts for n in range(part.count)]
    assert bits == [(start + n, bit + n) for n in range(count)]
    assert {part.axis for part in parts} == {"m"}
