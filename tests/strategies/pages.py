"""Examples in Markdown pages, and what they really print."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

import attrs
from click.testing import CliRunner

from tileir_cli.main import run

if TYPE_CHECKING:
    from pathlib import Path

_BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


@attrs.frozen
class Example:
    """Code of a page, and the output that the page shows below it."""

    code: str
    shown: str


def python_examples(page: str) -> list[Example]:
    """Return each ``python`` block that is followed by a ``text`` block with its output, or by none."""
    blocks = _BLOCK.findall(page)
    following = [*blocks[1:], ("", "")]
    return [
        Example(code, after if kind == "text" else "")
        for (language, code), (kind, after) in zip(blocks, following, strict=True)
        if language == "python"
    ]


def console_examples(page: str) -> list[Example]:
    """Return each command behind ``$`` in a ``console`` block, with the lines up to the next one."""
    sessions = "".join(text for language, text in _BLOCK.findall(page) if language == "console")
    parts = re.split(r"^\$ (.*)\n", sessions, flags=re.MULTILINE)[1:]
    return [Example(code, shown) for code, shown in zip(parts[::2], parts[1::2], strict=True)]


def printed(code: str, namespace: dict[str, Any]) -> str:
    """Run Python code in a namespace that later examples share, and return what it prints."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "<page>", "exec"), namespace)
    return output.getvalue()


def command_output(command: str, folder: Path) -> str:
    """Run ``tileir`` commands, each fed by the one before ``|``, in a folder; return what the last one writes.

    They run in this process, as a new one takes longer to begin than most of them take.
    """
    output = ""
    with contextlib.chdir(folder):
        for part in command.split(" | "):
            program, *words = shlex.split(part)
            assert program == "tileir"
            with CliRunner().isolation(output) as (_, _, written), mock.patch("sys.argv", [program, *words]):
                run()
            output = written.getvalue().decode()
    return output
