"""Functions that are called again and again, each time with some of the results of the time before."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeGuard, cast

import numpy as np

from tileir.core import ArgumentError, Diagnostic, DType, at_the_call, attrs, meant
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
    """Two arrays for each piece of state: what the next call reads, and what it writes.

    Attributes:
        front: What the next call reads.
        back: What it writes.
        resident: Whether the state was given as arrays of a device, and so is returned as such.
        executable: The latest whose results were seen to fit the state.

    """

    front: dict[str, Any]
    back: dict[str, Any]
    resident: bool = False
    executable: Executable | None = None

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> _Buffers:
        """Take copies of arrays of the host or of a device."""
        resident = any(map(_is_resident, state.values()))
        arrays = {name: value if _is_resident(value) else to_array(name, value) for name, value in state.items()}
        front = {name: _copy(array) for name, array in arrays.items()}
        return cls(front, {name: _copy(array) for name, array in front.items()}, resident)

    def move(self, executable: Executable) -> None:
        """Bring state of the host to the device that a step runs on, if that has memory of its own."""
        if not executable.home.is_host:
            for arrays in (self.front, self.back):
                arrays.update({name: _sent(array, executable) for name, array in arrays.items()})


@attrs.frozen(eq=False)
class Stepper(Generic[R_co]):
    """A function with state: it takes the inputs that are no state, and returns the results that update none.

    A call reads the state from one set of arrays, writes it to another, and swaps the two when it has succeeded. So the
    state is never copied, no memory is allocated for it, and a call that fails changes nothing. Calls from several
    threads run one after the other.

    Attributes:
        inputs: What a call takes, in declared order.
        outputs: What a call returns, in declared order.
        updates: For each input that is state, the result that is its next value.

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

    @at_the_call
    def __call__(self, *arrays: Any, **named: Any) -> R_co:
        """Make one step on arrays for the inputs that are no state, by position as in :attr:`inputs`, or by name.

        Returns:
            The results that update no state: one array, a tuple in declared order, or None where there are none.

        Raises:
            ArgumentError: A value does not fit; TIL709, a result does not fit the state that it updates. The state
                stays as it was.

        """
        results = None if named else self._stepped_again(arrays)
        if results is None:
            results = self._stepped(bind(self.inputs, arrays, named))
        if len(results) <= 1:
            return cast("R_co", results[0] if results else None)
        return cast("R_co", tuple(results))

    def _stepped_again(self, arrays: Sequence[Any]) -> list[Any] | None:
        """Make a step by what made the one before; None, with nothing done, for arrays that need more than that."""
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
        """Make a step on any arrays."""
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
        """Copies of the state by the names of its inputs, as the latest successful call left it.

        They are arrays of the host, or of the device where the state was given as such.
        """
        with self._lock, memory_checked():
            buffers = self._buffers
            if buffers.resident:
                return {name: _copy(array) for name, array in buffers.front.items()}
            return {name: np.array(array, copy=True) for name, array in buffers.front.items()}

    @at_the_call
    def load(self, state: Mapping[str, Any]) -> None:
        """Replace state, all or some of it, for instance by what :attr:`state` once was; arrays are copied.

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


@at_the_call
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
    """Return a callable that keeps part of what ``source`` returns for its next call, such as a step of training.

    Args:
        source: A program, in the forms that :func:`tileir.jit` takes.
        updates: Names of inputs, each with the name of the result that is its value in the next call.
        state: The first value of each of these inputs; arrays are copied. On a device with memory of
            its own they stay there, and whoever gave arrays of a device gets such back.
        device: As for :func:`tileir.jit`, which compiles the function; so are the others.
        context: Owner of devices and of the executables.
        options: How to compile.
        target: What passes are computed for instead of the device.

    Raises:
        TileError: The text or function is wrong.
        ArgumentError: TIL709, an update names no input or result, or a result updates two inputs; TIL705, ``state`` has
            not one value for each update; TIL702, a value that is no array; TIL707, no mapping.

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
    """Refuse values of state that there is not.

    Raises:
        ArgumentError: TIL705, or TIL707, they are no mapping.

    """
    _check_mapping("state", state)
    _refuse(_unknown("no state", state, updates), "TIL705")


def check_updates(
    updates: Mapping[str, str], state: Mapping[str, Any], inputs: Collection[str], results: Collection[str]
) -> None:
    """Refuse updates of what is not there, and state that is not what they update.

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
    """Return whether this is an array of a device; whoever has one has loaded their class."""
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
    """Return a copy of an array where another one is."""
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
