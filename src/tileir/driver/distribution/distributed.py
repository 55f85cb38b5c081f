"""Execution of partitioned programs: compiled for each rank in pieces between collectives, by any back end.

Loops whose steps have collectives run step by step from the host.

Steps of a rank that its device can record, collectives included, are replayed in one call.
"""

from __future__ import annotations

import itertools
import sys
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import numpy as np

from tileir.core import Aggregation, ArgumentError, DType, attrs, with_short_traceback
from tileir.core.version import VERSION
from tileir.driver.calls.arguments import bind, check_kind
from tileir.driver.calls.stepper import check_updates
from tileir.driver.distribution.arrays import DistributedArray
from tileir.driver.distribution.collectives import (
    ElementTransfer,
    MemoryPool,
    Share,
    begun,
    merged_state,
    merging,
    part_of,
)
from tileir.driver.distribution.engines import engine_called, pickled, refusing
from tileir.driver.distribution.on_device import (
    PendingHalo,
    at_home,
    bordered_there,
    carried_out_there,
    has_borders,
    merged_in_pieces_there,
    merged_state_there,
    merged_together,
    resident,
)
from tileir.driver.distribution.rounds import Rank
from tileir.driver.distribution.stepping import DistributedStepper
from tileir.driver.executable import Executable, compile_for
from tileir.runtime import Context, DeviceInfo, Options, owner_of, to_array
from tileir.runtime.devices.array import DeviceArray
from tileir.runtime.devices.home import DeviceMemory
from tileir.runtime.offers import RecordingExecutor
from tileir.runtime.transports import THREADS, Threads, agree
from tileir.typed.boxes import Box, sizes_of
from tileir.typed.ir import Collective, Function, ScanPart, TensorType, operands
from tileir.typed.sharding.borders import ChunkedAggregate, HaloFunction, PlannedStep, halo_steps, touched
from tileir.typed.sharding.local import CollectiveLoop, CollectiveOperation, boxes_of, local_steps
from tileir.typed.sharding.partitioned import Partitioned
from tileir.typed.sharding.verifier import verify

if TYPE_CHECKING:
    from numpy import dtype

    from tileir.runtime.offers import Recorder
    from tileir.runtime.transports import Array, Engine, Transport
    from tileir.typed.sharding.local import Step


@attrs.frozen(eq=False)
class Repetition:
    """Recordings of all steps of a rank.

    Attributes:
        recorder: Recorder of the device.
        inputs: Names of inputs, in order.
        kinds: Name, dtype and shape of this rank's part of each result.
    """

    recorder: Recorder
    inputs: tuple[str, ...]
    kinds: tuple[tuple[str, dtype[Any], tuple[int, ...]], ...]
    _told: list[str] = attrs.field(factory=list, init=False)

    @classmethod
    def of(cls, program: Partitioned, steps: Sequence[Step], rank: int, home: DeviceMemory) -> Self | None:
        """Return recordings of a program; None if the device has none, or the host takes part in the steps."""
        executor = home.executor
        if not isinstance(executor, RecordingExecutor) or not executor.queues:
            return None
        if any(
            isinstance(step, CollectiveLoop | CollectiveOperation)
            or (isinstance(step, Collective) and step.combine is not None)
            for step in steps
        ):
            return None  # states are merged on the host, which also starts steps of loops and rounds
        function, here = program.function, program.mesh.coordinates(rank)
        defined = {each.name: each for each in (*function.inputs, *function.operations)}
        boxes = {name: program.mesh.box(program.layout(name), here) for name in function.outputs}
        kinds = [(n, defined[n].dtype.numpy, sizes_of(box)) for n, box in boxes.items()]
        return cls(executor.recorder(), tuple(value.name for value in function.inputs), tuple(kinds))

    def results(
        self, transport: Transport, home: DeviceMemory, values: Mapping[str, Any], work: Callable[[], Sequence[Any]]
    ) -> dict[str, Any] | None:
        """Return the results of recorded steps; None if they have to run one by one.

        Raises:
            LostError: TIL814, another rank failed.
        """
        given = [values[name].queued(home.executor) for name in self.inputs]
        if any(buffer is None for buffer in given):
            self._tell_of_others(transport, home, values)
            return None
        transport.hand_over_again()
        found = self.recorder.run(given, work)
        if found is None:
            return None
        buffers, event = found
        made = zip(self.kinds, buffers, strict=True)
        return {n: DeviceArray.fresh(buffer, home, dtype, shape, event) for (n, dtype, shape), buffer in made}

    def _tell_of_others(self, transport: Transport, home: DeviceMemory, values: Mapping[str, Any]) -> None:
        """Log, once, the inputs that prevent recording, as they were made with other options."""
        names = [name for name in self.inputs if values[name].home.executor is not home.executor]
        if not names or self._told:
            return
        import logging  # few programs need it

        self._told.extend(names)
        message = (
            "rank %d hands calls over piece by piece, which takes longer: %s was made with other options than the"
            " program; give tileir.distribute the options of the context, or of the program that makes it"
        )
        logging.getLogger("tileir.distributed").warning(message, transport.rank, ", ".join(names))


def looped(
    rounds: CollectiveLoop,
    values: Mapping[str, Any],
    home: DeviceMemory | None,
    transport: Transport,
    run: Callable[[dict[str, Any]], Mapping[str, Any]],
) -> dict[str, Any]:
    """Return a rank's parts of the results of a loop.

    Args:
        rounds: The loop; all ranks take part.
        values: The rank's values, by name.
        home: Device of the values; None for the host. Slices of sequences and outputs of steps pass through the host.
        transport: Transport between the ranks, which agree before each step of a loop on a condition.
        run: Runs one step, from its inputs to its outputs, by name.
    """
    loop, function = rounds.loop, rounds.step.function
    names, carries, rest = (
        [each.name for each in function.inputs],
        len(loop.carries),
        len(loop.carries + loop.sequences),
    )
    passed, count = [values[name] for name in operands(loop)], loop.count or 0
    sequences = [_on_host(each, home) for each in passed[carries:rest]]
    state = passed[:carries]
    stacked: dict[str, Any] = {}
    numbers: Iterable[int] = range(count) if loop.count is not None else itertools.count()
    for number in numbers:
        if loop.count is None and not _agreed(loop.name, bool(_on_host(state[0], home)), transport):
            break
        place = count - 1 - number if loop.reverse else number
        slices = [_here(np.asarray(each[place], order="C"), home) for each in sequences]
        made = run(dict(zip(names, [*state, *slices, *passed[rest:]], strict=True)))
        new = [made[name] for name in function.outputs]
        for name, result in rounds.results.items():
            if result.part is not ScanPart.FINAL:
                is_before = result.part is ScanPart.HISTORY
                one = _on_host(state[result.number] if is_before else new[carries + result.number], home)
                stacked.setdefault(name, np.empty((count, *one.shape), one.dtype))[place] = one
        state = new[:carries]
    found = {}
    for name, result in rounds.results.items():
        if result.part is ScanPart.FINAL:  # may be an argument, and is kept for longer
            found[name] = _here(np.array(_on_host(state[result.number], home)), home)
        else:
            found[name] = _here(stacked[name], home)
    return found


def _agreed(name: str, more: bool, transport: Transport) -> bool:
    """Return whether any rank makes another step: all do then, even if devices have rounded differently."""
    transport.place = f"a step of {name!r}"
    found = transport.all_reduce(np.array([more], np.uint8), Aggregation.MAX, range(transport.size))
    return bool(found[0])


def _on_host(value: Any, home: DeviceMemory | None) -> Any:
    return value if home is None else at_home(value, home).numpy()


def _here(array: Any, home: DeviceMemory | None) -> Any:
    return array if home is None else resident(array, home)


_CHANNELS: Final = 1 << 15

Parts: TypeAlias = "Mapping[str, Any]"
"""One rank's parts of arrays, by name: on the host, or on the device of the rank."""


@attrs.frozen
class _Plan:
    """Steps of one rank, and values between them.

    Attributes:
        steps: Steps in order, with the values that each makes or reads.
        boxes: Elements of each value that the rank has.
        sources: Inputs of collectives, by name.
        last: Values that are dead after each step, by its number.
        moved: Values that collectives made of elements of other ranks.
        borders: Halos that are not assembled, since borders read the messages.
        together: Merges done at once on a device, by the name of the first.
        spent: Values whose memory is free once they are merged.
    """

    steps: tuple[tuple[PlannedStep, tuple[str, ...]], ...]
    boxes: Mapping[str, Box]
    sources: Mapping[str, str]
    last: Mapping[int, Sequence[str]]
    moved: frozenset[str]
    borders: frozenset[str]
    together: Mapping[str, tuple[Collective, ...]]
    spent: frozenset[str]


@attrs.frozen(eq=False, repr=False)
class Distributed:
    """Partitioned program on an engine. Call it with arrays, whole or distributed, or run it on the parts of ranks.

    Functions between collectives are compiled on first use, once for all ranks for which they are equal.

    Attributes:
        program: The program.
        engine: Engine between the ranks.
    """

    program: Partitioned
    engine: Engine
    _context: Context
    _device: str | DeviceInfo | None
    _options: Options | None
    _compiled: dict[tuple[Function, str | None], Executable] = attrs.field(factory=dict, init=False)
    _inner: dict[Partitioned, Distributed] = attrs.field(factory=dict, init=False)
    _plans: dict[int, _Plan] = attrs.field(factory=dict, init=False)
    _homes: dict[tuple[str, int], DeviceMemory] = attrs.field(factory=dict, init=False)
    _repetitions: dict[tuple[int, int], Repetition | None] = attrs.field(factory=dict, init=False)
    _rooms: MemoryPool = attrs.field(factory=MemoryPool, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _facts: Mapping[str, str] = attrs.field(init=False)
    _channel: int = attrs.field(init=False)

    @_facts.default
    def _compared(self) -> Mapping[str, str]:
        version, mesh = f"{VERSION} {sys.byteorder}", str(self.program.mesh)
        return {"the version of tileir": version, "the mesh": mesh, "the program": str(self.program)}

    @_channel.default
    def _channel_of_program(self) -> int:
        return zlib.crc32(self._facts["the program"].encode()) % _CHANNELS

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle its arguments; the default context owns the compiled code after unpickling."""
        device = self._device.id if isinstance(self._device, DeviceInfo) else self._device
        return _distributed_again, (self.program, pickled(self.engine), device, self._options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the results for whole arrays, of which each rank takes its parts, or for distributed arrays.

        Args:
            args: Inputs in declared order.
            kwargs: Inputs by name.

        Returns:
            The result, or a tuple of several: whole arrays on every rank, or, if one of the inputs is a
                :class:`~tileir.distributed.DistributedArray`, distributed arrays.

        Raises:
            ArgumentError: TIL701 or TIL702, the arrays do not fit.
            BackendError: TIL814, a rank failed.
        """
        names = tuple(value.name for value in self.program.function.inputs)
        with self._refusing():
            inputs = dict(zip(names, bind(names, args, kwargs), strict=True))
        stay = any(isinstance(value, DistributedArray) for value in inputs.values())
        found = [each if stay else each.numpy() for each in self.results(inputs).values()]
        return found[0] if len(found) == 1 else tuple(found)

    def results(self, inputs: Mapping[str, Any], *, stepping: bool = False) -> dict[str, DistributedArray]:
        """Return all results by name, for inputs by name, distributed or whole, of a call, or of one step of many."""
        mesh = self.program.mesh
        with self._refusing():
            given = {each.name: self._checked(each.name, inputs[each.name]) for each in self.program.function.inputs}

        def work(transport: Transport) -> dict[str, Any]:
            transport.waits = False  # results' readers check that
            parts = {name: self._part(name, value, transport) for name, value in given.items()}
            return self.run(transport, parts, stepping=stepping)

        found = self.engine.launch(mesh.size, work)
        return {
            name: DistributedArray(
                mesh, self.program.layout(name), {rank: parts[name] for rank, parts in found.items()}, self.engine
            )
            for name in self.program.function.outputs
        }

    def placed(self, name: str, value: Any) -> DistributedArray:
        """Return the value of an input in the program's layout: each rank keeps its part of a whole array."""
        mesh = self.program.mesh
        with self._refusing():
            given = self._checked(name, value)
        if isinstance(given, DistributedArray):
            return given

        def work(end: Transport) -> Any:
            agree(end, {"the input that they place": f"{name} of {self._facts['the program']}"})
            return self._part(name, given, end).copy()

        parts = self.engine.launch(mesh.size, work)
        return DistributedArray(mesh, self.program.layout(name), parts, self.engine)

    def stepper(self, updates: Mapping[str, str], state: Mapping[str, Any]) -> DistributedStepper:
        """Return a callable that keeps some results for its next call, each part on its rank.

        Args:
            updates: Names of inputs, each with the name of the result that is its value in the next call and has its
                layout, which ``outputs=`` of :func:`tileir.partition` can request.
            state: Initial value of each of these inputs, whole or distributed.

        Raises:
            ArgumentError: TIL709, an update names an unknown input or result, or one with another type or layout;
                TIL705, ``state`` does not have one value for each update; TIL701, TIL702 or TIL352, a value does not
                fit.
        """
        with self._refusing():
            self._check_updates(updates, state)
        inputs, results = (value.name for value in self.program.function.inputs), self.program.function.outputs
        return DistributedStepper(
            tuple(name for name in inputs if name not in updates),
            tuple(name for name in results if name not in updates.values()),
            dict(updates),
            {name: self.placed(name, state[name]) for name in updates},
            self,
        )

    def _refusing(self) -> AbstractContextManager[None]:
        return refusing(self.engine, self.program.mesh.size)

    def _check_updates(self, updates: Mapping[str, str], state: Mapping[str, Any]) -> None:
        """Check that updates are valid for a stepper.

        Raises:
            ArgumentError: TIL709 or TIL705, as for :meth:`stepper`.
        """
        function = self.program.function
        check_updates(updates, state, tuple(value.name for value in function.inputs), function.outputs)
        defined = {each.name: each for each in (*function.inputs, *function.operations)}
        for name, result in updates.items():
            old, new = (
                f"{TensorType(defined[n].dtype, defined[n].shape)} at [{', '.join(map(str, self.program.layout(n)))}]"
                for n in (name, result)
            )
            if old != new:
                message = f"result {result!r} is {new}, but input {name!r}, which it updates, is {old}"
                raise ArgumentError.of("TIL709", f"{message}; say where it is to be by outputs= of tileir.partition")

    def _part(self, name: str, value: Array | DistributedArray, transport: Transport) -> Any:
        """Return a rank's part of an input."""
        if isinstance(value, DistributedArray):
            if value.mesh != self.program.mesh or transport.rank not in value.parts:
                have, need = f"{value.mesh} by {value.engine.name!r}", f"{self.program.mesh} by {self.engine.name!r}"
                raise ArgumentError.of("TIL352", f"{name!r} is on the ranks {have}, and not on {need}; make it there")
            return value.parts[transport.rank]
        box = self.program.mesh.box(self.program.layout(name), self.program.mesh.coordinates(transport.rank))
        return np.asarray(value[tuple(slice(*interval) for interval in box)], order="C")

    def run(self, transport: Transport, inputs: Parts, *, stepping: bool = False) -> dict[str, Any]:
        """Return a rank's parts of the results for its parts of the inputs; all ranks call it.

        Programs are compared before they run; repeated steps only before the first. The results are device arrays,
        which may be passed again, if the transport has a device, else host arrays.

        Raises:
            ArgumentError: TIL813, the number of ranks differs from the mesh; the arrays do not fit.
            DisagreementError: TIL815, on all ranks: one has another program, mesh or version.
        """
        mesh = self.program.mesh
        program = self._facts["the program"]
        transport.channel = self._channel
        if program not in (transport.agreed | transport.stepping if stepping else transport.agreed):
            agree(transport, self._facts)
            transport.agreed |= {program}
            transport.stepping |= {program} if stepping else frozenset()
        if transport.size != mesh.size:
            message = f"the mesh {mesh} has {mesh.size} ranks, and the transport {transport.size}"
            raise ArgumentError.of("TIL813", message)
        home = self._home(transport)
        values = dict(inputs) if home is None else {name: resident(a, home) for name, a in inputs.items()}
        if home is not None and transport.records:
            found = self._repeated(transport, home, values)
            if found is not None:
                return found
        made = self._computed_by_steps(transport, home, values)
        return made if home is None else {name: at_home(array, home) for name, array in made.items()}

    def _repeated(self, transport: Transport, home: DeviceMemory, values: Parts) -> dict[str, Any] | None:
        """Return results of recorded steps; None if they are not recorded, or not for this memory."""
        repeated = self._repetition(transport, home)
        if repeated is None:
            return None

        def work() -> list[Any]:
            made = self._computed_by_steps(transport, home, dict(values))
            return [resident(made[name], home).memory() for name in self.program.function.outputs]

        return repeated.results(transport, home, values, work)

    def _computed_by_steps(
        self, transport: Transport, home: DeviceMemory | None, values: dict[str, Any]
    ) -> dict[str, Any]:
        """Return a rank's parts of the results; dead values are dropped."""
        plan = self._steps(transport, home)
        states: dict[tuple[str, ...], tuple[Any, ...]] = {}
        coming: dict[str, Callable[[], Any]] = {}
        for number, (step, names) in enumerate(plan.steps):
            values.update({name: coming.pop(name)() for name in names if name in coming})
            if isinstance(step, HaloFunction):
                values.update(self._bordered(step, plan, values, transport, home))
            elif isinstance(step, Collective) and step.name in plan.borders:
                values[step.name] = self._begun(step, transport, home, values)
            elif isinstance(step, Collective) and step.combine is not None:
                if step.inputs not in states:
                    states[step.inputs] = self._merged_state(step, transport, home, values)
                values[step.name] = states[step.inputs][step.result]
            elif isinstance(step, ChunkedAggregate) and home is not None:
                values[step.collective.name] = self._pieced_there(step, plan, transport, home, values)
            elif isinstance(step, ChunkedAggregate):
                shares = self._pieces(step, plan, transport, values)
                coming[step.collective.name] = merging(step.collective, self.program.mesh, transport, shares)
            elif isinstance(step, Collective) and home is not None:
                if step.name not in values:
                    values.update(self._carried_out_there(step, plan, transport, home, values))
            elif isinstance(step, Collective):
                parts = [values[name] for name in step.inputs]
                coming[step.name] = begun(step, self.program.mesh, transport, parts, self._rooms.take)
            elif isinstance(step, CollectiveLoop):
                run = partial(self._of_step(step.step)._computed_by_steps, transport, home)
                values.update(looped(step, values, home, transport, run))
            elif isinstance(step, CollectiveOperation):
                rank = Rank(self.program, transport, home, partial(self._computed, home=home))
                values[step.operation.name] = rank.met(step, values)
            else:
                values.update(self._computed(step, values, home))
                transport.go_on()
            for name in plan.last.get(number, ()):
                value = values.pop(name, None)
                if home is None and name in plan.moved:
                    self._rooms.give(value)
        values.update({name: end() for name, end in coming.items()})
        return {name: values[name] for name in self.program.function.outputs}

    def _of_step(self, program: Partitioned) -> Distributed:
        with self._lock:
            if program not in self._inner:
                self._inner[program] = Distributed(program, self.engine, self._context, self._device, self._options)
            return self._inner[program]

    def _begun(
        self, step: Collective, transport: Transport, home: DeviceMemory | None, values: Parts
    ) -> ElementTransfer | PendingHalo:
        """Return a halo in transit."""
        mesh = self.program.mesh
        if home is None:
            return ElementTransfer.begun(step, mesh, transport, values[step.input])
        return PendingHalo.begun(
            step, mesh, transport, home, values, lambda each, given: self._computed(each, given, home)
        )

    def _steps(self, transport: Transport, home: DeviceMemory | None) -> _Plan:
        """Return the steps of a rank; borders read halos directly on the host, or if the device supports borders."""
        rank = transport.rank
        with self._lock:
            if rank not in self._plans:
                boxes = boxes_of(self.program, rank)
                sources = {each.name: each.input for each in self.program.collectives}
                together: Mapping[str, tuple[Collective, ...]] = {}
                if home is None:
                    steps = halo_steps(self.program, rank)
                else:
                    from tileir.core.targets.target_file import hardware_of  # only for devices

                    model = hardware_of(home.device.target)
                    priced = model if self._decide_alike(transport) else None
                    steps = halo_steps(self.program, rank, priced, late=True)
                    widths = {each.name: each.dtype.itemsize for each in self.program.function.operations}
                    split = [each for each in steps if isinstance(each, HaloFunction)]
                    if not all(has_borders(home, each, boxes, widths) for each in split):
                        steps = halo_steps(self.program, rank, priced, late=True, around=False)
                    together = merged_together(steps, model.link_us, model.link_gbps)
                borders = frozenset(name for each in steps if isinstance(each, HaloFunction) for name in each.halos)
                moved = {each.name for each in steps if isinstance(each, Collective) and not each.kind.merges}
                outputs = self.program.function.outputs
                last, spent = _last_uses(steps, outputs), _merged_alone(steps, outputs)
                named, moved = tuple((step, touched(step)) for step in steps), moved - borders
                self._plans[rank] = _Plan(named, boxes, sources, last, frozenset(moved), borders, together, spent)
            return self._plans[rank]

    def _decide_alike(self, transport: Transport) -> bool:
        """Return whether the devices of all ranks have one model, so that its decisions agree."""
        devices = self.engine.devices if isinstance(self.engine, Threads) else ()
        return transport.alike or len({self._context.device(each).target for each in devices}) == 1

    def _repetition(self, transport: Transport, home: DeviceMemory) -> Repetition | None:
        """Return the recordings of a rank; None if its steps need the host."""
        key = transport.rank, transport.turn
        with self._lock:
            known = key in self._repetitions
        if not known:
            steps = local_steps(self.program, transport.rank)
            self._repetitions[key] = Repetition.of(self.program, steps, transport.rank, home)
        return self._repetitions[key]

    def _bordered(
        self,
        step: HaloFunction,
        plan: _Plan,
        values: Mapping[str, Any],
        transport: Transport,
        home: DeviceMemory | None,
    ) -> dict[str, Any]:
        """Return the results of a function whose borders are computed once halos have arrived."""
        sources, boxes = plan.sources, plan.boxes
        if home is not None:
            halos = {name: sources[name] for name in step.halos}
            return bordered_there(
                step, halos, boxes, home, values, lambda each, given: self._computed(each, given, home)
            )
        found = self._computed(step.inner, values, None)
        transport.go_on()
        for border in step.borders:
            given = {}
            for name, box in border.windows:
                if name in step.halos:
                    given[name] = values[name].window(values[sources[name]], boxes[sources[name]], box)
                else:
                    given[name] = part_of(values[name], boxes[name], box)
            made = self._computed(border.function, given, None)
            for name, box in border.places:
                part_of(found[name], boxes[name], box)[...] = made[name]
        for name in step.halos:
            values[name].received()  # sent values may change from now on
        return found

    def _pieces(
        self, step: ChunkedAggregate, plan: _Plan, transport: Transport, values: Mapping[str, Any]
    ) -> Iterator[Share]:
        """Yield pieces of a merge on demand, after earlier pieces have been sent."""
        for ranks, piece in step.pieces:
            given = {name: part_of(values[name], plan.boxes[name], box) for name, box in piece.windows}
            ((name, box),) = piece.places
            made = self._computed(piece.function, given, None)[name]
            transport.go_on()
            yield ranks, box, made

    def _pieced_there(
        self, step: ChunkedAggregate, plan: _Plan, transport: Transport, home: DeviceMemory, values: Parts
    ) -> Any:
        """Return a rank's part on its device of a merge in pieces."""

        def run(function: Function, given: Parts, out: Any = None) -> Parts:
            return self._computed(function, given, home, out)

        return merged_in_pieces_there(step, self.program.mesh, transport, home, plan.boxes, values, run)

    def _home(self, transport: Transport) -> DeviceMemory | None:
        """Return the device of a rank's parts of arrays; None for the host."""
        if transport.device is None:
            return None
        key = transport.device, transport.turn
        with self._lock:
            if key not in self._homes:
                device = self._context.device(transport.device)
                options = self._context.options if self._options is None else self._options
                executor = self._context.executor(device, attrs.evolve(options, quick=False))
                self._homes[key] = DeviceMemory(device, executor, transport.check)
            return self._homes[key]

    def _merged_state(
        self, step: Collective, transport: Transport, home: DeviceMemory | None, values: Parts
    ) -> tuple[Any, ...]:
        if home is not None:
            return merged_state_there(step, self.program.mesh, transport, home, values)
        return merged_state(step, self.program.mesh, transport, [values[name] for name in step.inputs])

    def _carried_out_there(
        self, step: Collective, plan: _Plan, transport: Transport, home: DeviceMemory, values: Parts
    ) -> dict[str, Any]:
        """Return a rank's parts on its device of a collective, and of those done with it, by name."""

        def run(function: Function, values: Parts) -> Parts:
            return self._computed(function, values, home)

        together = plan.together.get(step.name, (step,))
        return carried_out_there(together, self.program.mesh, transport, home, values, run, plan.spent)

    def _computed(
        self, function: Function, values: Parts, home: DeviceMemory | None, out: Any = None
    ) -> dict[str, Any]:
        executable = self._executable(function, home)
        made = executable(*(values[value.name] for value in function.inputs), out=out)
        found = dict(zip(function.outputs, made if len(function.outputs) > 1 else (made,), strict=True))
        return found if home is None else {name: resident(array, home) for name, array in found.items()}

    def _executable(self, function: Function, home: DeviceMemory | None) -> Executable:
        device = self._device if home is None else home.device
        key = function, None if home is None else home.device.id
        with self._lock:
            if key not in self._compiled:
                types = {value.name: TensorType(value.dtype, value.shape) for value in function.inputs}
                self._compiled[key] = compile_for(
                    function, types, self._context, device, self._options, winners=False
                )  # ranks on other machines may have tuned, and so round, differently
            return self._compiled[key]

    def _checked(self, name: str, given: Any) -> Array | DistributedArray:
        """Return an input with the type and, if distributed, the layout of the program."""
        value = next(each for each in self.program.function.inputs if each.name == name)
        layout = self.program.layout(name)
        if isinstance(given, DistributedArray) and given.layout == layout and DType.of(given.dtype) is value.dtype:
            return given  # as those of a stepper, in each step
        array = given if isinstance(given, DistributedArray) else np.asarray(to_array(name, given))
        if DType.of(array.dtype) is not value.dtype or array.shape != value.shape:
            kind = TensorType(value.dtype, value.shape)
            message = f"{name!r} is {array.dtype}{list(array.shape)}, but the program takes {kind}"
            raise ArgumentError.of("TIL701", message)
        if isinstance(array, DistributedArray) and array.layout != layout:
            have, need = (", ".join(map(str, each)) for each in (array.layout, layout))
            message = f"{name!r} has parts [{have}], but the program takes [{need}]"
            raise ArgumentError.of("TIL352", f"{message}; write array.relaid(program.layout({name!r}))")
        return array


def _last_uses(steps: Sequence[PlannedStep], outputs: Sequence[str]) -> dict[int, list[str]]:
    """Return the values that are dead after each step, by its number; exchanges need their inputs until they end."""
    last: dict[str, int] = {}
    sent: dict[str, tuple[str, ...]] = {}
    for number, step in enumerate(steps):
        for name in touched(step):
            last |= dict.fromkeys((name, *sent.pop(name, ())), number)
        if isinstance(step, Collective):
            sent[step.name] = step.inputs
    found: dict[int, list[str]] = {}
    for name, number in last.items():
        if name not in outputs:
            found.setdefault(number, []).append(name)
    return found


def _merged_alone(steps: Sequence[PlannedStep], outputs: Sequence[str]) -> frozenset[str]:
    """Return the values that functions compute, in separate memory, and that only one merge reads."""
    uses = Counter(name for step in steps for name in set(touched(step)))
    functions = (step.inner if isinstance(step, HaloFunction) else step for step in steps)
    made = {name for each in functions if isinstance(each, Function) for name in each.outputs}
    merged = {step.input for step in steps if isinstance(step, Collective) and step.aggregation is not None}
    return frozenset(name for name in made & merged if uses[name] == 2 and name not in outputs)


def _distributed_again(
    program: Partitioned, engine: str | Engine, device: str | None, options: Options | None
) -> Distributed:
    return Distributed(program, engine_called(engine), owner_of(None), device, options)


@with_short_traceback
def distribute(
    program: Partitioned,
    transport: str | Engine = "inprocess",
    *,
    device: str | DeviceInfo | None = None,
    context: Context | None = None,
    options: Options | None = None,
) -> Distributed:
    """Return a partitioned program that runs on ranks: a callable of whole arrays.

    Args:
        program: Result of :func:`tileir.partition`.
        transport: The engine between ranks: ``inprocess``, whose ranks are threads, the name of an installed one, or an
            engine itself.
        device: The device of each rank; by default the context's. Engines that have a device for each rank run there.
        context: Owner of devices and caches; by default the process-wide one. Threads run on its devices, one for each
            rank, if it was made as ``Context(devices=[…])``.
        options: Options for compiling.

    Raises:
        VerifyError: TIL531 or TIL533, the program breaks a rule.
        BackendError: TIL811, there is no such engine, or it cannot be loaded.
    """
    check_kind("program", program, Partitioned, "what tileir.partition returns")
    verify(program)
    engine, owner = engine_called(transport), owner_of(context)
    if engine is THREADS and device is None and owner.rank_devices:
        engine = Threads(owner.rank_devices)
    return Distributed(program, engine, owner, device, options)
