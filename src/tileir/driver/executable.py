"""Function compiled for one device and one signature of dtypes and shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, cast

import numpy as np

from tileir.core import (
    Diagnostic,
    Target,
    TileError,
    attrs,
    call_of,
    collection_paused,
    shortened,
    with_short_traceback,
)
from tileir.driver.calls.arguments import (
    NOTHING,
    bind,
    check_options,
    device_meant,
    events_of,
    memory_checked,
    ordered_by,
    passed_values,
)
from tileir.driver.calls.fast_calls import UsualCalls
from tileir.driver.calls.pending import PendingCall, R_co
from tileir.driver.compilation import Compilation, ready, results_in
from tileir.driver.listings import forms_of, listing_of
from tileir.driver.programs import (
    Compilable,
    Program,
    Source,
    described_origin,
    input_names,
    output_names,
    refuse_schedules,
    types_of,
)
from tileir.driver.requests import Origin, requested
from tileir.driver.targets import Named, TargetChoice, choice_of
from tileir.runtime import Backend, Context, DeviceInfo, Event, Library, Options, default_context, owner_of
from tileir.runtime.arrays import Array, check_inputs
from tileir.runtime.caches.carried_entries import CarriedEntries
from tileir.runtime.devices.home import DeviceMemory
from tileir.runtime.plans.plan import MemoryUse, Plan
from tileir.runtime.results import ROOMS
from tileir.semtree import ir as sem
from tileir.stripe.ir import Program as StripeProgram
from tileir.tile import ir as tile
from tileir.typed import ir as typed
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from tileir.driver.calls.operands import Operands
    from tileir.driver.dispatch import Dispatch
    from tileir.passes.base import Pass
    from tileir.runtime.devices.array import DeviceArray
    from tileir.schedule.remarks import Remark


@attrs.frozen(eq=False, slots=False)
class Executable(Generic[R_co]):
    """Compiled program, to be called with arrays; each stage of its lowering can be inspected.

    Several threads may call one executable at the same time. If its kernels came from the cache on disk, the stages
    before them are compiled on access. It can be pickled, and is compiled again afterwards.
    """

    device: DeviceInfo
    _compilation: Compilation = attrs.field(repr=False)
    _library: Library = attrs.field(repr=False)
    _backend: Backend[Any] = attrs.field(repr=False)
    _plan: Plan = attrs.field(repr=False)
    _origin: Origin = attrs.field(repr=False)
    _takes_numbers: bool = attrs.field(init=False, repr=False)
    home: DeviceMemory = attrs.field(init=False, repr=False)
    _told: list[str] = attrs.field(factory=list, init=False, repr=False)

    @_takes_numbers.default
    def _converts_numbers(self) -> bool:
        return self._compilation.arguments is not None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments of its compilation."""
        request = self._compilation.request
        return _compiled_again, (request.program, request.types, self.device.id, self._origin)

    @home.default
    def _where_it_runs(self) -> DeviceMemory:
        return DeviceMemory(self.device, self._plan.resources.executor)

    @property
    def source(self) -> Program:
        """The program that was compiled, of any stage."""
        return self._compilation.request.program

    def carried_by(self, entries: CarriedEntries, program: Program) -> None:
        """Add the cache entries with which a program runs like this one, without compiling, to a file's entries.

        Args:
            entries: Collector of entries.
            program: An equal program.
        """
        origin, types = self._origin, self._compilation.request.types
        owner = default_context()
        compile_for(program, types, owner, self.device.id, origin.options, origin.passes, origin.choice, entries)

    @property
    def tile(self) -> tile.Function:
        """The function as it was written."""
        return self._compilation.stages.tile

    @property
    def typed(self) -> typed.Function:
        """The function with dtypes and shapes, simplified."""
        return self._compilation.stages.typed

    @property
    def stripe(self) -> StripeProgram:
        """The nested polyhedral program before any pass."""
        return self._compilation.stages.stripe

    @property
    def scheduled(self) -> StripeProgram:
        """The nested polyhedral program after all passes."""
        return self._compilation.stages.scheduled

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """Remarks of each step of the pipeline on each kernel, done or refused, in the order of the steps.

        The cache on disk has no remarks: the passes run again for them.
        """
        return self._compilation.remarks

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Warnings of suspicious code, for these types, and of temporaries far larger than the arguments."""
        from tileir.core.companions import provided

        warnings_of_compiled: Any = provided("warnings_of_compiled")
        found: tuple[Diagnostic, ...] = warnings_of_compiled(self._compilation.request, self.memory, lambda: self.sem)
        return found

    @property
    def sem(self) -> sem.Program:
        """The kernels, their buffers and launches."""
        return self._compilation.sem

    @property
    def listings(self) -> tuple[str, ...]:
        """Forms of :meth:`listing`: those of the back end, default first, and those of installed distributions."""
        return forms_of(self._backend)

    def listing(self, form: str | None = None) -> str:
        """Return generated code as text, in a form of :attr:`listings`, by default the first.

        Raises:
            BackendError: TIL806, the back end has no such form, or the device no text in it.
        """
        return listing_of(self, self._backend, self._library, form)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs, in declared order."""
        return input_names(self._compilation.request.origin)

    @cached_property
    def _in_order(self) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
        return ordered_by(self.inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the results, in declared order."""
        return output_names(self._compilation.request.origin)

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> R_co:
        """Run on arrays, in declared order or by tensor name.

        It waits for submitted calls on these arrays.

        Args:
            arrays: NumPy arrays, Python numbers, which adapt to other operands like literals, device arrays, or objects
                with ``__array_interface__`` or ``__dlpack__``.
            out: An array to write to; for several results a sequence in declared order, or a mapping by name.
            named: Inputs by tensor name.

        Returns:
            One array, or a tuple in declared order for several results: on the device if inputs are.

        Raises:
            ArgumentError: A value does not fit, or there is not enough memory; nothing was written.
        """
        if named and not arrays and len(named) == len(self.inputs):
            try:  # noqa: SIM105  a context would take as long as the rest of a short call
                arrays, named = self._in_order(named), {}
            except KeyError:
                pass  # faults of the names are reported below
        try:
            fast: R_co | None = None if named or self.usual is None else self.usual.call(arrays, out)
            if fast is not None:
                return fast
            results = self._run(bind(self.inputs, arrays, named), out)
        except TileError as error:
            raise shortened(error)  # noqa: B904  it is the same error
        return cast("R_co", results[0] if len(results) == 1 else results)

    @cached_property
    def usual(self) -> UsualCalls | None:
        """Calls with arrays as they are; None if numbers have to be converted."""
        return None if self._takes_numbers else UsualCalls(self._plan, self.home)

    @property
    def closed(self) -> bool:
        """True if the context was closed after compilation, so that calls fail."""
        return self._plan.resources.closed

    def _run(self, given: Sequence[Any], out: Any) -> tuple[Any, ...]:
        plan = self._plan
        with memory_checked():
            call = self._operands(given, out)
            self._tell_of_copies(call)
            for event in call.after:
                event.wait()
            plan.resources.calls.settle(call.reads, call.writes)
            plan.run(call.inputs, call.outputs)
            call.note(None)
        return call.results

    @with_short_traceback
    def submit(
        self, *arrays: Any, out: Any = None, after: Sequence[Event] = NOTHING, **named: Any
    ) -> PendingCall[R_co]:
        """Start a call, and return before it is done.

        It starts when all of ``after``, and all earlier calls of the context on its arrays, are done; if one of
        ``after``, or a call that writes an input, fails, it fails with the same error. Calls on other arrays run
        concurrently.

        Args:
            arrays: As for a call; they must not change before it is done.
            out: As for a call.
            after: Events to wait for, such as other pending calls.
            named: As for a call.

        Raises:
            ArgumentError: A value does not fit, or there is not enough memory.
            BackendError: TIL807, the context was closed.
        """
        plan = self._plan
        calls = plan.resources.calls
        after = after if after is NOTHING else events_of(after)
        if self.usual is not None and out is None and not (named or after):
            started = self.usual.submit(arrays)
            if started is not None:
                return started
        if out is None and not named and not self._takes_numbers and plan.accepts(arrays):
            with memory_checked():
                results = plan.fresh_outputs()
                event = calls.add(arrays, results, after, partial(plan.submit, arrays, results))
            return PendingCall(event, tuple(results))
        given = bind(self.inputs, arrays, named)
        with memory_checked():
            call = self._operands(given, out)
            start = partial(plan.submit, call.inputs, call.outputs)
            event = calls.add(call.reads, call.writes, [*after, *call.after], start)
            call.note(event)
        return PendingCall(event, call.results)

    def _tell_of_copies(self, call: Operands) -> None:
        """Log, once, the inputs that are copied to the device at each call while others are there."""
        if self.home.works_in_place or self._told:
            return
        pairs = zip((tensor.name for tensor in self._plan.inputs), call.inputs, strict=True)  # numbers are no inputs
        names = [name for name, array in pairs if isinstance(array, np.ndarray)]
        if 0 < len(names) < len(call.inputs):
            import logging  # few programs need it

            self._told.extend(names)
            message = "%s: inputs %s are copied to the device at each call; pass what tileir.to_device makes of them"
            logging.getLogger("tileir").info(message, self, ", ".join(names))

    def run_at(self, addresses: list[int], stream: int | None = None) -> bool:
        """Run on memory by addresses, which other libraries provide faster than arrays.

        Args:
            addresses: Addresses of the inputs, then of the results, in declared order: contiguous, with the compiled
                dtypes and shapes. No result shares memory with anything else. Nothing is checked.
            stream: On a card, the driver's stream in which others use this memory, 0 for the default stream: the run
                follows earlier work in it, and later work there follows the run, without waiting here. None for host
                memory.

        Returns:
            False, with nothing done, if arrays are required: without a stream on devices with separate memory, while
                submitted calls are in flight, or if kernels require more alignment.

        Raises:
            ArgumentError: TIL708, there is not enough memory.
        """
        if self._takes_numbers or self._plan.resources.calls:
            return False
        with memory_checked():
            return self._plan.run_at(addresses, stream)

    def takes(self, arrays: Sequence[Any]) -> bool:
        """Return whether host arrays can be used as they are."""
        return not self._takes_numbers and self._plan.accepts(arrays)

    def _repr_html_(self) -> str:
        """Return HTML for notebooks."""
        from tileir.driver.notebook import executable_html

        request = self._compilation.request
        return executable_html(self, request.types, request.program)

    def __repr__(self) -> str:
        return f"<Executable {call_of('', self.inputs, self.outputs)} on {self.device.id}>"

    @property
    def result_types(self) -> dict[str, TensorType]:
        """The dtype and shape of each result, in declared order."""
        types = (TensorType(tensor.dtype, tensor.shape) for tensor in self._plan.outputs)
        return dict(zip(self.outputs, types, strict=True))

    def run_into(
        self, arrays: Sequence[Any], into: Mapping[str, Array | DeviceArray], *, stays: bool | None = None
    ) -> list[Any]:
        """Run, and write some results to arrays that fit, are contiguous, and share no memory with any other.

        Returns:
            The other results: device arrays if they are to stay, host arrays if ``stays`` is None.

        Raises:
            ArgumentError: A value of ``arrays`` does not fit, or there is not enough memory; nothing was written.
        """
        plan = self._plan
        named = [(into.get(name), tensor) for name, tensor in zip(self.outputs, plan.outputs, strict=True)]
        with memory_checked():
            if plan.resources.calls:
                plan.resources.calls.wait()
            given = self._passed(arrays)
            if stays is not None:
                from tileir.driver.calls.operands import run_on_device  # it loads arrays of devices

                return run_on_device(plan, self.home, given, named, stays=stays)
            values = given if plan.accepts(given) else check_inputs(plan.inputs, given)
            results: list[Any] = [ROOMS.empty(t.shape, t.dtype.numpy) if a is None else a for a, t in named]
            plan.run(values, results)
        return [result for result, (array, _) in zip(results, named, strict=True) if array is None]

    @property
    def memory(self) -> MemoryUse:
        """Memory of a call, in bytes."""
        return self._plan.memory

    @property
    def dispatch(self) -> Dispatch:
        """Its launches in order, and the live ranges and places of its buffers."""
        from tileir.driver.dispatch import dispatch_of

        return dispatch_of(self.scheduled, self._plan)

    def _operands(self, given: Sequence[Any], out: Any) -> Operands:
        """Return the arrays to read and to write; copies among them include the effects of all earlier calls."""
        from tileir.driver.calls.operands import destinations, operands_of  # they load arrays of devices

        plan = self._plan
        calls = plan.resources.calls
        busy = bool(calls)  # asked before anything is copied
        given, into = self._passed(given), destinations(self.outputs, out)
        call = operands_of(plan, self.home, given, into)
        if busy and call.copied:
            calls.wait()
            call = operands_of(plan, self.home, given, into)
        return call

    def _passed(self, given: Sequence[Any]) -> Sequence[Any]:
        """Return the inputs of the plan: the arguments, with numbers converted to the dtypes that they adapt to."""
        if (arguments := self._compilation.arguments) is None:
            return given
        return passed_values(arguments, self._compilation.request.types, dict(zip(self.inputs, given, strict=True)))


@with_short_traceback
def compile(  # noqa: A001  it is the public verb, always used as tileir.compile
    source: Source,
    arguments: Any = (),
    *,
    device: str | DeviceInfo | None = None,
    context: Context | None = None,
    options: Options | None = None,
    target: Named | None = None,
    passes: tuple[Pass, ...] | str | None = None,
) -> Executable:
    """Compile a program for one device and signature.

    Args:
        source: A program of any stage, its text or JSON, or the path of a file; passes do not apply to the semtree.
        arguments: Descriptions of the inputs, in a mapping by name or a sequence in declared order: arrays, shapes
            (f32), (dtype, shape) pairs, texts such as ``"f32[2, 3]"``, dtypes (rank 0), numbers or :class:`TensorType`;
            a lone array or type describes the first input. Typed programs need no description, except for the numbers
            of a typed function.
        device: A device or its id; by default that of an array in a device's memory, or the context's.
        context: Owner of devices and caches; by default the process-wide one.
        options: Options for compiling.
        target: Target of the passes instead of the device: the name of a target, such as ``cpu`` or
            ``file.json:NUM_SRAM=4``, the path of a target file, or a :class:`tileir.Target`.
        passes: Stripe passes instead of those of the target, or the text, JSON or name of a pipeline.

    Raises:
        TileError: The function is wrong or does not fit the arguments, or the target or pipeline is wrong, for example
            TIL712.
        BackendError: There is no such device, or it refused a kernel.
    """
    check_options(options)
    program, arguments = described_origin(source, arguments)
    refuse_schedules(program, target, passes)
    types, owner = types_of(program, arguments), owner_of(context)
    chosen, choice = device_meant(device, arguments, owner), choice_of(target)
    return compile_for(program, types, owner, chosen, options, passes, choice)


def compile_for(
    program: Compilable,
    types: Mapping[str, typed.TensorType],
    context: Context,
    device: str | DeviceInfo | None,
    options: Options | None = None,
    passes: tuple[Pass, ...] | str | None = None,
    choice: Target | TargetChoice | None = None,
    carried: CarriedEntries | None = None,
    *,
    winners: bool = True,
) -> Executable:
    """Compile a program whose inputs have known types, scheduled for at most the number of available threads.

    Without ``passes``, the pipeline found by tuning applies if ``winners``, else that of the target. Code that is
    ``carried`` takes precedence over the cache on disk.
    """
    with collection_paused(lasting=True):
        chosen = context.device(device)
        wanted = context.options if options is None else options
        on_disk = None if wanted.quick else context.disk_cache
        disk = None if wanted.quick else carried or on_disk
        request = requested(program, types, context, chosen, wanted, passes, choice, carried, winners=winners)
        resources = context.resources(chosen, attrs.evolve(wanted, quick=False))  # number of threads, and their memory

        def prepare(compilation: Compilation, library: Library) -> Plan:
            passed = compilation.arguments
            inputs = input_names(program) if passed is None else tuple(value.name for value in passed.inputs)
            kept_by = None if on_disk is None else results_in(on_disk, compilation, compiler, chosen)
            return Plan.of(compilation.sem, library, resources, inputs, output_names(program), kept_by)

        compiler = context.compiler(chosen, wanted)
        compilation, library, plan = ready(request, compiler, chosen, disk, prepare)
        origin = Origin(wanted, passes, choice)
        return Executable(chosen, compilation, library, context.registry.backend(chosen.backend), plan, origin)


def _compiled_again(program: Program, types: Mapping[str, typed.TensorType], device: str, origin: Origin) -> Executable:
    """Compile a program that was pickled in another process, or take its code from the cache on disk."""
    return compile_for(program, types, default_context(), device, origin.options, origin.passes, origin.choice)
