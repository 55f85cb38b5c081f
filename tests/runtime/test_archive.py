"""tileir in an archive: its modules, target files and entry points are found where there is no folder."""

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROGRAM = """
import numpy as np
import tileir
assert tileir.__file__.startswith({archive!r}), tileir.__file__
run = tileir.jit("function (A[N]) -> (B) {{ B[] = +(A[i]); }}")
print(run(np.arange(4.0)), run.specialise(np.arange(4.0)).device.backend)
"""


def packed(path: Path, *, targets: bool) -> Path:
    """Write an archive with the pure part of the wheel."""
    with zipfile.ZipFile(path, "w") as archive:
        for folder in (ROOT / "src", ROOT / "src" / "backends"):
            for package in ("tileir", "tileir_llvm"):
                for file in sorted((folder / package).rglob("*")):
                    if file.suffix == ".py" or (targets and file.suffix == ".json"):
                        archive.write(file, file.relative_to(folder))
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        groups = project["entry-points"]["tileir.backends"]
        points = "".join(f"{name} = {value}\n" for name, value in groups.items())
        info = f"tileir-{project['version']}.dist-info"
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tileir\nVersion: {project['version']}\n")
        archive.writestr(f"{info}/entry_points.txt", f"[tileir.backends]\n{points}")
    return path


def run_from(archive: Path, cache: str = "0") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(archive), "TILEIR_CACHE": cache}
    program = PROGRAM.format(archive=str(archive))
    return subprocess.run(
        [sys.executable, "-P", "-c", program], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("cache", ["0", "1"])
def test_programs_run_from_an_archive(tmp_path: Path, cache: str) -> None:
    pytest.importorskip("llvmlite")
    done = run_from(packed(tmp_path / "app.zip", targets=True), cache)
    assert (done.stdout, done.returncode) == ("6.0 llvm\n", 0), done.stderr


@pytest.mark.sampled(0)
def test_missing_target_files_are_told_as_such(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    done = run_from(packed(tmp_path / "app.zip", targets=False))
    assert "error[TIL547]: the target files of tileir are missing" in done.stderr
    assert "pack the data files of the package tileir" in done.stderr
