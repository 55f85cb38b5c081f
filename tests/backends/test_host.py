from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tileir.core.dtype import DType
from tileir.core.targets.target_file import hardware_of
from tileir_llvm.device import host
from tileir_llvm.device.processor import Processor

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def unchanged_device() -> Iterator[None]:
    host.device.cache_clear()
    yield
    host.device.cache_clear()


def test_the_device_says_what_it_has() -> None:
    device = host.device()
    assert device.id == "llvm.0"
    assert device.target.lanes(DType.F32) in (4, 8, 16)
    assert device.target.threads >= 1
    assert all(size > 0 for size in device.target.cache_bytes)
    assert {"fma", "sqrt"} <= set(device.target.native)
    assert device.memory_bytes is None or device.memory_bytes > 0


@pytest.mark.parametrize(
    ("features", "width"), [(("avx", "avx2"), 32), (("avx2", "avx512f"), 64), (("sse2",), 16), ((), 16)]
)
def test_vectors_are_as_wide_as_registers(
    features: tuple[str, ...], width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "processor", lambda: Processor("some", features))
    assert host.device().target.vector_bytes == width


def test_without_caches_ordinary_ones_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "caches", lambda: ())
    target = host.device().target
    assert target.cache_bytes
    assert target.hardware is None


def test_the_model_agrees_with_the_facts() -> None:
    target = host.device().target
    model = hardware_of(target)
    assert model.execution("CORE").count == target.threads
    sizes = [memory.size_bytes for memory in reversed(model.levels()) if memory.is_cache]
    assert tuple(sizes) == target.cache_bytes


def test_without_affinity_all_processors_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    monkeypatch.setattr(host, "_QUOTA", Path("/nowhere"))
    assert host.usable_threads() == 5


@pytest.mark.parametrize(
    ("text", "threads"), [("max 100000", 8), ("200000 100000", 2), ("50000 100000", 1), ("900000 100000", 8), ("", 8)]
)
def test_a_containers_quota_limits_threads(
    text: str, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpu.max").write_text(f"{text}\n")
    monkeypatch.setattr(host, "_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8), raising=False)
    assert host.usable_threads() == threads


def test_a_system_without_proc_and_sysconf(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise OSError

    monkeypatch.setattr(Path, "read_text", refuse)
    monkeypatch.setattr(os, "sysconf", refuse)
    monkeypatch.setattr(platform, "processor", lambda: "")
    assert host.memory_bytes() is None
    assert host.processor_name() == ""
    assert host.device().name
