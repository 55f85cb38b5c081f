"""Memory of loops: what keeps them from running at the same time."""

from __future__ import annotations

from hypothesis import given, strategies as st

from tileir_llvm.run.independent import _meet

PIECES = st.frozensets(
    st.builds(lambda start, size: range(start, start + size), st.integers(-4, 40), st.integers(1, 9)), max_size=6
)


@given(PIECES, PIECES)
def test_pieces_meet_where_they_have_bytes_in_common(first: frozenset[range], second: frozenset[range]) -> None:
    wanted = not {byte for each in first for byte in each}.isdisjoint(byte for each in second for byte in each)
    assert _meet(first, second) == wanted
