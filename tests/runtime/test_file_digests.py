from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileir
from tileir import ops
from tileir.core.array_value import ArrayValue
from tileir.runtime.caches.disk_cache import DiskCache
from tileir.runtime.caches.file_digests import recall_digests

COLUMNS = 1 << 10

pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not tell what is mapped")


@pytest.fixture
def disk(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache")


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "weights file"
    _write(path, 0)
    return path


def _write(path: Path, seed: int, age: float = 60.0) -> None:
    np.random.default_rng(seed).random((2, 512, COLUMNS), np.float32).tofile(path)
    changed = time.time() - age
    os.utime(path, (changed, changed))


def _mapped(path: Path, part: int = 0) -> ArrayValue:
    return ArrayValue.of(np.memmap(path, np.float32, "r", shape=(2, 512, COLUMNS))[part])


def _digest(path: Path, part: int = 0) -> str:
    """Return what the digest of a part is by its definition."""
    whole = path.read_bytes()
    half = len(whole) // 2
    return hashlib.sha256(f"f32[512, {COLUMNS}]".encode() + whole[part * half :][:half]).hexdigest()


def _known(value: ArrayValue, disk: DiskCache) -> bool:
    """Return whether the cache knows a digest, so that no elements are read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tileir.core.array_value.hashlib.sha256", _refuse)
        try:
            recall_digests([value], disk)
        except AssertionError:
            return False
    return "digest" in vars(value)


def _refuse(data: bytes | memoryview = b"") -> Any:
    if bytes(data[:4]) == b"f32[":
        raise AssertionError("elements are read")
    return hashlib.new("sha256", data)


def test_files_that_stay_are_read_once(weights: Path, disk: DiskCache) -> None:
    for part in (0, 1, 0):
        value = _mapped(weights, part)
        recall_digests([value], disk)
        assert value.digest == _digest(weights, part)
    for part in (0, 1):
        again = _mapped(weights, part)
        assert _known(again, disk)
        assert again.digest == _digest(weights, part)
    assert [entry.kind for entry in disk.entries()] == ["file"]


def test_large_arrays_have_the_digests_of_their_definition(
    weights: Path, disk: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tileir.runtime.caches.file_digests._LARGE", 0)
    values = [_mapped(weights, part) for part in (0, 1)]
    recall_digests([*values, _mapped(weights, 1)], disk)
    assert [vars(value)["digest"] for value in values] == [_digest(weights, part) for part in (0, 1)]
    assert _known(_mapped(weights, 1), disk)


def test_arrays_of_other_places_and_forms_are_told_apart(weights: Path, disk: DiskCache) -> None:
    recall_digests([_mapped(weights)], disk)
    for other in (
        np.memmap(weights, np.float32, "r", offset=2048 * COLUMNS, shape=(512, COLUMNS)),
        np.memmap(weights, np.int32, "r", shape=(512, COLUMNS)),
        np.memmap(weights, np.float32, "r", shape=(COLUMNS, 512)),
        np.memmap(weights, np.float32, "r", shape=(2, 512, COLUMNS))[:, :256].reshape(512, COLUMNS),
    ):
        value = ArrayValue.of(other)
        plain = ArrayValue.of(np.array(other))
        recall_digests([value], disk)
        assert value.digest == plain.digest


def test_slices_know_where_they_stand(weights: Path, disk: DiskCache) -> None:
    second = ArrayValue.of(np.memmap(weights, np.float32, "r", offset=2048 * COLUMNS, shape=(512, COLUMNS)))
    recall_digests([second], disk)
    assert _known(_mapped(weights, 1), disk)


def test_a_file_that_changed_is_read_again(weights: Path, disk: DiskCache) -> None:
    recall_digests([_mapped(weights)], disk)
    _write(weights, 1, age=30.0)
    value = _mapped(weights)
    assert not _known(value, disk)
    assert _mapped(weights).digest == _digest(weights)


def test_a_file_that_has_just_changed_is_not_trusted(weights: Path, disk: DiskCache) -> None:
    os.utime(weights)
    recall_digests([_mapped(weights)], disk)
    assert not _entries(disk)


def _entries(disk: DiskCache) -> list[str]:
    try:
        return [entry.kind for entry in disk.entries()]
    except FileNotFoundError:
        return []


def test_a_file_in_the_place_of_another_one_is_not_taken_for_it(weights: Path, disk: DiskCache) -> None:
    old = _mapped(weights)
    before = _digest(weights)
    other = weights.with_name("other")
    _write(other, 2)
    other.replace(weights)
    recall_digests([_mapped(weights)], disk)
    recall_digests([old], disk)
    assert old.digest == before != _digest(weights)


def test_spoilt_entries_are_dropped(weights: Path, disk: DiskCache) -> None:
    recall_digests([_mapped(weights)], disk)
    (entry,) = disk.entries()
    for content in (b"[1]", b"{", b'{"0 f32": 5}', b'{"0 f32[512, 1024]": "zz"}'):
        disk.put("file", entry.key, {"digests": content}, {})
        value = _mapped(weights)
        recall_digests([value], disk)
        assert value.digest == _digest(weights)


def test_programs_find_their_kernels_without_reading_weights(weights: Path, disk: DiskCache) -> None:
    x = np.random.default_rng(5).random((3, 512), np.float32)
    exact = x.astype(np.float64) @ np.fromfile(weights, np.float32)[: 512 * COLUMNS].reshape(512, -1).astype(np.float64)
    for _ in range(2):
        f = tileir.FunctionBuilder()
        array = np.memmap(weights, np.float32, "r", shape=(512, COLUMNS))
        function = f.build(Y=ops.matmul(f.input("X", 3, 512), f.constant(array)))
        found = tileir.compile(function, [x], context=tileir.Context(disk_cache=disk))(x)
        np.testing.assert_allclose(found, exact, rtol=1e-5)
    assert "file" in [entry.kind for entry in disk.entries()]
