from __future__ import annotations

import hashlib
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileir.runtime.cache_entry import HEADER, BrokenEntryError, decode, encode, table_of

KEY = hashlib.sha256(b"key").digest()
OTHER = hashlib.sha256(b"other").digest()

parts = st.dictionaries(st.text(max_size=8), st.binary(max_size=40) | st.binary(max_size=4).map(lambda b: b * 999))
facts = st.dictionaries(st.text(max_size=8), st.text(max_size=8))


def entry(about: dict[str, str], content: dict[str, bytes]) -> bytes:
    return b"".join(encode(KEY, about, content))


@given(facts, parts)
def test_decoding_undoes_encoding(about: dict[str, str], content: dict[str, bytes]) -> None:
    stored = entry(about, content)
    assert decode(KEY, stored) == content
    assert table_of(KEY, stored).about == about


@given(parts, st.data())
def test_no_changed_bit_goes_unseen(content: dict[str, bytes], data: st.DataObject) -> None:
    stored = bytearray(entry({}, content))
    bit = data.draw(st.integers(0, 8 * len(stored) - 1))
    stored[bit // 8] ^= 1 << bit % 8
    with pytest.raises(BrokenEntryError):
        decode(KEY, bytes(stored))


@given(parts, st.data())
def test_no_other_length_goes_unseen(content: dict[str, bytes], data: st.DataObject) -> None:
    stored = entry({}, content)
    shorter = stored[: data.draw(st.integers(0, len(stored) - 1))]
    longer = stored + data.draw(st.binary(min_size=1, max_size=4))
    for wrong in (shorter, longer):
        with pytest.raises(BrokenEntryError):
            decode(KEY, wrong)


def test_entries_of_other_keys_and_formats_are_refused() -> None:
    stored = entry({}, {"part": b"content"})
    with pytest.raises(BrokenEntryError, match="another key"):
        decode(OTHER, stored)
    with pytest.raises(BrokenEntryError, match="does not begin"):
        decode(KEY, b"\x80\x04pick" + stored[6:])
    with pytest.raises(BrokenEntryError, match="ends after 0 bytes"):
        table_of(KEY, b"")


@pytest.mark.parametrize("table", [b"", b"{", b"[]", b"{}", b'{"about":[],"parts":[]}', b'{"about":{},"parts":[[1]]}'])
def test_tables_of_another_shape_are_refused(table: bytes) -> None:
    payload = len(table).to_bytes(4, "little") + table
    stored = HEADER.pack(b"tileir\1\0", KEY, hashlib.sha256(payload).digest(), len(payload)) + payload
    with pytest.raises(BrokenEntryError, match="table"):
        decode(KEY, stored)


@pytest.mark.parametrize("length", [5, 4999, 5001, -1, 2**40, 2**80])
def test_packing_that_cannot_be_undone_is_refused(length: int) -> None:
    packed = b"abc" if length == 5 else zlib.compress(bytes(5000), 1)
    table = b'{"about":{},"parts":[["part",%d,%d]]}' % (len(packed), length)
    payload = len(table).to_bytes(4, "little") + table + packed
    stored = HEADER.pack(b"tileir\1\0", KEY, hashlib.sha256(payload).digest(), len(payload)) + payload
    with pytest.raises(BrokenEntryError, match="cannot be unpacked"):
        decode(KEY, stored)


def test_text_is_compressed() -> None:
    assert len(entry({}, {"text": b"many words " * 1000})) < 500
