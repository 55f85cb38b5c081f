"""A studio to talk to, without a browser or a port, and what its answers say."""

from __future__ import annotations

import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson
from starlette.testclient import TestClient

from tileir_studio.serve.server import Start, app_of
from tileir_studio.serve.workshop import Limits, Workshop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PORT: Final = 8123
TOKEN: Final = "the-token-of-the-tests"

MATMUL: Final = """\
function (A[M, K], B[K, N]) -> (Y) {
    C[i, j : M, N] = +(A[i, k] * B[k, j]);
    Y = relu(C);
}
"""
SIZES: Final = {"A": "f32[20, 30]", "B": "f32[30, 40]"}


@contextmanager
def studio(folder: Path, **limits: Any) -> Iterator[TestClient]:
    """Run a studio that waits for a loaded machine; the client knows its token and calls it by its right name."""
    workshop = Workshop(folder, Limits(**{"seconds": 600, **limits}))
    app = app_of(Start("a.tile", MATMUL), workshop, port=PORT, token=TOKEN)
    headers = {"x-tileir-token": TOKEN}
    with TestClient(app, base_url=f"http://127.0.0.1:{PORT}", headers=headers) as client:
        yield client


def events(client: TestClient, job: str, **request: Any) -> list[tuple[str, Any]]:
    """Return the names and views of what a job tells."""
    answer = client.post(f"/api/jobs/{job}", json=request)
    assert answer.status_code == 200, answer.text
    return parsed(answer.text)


def parsed(stream: str) -> list[tuple[str, Any]]:
    found = []
    for block in stream.split("\n\n")[:-1]:
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), orjson.loads(data.removeprefix("data: "))))
    return found


def codes(found: list[tuple[str, Any]]) -> list[str]:
    """Return the codes of the faults that a job ended with."""
    name, view = found[-1]
    assert name == "faults", found
    return [fault["code"] for fault in view]


def frames(client: TestClient, job: str, **request: Any) -> list[tuple[str, Any, dict[str, bytes]]]:
    """Return the events of a job with the bytes of their pictures."""
    answer = client.post(f"/api/jobs/{job}", json=request, headers={"accept": "application/octet-stream"})
    assert answer.status_code == 200, answer.text
    content, found = answer.content, []
    while content:
        (length,) = struct.unpack_from("<I", content)
        message = orjson.loads(content[4 : 4 + length])
        content = content[4 + length :]
        parts = {}
        for name, size in message["pictures"].items():
            parts[name], content = content[:size], content[size:]
        found.append((message["event"], message["view"], parts))
    return found


def shown(client: TestClient, **request: Any) -> tuple[Any, bytes]:
    """Return the last view of a preview and the picture that the page shows then."""
    found = frames(client, "formula.preview", **request)
    name, view, _ = found[-1]
    assert name == "preview", view
    return view, next(parts["preview"] for _, _, parts in reversed(found) if parts)


def pixels(view: Any, content: bytes) -> np.ndarray[Any, Any]:
    return np.frombuffer(content, np.uint8).reshape(*view["size"], 4)
