"""The jobs of the explorer: a program and its inputs to stages, data flow, costs and results.

Nothing here knows of HTTP or processes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from tileir.core.errors import BackendError, fail
from tileir.core.targets.target import Target
from tileir.core.targets.target_file import all_names_of_targets, hardware_of
from tileir.driver.executable import compile_for
from tileir.driver.explain.explanation import Explanation, explain, explain_program
from tileir.driver.explain.text import runs_text
from tileir.passes.cost.machine import machine_of
from tileir.runtime.context import default_context
from tileir.stripe.ir import Program
from tileir.stripe.works import launches
from tileir.studio.design.checking import checked
from tileir.studio.design.exports import writers
from tileir.studio.serve.session import Event, Job, Session
from tileir.studio.serve.uploads import described
from tileir.studio.views.graph import graph_of
from tileir.studio.views.snapshot import target_of
from tileir.studio.views.stages import stage_called, stages_of, view_of
from tileir.studio.views.subject import subject_of, text_of, word_of
from tileir.studio.views.values import arrays_of, result_view
from tileir.studio.views.views import CostView, KernelView, Roof, RunView, plain

if TYPE_CHECKING:
    from tileir.passes.cost.prediction import KernelCost
    from tileir.studio.views.linking import Origins


_RUNS: Final = 5
_SECONDS: Final = 0.5
"""A program is run this often, unless that takes longer."""


def _check(_: Session, request: Mapping[str, Any]) -> Iterator[Event]:
    yield Event("checked", plain(checked(text_of(request))))


def _compile(session: Session, request: Mapping[str, Any]) -> Iterator[Event]:
    """Yield what is known as soon as it is known: the text's faults, then stages, data flow and costs.

    With ``stage``, the name of one, its view comes right behind the list of all, if it is there.
    """
    found = checked(text_of(request))
    yield Event("checked", plain(found))
    if found.faults:
        return
    snapshot = session.snapshot(subject_of(request))
    stages = stages_of(snapshot)
    yield Event("stages", [plain(stage.entry) for stage in stages.values()])
    wanted = stages.get(word_of(request, "stage")) if request.get("stage") else None
    if wanted is not None:
        yield Event("stage", plain(view_of(wanted)))
    yield Event("graph", plain(graph_of(snapshot.stages.typed, snapshot.origins)))
    yield Event("costs", plain(costs_of(snapshot.stages.scheduled, snapshot.target, snapshot.origins)))


def _stage(session: Session, request: Mapping[str, Any]) -> Iterator[Event]:
    snapshot = session.snapshot(subject_of(request))
    yield Event("stage", plain(view_of(stage_called(snapshot, word_of(request, "stage")))))


def _json(session: Session, request: Mapping[str, Any]) -> Iterator[Event]:
    stage = stage_called(session.snapshot(subject_of(request)), word_of(request, "stage"))
    if stage.json is None:
        raise fail("TIL913", f"{stage.entry.title} is text only")
    yield Event("json", {"name": stage.entry.name, "json": stage.json().decode()})


def _run(session: Session, request: Mapping[str, Any]) -> Iterator[Event]:
    subject = subject_of(request)
    snapshot = session.snapshot(subject)
    arrays = arrays_of(snapshot.types, subject, session.folder)
    function = snapshot.stages.tile
    call = compile_for(function, snapshot.types, default_context(), snapshot.device, passes=snapshot.steps)
    results = call(**arrays)
    seconds: list[float] = []
    started = time.perf_counter()
    while len(seconds) < _RUNS and time.perf_counter() - started < _SECONDS:
        begun = time.perf_counter()
        call(**arrays)
        seconds.append(time.perf_counter() - begun)
    values = results if isinstance(results, tuple) else (results,)
    views, pictures = [], {}
    for output, value in zip(function.outputs, values, strict=True):
        view, picture = result_view(output.name, value)
        views.append(view)
        if picture is not None and view.picture is not None:
            pictures[view.picture] = picture
    median = statistics.median(seconds) if seconds else 0.0
    yield Event("ran", plain(RunView(tuple(views), median, snapshot.device.id)), pictures)


def _measure(session: Session, request: Mapping[str, Any]) -> Iterator[Event]:
    subject = subject_of(request)
    snapshot = session.snapshot(subject)
    found = explain(
        snapshot.stages.tile,
        snapshot.types,
        device=snapshot.device,
        target=target_of(subject),
        passes=snapshot.steps,
        measure=True,
    )
    yield Event("costs", plain(costs_of(snapshot.stages.scheduled, snapshot.target, snapshot.origins, found)))


def _devices(_: Session, __: Mapping[str, Any]) -> Iterator[Event]:
    context = default_context()
    devices = [{"id": device.id, "name": device.name, "backend": device.backend} for device in context.devices()]
    try:
        default = context.device().id
    except BackendError:
        default = None
    missing = {name: failure.diagnostics[0].message for name, failure in context.failures().items()}
    sources = [{"form": name, "title": f"{backend.title} source"} for name, backend in writers().items()]
    told = {"devices": devices, "default": default, "missing": missing, "targets": all_names_of_targets()}
    yield Event("devices", {**told, "sources": sources})


def _upload(session: Session, request: Mapping[str, Any]) -> Iterator[Event]:
    name = word_of(request, "upload")
    yield Event("upload", {"name": name, "type": described(session.folder, name)})


EXPLORER: Final[Mapping[str, Job]] = MappingProxyType(
    {
        "check": _check,
        "compile": _compile,
        "stage": _stage,
        "json": _json,
        "run": _run,
        "measure": _measure,
        "devices": _devices,
        "upload": _upload,
    }
)
"""What the explorer asks for."""


def costs_of(program: Program, target: Target, found: Origins, explained: Explanation | None = None) -> CostView:
    """Return the predicted costs of a scheduled program, or those of an explanation that measured it."""
    explanation = explain_program(program, target) if explained is None else explained
    comments = [launch.comments for launch in launches(program.works)]
    if len(comments) != len(explanation.kernels):  # tuning found other passes for the program that was measured
        comments = [()] * len(explanation.kernels)
    measured = explanation.measured or (None,) * len(explanation.kernels)
    kernels = tuple(
        _kernel(cost, found.of_comments(said), seconds)
        for cost, said, seconds in zip(explanation.kernels, comments, measured, strict=False)
    )
    return CostView(
        explanation.target,
        kernels,
        explanation.seconds,
        explanation.measured_seconds,
        explanation.assumptions,
        tuple(_roofs(program, target)),
    )


def _kernel(cost: KernelCost, statements: tuple[int, ...], measured: float | None) -> KernelView:
    operations = cost.whole.total_operations
    moved = operations / cost.intensity if cost.intensity else float(cost.whole.footprint_bytes)
    runs = runs_text(cost.runs, cost.conditions)
    return KernelView(
        cost.name,
        statements,
        operations,
        moved,
        cost.intensity,
        cost.bound,
        runs,
        cost.counted,
        cost.seconds,
        measured,
    )


def _roofs(program: Program, target: Target) -> Iterator[Roof]:
    """Yield what the machine computes in a second, and what each of its memories passes on."""
    machine = machine_of(hardware_of(target), target)
    floats = [view.shape.dtype for view in program.main.refinements if view.shape.dtype.is_float]
    if floats:
        widest = max(floats, key=lambda dtype: dtype.itemsize)
        yield Roof(f"compute, {widest.value}", machine.clock * machine.units * machine.rate(widest), per_byte=False)
    for storage in machine.storages:
        rate = min(storage.total_rate, storage.unit_rate * machine.units) if storage.unit_rate else storage.total_rate
        yield Roof(storage.name, rate, per_byte=True)
