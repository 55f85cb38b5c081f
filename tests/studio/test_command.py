"""The command `tileir studio`: what it begins with, and what it prints."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from PIL import Image

import tileir
from tileir.core.errors import TileError
from tileir_studio.serve.command import example, start_of
from tileir_studio.serve.uploads import read

LAUNCH: Final = (sys.executable, "-m", "tileir", "studio", "--no-browser")


def test_a_program_is_what_the_page_begins_with(tmp_path: Path) -> None:
    file = tmp_path / "a.tile"
    file.write_text("function (A[N]) -> (B) { B = A; }", encoding="utf-8")
    start = start_of(file, tmp_path)
    assert (start.name, start.text, start.values) == ("a.tile", "function (A[N]) -> (B) { B = A; }", {})


@pytest.mark.parametrize(("shape", "rank"), [((20, 30), 2), ((20, 30, 3), 3)])
def test_a_picture_gets_a_program_that_runs_on_it(tmp_path: Path, shape: tuple[int, ...], rank: int) -> None:
    file = tmp_path / "photo.png"
    Image.fromarray(np.full(shape, 255, np.uint8)).save(file)
    folder = tmp_path / "uploads"
    folder.mkdir()
    start = start_of(file, folder)
    array = read(folder, start.values["Picture"].removeprefix("upload:"))
    assert array.ndim == rank
    result = tileir.evaluate(start.text, [array])
    np.testing.assert_allclose(result[3:-3, 3:-3], np.ones_like(array)[3:-3, 3:-3], rtol=1e-6)


def test_without_a_file_there_is_a_program_too(tmp_path: Path) -> None:
    start = start_of(None, tmp_path)
    assert start.text == example(coloured=False)
    tileir.compile(start.text, start.values)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    for name in ("nothing.tile", "nothing.png"):
        with pytest.raises(TileError) as caught:
            start_of(tmp_path / name, tmp_path)
        assert [fault.code for fault in caught.value.diagnostics] == ["TIL901"]


@pytest.mark.sampled(0)
@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_the_address_that_is_printed_answers(tmp_path: Path, end: signal.Signals) -> None:
    """And an interrupt, or a request to end, leaves nothing behind."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    pipe = subprocess.PIPE
    with subprocess.Popen(LAUNCH, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            line = process.stdout.readline()
            address, _, token = line.removeprefix("the studio is at ").strip().partition("#token=")
            assert address.startswith("http://127.0.0.1:")
            request = urllib.request.Request(f"{address}api/start", headers={"x-tileir-token": token})
            with urllib.request.urlopen(request, timeout=60) as answer:
                assert b"Blurred" in answer.read()
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"{address}api/start", timeout=60)
            with refused.value:
                assert refused.value.code == 403
            assert len(list(tmp_path.iterdir())) == 1
        finally:
            process.send_signal(end)
        assert process.stderr.read() == ""
    assert process.returncode == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.sampled(0)
def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run([*LAUNCH, "--port", port], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert f"error[TIL902]: cannot listen on port {port}" in done.stderr


@pytest.mark.sampled(0)
@pytest.mark.parametrize("name", ["starlette", "uvicorn"])
def test_a_missing_package_is_told(name: str) -> None:
    script = (
        f"import sys; sys.modules[{name!r}] = None; sys.argv = ['tileir', 'studio'];"
        "from tileir.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert f"error[TIL903]: the studio needs {name}: pip install 'tileir[studio]'" in done.stderr
