"""Pictures of 16 and 32 bits, and of all ways in which EXIF says that they are looked at."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import tifffile
from PIL import Image, ImageOps
from skimage.util import img_as_float32

from tileir_cli.pictures.files import depth_of, read_picture, write_picture

Array = np.ndarray[Any, np.dtype[Any]]
CHANNELS = {1: 0, 2: 4, 3: 2, 4: 6}


def levels(channels: int, dtype: type = np.uint16, seed: int = 0) -> Array:
    info = np.iinfo(dtype)
    shape = (13, 11, channels) if channels > 1 else (13, 11)
    return np.random.default_rng(seed).integers(info.min, info.max, shape, dtype, endpoint=True)


def png(picture: Array, filters: bool = True) -> bytes:
    """Return a PNG of 16 bits whose rows have all filters in turns, written by the words of the specification."""
    height, width = picture.shape[:2]
    channels = picture.size // (height * width)
    rows = [bytes(row) for row in picture.astype(">u2").reshape(height, -1).view(np.uint8)]
    step, before, lines = 2 * channels, bytes(len(rows[0])), []
    for number, row in enumerate(rows):
        kind = number % 5 if filters else 0
        line = bytearray([kind])
        for at, byte in enumerate(row):
            left = row[at - step] if at >= step else 0
            corner = before[at - step] if at >= step else 0
            up = before[at]
            guess = left + up - corner
            paeth = min((left, up, corner), key=lambda each: abs(guess - each))
            line.append((byte - (0, left, up, (left + up) // 2, paeth)[kind]) % 256)
        lines.append(bytes(line))
        before = row
    header = struct.pack(">IIBBBBB", width, height, 16, CHANNELS[channels], 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(b"".join(lines))), (b"IEND", b""))
    packed = (struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def unpacked(content: bytes) -> Array:
    """Return the levels of a PNG of 16 bits whose rows have the filter 2."""
    at, data, width, height, channels = 8, b"", 0, 0, 0
    while at < len(content):
        length, name = struct.unpack(">I4s", content[at : at + 8])
        body = content[at + 8 : at + 8 + length]
        assert struct.unpack(">I", content[at + 8 + length : at + 12 + length])[0] == zlib.crc32(name + body)
        if name == b"IHDR":
            width, height, depth, kind, *rest = struct.unpack(">IIBBBBB", body)
            assert (depth, rest) == (16, [0, 0, 0])
            channels = {number: count for count, number in CHANNELS.items()}[kind]
        data += body if name == b"IDAT" else b""
        at += 12 + length
    rows = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, -1)
    assert set(rows[:, 0]) == {2}
    flat = np.cumsum(rows[:, 1:], axis=0, dtype=np.uint8).copy().view(">u2")
    return flat.reshape((height, width, channels) if channels > 1 else (height, width)).astype(np.uint16)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_png_of_sixteen_bits_comes_in_whole(tmp_path: Path, channels: int) -> None:
    picture = levels(channels)
    (tmp_path / "a.png").write_bytes(png(picture))
    wanted = picture if channels != 2 else picture[..., [0, 0, 0, 1]]
    np.testing.assert_array_equal(read_picture(tmp_path / "a.png"), wanted / np.float32(65535))
    assert depth_of(tmp_path / "a.png") == 16


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("compression", [None, "zlib"])
@pytest.mark.parametrize("planes", ["contig", "separate"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_tiff_of_sixteen_bits_comes_in_whole(
    tmp_path: Path, channels: int, planes: str, compression: str | None, order: Literal["<", ">"]
) -> None:
    picture, path = levels(channels), tmp_path / "a.tif"
    refused = planes == "separate" and compression is not None and channels > 1
    stored = np.moveaxis(picture, 2, 0) if planes == "separate" and channels > 1 else picture
    tifffile.imwrite(
        path,
        stored,
        photometric="rgb" if channels > 1 else "minisblack",
        planarconfig=planes if channels > 1 else None,
        extrasamples=["unassalpha"] if channels == 4 else None,
        compression=compression,
        predictor=compression is not None,
        byteorder=order,
    )
    if refused:
        with pytest.raises(OSError, match="save it with the colours of a pixel side by side"):
            read_picture(path)
        return
    np.testing.assert_array_equal(read_picture(path), picture / np.float32(65535))
    assert depth_of(path) == 16


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.int16, np.int32])
def test_grey_tiff_has_the_range_of_its_integers(tmp_path: Path, dtype: type) -> None:
    picture = levels(1, dtype)
    tifffile.imwrite(tmp_path / "a.tif", picture)
    np.testing.assert_allclose(read_picture(tmp_path / "a.tif"), img_as_float32(picture), rtol=1e-4, atol=1e-7)


def test_a_million_in_thirty_two_bits_is_dark(tmp_path: Path) -> None:
    Image.fromarray(np.full((2, 2), 1_000_000, np.int32)).save(tmp_path / "a.tif")
    np.testing.assert_allclose(read_picture(tmp_path / "a.tif"), 1_000_000 / (2**31 - 1), rtol=1e-6)


def test_floats_stay_as_they_are(tmp_path: Path) -> None:
    picture = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)
    tifffile.imwrite(tmp_path / "a.tif", picture)
    np.testing.assert_array_equal(read_picture(tmp_path / "a.tif"), picture)


@pytest.mark.parametrize("most", [255, 1000, 65535])
def test_portable_grey_maps_have_the_range_that_they_say(tmp_path: Path, most: int) -> None:
    picture = np.random.default_rng(0).integers(0, most, (4, 5), endpoint=True)
    kind = ">u1" if most < 256 else ">u2"
    (tmp_path / "a.pgm").write_bytes(f"P5 5 4 {most}\n".encode() + picture.astype(kind).tobytes())
    np.testing.assert_allclose(read_picture(tmp_path / "a.pgm"), picture / most, atol=1 / 65535)


@pytest.mark.parametrize("shape", [(13, 11), (13, 11, 3), (13, 11, 4), (1, 1), (1, 7, 3)])
def test_png_of_sixteen_bits_goes_out_whole(shape: tuple[int, ...]) -> None:
    picture = np.random.default_rng(0).integers(0, 65536, shape).astype(np.uint16)
    np.testing.assert_array_equal(unpacked(write_picture(Path("a.png"), picture)), picture)
    floats = picture / np.float32(65535)
    np.testing.assert_array_equal(unpacked(write_picture(Path("a.png"), floats, depth=16)), picture)
    with Image.open(io.BytesIO(write_picture(Path("a.png"), picture))) as opened:
        opened.load()
        assert opened.size == (shape[1], shape[0])


@pytest.mark.parametrize("shape", [(13, 11), (13, 11, 3), (13, 11, 4), (1, 1), (1, 7, 3)])
def test_tiff_of_sixteen_bits_goes_out_whole(tmp_path: Path, shape: tuple[int, ...]) -> None:
    picture = np.random.default_rng(0).integers(0, 65536, shape).astype(np.uint16)
    path = tmp_path / "a.tiff"
    path.write_bytes(write_picture(path, picture / np.float32(65535), depth=16))
    np.testing.assert_array_equal(tifffile.imread(path), picture)
    np.testing.assert_array_equal(read_picture(path), picture / np.float32(65535))


@pytest.mark.parametrize("value", [-1.0, np.nan, 2.0, np.inf])
def test_deep_levels_are_clipped(value: float) -> None:
    wanted = 65535 if value > 1 else 0
    assert unpacked(write_picture(Path("a.png"), np.full((1, 2), value), depth=16)).tolist() == [[wanted, wanted]]


def test_other_formats_and_other_types_have_eight_bits() -> None:
    for name in ("a.jpg", "a.bmp", "a.webp", "a.ppm"):
        with Image.open(io.BytesIO(write_picture(Path(name), np.full((2, 2, 3), 0.5), depth=16))) as opened:
            assert opened.mode == "RGB"
    with Image.open(io.BytesIO(write_picture(Path("a.bmp"), np.full((2, 2), 65535, np.uint16)))) as opened:
        assert np.asarray(opened).tolist() == [[255, 255]] * 2
    with Image.open(io.BytesIO(write_picture(Path("a.png"), np.full((2, 2), 7, np.uint8), depth=16))) as opened:
        assert np.asarray(opened).tolist() == [[7, 7]] * 2


@pytest.mark.parametrize("ending", ["jpg", "png", "tif", "webp"])
@pytest.mark.parametrize("orientation", range(10))
def test_pictures_are_turned_as_viewers_show_them(tmp_path: Path, ending: str, orientation: int) -> None:
    path = tmp_path / f"a.{ending}"
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture = np.random.default_rng(orientation).integers(0, 256, (8, 12, 3)).astype(np.uint8)
    Image.fromarray(picture).save(path, exif=exif)
    with Image.open(path) as opened:
        shown = np.asarray(ImageOps.exif_transpose(opened))
    np.testing.assert_array_equal(read_picture(path), shown / np.float32(255))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_deep_pictures_are_turned_too(tmp_path: Path, orientation: int) -> None:
    picture = levels(3)
    exif = Image.Exif()
    exif[0x0112] = orientation
    plain = png(picture)
    chunk = exif.tobytes().removeprefix(b"Exif\0\0")
    end = struct.pack(">I", len(chunk)) + b"eXIf" + chunk + struct.pack(">I", zlib.crc32(b"eXIf" + chunk))
    (tmp_path / "a.png").write_bytes(plain[:33] + end + plain[33:])
    whole = np.stack(
        [np.asarray(ImageOps.exif_transpose(_with(channel, exif))) for channel in np.moveaxis(picture, 2, 0)]
    )
    np.testing.assert_array_equal(
        read_picture(tmp_path / "a.png"), np.moveaxis(whole, 0, 2).astype(np.uint16) / np.float32(65535)
    )


def _with(channel: Array, exif: Image.Exif) -> Image.Image:
    image = Image.fromarray(channel.astype(np.int32))
    image.getexif().update(exif)
    return image


def test_what_is_written_says_nothing_of_turning(tmp_path: Path) -> None:
    for ending in ("jpg", "png", "tif", "webp", "bmp", "ppm"):
        data = write_picture(tmp_path / f"a.{ending}", np.zeros((2, 3, 3), np.float32))
        with Image.open(io.BytesIO(data)) as opened:
            assert opened.getexif().get(0x0112, 1) == 1
            assert opened.size == (3, 2)


def test_broken_exif_hides_no_picture(tmp_path: Path) -> None:
    picture = np.zeros((8, 8, 3), np.uint8)
    for content in (b"Exif\0\0", b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0nothing of the kind"):
        Image.fromarray(picture).save(tmp_path / "a.jpg", exif=content)
        assert read_picture(tmp_path / "a.jpg").shape == (8, 8, 3)


@pytest.mark.parametrize("ending", ["webp", "gif", "ppm", "pgm", "pnm"])
def test_further_formats_come_in(tmp_path: Path, ending: str) -> None:
    picture = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [9, 9, 9]]], np.uint8)
    path = tmp_path / f"a.{ending}"
    Image.fromarray(picture).save(path, format={"webp": "WEBP", "gif": "GIF"}.get(ending, "PPM"), lossless=True)
    with Image.open(path) as opened:
        shown = np.asarray(opened.convert("RGB"))
    np.testing.assert_array_equal(read_picture(path), shown / np.float32(255))
    np.testing.assert_array_equal(shown, picture)
    assert depth_of(path) == 8


def test_written_webp_is_exact() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (9, 7, 3)).astype(np.uint8)
    with Image.open(io.BytesIO(write_picture(Path("a.webp"), picture))) as opened:
        np.testing.assert_array_equal(np.asarray(opened), picture)
