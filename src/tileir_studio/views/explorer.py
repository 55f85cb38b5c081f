"""The jobs of the explorer: a program and its inputs to stages, data flow, costs and results.

Nothing here knows of HTTP or processes.

The data flow of a typed function as a layered drawing. Constants are no nodes: their readers show their values.

The stages that the page can show: a table of families, each of which names its stages and makes their texts. A further
stage is one more family, or one more entry of one; the page draws the stages that it is sent.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from tileir import Explanation, default_context, explain, to_text
from tileir.core import BackendError, Combination, Target, attrs, fail, nearest, to_json
from tileir.core.targets.target_file import all_names_of_targets, hardware_of
from tileir.core.text.quantities import runs_text
from tileir.driver.executable import compile_for
from tileir.driver.targets import model_of
from tileir.passes.cost.figures import KernelCost
from tileir.passes.cost.machine import machine_of
from tileir.stripe.ir import Program
from tileir.stripe.works import launches
from tileir.typed.ir import Cast, Constant, Contraction, Elementwise, Function, Operation, TensorType, Value, operands
from tileir.typed.sharding.borders import overlapped_exchanges
from tileir.typed.sharding.explanation import cut_text, price_text
from tileir_cli.drawing.layering import drawing_of
from tileir_performance.explain.explanation import explain_program
from tileir_studio.design.checking import checked
from tileir_studio.design.exports import writers
from tileir_studio.serve.session import Event, Job, Session
from tileir_studio.serve.uploads import described
from tileir_studio.views.linking import (
    Origins,
    listing_regions,
    origins,
    semtree_regions,
    stripe_regions,
    tile_regions,
    typed_regions,
)
from tileir_studio.views.snapshot import Snapshot, changed_lines, target_of
from tileir_studio.views.subject import subject_of, text_of, word_of
from tileir_studio.views.values import arrays_of, result_view
from tileir_studio.views.views import (
    CostView,
    GraphView,
    KernelView,
    NodeView,
    Region,
    Roof,
    RunView,
    StageEntry,
    StageView,
    plain,
)

_RUNS: Final = 5
_SECONDS: Final = 0.5
"""A program is run ``_RUNS`` times, or for these seconds."""


def _check(_: Session, request: Mapping[str, Any]) -> Iterator[Event]:
    yield Event("checked", plain(checked(text_of(request))))


def _compile(session: Session, request: Mapping[str, Any]) -> Iterator[Event]:
    """Yield results as soon as they are there: the text's faults, then stages, data flow and costs.

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
    yield Event("costs", plain(costs_of(snapshot.stages.scheduled, snapshot.target, snapshot.origins)))
    yield Event("graph", plain(graph_of_snapshot(snapshot)))


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
"""The jobs of the explorer."""


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
    """Yield the peak rate of operations of the machine, and the bandwidth of each of its memories."""
    machine = machine_of(hardware_of(target), target)
    floats = [view.shape.dtype for view in program.main.refinements if view.shape.dtype.is_float]
    if floats:
        widest = max(floats, key=lambda dtype: dtype.itemsize)
        yield Roof(f"compute, {widest.value}", machine.clock * machine.units * machine.rate(widest), per_byte=False)
    for storage in machine.storages:
        rate = min(storage.total_rate, storage.unit_rate * machine.units) if storage.unit_rate else storage.total_rate
        yield Roof(storage.name, rate, per_byte=True)


MOST_NODES: Final = 300
"""The most values that are drawn: more are unreadable."""


def graph_of(function: Function, found: Origins) -> GraphView:
    """Return the first values of the data flow, in program order, each with its place."""
    definitions = {
        name: data["definition"]
        for name, data in function.graph().nodes(data=True)
        if not isinstance(data["definition"], Constant)
    }
    shown = dict(list(definitions.items())[:MOST_NODES])
    reads = {name: _reads(definition, shown) for name, definition in shown.items()}
    drawing = drawing_of(reads)
    nodes = tuple(
        NodeView(
            name,
            f"{_kind(definition)}: {TensorType(definition.dtype, definition.shape)}",
            "input" if isinstance(definition, Value) else "output" if name in function.outputs else "value",
            reads[name],
            drawing.layers[name],
            drawing.slots[name],
            found.names.get(name),
        )
        for name, definition in shown.items()
    )
    omitted = len(definitions) - len(shown)
    return GraphView(nodes, drawing.wires, drawing.height, drawing.width, omitted)


def graph_of_snapshot(snapshot: Snapshot) -> GraphView:
    """Return the data flow of a program, that of all ranks where there is a mesh.

    Raises:
        ArgumentError: TIL351 or TIL352, the text is no mesh, or does not fit attributes of the program.
    """
    if snapshot.subject.mesh is None:
        return graph_of(snapshot.stages.typed, snapshot.origins)
    program = snapshot.partitioned
    view = graph_of(program.function, origins(snapshot.stages.tile, program.function))
    placements, beside = dict(program.placements), overlapped_exchanges(program)
    model = model_of(target_of(snapshot.subject))
    exchanges = {each.collective.name: each for each in program.exchanges(model)}
    nodes = []
    for node in view.nodes:
        cut = cut_text(placements[node.name])
        found = exchanges.get(node.name)
        if found is None:
            nodes.append(attrs.evolve(node, cut=cut))
            continue
        label = f"{found.collective.kind.value}: {price_text(found, is_beside=node.name in beside)}"
        nodes.append(attrs.evolve(node, cut=cut, label=label, exchange=found.cause))
    return attrs.evolve(view, nodes=tuple(nodes))


def _reads(definition: Value | Operation, shown: Mapping[str, object]) -> tuple[str, ...]:
    if isinstance(definition, Value):
        return ()
    return tuple(dict.fromkeys(name for name in operands(definition) if name in shown))


def _kind(definition: Value | Operation) -> str:
    match definition:
        case Value():
            return "input"
        case Elementwise(op=op):
            return op.value
        case Cast():
            return "cast"
        case Contraction(aggregation=aggregation, combination=combination):
            of = "" if combination is Combination.NONE else f" of {combination.value}"
            return f"{aggregation.value}{of}"
        case _:
            return type(definition).__name__.lower()


@attrs.frozen
class Stage:
    """One stage of a program.

    Attributes:
        entry: Its entry in the list of the page.
        text: Makes its text.
        json: Makes its JSON; None where a stage is text only.
        regions: Maps lines of the text to statements of the program.
        before: Makes the text of the stage that it is compared with; None for no comparison.
    """

    entry: StageEntry
    text: Callable[[], str]
    json: Callable[[], bytes] | None
    regions: Callable[[str], tuple[Region, ...]]
    before: Callable[[], str] | None = None


def _front(snapshot: Snapshot) -> Iterator[Stage]:
    stages, found = snapshot.stages, snapshot.origins
    yield Stage(
        StageEntry("tile", "Tile", "Program"),
        partial(to_text, stages.tile),
        partial(to_json, stages.tile),
        tile_regions,
    )
    yield Stage(
        StageEntry("typed", "Typed", "Program"),
        partial(to_text, stages.typed),
        partial(to_json, stages.typed),
        partial(typed_regions, found=found),
    )


def _stripe(snapshot: Snapshot) -> Iterator[Stage]:
    before = snapshot.stages.stripe
    yield _stripe_stage(snapshot, StageEntry("stripe", "before all passes", "Stripe"), before, None)
    for number, (name, program) in enumerate(snapshot.after, 1):
        entry = StageEntry(f"stripe.{number}", f"{number}. {name}", "Stripe", changed=program is not before)
        yield _stripe_stage(snapshot, entry, program, before)
        before = program


def _stripe_stage(snapshot: Snapshot, entry: StageEntry, program: Program, before: Program | None) -> Stage:
    return Stage(
        entry,
        partial(to_text, program),
        partial(to_json, program),
        partial(stripe_regions, found=snapshot.origins),
        None if before is None else partial(to_text, before),
    )


def _ranks(snapshot: Snapshot) -> Iterator[Stage]:
    if snapshot.subject.mesh is not None:
        yield Stage(
            StageEntry("ranks", "Partitioned", "Program"),
            lambda: to_text(snapshot.partitioned),
            lambda: to_json(snapshot.partitioned),
            partial(typed_regions, found=snapshot.origins),
        )


def _kernels(snapshot: Snapshot) -> Iterator[Stage]:
    program = snapshot.stages.sem
    regions = partial(semtree_regions, kernels=program.kernels, found=snapshot.origins)
    yield Stage(StageEntry("sem", "Kernels", "Semtree"), partial(to_text, program), partial(to_json, program), regions)


def _listings(snapshot: Snapshot) -> Iterator[Stage]:
    regions = partial(listing_regions, kernels=snapshot.stages.sem.kernels, found=snapshot.origins)
    for form, title in snapshot.forms.items():
        entry = StageEntry(f"code.{form}", title, "Generated code")
        yield Stage(entry, lambda form=form: snapshot.library.listing(form), None, regions)  # type: ignore[misc]


FAMILIES: Final[tuple[Callable[[Snapshot], Iterator[Stage]], ...]] = (_front, _ranks, _stripe, _kernels, _listings)
"""All families, from the program to the code."""


def stages_of(snapshot: Snapshot) -> dict[str, Stage]:
    """Return all stages by name, from the program down to the code; their texts are made on demand."""
    return {stage.entry.name: stage for family in FAMILIES for stage in family(snapshot)}


def stage_called(snapshot: Snapshot, name: str) -> Stage:
    """Return the stage of that name.

    Raises:
        TileError: TIL913, there is none.
    """
    stages = stages_of(snapshot)
    if name not in stages:
        raise fail("TIL913", f"there is no stage {name[:64]!r}{nearest(name, stages)}")
    return stages[name]


def view_of(stage: Stage) -> StageView:
    """Return the text of a stage with its links and changes.

    Raises:
        BackendError: The back end refused a kernel, or does not have this form of code.
    """
    text = stage.text()
    changes = () if stage.before is None else changed_lines(stage.before(), text)
    return StageView(stage.entry.name, stage.entry.title, text, stage.regions(text), changes)
