"""Just-in-time compilation of functions for the arrays of their calls, and evaluation by interpreters."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, overload

import numpy as np

from tileir.core import BackendError, Target, TileError, attrs, shortened, with_short_traceback
from tileir.driver.calls.arguments import (
    NOTHING,
    array_format,
    bind,
    check_options,
    events_of,
    is_number,
    memory_checked,
    ordered_by,
    passed_values,
    split,
    tensor_type,
)
from tileir.driver.calls.pending import PendingCall, R_co
from tileir.driver.executable import Executable, compile_for
from tileir.driver.function_cache import KnownFunction
from tileir.driver.programs import (
    Compilable,
    Program,
    Source,
    WrittenProgram,
    framed,
    input_names,
    is_python,
    made,
    origin_of,
    output_names,
    program_of,
    refuse_schedules,
    types_of,
)
from tileir.driver.requests import is_stored
from tileir.driver.targets import Named, TargetChoice, choice_of
from tileir.runtime import Context, DeviceInfo, Event, Options, check_inputs, default_context, owner_of
from tileir.runtime.caches.carried_entries import CarriedEntries
from tileir.stripe.ir import Program as StripeProgram
from tileir.tile.checks.integers import sizing_inputs
from tileir.tile.ir import Function
from tileir.typed.ir import Function as TypedFunction, TensorType, Value

if TYPE_CHECKING:
    from tileir.driver.tracing.functions import PythonFunction
    from tileir.typed.sharding.partitioned import Partitioned

P = ParamSpec("P")


@attrs.frozen(eq=False, repr=False)
class _Latest:
    """Executable of the latest signature, held weakly, and the other settings that it was chosen by."""

    executable: weakref.ref[Executable]
    device_id: str | None
    options: Options

    def call(self, arrays: tuple[Any, ...], out: Any, context: Context, options: Options | None) -> Any:
        """Return the results of the executable if it is still valid for these arrays, else None."""
        executable = self.current(context, options)
        usual = None if executable is None else executable.usual
        return None if usual is None else usual.call(arrays, out)

    def submitted(self, arrays: tuple[Any, ...], context: Context, options: Options | None) -> PendingCall | None:
        """Submit a call if the executable is still valid for these arrays, else return None."""
        executable = self.current(context, options)
        if executable is None or executable.usual is None:
            return None
        started = executable.usual.submit(arrays)
        return executable.submit(*arrays) if started is None and executable.takes(arrays) else started

    def current(self, context: Context, options: Options | None) -> Executable | None:
        """Return the executable, unless it is gone or other settings apply now."""
        executable = self.executable()
        if executable is None or executable.closed or self.device_id != context.device_id:
            return None
        return executable if options is not None or context.options is self.options else None


@attrs.frozen(eq=False)
class Jit(Generic[R_co]):
    """Callable that takes arrays in declared order or by tensor name.

    It is compiled for each signature: dtypes, shapes, and the values of integers from which sizes are computed. The
    context keeps the most recently used executables. It can be pickled.
    """

    _origin: Compilable
    device: str | DeviceInfo | None
    options: Options | None
    target: Target | TargetChoice | None
    _context: Context
    _names: tuple[str, ...]
    _carried: CarriedEntries | None = attrs.field(default=None, repr=False)
    _in_order: Callable[[Mapping[str, Any]], tuple[Any, ...]] = attrs.field(init=False, repr=False)
    _sizing: frozenset[str] = attrs.field(init=False, repr=False)
    _latest: list[_Latest] = attrs.field(factory=list, init=False, repr=False)
    _latest_there: list[_Latest] = attrs.field(factory=list, init=False, repr=False)

    @property
    def function(self) -> Program:
        """The program."""
        return made(self._origin)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle its arguments; after unpickling, the default context owns its executables."""
        device = self.device or self._context.device_id
        device_id = device.id if isinstance(device, DeviceInfo) else device
        return _jitted_again, (self.function, device_id, self._options, self.target)

    def __repr__(self) -> str:
        where = f" on {self.device if isinstance(self.device, str) else self.device.id}" if self.device else ""
        return f"<Jit {self.function.summary()}{where}>"

    def _repr_html_(self) -> str:
        return self.function._repr_html_()

    @_in_order.default
    def _values_in_order(self) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
        return ordered_by(self._names)

    @_sizing.default
    def _inputs_of_sizes(self) -> frozenset[str]:
        program = framed(self._origin)  # sizes of known functions do not follow from inputs
        return sizing_inputs(program) if isinstance(program, Function) else frozenset()

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> R_co:
        """Run on arrays; see :meth:`tileir.Executable.__call__`."""
        if named and not arrays and len(named) == len(self._names):
            try:  # noqa: SIM105  a context would take as long as the rest of a short call
                arrays, named = self._in_order(named), {}
            except KeyError:
                pass  # faults of the names are reported below
        if not named and self._latest:
            results: R_co | None = self._latest[0].call(arrays, out, self._context, self.options)
            if results is not None:
                return results
        if self._latest_there and not named and arrays and type(arrays[0]) is not np.ndarray:
            results = self._latest_there[0].call(arrays, out, self._context, self.options)
            if results is not None:
                return results
        try:
            found: R_co = self._called(arrays, named, out)
        except TileError as error:
            raise shortened(error)  # noqa: B904  it is the same error
        return found

    def _called(self, arrays: tuple[Any, ...], named: Mapping[str, Any], out: Any) -> Any:
        given = bind(self._names, arrays, named) if named or len(arrays) != len(self._names) else arrays
        values = self._resident(given)
        if values is not given and self._latest_there:
            results = self._latest_there[0].call(tuple(values), out, self._context, self.options)
            if results is not None:
                return results
        return self._specialised(values)(*values, out=out)

    @with_short_traceback
    def submit(
        self, *arrays: Any, out: Any = None, after: Sequence[Event] = NOTHING, **named: Any
    ) -> PendingCall[R_co]:
        """Start a call, and return before it is done; compiles first if necessary.

        See :meth:`tileir.Executable.submit`.
        """
        after = after if after is NOTHING else events_of(after)
        if self._latest and out is None and not (named or after):
            started: PendingCall[R_co] | None = self._latest[0].submitted(arrays, self._context, self.options)
            if started is not None:
                return started
        if self._latest_there and arrays and type(arrays[0]) is not np.ndarray and out is None and not (named or after):
            started = self._latest_there[0].submitted(arrays, self._context, self.options)
            if started is not None:
                return started
        values = self._resident(bind(self._names, arrays, named))
        pending: PendingCall[R_co] = self._specialised(values).submit(*values, out=out, after=after)
        return pending

    @with_short_traceback
    def specialise(self, *arrays: Any, **named: Any) -> Executable[R_co]:
        """Return the executable for the dtypes and shapes of these arrays."""
        return self._specialised(self._resident(bind(self._names, arrays, named)))

    @with_short_traceback
    def is_compiled(self, *arrays: Any) -> bool:
        """Return whether the context or the cache on disk has the code for a call with arrays of this signature."""
        context = self._context
        if self._key(arrays) in context.programs:
            return True
        types = types_of(self._origin, arrays)
        return is_stored(self._origin, types, context, self.device, self.options, self.target, self._carried)

    def would_call(self, executable: Executable) -> bool:
        """Return whether an executable is that of a latest call, and valid for another."""
        return any(
            latest.current(self._context, self.options) is executable for latest in (*self._latest, *self._latest_there)
        )

    def _key(self, values: Sequence[Any]) -> Hashable:
        """Return the key of the executable for these values in the context."""
        signature = tuple(
            (value.dtype, value.shape)
            if type(value) is np.ndarray and name not in self._sizing
            else self._type(name, value)
            for name, value in zip(self._names, values, strict=True)
        )
        return self._origin, signature, self._device_for(values) or self._context.device_id, self._options, self.target

    def resident(self, name: str, value: Any) -> Any:
        """Return a value, as a device array if it is another library's array on a device."""
        if type(value) is np.ndarray or is_number(value):
            return value
        from tileir.driver.calls.operands import residents  # it loads arrays of devices

        return residents((name,), (value,), self._context)[0]

    def _resident(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return values, with device arrays for other libraries' arrays on devices."""
        if all(type(value) is np.ndarray or is_number(value) for value in values):
            return values
        from tileir.driver.calls.operands import residents  # it loads arrays of devices

        return residents(self._names, values, self._context)

    def _device_for(self, values: Sequence[Any]) -> str | DeviceInfo | None:
        """Return the named device, or that of the arrays; None for the context's device."""
        if self.device is not None or all(type(value) is np.ndarray or is_number(value) for value in values):
            return self.device
        from tileir.driver.calls.operands import home_of_any  # it loads arrays of devices

        home = home_of_any(values)
        return None if home is None or self._chooses(home.device.id) else home.device.id

    def _chooses(self, device_id: str) -> bool:
        try:
            return self._context.device().id == device_id
        except BackendError:
            return False

    @property
    def _options(self) -> Options:
        return self._context.options if self.options is None else self.options

    def _specialised(self, values: Sequence[Any]) -> Executable:
        context = self._context
        device = self._device_for(values)

        def make() -> Executable:
            types = types_of(self._origin, values)
            return compile_for(self._origin, types, context, device, self._options, None, self.target, self._carried)

        executable: Executable = context.programs.get(self._key(values), make)
        latest = self._latest if device is self.device else self._latest_there  # which host arrays do not accept
        latest[:] = [_Latest(weakref.ref(executable), context.device_id, self._options)]
        return executable

    def _type(self, name: str, value: object) -> object:
        if is_number(value) or name in self._sizing:
            return tensor_type(name, value, sizing=name in self._sizing)
        return array_format(name, value)


def _jitted_again(program: Program, device: str | None, options: Options, target: Target | TargetChoice | None) -> Jit:
    return Jit(program, device, options, target, default_context(), input_names(program))


@overload
def jit(  # type: ignore[overload-overlap]  # a Tile function is callable, too
    source: WrittenProgram | KnownFunction,
    device: str | DeviceInfo | None = None,
    *,
    context: Context | None = None,
    options: Options | None = None,
    target: Named | None = None,
) -> Jit: ...
@overload
def jit(
    source: Callable[P, R_co],
    device: str | DeviceInfo | None = None,
    *,
    static: str | Sequence[str] = (),
    context: Context | None = None,
    options: Options | None = None,
    target: Named | None = None,
) -> PythonFunction[P, R_co]: ...
@overload
def jit(
    source: None = None,
    device: str | DeviceInfo | None = None,
    *,
    static: str | Sequence[str] = (),
    context: Context | None = None,
    options: Options | None = None,
    target: Named | None = None,
) -> Callable[[Callable[P, R_co]], PythonFunction[P, R_co]]: ...
@with_short_traceback
def jit(
    source: Source | None = None,
    device: str | DeviceInfo | None = None,
    *,
    static: str | Sequence[str] = (),
    context: Context | None = None,
    options: Options | None = None,
    target: Named | None = None,
) -> Any:
    """Return a callable that compiles ``source`` for the arrays that it is called with.

    Args:
        source: A program, its text, its JSON or its file, as for :func:`tileir.compile`. A typed program is compiled on
            its first call, and takes no other signature. Or a Python function, which is called with tensors that stand
            for arrays, once for each structure, dtypes and ranks of its arguments, and recorded. Without a source the
            result is a decorator.
        static: Parameters of a Python function that are plain values; it is recorded anew for each value.
        device: A device or its id; by default that of the arrays, and for host arrays the context's.
        context: Owner of devices and of the bounded cache of executables; by default the process-wide one.
        options: Options for compiling.
        target: Target of the passes instead of the device; see :func:`tileir.compile`.

    Raises:
        TileError: The text or function is wrong for any arrays, or the target is wrong; TIL712, a target for a program
            of the semtree.
    """
    check_options(options)
    if source is None:
        return partial(jit, device=device, static=static, context=context, options=options, target=target)
    if is_python(source):
        from tileir.driver.tracing.functions import jitted  # few programs are Python functions

        return jitted(source, static, device, owner_of(context), options, choice_of(target))
    origin = origin_of(source)
    refuse_schedules(origin, target)
    return Jit(origin, device, options, choice_of(target), owner_of(context), input_names(origin))


@with_short_traceback
def evaluate(source: Source | Partitioned, arrays: Any = (), **named: Any) -> Any:
    """Run a program through the interpreter of its stage, which defines its meaning, without a device.

    Device arrays are copied to the host, and results to the device of the first.

    Args:
        source: A program, its text, its JSON or its file, as for :func:`tileir.compile`; or a partitioned program,
            which is run on the parts of all its ranks, one after the other.
        arrays: A mapping by tensor name, a sequence in declared order, or one array for the first input.
        named: Inputs by tensor name.

    Returns:
        One array, or a tuple in declared order for several results.

    Raises:
        TileError: The function is wrong or does not fit the arrays.
        ArgumentError: A value is missing, unknown or not an array.
    """
    ranks = _of_ranks(source)
    if is_python(source):
        from tileir.driver.tracing.functions import evaluated  # few programs are Python functions

        return evaluated(source, arrays, named, evaluate)
    program = program_of(source if ranks is None else ranks.function)
    names = input_names(program)
    positional, by_name = split(arrays)
    values = bind(names, positional, {**by_name, **named})
    if all(isinstance(value, np.ndarray) or is_number(value) for value in values):
        return _evaluated(program, ranks, names, values)
    from tileir.driver.calls.operands import home_of_any, residents, seen_by_host, sent  # they load arrays of devices

    values = residents(names, values, default_context())
    home = home_of_any(values)
    found = _evaluated(program, ranks, names, seen_by_host(values))
    if home is None:
        return found
    results = sent(found if isinstance(found, tuple) else (found,), home)
    return results if isinstance(found, tuple) else results[0]


def _of_ranks(source: object) -> Partitioned | None:
    """Return a partitioned program, and None for others, without loading modules for partitioned programs."""
    module = sys.modules.get("tileir.typed.sharding.partitioned")
    return source if module is not None and isinstance(source, module.Partitioned) else None


def _evaluated(program: Program, ranks: Partitioned | None, names: tuple[str, ...], values: list[object]) -> Any:
    with memory_checked():
        ordered = _interpreted(program, ranks, types_of(program, values), dict(zip(names, values, strict=True)))
    return ordered[0] if len(ordered) == 1 else ordered


def _interpreted(
    program: Program, ranks: Partitioned | None, types: Mapping[str, TensorType], given: Mapping[str, object]
) -> tuple[np.ndarray[Any, Any], ...]:
    """Return the results of the interpreter of a program's stage, in order; interpreters are only loaded here."""
    if isinstance(program, Function | TypedFunction):
        from tileir.typed.inference.inference import infer
        from tileir.typed.interpreter import interpret

        graph = infer(program, types) if isinstance(program, Function) else program
        checked = check_inputs(graph.inputs, passed_values(graph, types, given))
        arrays = {tensor.name: array for tensor, array in zip(graph.inputs, checked, strict=True)}
        if ranks is None:
            results = interpret(graph, arrays)
        else:
            from tileir.typed.sharding.interpreter import interpret_partitioned

            results = interpret_partitioned(ranks, arrays)
        return tuple(results[name] for name in graph.outputs)  # a typed result has a name that no input has
    tensors = [Value(name, kind.dtype, kind.shape) for name, kind in types.items()]
    arrays = dict(zip(types, check_inputs(tensors, [given[name] for name in types]), strict=True))
    if isinstance(program, StripeProgram):
        from tileir.stripe.interpret.interpreter import interpret as interpret_stripe

        results = interpret_stripe(program, arrays)
    else:
        from tileir.semtree.interpret.interpreter import run_program

        results = run_program(program, arrays)
    return tuple(results[name] for name in output_names(program))
