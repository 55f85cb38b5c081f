"""Pages that go away, in the middle of what they send or get."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from studio.conversation import MATMUL, PORT, SIZES, TOKEN
from tileir_studio.serve.server import Start, app_of
from tileir_studio.serve.workshop import Workshop

if TYPE_CHECKING:
    from pathlib import Path


async def talk(workshop: Workshop, path: str, messages: list[dict[str, Any]], wait: float = 0.0) -> list[Any]:
    """Send messages, the last of them after a while, and return what comes back."""
    headers = [(b"host", f"127.0.0.1:{PORT}".encode()), (b"x-tileir-token", TOKEN.encode())]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b"", "root_path": ""}
    sent: list[Any] = []

    async def receive() -> Any:
        if len(messages) == 1:
            await asyncio.sleep(wait)
        return messages.pop(0) if messages else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    await app_of(Start("a", ""), workshop, port=PORT, token=TOKEN)(scope, receive, send)
    return sent


@pytest.mark.parametrize("path", ["/api/uploads", "/api/jobs/check"])
def test_what_is_sent_in_part_is_no_error_of_the_server(tmp_path: Path, path: str) -> None:
    async def everything() -> None:
        workshop = Workshop(tmp_path)
        part = {"type": "http.request", "body": b"half of it", "more_body": True}
        sent = await talk(workshop, path, [part, {"type": "http.disconnect"}])
        await workshop.close()
        assert sent[0]["status"] in (400, 422)

    asyncio.run(everything())


@pytest.mark.sampled(0)
def test_who_goes_away_while_a_program_runs_stops_it(tmp_path: Path) -> None:
    async def everything() -> None:
        workshop = Workshop(tmp_path)
        values = {"A": "f64[16777216]"}
        body = orjson.dumps({"text": "function (A[N]) -> (S) { S[] = >(A[i] * A[j]); }", "values": values})
        asked = {"type": "http.request", "body": body, "more_body": False}
        sent = await talk(workshop, "/api/jobs/run", [asked, {"type": "http.disconnect"}], wait=2.0)
        assert [message["type"] for message in sent] == ["http.response.start"]
        assert workshop.processes == (0, 0)
        again = orjson.dumps({"text": MATMUL, "values": SIZES})
        sent = await talk(workshop, "/api/jobs/run", [{"type": "http.request", "body": again, "more_body": False}])
        assert b"event: ran" in sent[1]["body"]
        await workshop.close()

    asyncio.run(everything())
