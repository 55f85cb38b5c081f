"""Functions with state: called repeatedly, with some results of the previous call as inputs."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeGuard, cast

import numpy as np

from tileir.core import ArgumentError, Diagnostic, DType, attrs, meant, with_short_traceback
from tileir.driver.calls.arguments import bind, is_number, memory_checked
from tileir.driver.calls.pending import R_co
from tileir.driver.executable import Executable
from tileir.driver.jit import Jit, jit
from tileir.driver.programs import Source, input_names, output_names, program_of
from tileir.driver.targets import Named
from tileir.runtime import Context, DeviceInfo, Options
from tileir.runtime.arrays import Array, TensorSpec, check_inputs, to_array

if TYPE_CHECKING:
    from tileir.runtime.devices.array import DeviceArray


@attrs.define(eq=False, repr=False)
class _Buffers:
    """Two arrays for each piece of state: input and output of the next call.

    Attributes:
        front: Inputs of the next call.
        back: Outputs of the next call.
        resident: Whether the state was given as device arrays, and so is returned as such.
        executable: Latest executable with results that were checked to fit the state.
    """

    front: dict[str, Any]
    back: dict[str, Any]
    resident: bool = False
    executable: Executable | None = None

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> _Buffers:
        """Return buffers with copies of host or device arrays."""
        resident = any(map(_is_resident, state.values()))
        arrays = {name: value if _is_resident(value) else to_array(name, value) for name, value in state.items()}
        front = {name: _copy(array) for name, array in arrays.items()}
        return cls(front, {name: _copy(array) for name, array in front.items()}, resident)

    def move(self, executable: Executable) -> None:
        """Move host state to the device of an executable, if that has separate memory."""
        if not executable.home.is_host:
            for arrays in (self.front, self.back):
                arrays.update({name: _sent(array, executable) for name, array in arrays.items()})


@attrs.frozen(eq=False)
class Stepper(Generic[R_co]):
    """Function with state: it takes the inputs that are not state, and returns the results that update none.

    A call reads the state from one set of arrays, writes it to another, and swaps the two on success. The state is
    never copied nor reallocated, and a failing call changes nothing. Calls from several threads are serialised.

    Attributes:
        inputs: Inputs of a call, in declared order.
        outputs: Results of a call, in declared order.
        updates: For each state input, the result that is its next value.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    updates: Mapping[str, str]
    _jit: Jit = attrs.field(repr=False)
    _buffers: _Buffers = attrs.field(repr=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False, repr=False)
    _names: tuple[str, ...] = attrs.field(init=False, repr=False)
    _updated: tuple[str | None, ...] = attrs.field(init=False, repr=False)

    @_names.default
    def _all_inputs(self) -> tuple[str, ...]:
        return input_names(self._jit.function)

    @_updated.default
    def _state_of_results(self) -> tuple[str | None, ...]:
        states = {result: name for name, result in self.updates.items()}
        return tuple(states.get(result) for result in output_names(self._jit.function))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the function and a copy of the state."""
        return _stepping_again, (self._jit, dict(self.updates), self.inputs, self.outputs, self.state)

    @with_short_traceback
    def __call__(self, *arrays: Any, **named: Any) -> R_co:
        """Run one step with arrays for the inputs that are not state, by position as in :attr:`inputs`, or by name.

        Returns:
            The results that update no state: one array, a tuple in declared order, or None if there are none.

        Raises:
            ArgumentError: A value does not fit; TIL709, a result does not fit the state that it updates. The state is
                unchanged.
        """
        results = None if named else self._stepped_again(arrays)
        if results is None:
            results = self._stepped(bind(self.inputs, arrays, named))
        if len(results) <= 1:
            return cast("R_co", results[0] if results else None)
        return cast("R_co", tuple(results))

    def _stepped_again(self, arrays: Sequence[Any]) -> list[Any] | None:
        """Run a step with the previous executable; None, with nothing done, for arrays that need more."""
        with self._lock, memory_checked():
            buffers = self._buffers
            executable, front, back = buffers.executable, buffers.front, buffers.back
            if executable is None or executable.usual is None or len(arrays) != len(self.inputs):
                return None
            stays = buffers.resident or any(type(array) is not np.ndarray for array in arrays)
            if not stays and self.outputs and any(type(array) is not np.ndarray for array in front.values()):
                return None
            if not self._jit.would_call(executable):
                return None
            values = {**dict(zip(self.inputs, arrays, strict=True)), **front}
            into = [None if name is None else back[name] for name in self._updated]
            results = executable.usual.step([values[name] for name in self._names], into)
            if results is not None:
                buffers.front, buffers.back = back, front
            return results

    def _stepped(self, given: Sequence[Any]) -> list[Any]:
        """Run a step on any arrays."""
        values = {name: self._array_or_number(name, value) for name, value in zip(self.inputs, given, strict=True)}
        stays = any(map(_is_resident, values.values())) or self._buffers.resident
        with self._lock:
            buffers = self._buffers
            values |= buffers.front
            executable = self._jit.specialise(*(values[name] for name in self._names))
            self._check(executable)
            values |= buffers.front  # which may have moved
            given = [values[name] for name in self._names]
            updated = {result: buffers.back[name] for name, result in self.updates.items()}
            on_device = stays or not all(type(array) is np.ndarray for array in buffers.front.values())
            results = executable.run_into(given, updated, stays=stays if on_device else None)
            buffers.front, buffers.back = buffers.back, buffers.front
        return results

    @property
    def state(self) -> dict[str, Any]:
        """Copies of the state by the names of its inputs, after the latest successful call.

        They are host arrays, or device arrays if the state was given as such.
        """
        with self._lock, memory_checked():
            buffers = self._buffers
            if buffers.resident:
                return {name: _copy(array) for name, array in buffers.front.items()}
            return {name: np.array(array, copy=True) for name, array in buffers.front.items()}

    @with_short_traceback
    def load(self, state: Mapping[str, Any]) -> None:
        """Replace all or some of the state, for instance by an earlier :attr:`state`; arrays are copied.

        Raises:
            ArgumentError: TIL705, there is no such state; TIL701 or TIL702, a value does not fit. Nothing is replaced.
        """
        check_state(state, self.updates)
        with self._lock:
            front = self._buffers.front
            types = [_spec(name, front[name]) for name in state]
            with memory_checked():
                given = [value.numpy() if _is_resident(value) else value for value in state.values()]
                arrays = dict(zip(state, check_inputs(types, given), strict=True))
                front.update({name: _like(front[name], array) for name, array in arrays.items()})

    def _check(self, executable: Executable) -> None:
        """Refuse a program whose results cannot be the next state.

        Raises:
            ArgumentError: TIL709.
        """
        if executable is self._buffers.executable:
            return
        faults = []
        for name, result in self.updates.items():
            old, new = _spec(name, self._buffers.front[name]), executable.result_types[result]
            if (old.dtype, old.shape) != (new.dtype, new.shape):
                have, needed = f"{new}", f"{old.dtype.value}[{', '.join(map(str, old.shape))}]"
                faults.append(f"result {result!r} is {have}, but input {name!r}, which it updates, is {needed}")
        _refuse(faults, "TIL709")
        self._buffers.move(executable)
        self._buffers.executable = executable

    def _array_or_number(self, name: str, value: object) -> object:
        if type(value) is np.ndarray or is_number(value) or _is_resident(value):
            return value
        found = self._jit.resident(name, value)
        return found if _is_resident(found) else to_array(name, found)


@with_short_traceback
def stepper(
    source: Source,
    updates: Mapping[str, str],
    state: Mapping[str, Any],
    device: str | DeviceInfo | None = None,
    *,
    context: Context | None = None,
    options: Options | None = None,
    target: Named | None = None,
) -> Stepper:
    """Return a callable that keeps some results of ``source`` for its next call, such as a training step.

    Args:
        source: A program, in the forms that :func:`tileir.jit` takes.
        updates: Names of inputs, each with the name of the result that is its value in the next call.
        state: Initial value of each of these inputs; arrays are copied. On a device with separate memory they stay
            there, and state given as device arrays is returned as such.
        device: As for :func:`tileir.jit`, which compiles the function.
        context: Owner of devices and of the executables.
        options: Options for compiling.
        target: Target of the passes instead of the device.

    Raises:
        TileError: The text or function is wrong.
        ArgumentError: TIL709, an update names an unknown input or result, or a result updates two inputs; TIL705,
            ``state`` does not have one value for each update; TIL702, a value is not an array; TIL707, an argument is
            not a mapping.
    """
    program = program_of(source)
    inputs, results = input_names(program), output_names(program)
    check_updates(updates, state, inputs, results)
    compiled = jit(program, device, context=context, options=options, target=target)
    with memory_checked():
        buffers = _Buffers.of({name: compiled.resident(name, state[name]) for name in updates})
    return Stepper(
        tuple(name for name in inputs if name not in updates),
        tuple(name for name in results if name not in updates.values()),
        dict(updates),
        compiled,
        buffers,
    )


def _stepping_again(
    compiled: Jit, updates: Mapping[str, str], inputs: tuple[str, ...], outputs: tuple[str, ...], state: dict[str, Any]
) -> Stepper:
    return Stepper(inputs, outputs, updates, compiled, _Buffers.of(state))


def check_state(state: Mapping[str, Any], updates: Mapping[str, str]) -> None:
    """Refuse values for unknown state.

    Raises:
        ArgumentError: TIL705, or TIL707, they are not a mapping.
    """
    _check_mapping("state", state)
    _refuse(_unknown("no state", state, updates), "TIL705")


def check_updates(
    updates: Mapping[str, str], state: Mapping[str, Any], inputs: Collection[str], results: Collection[str]
) -> None:
    """Refuse updates of unknown inputs or results, and state that does not match the updates.

    Raises:
        ArgumentError: TIL709, TIL705 and TIL707, as :func:`stepper`.
    """
    _check_mapping("updates", updates)
    _check_mapping("state", state)
    _refuse(_faulty_updates(updates, inputs, results), "TIL709")
    missing = (f"state has no value for {name!r}" for name in updates if name not in state)
    _refuse([*_unknown("no update of", state, updates), *missing], "TIL705")


def _faulty_updates(updates: Mapping[str, object], inputs: Collection[str], results: Collection[str]) -> Iterator[str]:
    yield from _unknown("no input", updates, inputs)
    yield from _unknown("no result", updates.values(), results)
    for result, count in Counter(v for v in updates.values() if isinstance(v, str) and v in results).items():
        if count > 1:
            names = " and ".join(repr(name) for name, value in updates.items() if value == result)
            yield f"result {result!r} updates {names}; give each input a result of its own"


def _unknown(what: str, names: Iterable[object], known: Collection[str]) -> Iterator[str]:
    for name in names:
        if not isinstance(name, str) or name not in known:
            near = meant(str(name), known)
            hint = f"did you mean {near!r}?" if near else f"there are {', '.join(known) or 'none'}"
            yield f"there is {what} {name!r:.80}; {hint}"


def _refuse(faults: Iterable[str], code: str) -> None:
    diagnostics = [Diagnostic(code, fault) for fault in faults]
    if diagnostics:
        raise ArgumentError(diagnostics)


def _is_resident(value: object) -> TypeGuard[DeviceArray]:
    """Return whether this is a device array, without loading their class."""
    return not isinstance(value, np.ndarray) and hasattr(value, "await_call")


def _copy(array: Any) -> Any:
    if not _is_resident(array):
        return array.copy(order="C")
    from tileir.runtime.devices.transfer import copy_of  # it loads arrays of devices

    return copy_of(array)


def _sent(array: Any, executable: Executable) -> Any:
    if _is_resident(array):
        return array
    from tileir.driver.calls.operands import sent  # it loads arrays of devices

    return sent([array], executable.home)[0]


def _like(old: Any, new: Array) -> Any:
    """Return a copy of an array in the memory of another."""
    if not _is_resident(old):
        return new.copy()
    from tileir.driver.calls.operands import sent  # it loads arrays of devices

    return sent([new], old.home)[0]


def _check_mapping(what: str, value: object) -> None:
    if not isinstance(value, Mapping):
        message = f"{what} is a mapping by names of inputs, not a value of type {type(value).__name__}"
        raise ArgumentError.of("TIL707", message)


def _spec(name: str, array: Array | DeviceArray) -> TensorSpec:
    dtype = DType.of(array.dtype)
    assert dtype is not None  # to_array refuses the others
    return TensorSpec(name, dtype, array.shape)
