from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given, strategies as st

from tileir.core.errors import ArgumentError, BackendError
from tileir.runtime.checks import DIGEST, checked_parts, kernel_at, memory_size, sealed

PARTS = st.dictionaries(
    st.text(max_size=3).filter(lambda name: name != DIGEST), st.binary(max_size=5), min_size=1, max_size=3
)


@attrs.frozen
class Numbers:
    """A library whose kernels are numbers."""

    kernels: Any


def test_kernels_are_found_by_number() -> None:
    library: Any = Numbers((10, 20))
    assert [kernel_at(library, index) for index in range(2)] == list(library.kernels)
    for index in (2, -1, None, "0", 0.0):
        with pytest.raises(ArgumentError, match=r"TIL707.*its kernels are number 0 to 1"):
            kernel_at(library, index)
    with pytest.raises(ArgumentError, match="it has none"):
        kernel_at(attrs.evolve(library, kernels=()), 0)


def test_sizes_are_numbers_from_0_on() -> None:
    assert [memory_size(0), memory_size(2**70)] == [0, 2**70]
    for size in (-1, None, "1", 0.5):
        with pytest.raises(ArgumentError, match=r"TIL707.*a number of bytes from 0 on"):
            memory_size(size)


@given(PARTS)
def test_whole_parts_come_back(parts: dict[str, bytes]) -> None:
    assert checked_parts(sealed(parts)) == parts


def test_no_parts_need_no_digest() -> None:
    assert sealed({}) == checked_parts({}) == {}


@given(PARTS, PARTS)
def test_other_parts_are_refused(parts: dict[str, bytes], others: dict[str, bytes]) -> None:
    changed = {**sealed(parts), **others}
    if changed == sealed(parts):
        assert checked_parts(changed) == parts
        return
    with pytest.raises(BackendError, match="TIL806"):
        checked_parts(changed)


@given(PARTS, st.data())
def test_missing_parts_are_refused(parts: dict[str, bytes], data: st.DataObject) -> None:
    whole = sealed(parts)
    del whole[data.draw(st.sampled_from(sorted(whole)))]
    with pytest.raises(BackendError, match="TIL806"):
        checked_parts(whole)


def test_bytes_cannot_move_between_parts() -> None:
    whole = sealed({"a": b"xy", "b": b""})
    with pytest.raises(BackendError, match="TIL806"):
        checked_parts({**whole, "a": b"x", "b": b"y"})
