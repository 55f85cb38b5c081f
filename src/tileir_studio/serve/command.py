"""The command `tileir studio`: a server for one page on this machine, and a browser that shows it."""

from __future__ import annotations

import asyncio
import secrets
import signal
import socket
import sys
import tempfile
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tileir.core import attrs, fail
from tileir_cli.pictures.files import is_picture
from tileir_studio.design.sample import FORMULA, sample_picture

if TYPE_CHECKING:
    from tileir_studio.serve.server import Start
    from tileir_studio.serve.workshop import Limits

_ADDRESS: Final = "127.0.0.1"

_MEMORY: Final = 4
"""The default limit of the memory of a request, in GiB."""

_SECONDS: Final = 30.0

_EXAMPLE: Final = """\
// Each pixel becomes the mean of the 7 by 7 around it: a blur.
function (Picture[H, W{channels}]) -> (Blurred) {{
    Rows[y, x{channel} : H, W{channels}] = +(Picture[y + k - 3, x{channel}]), k < 7;
    Sums[y, x{channel} : H, W{channels}] = +(Rows[y, x + k - 3{channel}]), k < 7;
    Blurred = Sums / 49.0;
}}
"""
"""The example for pictures in grey and in colour."""

FORMULA_SUFFIX: Final = ".formula"


@click.command("studio")
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Listen there; by default on any free port.")
@click.option("--no-browser", is_flag=True, help="Print the address, and open no browser.")
@click.option(
    "--time-limit", type=click.FloatRange(0.1), default=_SECONDS, show_default=True, help="Seconds a request."
)
@click.option("--memory-limit", type=click.FloatRange(0), default=_MEMORY, show_default=True, help="GiB; 0 for none.")
def studio(file: Path | None, port: int, no_browser: bool, time_limit: float, memory_limit: float) -> None:
    """Show FILE, a Tile program or a picture, and all that becomes of it, in the browser.

    The page is served on this machine only, to those who know the address that is printed.
    """
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as missing:
        raise fail("TIL903", f"the studio needs {missing.name}: pip install 'tileir[studio]'") from None
    from tileir_studio.serve.workshop import Limits

    limits = Limits(time_limit, int(memory_limit * 2**30))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that the folder is removed, too
    with tempfile.TemporaryDirectory(prefix="tileir-studio-") as folder, suppress(KeyboardInterrupt):
        start = start_of(file, Path(folder))
        with _listening(port) as listener:
            asyncio.run(_serve(listener, Path(folder), start, limits, browser=not no_browser))


def start_of(file: Path | None, folder: Path) -> Start:
    """Return the data that the page begins with: a program or a formula, on a given picture or a sample.

    Raises:
        TileError: TIL901, the file cannot be read; TIL912, it is too large.
    """
    from tileir_studio.serve.server import Start
    from tileir_studio.serve.uploads import check_size, described, keep

    blank = Start(
        "blur.tile",
        example(coloured=False),
        {"Picture": "f32[512, 512]"},
        formula=FORMULA,
        picture=keep(folder, sample_picture()),
    )
    if file is None:
        return blank
    try:
        content = file.read_bytes()
        if file.suffix == FORMULA_SUFFIX:
            return attrs.evolve(blank, formula=content.decode(), view="designer")
        if not is_picture(file):
            return attrs.evolve(blank, name=file.name, text=content.decode(), values={})
        check_size(content)
        name = keep(folder, content)
    except (OSError, UnicodeDecodeError) as error:
        raise fail("TIL901", f"cannot read {file}: {error}") from None
    kind = described(folder, name)
    text = example(coloured=kind.count(",") == 2)
    files = {name: f"{file.name}, {kind}"}
    return Start(f"{file.stem}.tile", text, {"Picture": f"upload:{name}"}, files, FORMULA, name, view="designer")


def example(*, coloured: bool) -> str:
    """Return a program for a picture."""
    return _EXAMPLE.format(channels=", C", channel=", c") if coloured else _EXAMPLE.format(channels="", channel="")


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((_ADDRESS, port))
    except OSError as error:
        raise fail(
            "TIL902", f"cannot listen on port {port}: {error.strerror or error}; choose another --port"
        ) from None


async def _serve(listener: socket.socket, folder: Path, start: Start, limits: Limits, *, browser: bool) -> None:
    import uvicorn

    from tileir_studio.serve.server import app_of
    from tileir_studio.serve.workshop import Workshop

    token = secrets.token_urlsafe(32)
    number = listener.getsockname()[1]
    app = app_of(start, Workshop(folder, limits), port=number, token=token)
    config = uvicorn.Config(
        app, log_level="warning", ws="none", server_header=False, access_log=False, timeout_graceful_shutdown=1
    )
    address = f"http://{_ADDRESS}:{number}/#token={token}"
    click.echo(f"the studio is at {address}\nstop it with Ctrl-C")
    if browser:
        asyncio.get_running_loop().run_in_executor(None, webbrowser.open, address)
    await uvicorn.Server(config).serve(sockets=[listener])
