"""Functions that the cache on disk knows: called without their statements, and never those of files that changed."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tileir
from tileir.driver.function_cache import SOURCE
from tileir.frontends import Files, KnownFunction, keep_note, kept, recalled, recalled_note, settled
from tileir.runtime.caches.disk_cache import DiskCache

LAYER = "function (X[N, 600], W[600, K], V[K], U) -> (Y) { S[i, j : N, K] = +(X[i, k] * W[k, j]); Y = S + V * U; }"
LONG = "function (X[N], V[N]) -> (Y) { Y = X * V; }"
X = np.random.default_rng(1).standard_normal((3, 600)).astype(np.float32)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DiskCache:
    cache = DiskCache(tmp_path / "cache")
    tileir.default_context().programs.clear()
    monkeypatch.setattr(tileir.default_context(), "disk_cache", cache)
    return cache


def written(path: Path, seed: int = 0, age: float = 60.0) -> Path:
    """Write 601 rows of weights, behind so many bytes that they are not aligned."""
    np.random.default_rng(seed).standard_normal(1 + 601 * 1200).astype(np.float32).tofile(path)
    changed = time.time() - age
    os.utime(path, (changed, changed))
    return path


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    return written(tmp_path / "weights file")


def files_of(path: Path) -> Files:
    return {str(path.resolve()): settled(path)}


def layer(path: Path) -> tileir.Function:
    """Return a function with a copied constant, one of few elements, and one that stands in no file."""
    rows = np.memmap(path, np.float32, "r")[1:].reshape(601, 1200)
    return tileir.bind(LAYER, W=rows[:600], V=rows[600] * 2, U=rows[0, 0])


def wanted(path: Path, x: np.ndarray = X) -> np.ndarray:
    rows = np.fromfile(path, np.float32)[1:].reshape(601, 1200).astype(np.float64)
    return x @ rows[:600] + rows[600] * 2 * rows[0, 0]  # type: ignore[no-any-return]


def unmade() -> tileir.Function:
    raise AssertionError("nobody needs the statements")


def known(path: Path, asked: str = "", make: Callable[[], tileir.Function] = unmade) -> KnownFunction | None:
    return recalled(files_of(path), "tileir", asked, make)


def test_who_calls_a_known_function_reads_nothing_of_it(weights: Path, disk: DiskCache) -> None:
    assert known(weights) is None
    first = tileir.jit(kept(files_of(weights), "tileir", "", layer(weights)))
    np.testing.assert_allclose(first(X), wanted(weights), rtol=1e-3, atol=1e-3)
    again = known(weights)
    assert again is not None
    assert again.identity == tileir.content_hash(layer(weights))
    tileir.default_context().programs.clear()
    jitted = tileir.jit(again)
    assert jitted.is_compiled(X)
    np.testing.assert_array_equal(jitted(X), first(X))
    np.testing.assert_array_equal(jitted(X=X), first(X))
    np.testing.assert_array_equal(jitted.submit(X).result(), first(X))
    executable = jitted.specialise(X)
    assert (executable.inputs, executable.outputs) == (("X",), ("Y",))
    assert {entry.kind for entry in disk.entries()} >= {SOURCE, "file", "program", "library"}


def test_statements_are_made_for_who_looks_at_them(weights: Path, disk: DiskCache) -> None:
    kept(files_of(weights), "tileir", "", layer(weights))
    again = known(weights, make=lambda: layer(weights))
    assert again is not None
    jitted = tileir.jit(again)
    with pytest.raises(tileir.TileError, match="X"):
        jitted(X[0])
    np.testing.assert_allclose(
        jitted(X[:2]), wanted(weights, X[:2]), rtol=1e-3, atol=1e-3
    )  # compiled for the first time
    assert jitted.function == jitted.specialise(X).tile == layer(weights)
    for copied in (pickle.loads(pickle.dumps(jitted)), pickle.loads(pickle.dumps(jitted.specialise(X)))):
        np.testing.assert_array_equal(copied(X), jitted(X))
    assert disk.entries()


def test_what_else_was_asked_is_another_function(weights: Path, disk: DiskCache) -> None:
    kept(files_of(weights), "tileir", "one", layer(weights))
    assert known(weights, "one") is not None
    assert known(weights, "two") is None
    assert disk.entries()


@pytest.mark.parametrize("age", [60.0, 0.0])
def test_a_file_that_changed_is_not_what_it_was(weights: Path, disk: DiskCache, age: float) -> None:
    kept(files_of(weights), "tileir", "", layer(weights))
    before = files_of(weights)
    written(weights, seed=1, age=age)
    assert known(weights) is None
    assert recalled(before, "tileir", "", unmade) is None
    function = kept(before, "tileir", "", layer(weights))  # it was read before it changed, as far as is known
    assert recalled(before, "tileir", "", unmade) is None
    np.testing.assert_allclose(tileir.jit(function)(X), wanted(weights), rtol=1e-3, atol=1e-3)
    assert disk.entries()


def test_a_file_that_has_just_changed_is_not_kept(weights: Path, disk: DiskCache) -> None:
    written(weights, age=0.0)
    assert kept(files_of(weights), "tileir", "", layer(weights)) == layer(weights)
    assert SOURCE not in {entry.kind for entry in disk.entries()} if disk.directory.exists() else True


def test_a_constant_of_another_file_is_held_by_the_entry(weights: Path, tmp_path: Path, disk: DiskCache) -> None:
    other = written(tmp_path / "other", seed=1)
    kept(files_of(other), "tileir", "", layer(weights))
    weights.unlink()
    again = known(other)
    assert again is not None
    assert [array.digest for array in again.constants] == [
        type(array).of(array.numpy()).digest for array in again.constants
    ]
    assert disk.entries()


def test_many_elements_of_no_file_are_not_kept(weights: Path, disk: DiskCache) -> None:
    function = tileir.bind(LONG, V=np.ones(1 << 22 | 1, np.float32))
    kept(files_of(weights), "tileir", "", function)
    assert known(weights) is None
    assert SOURCE not in {entry.kind for entry in disk.entries()} if disk.directory.exists() else True


def test_functions_of_sizes_that_are_inputs_are_not_kept(weights: Path, disk: DiskCache) -> None:
    function = tileir.parse("function (X[N], K) -> (Y) { Y[i : K] = +(X[i]); }")
    assert isinstance(function, tileir.Function)
    assert kept(files_of(weights), "tileir", "", function) is function
    assert known(weights) is None
    assert disk is tileir.default_context().disk_cache


@pytest.mark.parametrize(
    "spoilt", [{}, {"about": b"{"}, {"frame": b"[]"}, {"about": b'{"files": [], "constants": [[9, 0]]}'}]
)
def test_spoilt_entries_are_dropped(weights: Path, disk: DiskCache, spoilt: dict[str, bytes]) -> None:
    kept(files_of(weights), "tileir", "", layer(weights))
    [entry] = [entry for entry in disk.entries() if entry.kind == SOURCE]
    parts = disk.get(SOURCE, entry.key)
    assert parts is not None
    disk.put(SOURCE, entry.key, {**parts, **spoilt} if spoilt else {}, {})
    assert known(weights) is None
    assert not disk.holds(SOURCE, entry.key)


@pytest.mark.parametrize(("age", "note"), [(60.0, "what it has"), (0.0, None)])
def test_notes_on_files_are_kept_as_long_as_these(weights: Path, disk: DiskCache, age: float, note: str | None) -> None:
    written(weights, age=age)
    keep_note(files_of(weights), "tileir", "a question", "what it has")
    assert recalled_note(files_of(weights), "tileir", "a question") == note
    assert recalled_note(files_of(weights), "tileir", "another one") is None
    assert recalled_note({}, "tileir", "a question") is None
    before = files_of(weights)
    written(weights, seed=1)
    assert recalled_note(files_of(weights), "tileir", "a question") is None
    keep_note(before, "tileir", "late", "what it had")
    assert recalled_note(before, "tileir", "late") is None
    assert disk is tileir.default_context().disk_cache
