"""Fast path of calls with arrays that need neither conversion nor waiting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tileir.core import DType, attrs
from tileir.driver.calls.arguments import memory_checked, out_of_memory
from tileir.driver.calls.pending import PendingCall, called
from tileir.runtime.devices.array import DeviceArray
from tileir.runtime.devices.exchange import Exchange, Format
from tileir.runtime.devices.home import DeviceMemory
from tileir.runtime.devices.torch_tensors import host_array, quicker
from tileir.runtime.offers import KnownEvent
from tileir.runtime.plans.calls import Calls
from tileir.runtime.plans.plan import Plan
from tileir.runtime.plans.queued import QueuedOperand, QueuedRuns
from tileir.runtime.results import ROOMS


@attrs.define(eq=False, repr=False)
class _Run:
    """Addresses, stream and library of the arrays of one call.

    Attributes:
        addresses: Addresses of the arrays.
        stream: Stream of another library that works on some of them; None for none.
        exchange: Exchange functions of that library.
        waits: Whether others may use some of them in unknown streams.
    """

    addresses: list[int] = attrs.field(factory=list)
    stream: int | None = None
    exchange: Exchange | None = None
    waits: bool = False


@attrs.frozen(eq=False)
class QueuedCalls:
    """Calls of one plan on memory of its device, ordered by its queue.

    Pending submitted calls go first; callers make sure that there are none.
    """

    _home: DeviceMemory
    _runs: QueuedRuns
    _inputs: tuple[QueuedOperand, ...]
    _outputs: tuple[QueuedOperand, ...]
    _fresh: tuple[None, ...]
    _native: Callable[..., Any] | None
    _exchanges: dict[type, Exchange | None] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, plan: Plan, home: DeviceMemory) -> QueuedCalls | None:
        """Return the calls of a plan; None if its device has no queue, or an array is empty."""
        runs = plan.queued
        formats = (*plan.input_formats, *plan.output_formats)
        if runs is None or not all(all(shape) for _, shape in formats):
            return None
        operands = tuple(
            _operand(dtype, shape, alignment, home)
            for (dtype, shape), alignment in zip(formats, runs.alignments, strict=True)
        )
        count = len(plan.input_formats)
        inputs, outputs = operands[:count], operands[count:]
        return cls(home, runs, inputs, outputs, (None,) * len(outputs), runs.array_call(operands, count, home))

    def call(self, arrays: Sequence[Any], out: Any = None) -> Any:
        """Return the results of a call; None, with nothing done, for arrays that need more than submission.

        Raises:
            BackendError: TIL708, there is not enough memory; TIL804 or TIL808, the device refuses, or has failed.
        """
        into = () if out is None else self._places(out)
        if self._native is not None:
            found = self._native(*arrays, *into)
            if found is not None:
                return found
        results = self._run(arrays, into or self._fresh)
        return results[0] if results is not None and len(results) == 1 else results

    def _places(self, out: Any) -> Sequence[Any]:
        """Return a destination for each result; an object that is not an array fits no program with several."""
        if type(out) not in (list, tuple) or len(self._outputs) == 1 or any(each is None for each in out):
            return (out,)
        places: Sequence[Any] = out
        return places

    def submit(self, arrays: Sequence[Any]) -> tuple[KnownEvent, tuple[DeviceArray, ...]] | None:
        """Submit a call on arrays that only tileir uses, and return its completion event and its results."""
        found = None if self._native is None else self._native(*arrays)
        if found is None:
            return None
        results: tuple[DeviceArray, ...] = found if type(found) is tuple else (found,)
        event: Any = results[0].awaited()
        return event, results

    def run(self, arrays: Sequence[Any], into: Sequence[Any]) -> tuple[Any, ...] | None:
        """Run a call with a destination for each result, None for a fresh array; return all results."""
        if self._native is not None:
            found = self._native(*arrays, *into)
            if found is not None:
                return found if type(found) is tuple else (found,)
        return self._run(arrays, into)

    def _run(self, arrays: Sequence[Any], into: Sequence[Any]) -> tuple[Any, ...] | None:
        """Run a call like :meth:`run` in Python, which supports libraries without C functions and waits for users."""
        run = _Run()
        if len(arrays) != len(self._inputs) or len(into) != len(self._outputs):
            return None
        for operand, array in zip(self._inputs, arrays, strict=True):
            if not self._takes(operand, array, run):
                return None
        results = self._left(into, run)
        if results is None:
            return None
        fresh = [each for each, place in zip(results, into, strict=True) if place is None]
        event = self._runs.launch(run.addresses, run.stream, fresh)
        if run.waits:
            event.wait()
            return results
        for result in results:
            if type(result) is DeviceArray:
                result.await_call(event)
        return results

    def _left(self, into: Sequence[Any], run: _Run) -> tuple[Any, ...] | None:
        """Return the destinations of the results, added to the run; None if one does not fit or overlaps."""
        ends = [*zip(run.addresses, [each.nbytes for each in self._inputs], strict=True)]
        results: list[Any] = []
        for operand, array in zip(self._outputs, into, strict=True):
            if array is None:
                buffer: Any = self._runs.executor.allocate(operand.nbytes)
                run.addresses.append(buffer.address)
                results.append(DeviceArray(buffer, self._home, operand.dtype, operand.shape))
                continue
            if not self._takes(operand, array, run, written=True):
                return None
            start = run.addresses[-1]
            if any(start < other + size and other < start + operand.nbytes for other, size in ends):
                return None
            ends.append((start, operand.nbytes))
            results.append(array)
        return tuple(results)

    def _takes(self, operand: QueuedOperand, array: Any, run: _Run, *, written: bool = False) -> bool:
        """Add an array to a run; False if it needs more than that."""
        if type(array) is DeviceArray:
            if array.dtype is not operand.dtype or array.shape != operand.shape or (written and array.read_only):
                return False
            buffer = array.queued(self._runs.executor)
            if buffer is None:
                return False
            address = buffer.address
            run.waits = run.waits or buffer.shared
        else:
            kind = type(array)
            exchange = self._exchanges[kind] if kind in self._exchanges else self._exchange_of(array)
            found = None if exchange is None else exchange.address(array, operand.format)
            if exchange is None or found is None or (written and not exchange.is_writable(array)):
                return False
            address = found
            if exchange is not run.exchange and not self._follows(exchange, run):
                return False
        run.addresses.append(address)
        return not address & operand.mask

    def _follows(self, exchange: Exchange, run: _Run) -> bool:
        """Record the current stream of a library; False if it is not the only one."""
        try:
            stream = exchange.stream(self._home.place)
        except Exception:  # foreign code may raise anything, which the slow path reports
            return False
        first = run.exchange is None
        run.exchange = exchange
        if first:
            run.stream = stream
        return run.stream == stream

    def _exchange_of(self, array: Any) -> Exchange | None:
        """Return the exchange functions for an array, cached for each type."""
        found = self._exchanges[type(array)] = Exchange.of(array)
        return found


def _operand(dtype: np.dtype[Any], shape: tuple[int, ...], alignment: int, home: DeviceMemory) -> QueuedOperand:
    kind = DType.of(dtype)
    assert kind is not None  # arrays of programs have dtypes of tileir
    nbytes = math.prod(shape) * dtype.itemsize
    return QueuedOperand(dtype, shape, nbytes, max(alignment, dtype.itemsize) - 1, Format.of(kind, shape, home.place))


@attrs.frozen(eq=False, slots=False)
class UsualCalls:
    """Calls of one executable without adapting numbers.

    Attributes:
        plan: The plan.
        home: Device of the plan.
        calls: Submitted calls in flight, which other calls of the context follow.
    """

    plan: Plan
    home: DeviceMemory
    calls: Calls = attrs.field(init=False, repr=False)

    @calls.default
    def _calls_of_context(self) -> Calls:
        return self.plan.resources.calls

    def call(self, arrays: Sequence[Any], out: Any) -> Any:
        """Return the results; None, with nothing done, for unsupported arrays."""
        found = self._call(arrays, out)
        return self._call_on_tensors(arrays, out) if found is None else found

    def _call_on_tensors(self, arrays: Sequence[Any], out: Any) -> Any:
        """Return the results of a call with PyTorch tensors among the arrays."""
        room = out if out is None or type(out) is np.ndarray else host_array(out, written=True)
        seen = quicker(arrays)
        if (out is None) is not (room is None) or (seen is None and room is out):
            return None
        found = self._call(arrays if seen is None else seen, room)
        return found if out is None or found is None else out

    def _call(self, arrays: Sequence[Any], out: Any) -> Any:
        plan, calls = self.plan, self.calls
        if calls.pending and calls:
            return None
        if arrays and type(arrays[0]) is not np.ndarray:
            queued = self.queued
            found = None if queued is None else queued.call(arrays, out)
            return self._call_there(arrays, out) if found is None else found
        try:
            several = type(out) is list
            results = plan.fresh_outputs() if out is None else out if several else [out]
            done = plan.run_as_they_are(arrays, results)
            if done is None:
                done = not several and plan.accepts(arrays) and (out is None or plan.fills(out, arrays))
                if done:
                    plan.run(arrays, results)
        except MemoryError as error:
            raise out_of_memory(error) from error
        if not done:
            return None
        return results[0] if len(results) == 1 else tuple(results)

    def submit(self, arrays: Sequence[Any]) -> PendingCall[Any] | None:
        """Start a call; None, with nothing done, for unsupported arrays."""
        if self._submits_by_calling:
            return called(self.call, arrays)
        if self.queued is None or not arrays or type(arrays[0]) is np.ndarray or self.calls:
            return None
        started = self.queued.submit(arrays)
        return None if started is None else PendingCall(*started)

    def step(self, arrays: Sequence[Any], into: Sequence[Any]) -> list[Any] | None:
        """Run with a destination for each result, None for a fresh array, and return the fresh arrays.

        The destinations fit, and share no memory with others; None, with nothing done, for inputs that do not fit.
        """
        plan = self.plan
        if self.calls:
            return None
        results: Sequence[Any] | None
        if plan.accepts(arrays):
            if not all(array is None or type(array) is np.ndarray for array in into):
                return None
            fresh = zip(into, plan.output_formats, strict=True)
            results = [ROOMS.empty(shape, dtype) if array is None else array for array, (dtype, shape) in fresh]
            plan.run(arrays, results)
        else:
            results = None if self.queued is None else self.queued.run(arrays, into)
        if results is None:
            return None
        return [result for result, array in zip(results, into, strict=True) if array is None]

    def _call_there(self, arrays: Sequence[Any], out: Any) -> Any:
        """Run like :meth:`call` on arrays that are all of the device, each checked in Python."""
        if not hasattr(arrays[0], "await_call"):
            return None
        from tileir.driver.calls.operands import call_as_they_are  # it loads arrays of devices

        with memory_checked():
            results = call_as_they_are(self.plan, self.home, arrays, out)
        return results[0] if results is not None and len(results) == 1 else results

    @cached_property
    def queued(self) -> QueuedCalls | None:
        """Calls through the device queue; None if it has none."""
        if self.plan.queued is None:
            return None

        return QueuedCalls.of(self.plan, self.home)

    @cached_property
    def _submits_by_calling(self) -> bool:
        """Return whether submitting runs a call at once: it is short, and the device works on host memory."""
        return self.plan.ends_at_once and (not self.plan.resources.asynchronous or self.home.works_in_place)
