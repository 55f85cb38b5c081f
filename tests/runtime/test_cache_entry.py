from __future__ import annotations

import hashlib
import zlib

import pytest
from hypothesis import given, strategies as st

from tileir.runtime.caches.cache_entry import HEADER, BrokenEntryError, decode, encode, table_of

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


def test_the_format_is_what_the_module_says() -> None:
    table = b'{"about":{"device":"llvm"},"parts":[["a",2,2],["b",1,1]]}'
    payload = len(table).to_bytes(4, "little") + table + b"xyz"
    header = b"tileir\1\0" + KEY + hashlib.sha256(payload).digest() + len(payload).to_bytes(8, "little")
    assert entry({"device": "llvm"}, {"a": b"xy", "b": b"z"}) == header + payload


@pytest.mark.parametrize(("size", "packed"), [(1023, False), (1024, True)])
def test_parts_are_compressed_from_a_kibibyte_on_where_that_helps(size: int, packed: bool) -> None:
    ((_, stored, length),) = table_of(KEY, entry({}, {"part": bytes(size)})).parts
    assert (stored < 100, length) == (packed, size)
    noise = b"".join(hashlib.sha256(bytes([n])).digest() for n in range(64))
    assert table_of(KEY, entry({}, {"part": noise})).parts == (("part", 2048, 2048),)
    assert entry({}, {"part": noise}).endswith(noise)


def test_faults_say_what_is_wrong() -> None:
    stored = entry({}, {"part": b"content"})
    size = len(stored) - HEADER.size
    faults = {
        stored[: HEADER.size - 1]: f"it ends after {HEADER.size - 1} bytes",
        b"tileir\2\0" + stored[8:]: "it does not begin as an entry of format 1",
        stored[:8] + OTHER + stored[40:]: "it was stored for another key",
        stored[:-1]: f"it has {size - 1} bytes where {size} were stored",
        stored + b"x": f"it has {size + 1} bytes where {size} were stored",
        stored[:-1] + b"x": "its digest is not that of its content",
    }
    for content, message in faults.items():
        with pytest.raises(BrokenEntryError) as caught:
            decode(KEY, content)
        assert str(caught.value) == message
    with pytest.raises(BrokenEntryError, match=r"^it ends after 79 bytes$"):
        table_of(KEY, stored[:79])


@pytest.mark.parametrize(
    ("stored", "length", "message"),
    [
        (zlib.compress(bytes(5000), 1), 4999, "it does not become 4999 bytes"),
        (zlib.compress(bytes(5000), 1), 5001, "it does not become 5001 bytes"),
        (zlib.compress(bytes(5000), 1)[:-1], 5000, "it does not become 5000 bytes"),
        (b"abc", 3 * 1032 + 1, "3 bytes cannot become 3097"),
        (b"abc", -1, "3 bytes cannot become -1"),
    ],
)
def test_what_cannot_be_unpacked_is_told_with_its_name(stored: bytes, length: int, message: str) -> None:
    with pytest.raises(BrokenEntryError) as caught:
        decode(KEY, _with_part(stored, length))
    assert str(caught.value) == f"part 'part' cannot be unpacked: {message}"


def _with_part(stored: bytes, length: int) -> bytes:
    """Return an entry of one part, whose table claims a length."""
    table = b'{"about":{},"parts":[["part",%d,%d]]}' % (len(stored), length)
    payload = len(table).to_bytes(4, "little") + table + stored
    return HEADER.pack(b"tileir\1\0", KEY, hashlib.sha256(payload).digest(), len(payload)) + payload


def test_what_is_packed_as_well_as_can_be_is_unpacked() -> None:
    content = bytes(1 << 20)
    assert decode(KEY, entry({}, {"zeros": content})) == {"zeros": content}
    assert decode(KEY, _with_part(zlib.compress(b"", 9), 0)) == {"part": b""}
