"""Partitioned programs with state: called repeatedly, with some results of the previous call as inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tileir.core import attrs, with_short_traceback
from tileir.driver.calls.arguments import bind
from tileir.driver.calls.stepper import check_state
from tileir.driver.distribution.engines import refusing

if TYPE_CHECKING:
    from tileir.driver.distribution.arrays import DistributedArray
    from tileir.driver.distribution.distributed import Distributed


@attrs.frozen(eq=False, repr=False)
class DistributedStepper:
    """Partitioned program with state, whose parts stay on their ranks; all ranks call it.

    It takes the inputs that are not state, whole or distributed, and returns the results that update none, distributed.
    A failing call changes nothing.

    Attributes:
        inputs: Inputs of a call, in declared order.
        outputs: Results of a call, in declared order.
        updates: For each state input, the result that is its next value.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    updates: Mapping[str, str]
    _state: dict[str, DistributedArray]
    _run: Distributed

    @property
    def state(self) -> dict[str, DistributedArray]:
        """State by the names of its inputs, after the latest successful call."""
        return dict(self._state)

    @with_short_traceback
    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """Run one step with arrays for the inputs that are not state.

        Returns:
            The results that update no state: one array, a tuple in declared order, or None if there are none.

        Raises:
            ArgumentError: A value does not fit. The state is unchanged.
            BackendError: TIL814, a rank failed. The state is unchanged.
        """
        with refusing(self._run.engine, self._run.program.mesh.size):
            given = dict(zip(self.inputs, bind(self.inputs, arrays, named), strict=True))
        found = self._run.results({**given, **self._state}, stepping=True)
        self._state.update({name: found[result] for name, result in self.updates.items()})
        results = [found[name] for name in self.outputs]
        return None if not results else results[0] if len(results) == 1 else tuple(results)

    @with_short_traceback
    def load(self, state: Mapping[str, Any]) -> None:
        """Replace all or some of the state by whole or distributed arrays.

        Raises:
            ArgumentError: TIL705, there is no such state; TIL701, TIL702 or TIL352, a value does not fit. Nothing is
                replaced.
            BackendError: TIL814, a rank failed.
        """
        with refusing(self._run.engine, self._run.program.mesh.size):
            check_state(state, self.updates)
        self._state.update({name: self._run.placed(name, value) for name, value in state.items()})
