"""Bundles: a program and its constants in one file."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir
from tileir.core.array_value import ArrayValue
from tileir.core.text.versions import LINE
from tileir.driver.bundles import read

if TYPE_CHECKING:
    from collections.abc import Mapping

LAYER = "function (X[N, M], W[M, K], B[K]) -> (Y) { S[i, j : N, K] = +(X[i, k] * W[k, j]); Y = S + B; }"
WEIGHTS = np.random.default_rng(0).standard_normal((30, 20)).astype(np.float32)


@pytest.fixture
def layer() -> tileir.Function:
    return tileir.bind(LAYER, W=WEIGHTS, B=np.arange(20, dtype=np.float32))


@pytest.fixture
def bundle(layer: tileir.Function, tmp_path: Path) -> Path:
    tileir.save(layer, tmp_path / "layer.tileir")
    return tmp_path / "layer.tileir"


def members_of(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members: Mapping[str, bytes], kind: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", kind) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_what_was_saved_is_read_and_computes_what_numpy_does(layer: tileir.Function, bundle: Path) -> None:
    again = tileir.parse(bundle)
    assert again == layer
    assert tileir.content_hash(again) == tileir.content_hash(layer)
    x = np.random.default_rng(1).standard_normal((4, 30)).astype(np.float32)
    wanted = x.astype(np.float64) @ WEIGHTS.astype(np.float64) + np.arange(20)
    np.testing.assert_allclose(tileir.jit(bundle)(x), wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(tileir.compile(bundle, {"X": x})(x), wanted, rtol=1e-5, atol=1e-5)


def started(bundle: Path, *options: str, environment: Mapping[str, str] | None = None) -> str:
    """Load a bundle in a process without a cache, run it, and return the sum and whether anything was compiled."""
    script = (
        "import sys, numpy as np, tileir\n"
        f"run = tileir.load({str(bundle)!r}{''.join(f', {each}' for each in options)})\n"
        "found = float(run(np.ones((4, 30), np.float32)).sum())\n"
        "print(round(found, 3), 'tileir.driver.compiler' in sys.modules)\n"
    )
    variables = {**os.environ, "TILEIR_CACHE": "0", **(environment or {})}
    found = subprocess.run([sys.executable, "-c", script], env=variables, capture_output=True, text=True, check=True)
    return found.stdout.strip()


@pytest.fixture
def with_kernels(layer: tileir.Function, tmp_path: Path) -> Path:
    path = tmp_path / "kernels.tileir"
    tileir.save(layer, path, kernels=[tileir.compile(layer, {"X": "f32[4, 30]"})])
    return path


WANTED = round(float(4 * WEIGHTS.astype(np.float64).sum() + 4 * np.arange(20).sum()), 3)


def test_what_has_kernels_starts_without_compiling(with_kernels: Path) -> None:
    found, compiled = started(with_kernels).split()
    np.testing.assert_allclose(float(found), WANTED, rtol=1e-5)
    assert compiled == "False"


@pytest.mark.sampled(0)
@pytest.mark.parametrize("options", [("kernels=False",), ("options=tileir.Options(threads=1, fast_math=True)",)])
def test_kernels_that_do_not_fit_or_are_not_wanted_are_made_anew(with_kernels: Path, options: tuple[str, ...]) -> None:
    found, compiled = started(with_kernels, *options).split()
    np.testing.assert_allclose(float(found), WANTED, rtol=1e-5)
    assert compiled == "True"


@pytest.mark.sampled(0)
def test_kernels_of_another_version_or_damaged_ones_are_made_anew(with_kernels: Path, tmp_path: Path) -> None:
    members = members_of(with_kernels.read_bytes())
    code = [name for name in members if name.startswith("kernels/")]
    assert sorted({name.split("-")[0] for name in code}) == ["kernels/library", "kernels/program"]
    for kept, end in ((slice(0, -1), b""), (slice(0, 8), bytes(4000))):
        damaged = {name: data[kept] + end if name in code else data for name, data in members.items()}
        path = tmp_path / "damaged.tileir"
        path.write_bytes(packed(damaged))
        found, compiled = started(path).split()
        np.testing.assert_allclose(float(found), WANTED, rtol=1e-5)
        assert compiled == "True"


def test_kernels_are_no_part_of_the_program(layer: tileir.Function, with_kernels: Path) -> None:
    assert tileir.parse(with_kernels) == layer
    run = tileir.load(with_kernels)
    np.testing.assert_allclose(run(np.ones((5, 30), np.float32)).shape, (5, 20))  # which the kernels do not serve
    assert pickle.loads(pickle.dumps(run)).function == layer


def test_kernels_of_another_program_are_refused(layer: tileir.Function, tmp_path: Path) -> None:
    other = tileir.compile("function (A) -> (B) { B = A; }", ["f32[3]"])
    with pytest.raises(tileir.ArgumentError) as caught:
        tileir.save(layer, tmp_path / "f.tileir", kernels=[other])
    assert caught.value.diagnostics[0].code == "TIL707"
    assert not (tmp_path / "f.tileir").exists()


def test_files_without_kernels_are_loaded_too(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "f.tile").write_text("function (A) -> (B) { B = A + A; }", encoding="utf-8")
    np.testing.assert_array_equal(tileir.load(tmp_path / "f.tile")(np.ones(3, np.float32)), [2, 2, 2])
    assert tileir.load(bundle)(np.ones((4, 30), np.float32)).shape == (4, 20)
    with pytest.raises(tileir.TileError) as caught:
        tileir.load(tmp_path / "missing.tileir")
    assert caught.value.diagnostics[0].code == "TIL901"


def test_other_tools_read_the_arrays_and_the_text(bundle: Path, tmp_path: Path) -> None:
    members = members_of(bundle.read_bytes())
    assert json.loads(members["bundle.json"]) == {"format": "tileir.bundle", "version": 1}
    assert members["program.tile"].decode().startswith(LINE)
    (name,) = (name for name in members if name.startswith("arrays/"))
    np.testing.assert_array_equal(np.load(io.BytesIO(members[name])), WEIGHTS)


def test_equal_programs_have_equal_bytes(layer: tileir.Function, bundle: Path, tmp_path: Path) -> None:
    tileir.save(tileir.parse(bundle), tmp_path / "again.tileir")
    assert (tmp_path / "again.tileir").read_bytes() == bundle.read_bytes()


@pytest.mark.parametrize("dtype", [each.numpy for each in tileir.DType], ids=lambda dtype: dtype.name)
def test_constants_of_all_types_come_back(dtype: np.dtype[Any], tmp_path: Path) -> None:
    array = np.random.default_rng(2).integers(0, 2, (300,)).astype(dtype)
    function = tileir.bind("function (A, B) -> (C) { C = A + B; }", B=array)
    tileir.save(function, tmp_path / "f.tileir")
    assert tileir.parse(tmp_path / "f.tileir") == function


def test_constants_of_steps_come_along(tmp_path: Path) -> None:
    value = ArrayValue.of(np.arange(300, dtype=np.float32))
    step = f"function (S[N]) -> (R) {{ constant T[N] = f32[300] sha256_{value.digest}; R = S + T; }}"
    function = tileir.parse(f"function (A[N]) -> (L) {{ L = scan(A) 3 times {step}; }}", arrays=[value])
    tileir.save(function, tmp_path / "scan.tileir")
    assert tileir.parse(tmp_path / "scan.tileir") == function
    assert tileir.evaluate(tmp_path / "scan.tileir", [np.zeros(300, np.float32)])[2] == 6


def test_a_program_without_constants_is_a_bundle_too(tmp_path: Path) -> None:
    tileir.save("function (A) -> (B) { B = A * 2; }", tmp_path / "f.tileir")
    assert tileir.jit((tmp_path / "f.tileir").read_bytes())(np.array([1, 2], np.float32)).tolist() == [2, 4]


def test_a_typed_function_is_raised_to_tile(tmp_path: Path) -> None:
    typed = tileir.compile("function (A) -> (B) { B = A * 2; }", ["f32[3]"]).typed
    tileir.save(typed, tmp_path / "f.tileir")
    assert isinstance(tileir.parse(tmp_path / "f.tileir"), tileir.Function)


def test_programs_of_later_stages_are_refused(tmp_path: Path) -> None:
    stripe = tileir.compile("function (A) -> (B) { B = A * 2; }", ["f32[3]"]).stripe
    with pytest.raises(tileir.ArgumentError, match="no way back to Tile"):
        tileir.save(stripe, tmp_path / "f.tileir")


def test_a_file_that_cannot_be_written_is_told(layer: tileir.Function, tmp_path: Path) -> None:
    with pytest.raises(tileir.TileError, match="cannot write") as caught:
        tileir.save(layer, tmp_path / "missing" / "f.tileir")
    assert caught.value.diagnostics[0].code == "TIL901"


def test_a_bundle_is_of_tile(bundle: Path) -> None:
    assert tileir.parse(bundle, stage="any") == tileir.parse(bundle)
    with pytest.raises(tileir.ArgumentError, match="holds a program of Tile"):
        tileir.parse(bundle, stage="stripe")


def changed(bundle: Path, **content: bytes | None) -> dict[str, bytes]:
    members: dict[str, bytes | None] = {**members_of(bundle.read_bytes()), **content}
    return {name: data for name, data in members.items() if data is not None}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"bundle.json": None}, "no member 'bundle.json'"),
        ({"program.tile": None}, "no member 'program.tile'"),
        ({"bundle.json": b"{"}, "cannot be read as a bundle"),
        ({"bundle.json": b"[" * 100_000}, "cannot be read as a bundle"),
        ({"bundle.json": b'{"format": "else"}'}, "does not say that it is one"),
        (
            {"bundle.json": b'{"format": "tileir.bundle", "version": 2}'},
            "version 2 of their form, and this tileir reads 1",
        ),
        ({"program.tile": b"\xff"}, "cannot be read as a bundle"),
        ({"arrays/0.npy": b"nothing"}, "is no array"),
    ],
)
def test_broken_bundles_are_told_with_the_reason(bundle: Path, content: dict[str, bytes | None], words: str) -> None:
    with pytest.raises(tileir.TileError, match=words) as caught:
        read(packed(changed(bundle, **content)), "layer.tileir")
    assert caught.value.diagnostics[0].code == "TIL603"


def test_other_elements_than_the_digest_says_are_told(bundle: Path) -> None:
    members = members_of(bundle.read_bytes())
    (name,) = (name for name in members if name.startswith("arrays/"))
    wrong = members[name][:-4] + bytes(4)
    with pytest.raises(tileir.TileError, match="other elements than its name says"):
        read(packed({**members, name: wrong}), "layer.tileir")


def test_a_constant_that_is_missing_is_told(bundle: Path) -> None:
    members = {name: data for name, data in members_of(bundle.read_bytes()).items() if not name.startswith("arrays/")}
    with pytest.raises(tileir.TileError) as caught:
        read(packed(members), "layer.tileir")
    assert caught.value.diagnostics[0].code == "TIL219"


def test_compressed_members_are_refused_unread(bundle: Path) -> None:
    data = packed(members_of(bundle.read_bytes()), zipfile.ZIP_DEFLATED)
    with pytest.raises(tileir.TileError, match="compressed or encrypted"):
        read(data, "layer.tileir")


def test_newer_texts_are_refused_by_their_version(bundle: Path) -> None:
    members = changed(bundle, **{"program.tile": b"// tileir 99.0\nfunction"})
    with pytest.raises(tileir.ParseError) as caught:
        read(packed(members), "layer.tileir")
    assert caught.value.diagnostics[0].code == "TIL106"


def test_what_is_cut_short_is_told(bundle: Path) -> None:
    data = bundle.read_bytes()
    for length in range(2, len(data), 97):
        with pytest.raises(tileir.TileError) as caught:
            read(data[:length], "layer.tileir")
        assert caught.value.diagnostics[0].code == "TIL603"


def test_flipped_bytes_never_end_in_anything_but_errors_of_tileir(layer: tileir.Function, bundle: Path) -> None:
    data = bytearray(bundle.read_bytes())
    for place in range(0, len(data), 13):
        data[place] ^= 0x5A
        with contextlib.suppress(tileir.TileError):
            assert isinstance(read(bytes(data), "layer.tileir"), tileir.Function)
        data[place] ^= 0x5A


def test_files_of_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    (tmp_path / "x.tile").write_bytes(b"\xff\xfe")
    with pytest.raises(tileir.TileError) as caught:
        tileir.parse(tmp_path / "x.tile")
    assert caught.value.diagnostics[0].code == "TIL901"


def test_line_ends_of_other_systems_are_read(tmp_path: Path) -> None:
    (tmp_path / "x.tile").write_bytes(b"// tileir 0.1\r\nfunction (A) -> (B) {\r\n  B = A; // same\r\n}\r\n")
    assert tileir.parse(tmp_path / "x.tile") == tileir.parse("function (A) -> (B) { B = A; }")


def test_a_mark_of_the_byte_order_begins_no_text(tmp_path: Path) -> None:
    text = "function (A) -> (B) { B = A; }"
    marked = b"\xef\xbb\xbf" + text.encode()
    (tmp_path / "x.tile").write_bytes(marked)
    assert tileir.parse(tmp_path / "x.tile") == tileir.parse(marked) == tileir.parse(text)
    (tmp_path / "target.json").write_bytes(b'\xef\xbb\xbf{"name": "slow", "passes": []}')
    executable = tileir.compile(text, ["f32[3]"], target=str(tmp_path / "target.json"))
    np.testing.assert_array_equal(executable(np.ones(3, np.float32)), np.ones(3))
    (tmp_path / "named.tile").write_bytes(b"\xef\xbb\xbffunction same(A) -> (B) { B = A; }")
    (tmp_path / "y.tile").write_text('import same from "named.tile"; function (A) -> (B) { B = same(A); }')
    np.testing.assert_array_equal(tileir.evaluate(tmp_path / "y.tile", [np.ones(3, np.float32)]), np.ones(3))
