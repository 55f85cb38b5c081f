"""Functions that are called again and again, each time with some of the results of the time before."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from tileir.core.dtype import DType
from tileir.core.errors import ArgumentError, Diagnostic
from tileir.core.text.advice import meant
from tileir.driver.arguments import bind, is_number, memory_checked
from tileir.driver.jit import Jit, jit
from tileir.driver.programs import input_names, output_names, program_of
from tileir.runtime.arrays import TensorSpec, check_inputs, to_array

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from tileir.driver.executable import Executable
    from tileir.driver.programs import Source
    from tileir.driver.targets import Named
    from tileir.runtime.arrays import Array
    from tileir.runtime.context import Context
    from tileir.runtime.interface import DeviceInfo, Options


@attrs.define(eq=False, repr=False)
class _Buffers:
    """Two arrays for each piece of state: what the next call reads, and what it writes."""

    front: dict[str, Array]
    back: dict[str, Array]
    executable: Executable | None = None  # the latest whose results were seen to fit the state


@attrs.frozen(eq=False)
class Stepper:
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

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """Make one step on arrays for the inputs that are no state, by position as in :attr:`inputs`, or by name.

        Returns:
            The results that update no state: one array, a tuple in declared order, or None where there are none.

        Raises:
            ArgumentError: A value does not fit; TIL709, a result does not fit the state that it updates. The state
                stays as it was.

        """
        given = bind(self.inputs, arrays, named)
        values = {name: _array_or_number(name, value) for name, value in zip(self.inputs, given, strict=True)}
        with self._lock:
            buffers = self._buffers
            values |= buffers.front
            given = [values[name] for name in input_names(self._jit.function)]
            executable = self._jit.specialise(*given)
            self._check(executable)
            updated = {result: buffers.back[name] for name, result in self.updates.items()}
            results = executable.run_into(given, updated)
            buffers.front, buffers.back = buffers.back, buffers.front
        if len(results) <= 1:
            return results[0] if results else None
        return tuple(results)

    @property
    def state(self) -> dict[str, Array]:
        """Copies of the state by the names of its inputs, as the latest successful call left it."""
        with self._lock, memory_checked():
            return {name: array.copy() for name, array in self._buffers.front.items()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Replace state, all or some of it, for instance by what :attr:`state` once was; arrays are copied.

        Raises:
            ArgumentError: TIL705, there is no such state; TIL701 or TIL702, a value does not fit. Nothing is replaced.

        """
        _check_mapping("state", state)
        _refuse(_unknown("no state", state, self.updates), "TIL705")
        with self._lock:
            types = [_spec(name, self._buffers.front[name]) for name in state]
            with memory_checked():
                copies = [array.copy() for array in check_inputs(types, list(state.values()))]
            self._buffers.front.update(zip(state, copies, strict=True))

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
        self._buffers.executable = executable


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
        state: The first value of each of these inputs; arrays are copied.
        device: As for :func:`tileir.jit`, which compiles the function; so are the others.
        context: Owner of devices and of the executables.
        options: How to compile.
        target: What passes are computed for instead of the device.

    Raises:
        TileError: The text or function is wrong.
        ArgumentError: TIL709, an update names no input or result, or a result updates two inputs; TIL705, ``state`` has
            not one value for each update; TIL702, a value that is no array; TIL707, no mapping.

    """
    _check_mapping("updates", updates)
    _check_mapping("state", state)
    program = program_of(source)
    inputs, results = input_names(program), output_names(program)
    _refuse(_faulty_updates(updates, inputs, results), "TIL709")
    missing = (f"state has no value for {name!r}" for name in updates if name not in state)
    _refuse([*_unknown("no update of", state, updates), *missing], "TIL705")
    compiled = jit(program, device, context=context, options=options, target=target)
    with memory_checked():
        front = {name: to_array(name, state[name]).copy(order="C") for name in updates}
        back = {name: array.copy() for name, array in front.items()}
    return Stepper(
        tuple(name for name in inputs if name not in updates),
        tuple(name for name in results if name not in updates.values()),
        dict(updates),
        compiled,
        _Buffers(front, back),
    )


def _faulty_updates(updates: Mapping[str, str], inputs: Collection[str], results: Collection[str]) -> Iterator[str]:
    yield from _unknown("no input", updates, inputs)
    yield from _unknown("no result", updates.values(), results)
    for result, count in Counter(value for value in updates.values() if value in results).items():
        if count > 1:
            names = " and ".join(repr(name) for name, value in updates.items() if value == result)
            yield f"result {result!r} updates {names}; give each input a result of its own"


def _unknown(what: str, names: Iterable[str], known: Collection[str]) -> Iterator[str]:
    for name in names:
        if name not in known:
            near = meant(str(name), known)
            hint = f"did you mean {near!r}?" if near else f"there are {', '.join(known) or 'none'}"
            yield f"there is {what} {name!r}; {hint}"


def _refuse(faults: Iterable[str], code: str) -> None:
    diagnostics = [Diagnostic(code, fault) for fault in faults]
    if diagnostics:
        raise ArgumentError(diagnostics)


def _array_or_number(name: str, value: object) -> object:
    return value if is_number(value) else to_array(name, value)


def _check_mapping(what: str, value: object) -> None:
    if not isinstance(value, Mapping):
        message = f"{what} is a mapping by names of inputs, not a value of type {type(value).__name__}"
        raise ArgumentError((Diagnostic("TIL707", message),))


def _spec(name: str, array: Array) -> TensorSpec:
    dtype = DType.of(array.dtype)
    assert dtype is not None  # to_array refuses the others
    return TensorSpec(name, dtype, array.shape)
