"""Access control of the server: it answers pages that it sent itself, on this machine, that know its token.

A page of another origin could make the browser of the user send requests to this machine, or make a name of its own
stand for it (DNS rebinding); so `Host` and `Origin` have to be those of the server. Other users of the machine do not
know the token.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final

from tileir.core import attrs, grouped

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
"""What the page may load: nothing from elsewhere, and no script or style that stands in the page itself."""

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
    """Refuses what does not come from the page of this server, before anything of it is read.

    Attributes:
        app: What answers the others.
        port: Of the server.
        token: What requests below ``/api/`` have to know.

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
