from __future__ import annotations

from pathlib import Path

import pytest

from tileir.core.dtype import DType
from tileir.core.targets.hardware_verifier import verify
from tileir_llvm.device import host_model
from tileir_llvm.device.host_model import Cache, caches, clock_mhz

FOUND = (Cache(1, 48 << 10), Cache(2, 2 << 20, 128, 2), Cache(3, 32 << 20, 64, 8))


def write(folder: Path, **texts: str) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(f"{text}\n", encoding="utf-8")


def test_caches_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "index0", level="1", type="Data", size="48K", coherency_line_size="64", shared_cpu_list="0")
    write(tmp_path / "index1", level="1", type="Instruction", size="32K")
    write(tmp_path / "index2", level="2", type="Unified", size="2M", coherency_line_size="128", shared_cpu_list="0,4")
    write(tmp_path / "index3", level="3", type="Unified", size="32M", shared_cpu_list="0-3,8-11")
    monkeypatch.setattr(host_model, "_CACHES", tmp_path)
    assert caches() == FOUND
    write(tmp_path / "index3", coherency_line_size="x", shared_cpu_list="?")
    assert caches()[2] == Cache(3, 32 << 20)
    write(tmp_path / "index2", size="large")
    assert caches() == ()
    (tmp_path / "index2" / "size").unlink()
    assert caches() == ()
    monkeypatch.setattr(host_model, "_CACHES", tmp_path / "nowhere")
    assert caches() == ()


def test_the_highest_clock_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cpuinfo_max_freq"
    monkeypatch.setattr(host_model, "_FREQUENCY", path)
    assert clock_mhz() == 3000
    path.write_text("4200000\n", encoding="utf-8")
    assert clock_mhz() == 4200


def test_caches_serve_the_processors_that_share_them() -> None:
    model = verify(host_model.host_model("it", "znver4", 8, 64, 32, 1 << 34, FOUND))
    assert [(unit.name, unit.count, unit.per) for unit in model.levels()] == [
        ("DRAM", 1, ""),
        ("L3", 1, ""),
        ("L2", 4, ""),
        ("L1", 8, "CORE"),
        ("REGISTER", 8, "CORE"),
    ]
    assert model.size("DRAM") == 1 << 34
    assert model.memory("L2").line_bytes == 128


@pytest.mark.parametrize(
    ("kind", "width", "rate"), [("znver4", 64, 32), ("znver5", 64, 64), ("haswell", 32, 32), ("x", 16, 16)]
)
def test_multipliers_differ(kind: str, width: int, rate: int) -> None:
    model = host_model.host_model("it", kind, 1, width, 16, None, ())
    assert verify(model).execution("CORE").rate(DType.F32) == rate
    assert model.execution("CORE").rate(DType.F64) == rate / 2
    assert model.execution("CORE").rate(DType.BF16) == rate / 2
