"""``python -m tileir_studio.serve.worker FOLDER BYTES``: answers requests in a process that may be killed.

User programs may hang, fill the memory, or crash the process; they do so here.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from tileir_studio.serve import frames
from tileir_studio.serve.jobs import answer
from tileir_studio.serve.session import Session

Requests = queue.SimpleQueue[dict[str, Any]]


def main(folder: str, memory_bytes: int) -> None:
    """Answer requests from the standard input until it ends.

    Args:
        folder: Where uploads are.
        memory_bytes: The limit of writable memory; 0 for no limit.
    """
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # output of drivers would get between the replies
    limit_memory(memory_bytes)
    requests: Requests = queue.SimpleQueue()
    session = Session(Path(folder))
    threading.Thread(target=_read, args=(sys.stdin.buffer, requests, session), daemon=True).start()
    _tell(replies, frames.READY)
    while True:
        request = requests.get()
        session.request = request.pop(frames.NUMBER)
        for event in answer(session, request):
            _tell(replies, event.name, event.view, event.pictures)
        _tell(replies, frames.DONE)


def _tell(replies: BinaryIO, name: str, view: object = None, pictures: Mapping[str, bytes] | None = None) -> None:
    replies.write(frames.encoded({"event": name, "view": view}, pictures))
    replies.flush()


def _read(stream: BinaryIO, requests: Requests, session: Session) -> None:
    """Pass on requests and their cancellations; at the end of the stream, end the process at once."""
    while (request := frames.read(stream)) is not None:
        if frames.GIVEN_UP in request:
            session.given_up = request[frames.GIVEN_UP]
        else:
            requests.put(request)
    os._exit(0)


def limit_memory(count: int) -> None:
    """Limit the memory that the process may write to, where the system can do that.

    Address space is not limited: drivers of graphics cards reserve many times their memory, and would fail.
    """
    if count <= 0:
        return
    try:
        import resource
    except ModuleNotFoundError:  # Windows has no such limits
        return
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    allowed = count if most == resource.RLIM_INFINITY else min(count, most)
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
