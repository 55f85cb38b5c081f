"""Calls on memory of a card that return when everything is in its queue; what needs more is left to :mod:`operands`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tileir.core import DType, attrs
from tileir.runtime.devices.array import DeviceArray
from tileir.runtime.devices.exchange import Exchange, Format
from tileir.runtime.devices.home import Home
from tileir.runtime.offers import KnownEvent
from tileir.runtime.plans.plan import Plan
from tileir.runtime.plans.queued import QueuedOperand, QueuedRuns


@attrs.define(eq=False, repr=False)
class _Run:
    """What is found out about the arrays of one call.

    Attributes:
        addresses: Where they are.
        stream: The stream in which another library works on some of them; None for none.
        exchange: The functions of that library.
        waits: Whether others may use some of them in streams that nobody knows.

    """

    addresses: list[int] = attrs.field(factory=list)
    stream: int | None = None
    exchange: Exchange | None = None
    waits: bool = False


@attrs.frozen(eq=False)
class QueuedCalls:
    """Calls of one plan on memory of its device, which follow each other in its queue.

    Submitted calls that are not done go first; whoever asks for one here knows that there are none.
    """

    _home: Home
    _runs: QueuedRuns
    _inputs: tuple[QueuedOperand, ...]
    _outputs: tuple[QueuedOperand, ...]
    _fresh: tuple[None, ...]
    _native: Callable[..., Any] | None
    _exchanges: dict[type, Exchange | None] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, plan: Plan, home: Home) -> QueuedCalls | None:
        """Return the calls of a plan; None where its device has no queue, or an array is empty."""
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
        """Return the results of a call; None, with nothing done, for arrays that need more than to be handed over.

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
        """Return an array for each result to go to; what is none for each of several fits to no program."""
        if type(out) not in (list, tuple) or len(self._outputs) == 1 or any(each is None for each in out):
            return (out,)
        places: Sequence[Any] = out
        return places

    def submit(self, arrays: Sequence[Any]) -> tuple[KnownEvent, tuple[DeviceArray, ...]] | None:
        """Do the same on arrays that only tileir uses, and return the event that tells of the end, and the results."""
        found = None if self._native is None else self._native(*arrays)
        if found is None:
            return None
        results: tuple[DeviceArray, ...] = found if type(found) is tuple else (found,)
        event: Any = results[0].awaited()
        return event, results

    def run(self, arrays: Sequence[Any], into: Sequence[Any]) -> tuple[Any, ...] | None:
        """Do the same as a call with an array for each result to go to, None for a fresh one; return all of them."""
        if self._native is not None:
            found = self._native(*arrays, *into)
            if found is not None:
                return found if type(found) is tuple else (found,)
        return self._run(arrays, into)

    def _run(self, arrays: Sequence[Any], into: Sequence[Any]) -> tuple[Any, ...] | None:
        """Do so in Python: it knows libraries without functions of C, and waits for those who share memory."""
        run = _Run()
        if len(arrays) != len(self._inputs) or len(into) != len(self._outputs):
            return None
        for operand, array in zip(self._inputs, arrays, strict=True):
            if not self._takes(operand, array, run):
                return None
        results = self._left(into, run)
        if results is None:
            return None
        event = self._runs.launch(run.addresses, run.stream)
        if run.waits:
            event.wait()
            return results
        for result in results:
            if type(result) is DeviceArray:
                result.await_call(event)
        return results

    def _left(self, into: Sequence[Any], run: _Run) -> tuple[Any, ...] | None:
        """Return where the results go to, which is noted in the run; None where that does not fit or overlaps."""
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
        """Note an array in a run; False where it needs more than that."""
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
        """Note the stream in which a library works now; False where it is not the only one."""
        try:
            stream = exchange.stream(self._home.place)
        except Exception:  # code of others may fail in any way, and the slow way says so
            return False
        first = run.exchange is None
        run.exchange = exchange
        if first:
            run.stream = stream
        return run.stream == stream

    def _exchange_of(self, array: Any) -> Exchange | None:
        """Return the functions of the library of an array, looked up once for each type."""
        found = self._exchanges[type(array)] = Exchange.of(array)
        return found


def _operand(dtype: np.dtype[Any], shape: tuple[int, ...], alignment: int, home: Home) -> QueuedOperand:
    kind = DType.of(dtype)
    assert kind is not None  # arrays of programs are of our own dtypes
    nbytes = math.prod(shape) * dtype.itemsize
    return QueuedOperand(dtype, shape, nbytes, max(alignment, dtype.itemsize) - 1, Format.of(kind, shape, home.place))
