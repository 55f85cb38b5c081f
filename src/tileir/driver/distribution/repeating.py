"""Steps of a rank that its device records once, collectives among them, and is handed again in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from tileir.core import attrs
from tileir.runtime.devices.array import DeviceArray
from tileir.runtime.offers import RecordingExecutor
from tileir.typed.boxes import sizes_of
from tileir.typed.ir import Collective
from tileir.typed.sharding.local import Meeting, Rounds

if TYPE_CHECKING:
    from numpy import dtype

    from tileir.runtime.devices.home import Home
    from tileir.runtime.offers import Recorder
    from tileir.runtime.transports import Transport
    from tileir.typed.sharding.local import Step
    from tileir.typed.sharding.partitioned import Partitioned


@attrs.frozen(eq=False)
class Repetition:
    """Recordings of all steps of a rank.

    Attributes:
        recorder: What the device has them in.
        inputs: Names of inputs, in order.
        kinds: For each result its name, dtype, and the shape of the part of this rank.

    """

    recorder: Recorder
    inputs: tuple[str, ...]
    kinds: tuple[tuple[str, dtype[Any], tuple[int, ...]], ...]
    _told: list[str] = attrs.field(factory=list, init=False)

    @classmethod
    def of(cls, program: Partitioned, steps: Sequence[Step], rank: int, home: Home) -> Self | None:
        """Return recordings of a program; None where the device has none, or the host takes part in the steps."""
        executor = home.executor
        if not isinstance(executor, RecordingExecutor) or not executor.queues:
            return None
        if any(
            isinstance(step, Rounds | Meeting) or (isinstance(step, Collective) and step.combine is not None)
            for step in steps
        ):
            return None  # states are merged on the host, and steps of loops and rounds begin there
        function, here = program.function, program.mesh.coordinates(rank)
        defined = {each.name: each for each in (*function.inputs, *function.operations)}
        boxes = {name: program.mesh.box(program.layout(name), here) for name in function.outputs}
        kinds = [(n, defined[n].dtype.numpy, sizes_of(box)) for n, box in boxes.items()]
        return cls(executor.recorder(), tuple(value.name for value in function.inputs), tuple(kinds))

    def results(
        self, transport: Transport, home: Home, values: Mapping[str, Any], work: Callable[[], Sequence[Any]]
    ) -> dict[str, Any] | None:
        """Return the results of recorded steps on some values; None where they have to be done one by one.

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

    def _tell_of_others(self, transport: Transport, home: Home, values: Mapping[str, Any]) -> None:
        """Log, once, which inputs keep calls from being recorded, as they were made with other options."""
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
