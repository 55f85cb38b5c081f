"""The command `tileir new`: a wheel of your own with a back end, a pass, an operation or a target, and tests of it."""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Final

import click

from tileir.core import attrs, fail


@attrs.frozen(repr=False)
class _Template:
    """Template of the wheels of one kind of extension.

    Attributes:
        group: The group of their entry points.
        made: The object of an entry point; empty for the name of the class, ``NAME`` for the name itself.
        check: The command that checks one, behind ``python -m tileir.testing``.
        about: Description in a few words.
    """

    group: str
    made: str
    check: str
    about: str


TEMPLATES: Final[Mapping[str, _Template]] = MappingProxyType(
    {
        "backend": _Template("tileir.backends", "BACKEND", "{name}", "A back end of tileir"),
        "pass": _Template("tileir.passes", "", "--extension pass {name}", "A pass of tileir"),
        "operation": _Template("tileir.operations", "NAME", "--extension operation {name}", "An operation of tileir"),
        "target": _Template("tileir.targets", "TARGET", "--extension target {name}", "A target of tileir"),
    }
)


@click.command()
@click.argument("kind", type=click.Choice(tuple(TEMPLATES)))
@click.argument("name")
@click.option(
    "-o", "--output", type=click.Path(file_okay=False, path_type=Path), help="The folder; by default ./tileir-NAME."
)
def new(kind: str, name: str, output: Path | None) -> int:
    """Write a wheel with a back end, pass, operation or target NAME, with tests that pass.

    Install it with `pip install FOLDER`; then NAME stands wherever names of tileir's own stand.
    """
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_") or not name.isascii():
        raise fail("TIL902", f"{name[:64]!r} is no name: write one word of letters, digits and _, as in my_{kind}")
    contents = contents_of(kind, name)
    folder = Path(f"tileir-{name.replace('_', '-')}") if output is None else output
    taken = [path for path in contents if (folder / path).exists()]
    if taken:
        raise fail("TIL901", f"{folder / taken[0]} exists; name another folder with --output")
    try:
        for path, text in contents.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise fail("TIL901", f"cannot write to {folder}: {error}") from None
    click.echo(f"{folder}: a wheel with the {kind} {name}; next: cd {folder}, pip install ., pytest")
    return 0


def contents_of(kind: str, name: str) -> dict[str, str]:
    """Return the files of a wheel by their paths."""
    template = TEMPLATES[kind]
    module = f"tileir_{name}"
    title = "".join(word.capitalize() for word in name.split("_"))
    words = {
        "DISTRIBUTION": f"tileir-{name.replace('_', '-')}",
        "MODULE": module,
        "CLASS": title,
        "OBJECT": {"": title, "NAME": name}.get(template.made, template.made),
        "GROUP": template.group,
        "ABOUT": f"{template.about}: {name}",
        "CHECK": f"python -m tileir.testing {template.check.format(name=name)}",
        "NAME": name,
    }
    return {
        "pyproject.toml": _filled("pyproject", words),
        "README.md": _filled("readme", words),
        f"src/{module}/__init__.py": _filled(f"{kind}_module", words),
        f"src/{module}/py.typed": "",
        f"tests/test_{name}.py": _filled(f"{kind}_tests", words),
    }


def _filled(template: str, words: Mapping[str, str]) -> str:
    text = (files("tileir_cli") / "templates" / f"{template}.txt").read_text(encoding="utf-8")
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text
