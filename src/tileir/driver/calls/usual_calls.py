"""Calls with arrays that need neither a conversion nor waiting: the usual and fast way."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tileir.core.nodes import attrs
from tileir.driver.calls.arguments import memory_checked, out_of_memory
from tileir.driver.calls.pending import PendingCall, called
from tileir.runtime.devices.home import Home
from tileir.runtime.devices.torch_tensors import host_array, quicker
from tileir.runtime.plans.calls import Calls
from tileir.runtime.plans.plan import Plan
from tileir.runtime.results import ROOMS

if TYPE_CHECKING:
    from tileir.driver.calls.queued_calls import QueuedCalls


@attrs.frozen(eq=False, slots=False)
class UsualCalls:
    """The calls of one executable, of which none is of numbers that adapt.

    Attributes:
        plan: What runs.
        home: Where it runs.
        calls: Submitted calls that are not done, which the context's other calls follow.

    """

    plan: Plan
    home: Home
    calls: Calls = attrs.field(init=False, repr=False)

    @calls.default
    def _calls_of_context(self) -> Calls:
        return self.plan.resources.calls

    def call(self, arrays: Sequence[Any], out: Any) -> Any:
        """Return the results; None, with nothing done, for all other arrays."""
        found = self._call(arrays, out)
        return self._call_on_tensors(arrays, out) if found is None else found

    def _call_on_tensors(self, arrays: Sequence[Any], out: Any) -> Any:
        """Do the same with tensors of PyTorch, some or all of them."""
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
        """Start a call; None, with nothing done, for all other arrays."""
        if self._submits_by_calling:
            return called(self.call, arrays)
        if self.queued is None or not arrays or type(arrays[0]) is np.ndarray or self.calls:
            return None
        started = self.queued.submit(arrays)
        return None if started is None else PendingCall(*started)

    def step(self, arrays: Sequence[Any], into: Sequence[Any]) -> list[Any] | None:
        """Run with an array for each result to go to, None for a fresh one, and return the fresh ones.

        The arrays to go to fit, and share no memory with others; None, with nothing done, for inputs that do not.
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
        """Do the same with arrays of the device, all of them, piece by piece."""
        if not hasattr(arrays[0], "await_call"):
            return None
        from tileir.driver.calls.operands import call_as_they_are  # it loads arrays of devices

        with memory_checked():
            results = call_as_they_are(self.plan, self.home, arrays, out)
        return results[0] if results is not None and len(results) == 1 else results

    @cached_property
    def queued(self) -> QueuedCalls | None:
        """Calls that are put into the queue of the device; None where it has none."""
        if self.plan.queued is None:
            return None
        from tileir.driver.calls.queued_calls import QueuedCalls  # it loads arrays of devices

        return QueuedCalls.of(self.plan, self.home)

    @cached_property
    def _submits_by_calling(self) -> bool:
        """Whether a call is made at once: it is short, and the device works on memory of the host."""
        return self.plan.ends_at_once and (not self.plan.resources.asynchronous or self.home.works_in_place)
