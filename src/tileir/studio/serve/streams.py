"""Bodies of requests, no longer than they may be, and answers that go on: Server-Sent Events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import attrs
import orjson
from starlette.requests import ClientDisconnect, Request

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

TEXTS: Final = "text/event-stream; charset=utf-8"
FRAMES: Final = "application/octet-stream"
"""The form of :mod:`tileir.studio.serve.frames`, which pictures stand in as they are."""


class TooLargeError(Exception):
    """A body is longer than it may be."""


async def body_of(request: Request, most: int) -> bytes:
    """Return the body of a request, or none of it where the page goes away; reading stops behind ``most`` bytes.

    Raises:
        TooLargeError: It is longer.
    """
    said = request.headers.get("content-length", "0")
    if not said.isdecimal() or len(said) > 18 or int(said) > most:
        raise TooLargeError
    parts, length = [], 0
    try:
        async for part in request.stream():
            length += len(part)
            if length > most:
                raise TooLargeError
            parts.append(part)
    except ClientDisconnect:
        return b""
    return b"".join(parts)


def as_event(name: str, view: Any) -> bytes:
    """Return one event; JSON has no line ends, so that one line holds it."""
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(view) + b"\n\n"


@attrs.frozen
class EventStream:
    """An answer of events that are sent as they come; where the page goes away, no more are made.

    Attributes:
        events: The events as bytes. It is closed in any case.
        form: What they are.

    """

    events: AsyncGenerator[bytes, None]
    form: str = TEXTS

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        """Send all events, or stop when the page goes away."""
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not sending.done():
                sending.cancel()
            with suppress(asyncio.CancelledError):
                await leaving
            with suppress(asyncio.CancelledError):
                await sending

    async def _send(self, send: Send) -> None:
        try:
            headers = [(b"content-type", self.form.encode()), (b"x-accel-buffering", b"no")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            async for event in self.events:
                await send({"type": "http.response.body", "body": event, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            await self.events.aclose()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
