"""Back ends in wheels: built, installed by pip beside tileir, found by their entry points."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from pathlib import Path

BACKEND: Final = """
from tileir.runtime.interface import Backend, DeviceInfo
BACKEND = Backend({name!r}, lambda: [DeviceInfo("{name}.0", "A device", {name!r})], None, None)
"""

SHOW: Final = """
import tileir
context = tileir.default_context()
print([device.id for device in context.devices() if device.backend in ("twin", "single")])
print(context.failures()["twin"].diagnostics[0].code, context.failures()["twin"].diagnostics[0].message)
try:
    context.device("twin.0")
except tileir.BackendError as error:
    print(error.diagnostics[0].message)
"""


def wheel(folder: Path, distribution: str, backend: str) -> Path:
    """Write a wheel with one module, and an entry point for it."""
    module = distribution.replace("-", "_")
    info = f"{module}-1.0.dist-info"
    files = {
        f"{module}.py": BACKEND.format(name=backend),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tileir\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[tileir.backends]\n{backend} = {module}:BACKEND\n",
    }
    record = [f"{name},sha256={_digest(text)},{len(text)}" for name, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""])
    path = folder / f"{module}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def test_two_wheels_with_one_name_are_both_named_and_hide_no_other(tmp_path: Path) -> None:
    pytest.importorskip("pip")
    site = tmp_path / "site"
    wheels = [wheel(tmp_path, *names) for names in (("first-twin", "twin"), ("second-twin", "twin"), ("one", "single"))]
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(site)]
    subprocess.run([*install, *map(str, wheels)], check=True, capture_output=True)
    environment = {**os.environ, "PYTHONPATH": str(site), "TILEIR_DEVICE": ""}
    done = subprocess.run([sys.executable, "-c", SHOW], env=environment, capture_output=True, check=True, text=True)
    clash = (
        "back end 'twin' is provided by first-twin 1.0 (first_twin:BACKEND) and second-twin 1.0 (second_twin:BACKEND); "
        "uninstall one of them"
    )
    assert done.stdout.splitlines() == ["['single.0']", f"TIL803 {clash}", clash]
    assert f"skipped: {clash}" in done.stderr
