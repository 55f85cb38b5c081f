"""Access control of the studio, and limits of requests."""

from __future__ import annotations

import io
import struct
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from studio.conversation import PORT, TOKEN, studio
from tileir_studio.serve.server import MOST_REQUEST
from tileir_studio.serve.uploads import KEPT, MOST_BYTES, read, store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("uploads")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    with studio(folder) as client:
        yield client


@pytest.mark.parametrize("path", ["/", "/static/studio.js", "/api/start", "/nonsense"])
@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", f"127.0.0.1:{PORT + 1}", f"127.0.0.1:{PORT}.evil", ""]
)
def test_other_hosts_are_refused(client: TestClient, host: str, path: str) -> None:
    assert client.get(path, headers={"host": host}).status_code == 403


@pytest.mark.parametrize("host", [f"127.0.0.1:{PORT}", f"localhost:{PORT}"])
def test_own_hosts_are_answered(client: TestClient, host: str) -> None:
    headers = {"host": host, "origin": f"http://{host}", "sec-fetch-site": "same-origin"}
    assert client.get("/api/start", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", f"https://127.0.0.1:{PORT}", "http://127.0.0.1", "null", "file://", ""]
)
def test_other_origins_are_refused(client: TestClient, origin: str) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        assert client.request(method, "/api/start", headers={"origin": origin}).status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_sites_are_refused(client: TestClient, site: str) -> None:
    assert client.get("/", headers={"sec-fetch-site": site}).status_code == 403


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN + "x", TOKEN[:-1], TOKEN.upper()])
@pytest.mark.parametrize("path", ["/api/start", "/api/jobs/devices", "/api/uploads", "/api/pictures/x", "/api/"])
def test_who_does_not_know_the_token_is_refused(client: TestClient, path: str, token: str | None) -> None:
    bare = TestClient(client.app, base_url=f"http://127.0.0.1:{PORT}")
    headers = {} if token is None else {"x-tileir-token": token}
    for method in ("GET", "POST"):
        answer = bare.request(method, path, headers=headers, content=b"{}")
        assert answer.status_code == 403
        assert "tileir studio" in answer.text
        assert TOKEN not in answer.text


def test_a_token_in_the_address_does_not_count(client: TestClient) -> None:
    bare = TestClient(client.app, base_url=f"http://127.0.0.1:{PORT}")
    assert bare.get(f"/api/start?token={TOKEN}").status_code == 403


def test_two_tokens_or_hosts_are_refused(client: TestClient) -> None:
    twice = [("x-tileir-token", TOKEN), ("x-tileir-token", TOKEN)]
    bare = TestClient(client.app, base_url=f"http://127.0.0.1:{PORT}")
    assert bare.get("/api/start", headers=twice).status_code == 403


def test_websockets_are_refused(client: TestClient) -> None:
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/api/start"):
        pass


@pytest.mark.parametrize("path", ["/", "/api/start", "/nonsense"])
def test_every_answer_says_what_the_page_may_load(client: TestClient, path: str) -> None:
    for headers in ({}, {"host": "evil.example"}):
        policy = client.get(path, headers=headers).headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/..%2fserver.py",
        "/static/%2e%2e/server.py",
        "/static/....//server.py",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/static/index.html%00.js",
        "/static/",
    ],
)
def test_no_path_leads_out(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_what_is_too_long_is_refused(client: TestClient) -> None:
    assert client.post("/api/uploads", content=b"x" * (MOST_BYTES + 1)).status_code == 413
    assert client.post("/api/jobs/check", content=b" " * (MOST_REQUEST + 1)).status_code == 413
    for length in ("99999999999999999999999", "-1", "x"):
        assert client.post("/api/uploads", content=b"x", headers={"content-length": length}).status_code == 413

    def forever() -> Iterator[bytes]:
        for _ in range(1 + MOST_BYTES // (1 << 20)):
            yield b"x" * (1 << 20)

    assert client.post("/api/uploads", content=forever()).status_code == 413


def npy(shape: tuple[int, ...], descr: str = "<f4", content: bytes = b"") -> bytes:
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    padded = header.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded.encode() + content


def png(width: int, height: int) -> bytes:
    """Return a picture that says it is huge, of a few bytes."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = zlib.compress(b"\0" * 100_000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def objects() -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([print], dtype=object), allow_pickle=True)
    return file.getvalue()


def archive() -> bytes:
    file = io.BytesIO()
    np.savez(file, a=np.ones(3))
    return file.getvalue()


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"nonsense",
        b"\x93NUMPY",
        b"\x93NUMPY\x07\x00" + b"x" * 100,
        b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535,
        npy((1 << 40,)),
        npy((1 << 62, 1 << 62)),
        npy((4,)),
        npy((-4,), content=b"\0" * 64),
        npy((2,), "|O", b"\0" * 16),
        npy((2,), "<U100", b"\0" * 800),
        objects(),
        archive(),
        png(60_000, 60_000),
        png(10_000, 5_001),
        png(200, 100)[:50],
        b"GIF89a" + b"\xff" * 100,
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n",
    ],
)
def test_hostile_files_are_refused(client: TestClient, content: bytes) -> None:
    answer = client.post("/api/uploads", content=content)
    assert answer.status_code == 422
    assert [fault["code"] for fault in answer.json()["faults"]] == ["TIL912"]


@pytest.mark.sampled(0)
def test_photographs_are_turned_and_further_formats_are_read(folder: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    for kind in ("JPEG", "WEBP", "GIF", "PPM"):
        file = io.BytesIO()
        Image.new("RGB", (12, 8)).save(file, kind, exif=exif)
        turned = kind in ("JPEG", "WEBP")
        assert read(folder, store(folder, file.getvalue())).shape == ((12, 8, 3) if turned else (8, 12, 3))


@pytest.mark.sampled(0)
def test_old_uploads_go(client: TestClient, folder: Path) -> None:
    for number in range(KEPT + 5):
        client.post("/api/uploads", content=npy((1,), content=struct.pack("<f", number)))
    assert len(list(folder.iterdir())) <= KEPT
