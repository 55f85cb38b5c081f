"""The server of the page: files, jobs as streams of events, uploads and pictures. Workers do all computing.

Bodies of requests, limited in length, and streamed answers: Server-Sent Events.

Access control of the server: it answers pages that it sent itself, on this machine, that know its token.

A page of another origin could make the browser of the user send requests to this machine, or make a name of its own
stand for it (DNS rebinding); so `Host` and `Origin` have to be those of the server. Other users of the machine do not
know the token.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import orjson
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tileir.core import TileError, attrs, fail, grouped
from tileir_studio.serve import frames
from tileir_studio.serve.jobs import JOBS, faults_event
from tileir_studio.serve.session import Event
from tileir_studio.serve.uploads import MOST_BYTES, store
from tileir_studio.serve.workshop import StaleError, Workshop

if TYPE_CHECKING:
    from starlette.types import Message

TOKEN_HEADER: Final = "x-tileir-token"

HOSTS: Final = ("127.0.0.1", "localhost")

POLICY: Final = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types lit-html",
    )
)
"""Content security policy of the page: nothing from elsewhere, and no inline script or style."""

_HEADERS: Final = tuple(
    (name.encode(), value.encode())
    for name, value in (
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cache-control", "no-store"),
    )
)


@attrs.frozen
class Guard:
    """Refuses requests that do not come from the page of this server, before their bodies are read.

    Attributes:
        app: The guarded application.
        port: The port of the server.
        token: The token that requests below ``/api/`` must carry.
    """

    app: ASGIApp
    port: int
    token: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 403 or pass the request on; every answer says what the page may load."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *_HEADERS]}
            await send(message)

        problem = "only HTTP is spoken here" if scope["type"] != "http" else self._problem(scope)
        if problem is None:
            await self.app(scope, receive, guarded)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": problem})
        else:
            body = problem.encode()
            headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
            await guarded({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    def _problem(self, scope: Scope) -> str | None:
        found = grouped((name.lower(), value) for name, value in scope["headers"])
        hosts = [f"{host}:{self.port}".encode() for host in HOSTS]
        origins = [b"http://" + host for host in hosts]
        if len(found.get(b"host", ())) != 1 or found[b"host"][0] not in hosts:
            return "the host of the request is not this server"
        if not set(found.get(b"origin", ())) <= set(origins):
            return "the request comes from a page of another origin"
        if not set(found.get(b"sec-fetch-site", ())) <= {b"same-origin", b"none"}:
            return "the request comes from a page of another site"
        if not scope["path"].startswith("/api/"):
            return None
        tokens = found.get(TOKEN_HEADER.encode(), [])
        if len(tokens) != 1 or not hmac.compare_digest(tokens[0], self.token.encode()):
            return "the token is missing or wrong: open the address that `tileir studio` printed"
        return None


MOST_REQUEST: Final = 8 << 20
"""Bytes of a request; JSON may take several for each character of a program."""

_PICTURES: Final = 64
"""The most pictures that are kept until the page asks for them."""

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


@attrs.frozen
class Start:
    """Data that the page begins with.

    Attributes:
        name: The name of the program.
        text: The program.
        values: The given values of inputs.
        files: The names of files among them, by those of their uploads.
        formula: The formula of the designer.
        picture: The upload that it is applied to.
        inputs: The uploads of inputs that have another one, by their names.
        view: The first view: ``explorer`` or ``designer``.
    """

    name: str
    text: str
    values: Mapping[str, str] = attrs.field(factory=dict)
    files: Mapping[str, str] = attrs.field(factory=dict)
    formula: str = ""
    picture: str = ""
    inputs: Mapping[str, str] = attrs.field(factory=dict)
    view: str = "explorer"


@attrs.define(eq=False)
class Studio:
    """The routes of the page.

    Attributes:
        workshop: The workers.
        start: The data that the page begins with.
    """

    workshop: Workshop
    start: Start
    _pictures: OrderedDict[str, bytes] = attrs.field(factory=OrderedDict, init=False)
    _static: dict[str, bytes] = attrs.field(init=False)

    @_static.default
    def _files(self) -> dict[str, bytes]:
        """Return the files of the page by name, read once: no path of a request is ever opened."""
        folder = files("tileir_studio") / "static"
        names = (each.name for each in folder.iterdir() if each.is_file()) if folder.is_dir() else ()
        return {name: (folder / name).read_bytes() for name in names}

    async def page(self, _: Request) -> Response:
        """Answer with the page itself, which holds no secret: its token is in the fragment of the address."""
        return self._file("index.html")

    async def static(self, request: Request) -> Response:
        """Answer with a file of the page."""
        return self._file(request.path_params["name"])

    def _file(self, name: str) -> Response:
        content = self._static.get(name)
        if content is None:
            return Response("there is no such file", 404, media_type="text/plain")
        suffix = name[name.rfind(".") :]
        return Response(content, media_type=_TYPES.get(suffix, "application/octet-stream"))

    async def begin(self, _: Request) -> Response:
        """Answer with the program that the studio was started with."""
        return JSONResponse(attrs.asdict(self.start))

    async def job(self, request: Request) -> Any:
        """Answer with the events of a job, one after the other: as text, or as frames where the page accepts these."""
        name = request.path_params["job"]
        try:
            document: object = orjson.loads(await body_of(request, MOST_REQUEST))
        except TooLargeError:
            return _refused(413, "TIL913", f"a request has at most {MOST_REQUEST >> 20} MiB")
        except ValueError:
            return _refused(400, "TIL913", "the request is not JSON")
        if not isinstance(document, dict) or name not in JOBS:
            return _refused(400, "TIL913", "a request is a JSON object for one of the jobs " + ", ".join(JOBS))
        lane, turn = str(document.pop("lane", name))[:200], document.pop("turn", None)
        asked = {**document, "job": name}
        number = turn if isinstance(turn, int) else None
        if request.headers.get("accept") == FRAMES:
            return EventStream(self._frames(asked, lane, number), FRAMES)
        return EventStream(self._events(asked, lane, number))

    async def _frames(self, request: Mapping[str, Any], lane: str, turn: int | None) -> AsyncGenerator[bytes, None]:
        """Yield events as frames, with uncompressed pictures beside them, for fast updates."""
        try:
            async for event in self.workshop.ask(request, lane, turn):
                yield frames.encoded({"event": event.name, "view": event.view}, event.pictures)
        except StaleError:
            yield frames.encoded({"event": "stale", "view": None})

    async def _events(self, request: Mapping[str, Any], lane: str, turn: int | None) -> AsyncGenerator[bytes, None]:
        try:
            async for event in self.workshop.ask(request, lane, turn):
                yield as_event(event.name, self._with_pictures(event))
        except StaleError:
            yield as_event("stale", None)

    def _with_pictures(self, event: Event) -> Any:
        if not event.pictures:
            return event.view
        kept = {name: secrets.token_urlsafe(16) for name in event.pictures}
        for name, content in event.pictures.items():
            self._pictures[kept[name]] = content
        while len(self._pictures) > _PICTURES:
            self._pictures.popitem(last=False)
        return {**event.view, "pictures": kept}

    async def picture(self, request: Request) -> Response:
        """Answer with a picture that an event named."""
        content = self._pictures.get(request.path_params["name"])
        if content is None:
            return Response("there is no such picture any more", 404, media_type="text/plain")
        return Response(content, media_type="image/png")

    async def upload(self, request: Request) -> Response:
        """Keep a file, and answer with its name, dtype and shape."""
        try:
            content = await body_of(request, MOST_BYTES)
            name = await run_in_threadpool(store, self.workshop.folder, content)
        except TooLargeError:
            return _refused(413, "TIL912", f"a file has at most {MOST_BYTES >> 20} MiB")
        except TileError as error:
            return JSONResponse({"faults": faults_event(error).view}, 422)
        asked = {"job": "upload", "upload": name}
        found = [event async for event in self.workshop.ask(asked, f"upload {name}")]
        if found and found[-1].name == "upload":
            return JSONResponse(found[-1].view)
        return JSONResponse({"faults": found[-1].view if found else []}, 422)


def _refused(status: int, code: str, message: str) -> Response:
    return JSONResponse({"faults": faults_event(fail(code, message)).view}, status)


def app_of(start: Start, workshop: Workshop, *, port: int, token: str) -> ASGIApp:
    """Return the application, behind its guard.

    Args:
        start: The data that the page begins with.
        workshop: The workers; closed with the application.
        port: The port of the server.
        token: The token of the page.
    """
    studio = Studio(workshop, start)
    routes = [
        Route("/", studio.page),
        Route("/static/{name}", studio.static),
        Route("/api/start", studio.begin),
        Route("/api/jobs/{job}", studio.job, methods=["POST"]),
        Route("/api/pictures/{name}", studio.picture),
        Route("/api/uploads", studio.upload, methods=["POST"]),
    ]
    return Guard(Starlette(routes=routes, lifespan=partial(_lifespan, workshop)), port, token)


@asynccontextmanager
async def _lifespan(workshop: Workshop, _: Starlette) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await workshop.close()


TEXTS: Final = "text/event-stream; charset=utf-8"
FRAMES: Final = "application/octet-stream"
"""The media type of :mod:`tileir_studio.serve.frames`, which hold uncompressed pictures."""


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
    """Return one event on one line: JSON has no line ends."""
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(view) + b"\n\n"


@attrs.frozen
class EventStream:
    """An answer of events that are sent as they come; where the page goes away, no more are made.

    Attributes:
        events: The events as bytes. It is closed in any case.
        form: The media type.
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
