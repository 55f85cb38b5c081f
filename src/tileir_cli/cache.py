"""The commands `tileir cache …`: list the disk cache, show its size, and empty it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tileir.core.errors import fail
from tileir.core.text.quantities import size_text
from tileir.runtime.caches.disk_cache import SWITCH_VARIABLE, DiskCache, Entry, default_disk_cache
from tileir.runtime.caches.private_directory import UntrustedError

SHOWN_DIGITS: Final = 12
_AGES: Final = ((86400, "days"), (3600, "h"), (60, "min"), (1, "s"))

_kind = click.option("--kind", metavar="KIND", help="Only entries of this kind, such as `winner` for what was tuned.")
_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, with sizes in bytes and times since 1970.")


@click.group()
def cache() -> None:
    """Look at the cache on disk, which keeps compiled programs for other processes."""


@cache.command("list")
@_kind
@_as_json
def list_(kind: str | None, as_json: bool) -> None:
    """List the entries, the last used ones first."""
    found = _cache()
    entries = [entry for entry in _entries(found) if kind in (None, entry.kind)]
    if as_json:
        click.echo(json.dumps([_described(entry) for entry in entries], indent=2))
        return
    if not entries:
        click.echo(f"{found.directory}: nothing is stored")
        return
    now = time.time()
    table = Table()
    for name in ("key", "kind", "device", "kernels", "size", "age"):
        wide = name in ("device", "kernels")
        table.add_column(name, no_wrap=not wide, justify="right" if name in ("size", "age") else "left")
    for entry in entries:
        kernels = entry.about.get("kernels", entry.about.get("note", "not readable"))
        row = (entry.key[:SHOWN_DIGITS], entry.kind, entry.about.get("device", ""), kernels, size_text(entry.size))
        table.add_row(*map(Text, (*row, age_text(now - entry.stored))))
    console = Console()
    console.print(Text(f"{found.directory}:"))
    console.print(table)


@cache.command()
@_as_json
def size(as_json: bool) -> None:
    """Say how much is stored, and how much there may be."""
    found = _cache()
    entries = _entries(found)
    total = sum(entry.size for entry in entries)
    if as_json:
        facts = {"directory": str(found.directory), "entries": len(entries), "bytes": total, "limit": found.limit}
        click.echo(json.dumps(facts, indent=2))
    else:
        click.echo(
            f"{found.directory}: {_counted(len(entries))}, {size_text(total)} of at most {size_text(found.limit)}"
        )


@cache.command()
@_kind
def clear(kind: str | None) -> None:
    """Remove all entries."""
    found = _cache()
    if kind is None:
        with _faults(found):
            try:
                count, total = found.clear()
            except FileNotFoundError:
                count = total = 0
    else:
        entries = [entry for entry in _entries(found) if entry.kind == kind]
        for entry in entries:
            found.remove(entry.kind, entry.key)
        count, total = len(entries), sum(entry.size for entry in entries)
    click.echo(f"{found.directory}: removed {_counted(count)}, {size_text(total)}")


def age_text(seconds: float) -> str:
    """Return a time in the largest unit of which there are two."""
    for length, unit in _AGES:
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(0, round(seconds))} s"


def _cache() -> DiskCache:
    found = default_disk_cache()
    if found is None:
        raise fail(
            "TIL905", f"the cache on disk is turned off by {SWITCH_VARIABLE}, or this user has no home directory"
        )
    return found


def _entries(found: DiskCache) -> tuple[Entry, ...]:
    with _faults(found):
        try:
            return found.entries()
        except FileNotFoundError:
            return ()


@contextmanager
def _faults(found: DiskCache) -> Iterator[None]:
    try:
        yield
    except UntrustedError as error:
        raise fail("TIL905", f"the cache on disk is not used: {error}") from None
    except OSError as error:
        raise fail("TIL905", f"the cache on disk cannot be used: {found.directory}: {error.strerror}") from None


def _counted(count: int) -> str:
    return f"{count} {'entry' if count == 1 else 'entries'}"


def _described(entry: Entry) -> dict[str, object]:
    return {
        "kind": entry.kind,
        "key": entry.key,
        "bytes": entry.size,
        "stored": entry.stored,
        "used": entry.used,
        **entry.about,
    }
