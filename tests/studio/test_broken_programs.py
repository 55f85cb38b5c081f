"""Thousands of broken programs: each gets faults with places, and none an error of the server."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any, Final

import orjson
import pytest

from strategies.effort import share_of
from studio.conversation import MATMUL, PORT, TOKEN, parsed
from tileir_studio.serve.server import Start, app_of
from tileir_studio.serve.workshop import Workshop

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.types import ASGIApp


PROGRAMS: Final = (
    MATMUL,
    "function (X[N, M]) -> (S, D) {\n  S[i : N] = +(X[i, j]);\n  [[pid(d)]] D = X / reshape(S, N, 1);\n}\n",
    "function (X[H, W], K[A, B]) -> (Y) { Y[y, x : H, W] = +(X[y + a - 1, x + b - 1] * K[a, b]), a < 3; } // blur\n",
    "function (S, Xs) -> (Last) {\n  Last = scan (S; Xs;) function (C, X) -> (N, N) { N = C + tanh(X) * 0.25; };\n}\n",
    "function (X[N], Y[N]) -> (Z) { M[] = >(X[i]); Z = (X < M ? exp(X - M) : Y) * -1.5; }\n",
)
TOKENS: Final = (
    *"(){}[]<>=+-*/,;:?.$&|!~^%@#\"'\\",
    "->",
    "==",
    "function",
    "scan",
    "default",
    "no_defract",
    "[[",
    "]]",
)
STRANGE: Final = ("\0", "\ud7ff", "é", "🙂", "\u202e", "\r", "\t", "9" * 40, "1e999", "//", "/*", "x" * 300, " " * 50)


def broken(chance: random.Random) -> str:
    """Return a program with some characters gone, doubled, moved, or replaced by strange ones."""
    text = chance.choice(PROGRAMS)
    for _ in range(chance.randint(1, 4)):
        first = chance.randrange(len(text) + 1)
        last = min(len(text), first + chance.choice((0, 1, 1, 2, 5, 40)))
        match chance.randrange(5):
            case 0:
                text = text[:first] + text[last:]
            case 1:
                text = text[:last] + text[first:]
            case 2:
                text = text[:first] + chance.choice(TOKENS) + text[last:]
            case 3:
                text = text[:first] + chance.choice(STRANGE) + text[first:]
            case _:
                text = text[last:] + text[:first]
    return text


async def posted(app: ASGIApp, path: str, document: Any) -> tuple[int, bytes]:
    """Return the status and the body of an answer, without a client in between."""
    body = orjson.dumps(document)
    headers = [(b"host", f"127.0.0.1:{PORT}".encode()), (b"x-tileir-token", TOKEN.encode())]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b"", "root_path": ""}
    pending = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Any] = []

    async def receive() -> Any:
        return pending.pop() if pending else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


@pytest.mark.sampled(0)
def test_broken_programs_get_faults_with_places(tmp_path: Path) -> None:
    chance, count = random.Random(12), share_of(10_000)

    async def everything() -> int:
        workshop = Workshop(tmp_path)
        app = app_of(Start("a", ""), workshop, port=PORT, token=TOKEN)
        wrong = 0
        try:
            for _ in range(count):
                wrong += await one(app, broken(chance))
        finally:
            await workshop.close()
        return wrong

    async def one(app: ASGIApp, text: str) -> bool:
        status, body = await posted(app, "/api/jobs/compile", {"text": text})
        assert status == 200, text
        name, view = parsed(body.decode())[0]
        if "\0" in text:  # is refused as a whole
            assert [fault["code"] for fault in view] == ["TIL913"], text
            return True
        assert name == "checked", text
        for fault in view["faults"]:
            assert 0 <= fault["start"] <= fault["stop"] <= len(text), text
            assert fault["message"], text
        return bool(view["faults"])

    assert asyncio.run(everything()) > 0.9 * count
