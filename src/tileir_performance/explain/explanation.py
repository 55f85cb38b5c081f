"""Cost of a program on a device, kernel by kernel: predicted, and measured where that is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileir.core import Target, attrs, counted, fail, nearest, with_short_traceback
from tileir.core.text.markup import paragraph, table
from tileir.core.text.quantities import count_text, runs_text, seconds_text, size_text
from tileir.driver.calls.arguments import device_meant
from tileir.driver.compilation import Request
from tileir.driver.compiler import stripe_of
from tileir.driver.notebook import MOST_KERNELS, cut
from tileir.driver.programs import Source, described, types_of
from tileir.driver.targets import Named, choice_of, scheduling_target
from tileir.driver.tuned_pipelines import tuned
from tileir.passes.base import Pass, names_of, run
from tileir.runtime import Context, DeviceInfo, owner_of
from tileir.schedule.remarks import Remark, Remarks, listening
from tileir.semtree.ir import Program as SemProgram
from tileir.stripe.ir import Launch, Program

if TYPE_CHECKING:
    from tileir.passes.cost.figures import KernelCost


def explanation_html(found: Explanation) -> str:
    """Return a row for each kernel, and the sum."""
    heads = ["kernel", "operations", "moved", "bound by", "predicted"] + ["measured"] * bool(found.measured)
    rows = []
    for number, kernel in enumerate(found.kernels[:MOST_KERNELS]):
        moved = sum(level.read_bytes + level.written_bytes for level in kernel.levels[-1:])
        runs = runs_text(kernel.runs, kernel.conditions)
        name = f"{kernel.name or 'kernel'}{', ' if runs else ''}{runs}"
        row = [name, count_text(kernel.whole.total_operations), size_text(moved), kernel.bound]
        row.append(seconds_text(kernel.seconds))
        rows.append(row + [seconds_text(each) for each in found.measured[number : number + 1]])
    measured = found.measured_seconds
    said = f"{found.target}: {seconds_text(found.seconds)} predicted"
    said += f", with {', and '.join(found.assumptions)}" if found.assumptions else ""
    said += "" if measured is None else f", {seconds_text(measured)} measured"
    return paragraph(cut(said, len(found.kernels))) + table(heads, rows)


@attrs.frozen
class Explanation:
    """The costs of a program; ``str`` of it is a table for people.

    Attributes:
        target: The modelled device.
        kernels: The costs of each kernel, in order.
        seconds: The predicted time of one run, under :attr:`assumptions`; less than that of all kernels where some run
            in parallel.
        measured: The seconds of each kernel on the device; empty without measurement.
        remarks: The remark of each step of the pipeline on each kernel; empty where no passes ran.
    """

    target: str
    kernels: tuple[KernelCost, ...]
    seconds: float
    measured: tuple[float, ...] = ()
    remarks: tuple[Remark, ...] = attrs.field(default=(), repr=False)

    @property
    def measured_seconds(self) -> float | None:
        """The measured time of all kernels; None where nothing was measured."""
        return sum(self.measured) if self.measured else None

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Assumptions of the predicted time where data decide what runs."""
        conditions = [condition for kernel in self.kernels for condition in kernel.conditions]
        iterated = any(condition.startswith("while ") for condition in conditions)
        branched = any(not condition.startswith("while ") for condition in conditions)
        told = (("one iteration of each while: data decide how many there are", iterated),)
        return tuple(text for text, holds in (*told, ("the dearer side of each branch", branched)) if holds)

    def __repr__(self) -> str:
        from tileir.core.text.quantities import seconds_text

        return f"<Explanation of {counted(len(self.kernels), 'kernel')} on {self.target}: {seconds_text(self.seconds)}>"

    def __str__(self) -> str:
        """Return tables: the blocks of each kernel, its memories, and the sum of all."""
        from tileir_performance.explain.text import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        """Return the representation for notebooks."""
        return explanation_html(self)

    def to_json(self, *, remarks: bool = False) -> str:
        """Return everything as JSON: bytes, operations and seconds as numbers; remarks too where they are asked for."""
        from tileir_performance.explain.text import as_json

        return as_json(self, remarks=remarks)


@with_short_traceback
def explain(
    source: Source,
    arguments: Any = (),
    *,
    device: str | DeviceInfo | None = None,
    context: Context | None = None,
    target: Named | None = None,
    passes: tuple[Pass, ...] | str | None = None,
    after: str | None = None,
    measure: bool = False,
) -> Explanation:
    """Return the costs of a function on a device.

    Args:
        source: The function, in the forms that :func:`tileir.compile` takes. A program of the semtree is counted by the
            loops of its kernels.
        arguments: Description of the inputs, as for :func:`tileir.compile`.
        device: A device or its id; by default the context's choice.
        context: Owner of devices; by default the process-wide one.
        target: Target of passes and costs instead of the device; as for :func:`tileir.compile`.
        passes: Stripe passes instead of the tuned pipeline or the target's; or the text, JSON or name of a pipeline.
        after: Stop after this step, given by its own name or that of its pass; by default the last one. Of a pass that
            runs several times, the last run counts.
        measure: Whether to run each kernel on the device as well.

    Raises:
        TileError: The function is wrong or does not fit the arguments; TIL902, no such pass runs, or a program with a
            loop or branch is to be measured.
        BackendError: There is no such device, or it refused a kernel.
    """
    owner = owner_of(context)
    request, chosen = asked(source, arguments, owner, device=device, target=target, passes=passes, on_device=measure)
    modelled = request.scheduling or request.target
    if measure and after is not None:
        raise fail("TIL902", "only finished kernels can be measured: leave `after` or `measure` out")
    found, straight = _predicted(request, modelled, after)
    if chosen is None or not measure:
        return found
    if not straight:
        message = "a program with a loop, such as a scan, or a branch is measured as a whole only: time the compiled"
        raise fail("TIL902", f"{message} function instead")
    from tileir_performance.tuning.measurement import kernel_seconds

    return attrs.evolve(found, measured=kernel_seconds(request, owner, chosen))


def _predicted(request: Request, modelled: Target, after: str | None) -> tuple[Explanation, bool]:
    """Return the cost of a program, and whether it is a sequence of launches."""
    if isinstance(request.program, SemProgram):
        if after is not None:
            raise fail("TIL902", "no pass runs on a program of the semtree: leave `after` out")
        from tileir.semtree.ir import Launch as SemLaunch

        straight = all(isinstance(work, SemLaunch) for work in request.program.works)
        return explain_kernels(request.program, modelled), straight
    kept = Remarks()
    with listening(kept):
        program = run(_until(request.pipeline, after), stripe_of(request.program, request.types, modelled))
    found = attrs.evolve(explain_program(program, modelled), remarks=kept.all())
    return found, all(isinstance(work, Launch) for work in program.works)


def asked(
    source: Source,
    arguments: Any,
    owner: Context,
    *,
    device: str | DeviceInfo | None,
    target: Named | None,
    passes: tuple[Pass, ...] | str | None,
    on_device: bool = False,
) -> tuple[Request, DeviceInfo | None]:
    """Return the program to explain and its device; no device where the target alone decides.

    Arguments and errors are those of :func:`explain`.
    """
    origin, arguments = described(source, arguments)
    types = types_of(origin, arguments)
    choice = choice_of(target)
    chosen = (
        None if isinstance(choice, Target) and not on_device else owner.device(device_meant(device, arguments, owner))
    )
    modelled = choice if isinstance(choice, Target) else scheduling_target(choice, _target_of(chosen), None)
    request = Request(origin, dict(types), _target_of(chosen, modelled), passes, modelled)
    if passes is None and chosen is not None and owner.disk_cache is not None:
        request = tuned(request, owner.disk_cache, owner.compiler(chosen), chosen)
    return request, chosen


def explain_program(program: Program, target: Target) -> Explanation:
    """Return the cost of a Stripe program on a device, after any passes."""
    from tileir.core.targets.target_file import hardware_of  # importing tileir must stay cheap
    from tileir.passes.cost.machine import machine_of
    from tileir_performance.cost.placed import predict_on

    model = hardware_of(target)
    cost = predict_on(program, machine_of(model, target), model)
    return Explanation(target.name, cost.kernels, cost.seconds)


def explain_kernels(program: SemProgram, target: Target) -> Explanation:
    """Return the cost of a semtree program on a device, by the loops of its kernels."""
    from tileir.core.targets.target_file import hardware_of  # importing tileir must stay cheap
    from tileir.passes.cost.machine import machine_of
    from tileir_performance.cost.kernels import predict

    cost = predict(program, machine_of(hardware_of(target), target))
    return Explanation(target.name, cost.kernels, cost.seconds)


def _target_of(device: DeviceInfo | None, otherwise: Target | None = None) -> Target:
    """Return the facts of a device, or others where there is none."""
    if device is not None:
        return device.target
    assert otherwise is not None
    return otherwise


def _until(steps: tuple[Pass, ...], after: str | None) -> tuple[Pass, ...]:
    if after is None:
        return steps
    names = [names_of(step) for step in steps]
    found = [number for number, called in enumerate(names, 1) if after in called]
    if not found:
        known = dict.fromkeys(name for called in names for name in called)
        raise fail("TIL902", f"no pass {after[:64]!r} runs{nearest(after, known)}")
    return steps[: found[-1]]
