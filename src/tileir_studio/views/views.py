"""Classes of the views of the page: plain values, which become JSON by :func:`plain`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tileir.core import Diagnostic, Source, attrs
from tileir_cli.drawing.layering import Wire


@attrs.frozen
class Fault:
    """A diagnostic with its place in the edited text: characters ``start`` to ``stop``, or None where it has none."""

    code: str
    message: str
    notes: tuple[str, ...] = ()
    start: int | None = None
    stop: int | None = None
    line: int | None = None
    column: int | None = None


@attrs.frozen
class InputView:
    """An input of the program, with a suggested type."""

    name: str
    dims: tuple[str, ...] | None
    guess: str


@attrs.frozen
class Checked:
    """Result of checking a text: its faults, or its inputs, results, and the place of each statement."""

    faults: tuple[Fault, ...]
    inputs: tuple[InputView, ...] = ()
    outputs: tuple[str, ...] = ()
    statements: tuple[tuple[int, int], ...] = ()


@attrs.frozen
class StageEntry:
    """A stage that can be asked for; ``changed`` is false for a pass that left the program as it was."""

    name: str
    title: str
    group: str
    changed: bool = True


@attrs.frozen
class Region:
    """Lines ``first`` to ``last`` (exclusive, from 0) of a stage that came of these statements of the program."""

    first: int
    last: int
    statements: tuple[int, ...]


@attrs.frozen
class StageView:
    """The text of one stage, and its lines that the stage before does not have."""

    name: str
    title: str
    text: str
    regions: tuple[Region, ...] = ()
    changes: tuple[tuple[int, int], ...] = ()


@attrs.frozen
class NodeView:
    """A value of the data flow, with its place in a layered drawing: layers go down, slots to the right.

    ``cut`` names the mesh axes along which ranks share it, and ``exchange`` the exchange that provides it, and its
    reason.
    """

    name: str
    label: str
    kind: str
    reads: tuple[str, ...]
    layer: int
    slot: float
    statement: int | None = None
    cut: str = ""
    exchange: str = ""


@attrs.frozen
class GraphView:
    """The data flow of a typed function; ``omitted`` values were too many to be drawn."""

    nodes: tuple[NodeView, ...]
    wires: tuple[Wire, ...]
    layers: int
    slots: float
    omitted: int = 0


@attrs.frozen
class KernelView:
    """Cost of one kernel; times are in seconds, ``intensity`` in operations for each byte moved.

    ``runs`` gives the number and conditions of its launches; it is empty for one that runs once. ``counted`` tells
    whether the time of the program includes it: of a branch, it includes one side.
    """

    name: str
    statements: tuple[int, ...]
    operations: int
    bytes_moved: float
    intensity: float
    bound: str
    runs: str
    counted: bool
    predicted: float
    measured: float | None = None


@attrs.frozen
class Roof:
    """A limit of a machine: operations in a second, or bytes in a second from a memory."""

    name: str
    rate: float
    per_byte: bool


@attrs.frozen
class CostView:
    """The costs of a program on a target, their assumptions, and the roofs above its kernels."""

    target: str
    kernels: tuple[KernelView, ...]
    seconds: float
    measured: float | None
    assumptions: tuple[str, ...]
    roofs: tuple[Roof, ...]


@attrs.frozen
class ResultView:
    """A result of a run; ``picture`` names a PNG of the reply, where it can be seen as one."""

    name: str
    type: str
    shown: str
    least: float | None = None
    most: float | None = None
    mean: float | None = None
    picture: str | None = None


@attrs.frozen
class RunView:
    """The results of a run, and the median of its times in seconds."""

    results: tuple[ResultView, ...]
    seconds: float
    device: str


def plain(view: Any) -> Any:
    """Return a view as plain values for JSON."""
    return attrs.asdict(view) if attrs.has(type(view)) else view


def faults_of(diagnostics: Iterable[Diagnostic], source: Source | None = None) -> tuple[Fault, ...]:
    """Return diagnostics, with those places that lie in ``source``, or in any text where that is None."""
    return tuple(_fault(diagnostic, source) for diagnostic in diagnostics)


def _fault(diagnostic: Diagnostic, source: Source | None) -> Fault:
    span = diagnostic.span
    bare = Fault(diagnostic.code, diagnostic.message, (*diagnostic.notes, *diagnostic.trail))
    if span is None or (source is not None and span.source.text != source.text):
        return bare
    return attrs.evolve(bare, start=span.start, stop=span.stop, line=span.line, column=span.column)
