"""Files of front ends from a wheel: wherever a program is taken, by the ending of their names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import tileir
from strategies.wheels import install
from tileir.core import BackendError
from tileir.core.extensions import EXTENSIONS, Kind
from tileir_cli import main as cli
from tileir_testing.extensions import check_installed

MODULE = """
import numpy as np
import tileir

class Factors:
    name = "factor"
    def load(self, path):
        try:
            factor = float(path.read_text())
        except ValueError as error:
            raise tileir.TileError.of("TIL604", f"{path}: {error}") from None
        f = tileir.FunctionBuilder()
        with f.at(f"the factor of {path.name}"):
            return f.build(Y=f.input("X", "N", dtype="f32") * f.constant(np.float32(factor)))

class Misnamed(Factors):
    name = "other"

FACTORS, MISNAMED, NOTHING = Factors(), Misnamed(), 3
"""

GROUPS = {
    "tileir.frontends": {
        "factor": "factor_wheel:FACTORS",
        "misnamed": "factor_wheel:MISNAMED",
        "nothing": "factor_wheel:NOTHING",
    }
}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    install(tmp_path, monkeypatch, "factor_wheel", GROUPS, MODULE)
    path = tmp_path / "three.factor"
    path.write_text("3")
    yield path
    monkeypatch.undo()
    EXTENSIONS.forget()


def test_a_file_is_a_program(file: Path) -> None:
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(tileir.jit(file)(x), 3 * x)
    np.testing.assert_array_equal(tileir.evaluate(file, x), 3 * x)
    assert tileir.parse(file) == tileir.parse(file, stage="any")
    np.testing.assert_array_equal(tileir.jit(tileir.gradient(file))(x), np.full(4, 3, np.float32))
    check_installed(Kind.FRONTEND, "factor")


def test_commands_take_the_file(file: Path) -> None:
    runner = CliRunner()
    found = runner.invoke(cli.commands, ["print", str(file)])
    assert found.exit_code == 0, found.output
    assert "function (X: f32[N])" in found.output
    assert "front end" in runner.invoke(cli.commands, ["extensions"]).output


def test_faults_of_a_file_are_those_of_its_front_end(file: Path) -> None:
    file.write_text("three")
    with pytest.raises(tileir.TileError, match=r"TIL604.*three\.factor: could not convert"):
        tileir.jit(file)


@pytest.mark.parametrize(
    ("name", "fault"), [("misnamed", "calls itself 'other'"), ("nothing", "int without name and load")]
)
def test_offers_that_are_no_front_end(file: Path, name: str, fault: str) -> None:
    with pytest.raises(BackendError, match=f"TIL811.*{fault}"):
        tileir.jit(file.with_suffix(f".{name}"))


def test_a_front_end_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EXTENSIONS, "find", lambda _: ())
    EXTENSIONS.forget()
    try:
        with pytest.raises(BackendError, match=r"TIL811.*needs tileir-onnx, which is not installed: pip install"):
            tileir.jit(tmp_path / "model.onnx")
    finally:
        monkeypatch.undo()
        EXTENSIONS.forget()
