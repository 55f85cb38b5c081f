from __future__ import annotations

import json

import attrs
import pytest

import tileir
from tileir.core.dtype import DType
from tileir.core.errors import BackendError
from tileir.core.targets.hardware_json import from_json
from tileir.core.targets.hardware_verifier import verify
from tileir.core.targets.target_file import hardware_of
from tileir.semtree.text.parser import parse_kernel
from tileir_cli import main as cli
from tileir_performance.tuning import measured_hardware
from tileir_performance.tuning.measured_hardware import _chain_text, _reading_text


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hurried measurement is wrong, but has the right form."""
    for name, value in (("SECONDS", 0.001), ("STEPS", 50), ("READ_BYTES", 1 << 16), ("OUTERMOST_BYTES", 1 << 16)):
        monkeypatch.setattr(measured_hardware, name, value)


@pytest.mark.sampled(0)
def test_a_processor_is_measured() -> None:
    context = tileir.default_context()
    device = context.device("llvm")
    usual, found = hardware_of(device.target), measured_hardware.measured_hardware(context, device)
    assert verify(found) is found
    assert (found.memory_units, found.clock_mhz) == (usual.memory_units, usual.clock_mhz)
    assert found.launch_us > 0
    assert found.peak(DType.F32) != usual.peak(DType.F32)
    assert found.bandwidth("DRAM", "CORE") > 0
    ratio = found.peak(DType.I8) / found.peak(DType.I32)
    assert ratio == pytest.approx(usual.peak(DType.I8) / usual.peak(DType.I32), rel=0.02)


def test_other_devices_are_refused() -> None:
    context = tileir.default_context()
    device = context.device("llvm")
    card = attrs.evolve(device, target=attrs.evolve(device.target, group_width=32))
    with pytest.raises(BackendError, match="only processors can be measured"):
        measured_hardware.measured_hardware(context, card)


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("dtype", [DType.F32, DType.I32])
def test_what_is_run_is_a_kernel(dtype: DType, lanes: int) -> None:
    kernel = parse_kernel(_chain_text(dtype, lanes, 2, 3))
    assert kernel.grid == (2,)
    parse_kernel(_reading_text(lanes, 2, 96, 5))


@pytest.mark.sampled(0)
def test_the_command_prints_a_model(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["tileir", "targets", "--measure", "--device", "llvm"])
    assert cli.run() == 0
    text = capsys.readouterr().out
    assert from_json(text).name == json.loads(text)["name"]
    monkeypatch.setattr("sys.argv", ["tileir", "targets", "cpu", "--measure"])
    assert cli.run() == 2
    assert "leave NAME out" in capsys.readouterr().err
