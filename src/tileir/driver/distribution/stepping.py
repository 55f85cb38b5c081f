"""Partitioned programs that are called again and again, each time with some of the results of the time before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tileir.core import at_the_call, attrs
from tileir.driver.calls.arguments import bind
from tileir.driver.calls.stepper import check_state
from tileir.driver.distribution.engines import refusing

if TYPE_CHECKING:
    from tileir.driver.distribution.arrays import DistributedArray
    from tileir.driver.distribution.distributed import Distributed


@attrs.frozen(eq=False, repr=False)
class DistributedStepper:
    """A partitioned program with state, whose parts stay on their ranks; all ranks call it.

    It takes the inputs that are no state, whole or distributed, and returns the results that update none, distributed.
    A call that fails changes nothing.

    Attributes:
        inputs: What a call takes, in declared order.
        outputs: What a call returns, in declared order.
        updates: For each input that is state, the result that is its next value.

    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    updates: Mapping[str, str]
    _state: dict[str, DistributedArray]
    _run: Distributed

    @property
    def state(self) -> dict[str, DistributedArray]:
        """The state by the names of its inputs, as the latest successful call left it."""
        return dict(self._state)

    @at_the_call
    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """Make one step on arrays for the inputs that are no state.

        Returns:
            The results that update no state: one array, a tuple in declared order, or None where there are none.

        Raises:
            ArgumentError: A value does not fit. The state stays as it was.
            BackendError: TIL814, a rank failed. The state stays as it was.

        """
        with refusing(self._run.engine, self._run.program.mesh.size):
            given = dict(zip(self.inputs, bind(self.inputs, arrays, named), strict=True))
        found = self._run.results({**given, **self._state}, stepping=True)
        self._state.update({name: found[result] for name, result in self.updates.items()})
        results = [found[name] for name in self.outputs]
        return None if not results else results[0] if len(results) == 1 else tuple(results)

    @at_the_call
    def load(self, state: Mapping[str, Any]) -> None:
        """Replace state, all or some of it, by arrays that are whole or distributed.

        Raises:
            ArgumentError: TIL705, there is no such state; TIL701, TIL702 or TIL352, a value does not fit. Nothing is
                replaced.
            BackendError: TIL814, a rank failed.

        """
        with refusing(self._run.engine, self._run.program.mesh.size):
            check_state(state, self.updates)
        self._state.update({name: self._run.placed(name, value) for name, value in state.items()})
