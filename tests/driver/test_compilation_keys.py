"""Contents of the disk cache's keys: everything that decides kernels or their code, and nothing else."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.driver import compilation
from tileir.driver.compilation import Compilation, Request
from tileir.driver.compiler import passes_of
from tileir.runtime.interface import DeviceInfo
from tileir.semtree.ir import Program
from tileir.tile.text.parser import parse
from tileir.typed.ir import TensorType

TEXT = "function (A[N], B[N]) -> (C) { C = A + B; }"
TARGET = Target(name="t")


@pytest.fixture(autouse=True)
def _sources_that_nobody_edits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "source_digest", lambda package: f"the sources of {package}")


def _types(*sizes: int) -> dict[str, TensorType]:
    return {name: TensorType(DType.F32, sizes) for name in ("A", "B")}


def _request(**changes: object) -> Request:
    known = {"origin": parse(TEXT), "types": _types(8), "target": TARGET, "passes": None}
    return Request(**{**known, **changes})  # type: ignore[arg-type]


CHANGES: dict[str, dict[str, object]] = {
    "the function": {"origin": parse(TEXT.replace("+", "-"))},
    "a name in it": {"origin": parse(TEXT.replace("C", "D"))},
    "a size": {"types": _types(9)},
    "a dtype": {"types": {**_types(8), "B": TensorType(DType.F64, (8,))}},
    "which of two inputs": {"types": {"A": TensorType(DType.F64, (8,)), "B": TensorType(DType.F32, (8,))}},
    "a number": {"types": {**_types(8), "B": TensorType(DType.F64, (), weak=True)}},
    "a scalar": {"types": {**_types(8), "B": TensorType(DType.F64, ())}},
    "a known number": {"types": {**_types(8), "B": TensorType(DType.I32, (), weak=True, value=3)}},
    "another known number": {"types": {**_types(8), "B": TensorType(DType.I32, (), weak=True, value=4)}},
    "a known scalar": {"types": {**_types(8), "B": TensorType(DType.I32, (), value=3)}},
    "the target": {"target": attrs.evolve(TARGET, vector_bytes=16)},
    "its name": {"target": attrs.evolve(TARGET, name="u")},
    "its pipeline": {"target": attrs.evolve(TARGET, pipeline="plain")},
    "what passes are computed for": {"scheduling": attrs.evolve(TARGET, threads=4)},
    "a pipeline by name": {"passes": "plain"},
    "passes": {"passes": passes_of("fuse", TARGET)},
    "other passes": {"passes": passes_of("fuse, inline", TARGET)},
}


def test_requests_that_differ_in_anything_have_keys_of_their_own() -> None:
    keys = {name: _request(**change).key for name, change in CHANGES.items()}
    assert None not in keys.values()
    assert len({_request().key, *keys.values()}) == len(CHANGES) + 1


def test_requests_that_mean_the_same_share_a_key() -> None:
    same = (
        _request(),
        _request(origin=parse(TEXT.replace(" ", "  "))),
        _request(types=dict(reversed(_types(8).items()))),
        _request(passes=TARGET.pipeline),
        _request(scheduling=TARGET),
        _request(default=True),
    )
    assert len({request.key for request in same}) == 1


def test_other_sources_make_other_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _request().key
    monkeypatch.setattr(compilation, "source_digest", lambda package: "new" if package == "tileir" else None)
    assert _request().key not in (before, None)
    monkeypatch.setattr(compilation, "source_digest", lambda _: None)
    assert _request().key is None


def test_smaller_groups_are_asked_for_where_that_changes_something() -> None:
    target = attrs.evolve(TARGET, group_threads=256)
    scheduling = attrs.evolve(target, group_threads=512)
    assert _request(target=target).with_groups_of(256) is None
    assert _request(target=target).with_groups_of(0) is None
    assert _request(target=target, passes=passes_of("fuse", target)).with_groups_of(64) is None
    assert (smaller := _request(target=target).with_groups_of(255)) is not None
    assert (smaller.target.group_threads, smaller.scheduling) == (255, None)
    assert (smaller := _request(target=target).with_groups_of(1)) is not None
    assert smaller.target.group_threads == 1
    assert (smaller := _request(target=target, scheduling=scheduling).with_groups_of(300)) is not None
    assert smaller.scheduling == attrs.evolve(scheduling, group_threads=300)
    assert smaller.target == target
    assert (smaller := _request(target=target, scheduling=scheduling).with_groups_of(64)) is not None
    assert smaller.target == attrs.evolve(target, group_threads=64)


class Compiler:
    built_on = ("base",)
    identity = "one"


class Other:
    identity = "one"


def _library_key(
    kernels: bytes | None = b"kernels", kind: type[Compiler | Other] = Compiler, **facts: Any
) -> str | None:
    device = attrs.evolve(DeviceInfo("d", "name", "backend", features=("f",), target=TARGET), **facts)
    program = Compilation(_request(), Program((), (), ()), None, kernels)
    return compilation._library_key(program, kind(), device)  # type: ignore[arg-type]


def test_libraries_that_differ_in_anything_have_keys_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [
        _library_key(),
        _library_key(b"others"),
        _library_key(kind=Other),
        _library_key(name="another"),
        _library_key(backend="another"),
        _library_key(features=("g",)),
        _library_key(features=("f", "g")),
        _library_key(target=attrs.evolve(TARGET, alignment=64)),
    ]
    monkeypatch.setattr(Compiler, "identity", "two")
    keys.append(_library_key())
    monkeypatch.setattr(Compiler, "__module__", "elsewhere.compiler")
    keys.append(_library_key())
    monkeypatch.setattr(compilation, "source_digest", lambda name: f"False {name}")
    keys.append(_library_key())
    for package in ("tileir", "elsewhere", "base"):
        monkeypatch.setattr(compilation, "source_digest", lambda name, new=package: f"{name == new} {name}")
        keys.append(_library_key())
    assert None not in keys
    assert len(set(keys)) == len(keys)
    for package in ("tileir", "elsewhere", "base"):
        monkeypatch.setattr(compilation, "source_digest", lambda name, new=package: None if name == new else name)
        assert _library_key() is None


def test_devices_that_differ_in_place_and_memory_share_libraries() -> None:
    assert _library_key() == _library_key(id="e") == _library_key(memory_bytes=5)
    assert _library_key(None) is None
