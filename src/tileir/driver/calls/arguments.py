"""Arguments of a call: by position in declared order, or by tensor name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from types import UnionType
from typing import Any, Final, TypeGuard

import numpy as np

from tileir.core import ArgumentError, Diagnostic, DType, TileError, attrs, dtype_meant, fail, meant
from tileir.runtime import Context, DeviceInfo, Event, Format, Options, to_array
from tileir.tile import ir as tile
from tileir.tile.checks.integers import sizing_inputs
from tileir.typed.inference.numbers import number_type
from tileir.typed.ir import Function, TensorType
from tileir.typed.numbers import input_values, passed_numbers

NOTHING: Final[tuple[Event, ...]] = ()
"""Default of the events that a call waits for."""
_TYPE: Final = re.compile(r"(?P<dtype>\w+)\[(?P<sizes>[\d\s,]*)\]")
_MOST_DIGITS: Final = 18
"""Maximum number of digits of a size: larger ones do not fit in memory."""
_OF_DEVICES: Final = ("__dlpack_device__", "__cuda_array_interface__")
"""Attributes of arrays that may be in device memory."""


def bind(names: Sequence[str], positional: Sequence[object], named: Mapping[str, object]) -> list[object]:
    """Return one value for each of ``names``.

    Raises:
        ArgumentError: TIL705, values are missing, unknown, given twice or too many; reports all faults at once.
    """
    if not named and len(positional) == len(names):
        return list(positional)
    faults: list[str] = []
    known, listed = frozenset(names), ", ".join(names) or "none"
    if len(positional) > len(names):
        faults.append(f"{len(positional)} values were passed by position; the inputs are {listed}")
    values: dict[str, object] = dict(zip(names, positional, strict=False))
    for name, value in named.items():
        if name not in known:
            near = meant(name, names)
            faults.append(
                f"there is no input {name!r}; " + (f"did you mean {near!r}?" if near else f"they are {listed}")
            )
        elif name in values:
            faults.append(f"input {name!r} is given twice: by position and by name")
        else:
            values[name] = value
    faults.extend(f"input {name!r} is missing" for name in names if name not in values)
    if faults:
        raise ArgumentError(Diagnostic("TIL705", fault) for fault in faults)
    return [values[name] for name in names]


def ordered_by(names: Sequence[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """Return a function that extracts the values of these names in order, with a KeyError for missing names."""
    return itemgetter(*names) if len(names) > 1 else lambda values: tuple([values[name] for name in names])


def split(arguments: object, what: str = "inputs") -> tuple[tuple[object, ...], Mapping[str, object]]:
    """Return values by position and by name: a lone array is the first value, not a sequence of its rows.

    Raises:
        ArgumentError: TIL707, it is neither a mapping by name nor a sequence in declared order.
    """
    if isinstance(arguments, Mapping):
        return (), arguments
    if isinstance(arguments, np.ndarray | TensorType) or hasattr(arguments, "__dlpack__"):
        return (arguments,), {}
    if not isinstance(arguments, Iterable) or isinstance(arguments, str | bytes):
        message = (
            f"pass the {what} as a mapping by name or a sequence in declared order,"
            f" not as a value of type {type(arguments).__name__}"
        )
        raise ArgumentError.of("TIL707", message)
    return tuple(arguments), {}


def device_meant(device: str | DeviceInfo | None, arguments: object, context: Context) -> str | DeviceInfo | None:
    """Return the named device, or else the device of an array among the arguments; None for neither.

    Raises:
        ArgumentError: TIL707, as :func:`split`; TIL714, no device of the context shares the memory of an array.
    """
    if device is not None or isinstance(arguments, str):
        return device
    positional, named = split(arguments)
    for name, value in (*((f"argument {place}", value) for place, value in enumerate(positional, 1)), *named.items()):
        if type(value) is not np.ndarray and any(hasattr(value, word) for word in _OF_DEVICES):
            from tileir.runtime.devices.array import DeviceArray  # importing tileir must stay cheap
            from tileir.runtime.devices.transfer import device_of, is_foreign

            if isinstance(value, DeviceArray):
                return value.device
            if is_foreign(value):
                return device_of(name, value, context)
    return None


def check_kind(name: str, value: object, kinds: type | UnionType, what: str) -> None:
    """Refuse an argument of another type; ``what`` describes it in words.

    Raises:
        ArgumentError: TIL707.
    """
    if not isinstance(value, kinds):
        raise ArgumentError.of("TIL707", f"{name} is {what}, not a value of type {type(value).__name__}")


def events_of(after: object) -> tuple[Event, ...]:
    """Return the events that a call waits for.

    Raises:
        ArgumentError: TIL707, an object that is not an event was passed.
    """
    what = "a sequence of events, such as pending calls"
    check_kind("after", after, Sequence, what)
    assert isinstance(after, Sequence)
    for each in after:
        if not (hasattr(each, "done") and hasattr(each, "wait")):
            raise ArgumentError.of("TIL707", f"after is {what}; one of them is of type {type(each).__name__}")
    return tuple(after)


def check_options(options: object) -> None:
    """Refuse an object that is neither None nor :class:`~tileir.runtime.interface.Options`.

    Raises:
        ArgumentError: TIL707.
    """
    if options is not None and not isinstance(options, Options):
        message = (
            f"options is a tileir.Options, such as Options(threads=1), not a value of type {type(options).__name__}"
        )
        raise ArgumentError.of("TIL707", message)


@contextmanager
def memory_checked() -> Iterator[None]:
    """Convert out-of-memory errors of allocations to errors of tileir.

    Raises:
        ArgumentError: TIL708.
    """
    try:
        yield
    except MemoryError as error:
        raise out_of_memory(error) from error


def out_of_memory(error: MemoryError) -> ArgumentError:
    """Return the error of tileir for memory exhaustion: TIL708."""
    reason = str(error) or "an allocation failed"
    return ArgumentError.of("TIL708", f"there is not enough memory: {reason}; make the arrays smaller")


def tensor_types(function: tile.Function, description: object) -> dict[str, TensorType]:
    """Return the type of each input of ``function`` from a caller's description.

    ``description`` is a mapping by name, or a sequence in declared order, of arrays, of
    :class:`~tileir.typed.ir.TensorType`, of texts such as ``"f32[2, 3]"``, of (dtype, shape) pairs, of bare shapes,
    with the dtype that the input declares or else f32, of dtypes, for rank 0, or of Python numbers, which adapt to the
    other operands. Integers from which sizes are computed have to be given by value. Inputs without description have
    the type that :func:`declared_types` finds.

    Raises:
        ArgumentError: TIL705 as :func:`bind`, TIL707 as :func:`split`; TIL702 for a description in an unknown form.
    """
    names = [parameter.name for parameter in function.inputs]
    given = (description,) if isinstance(description, str | DType) else description
    positional, named = split(given)
    if not positional and not named.keys() - set(names):
        named = {**declared_types(function), **named}
    values = bind(names, positional, named)
    sizing = sizing_inputs(function)
    return {
        each.name: tensor_type(each.name, value, each.dtype or DType.F32, sizing=each.name in sizing)
        for each, value in zip(function.inputs, values, strict=True)
    }


def declared_types(function: tile.Function) -> dict[str, TensorType]:
    """Return the types of the inputs that ``function`` declares with a dtype and fixed sizes."""
    found: dict[str, TensorType] = {}
    for each in function.inputs:
        sizes = tuple(size.value for size in each.dims or () if isinstance(size, tile.IntLiteral))
        if each.dtype is not None and each.dims is not None and len(sizes) == len(each.dims):
            found[each.name] = TensorType(each.dtype, sizes)
    sizing = sizing_inputs(function) if found else frozenset[str]()
    return {name: kind for name, kind in found.items() if name not in sizing}


def tensor_type(name: str, value: object, dtype: DType = DType.F32, *, sizing: bool = False) -> TensorType:
    """Return the type that one value describes, with ``dtype`` for a bare shape, and the value of an integer for sizes.

    See :func:`tensor_types`.
    """
    if isinstance(value, TensorType):
        if not _is_shape(value.shape):
            raise ArgumentError.of("TIL702", f"{name!r} is described by {value}; sizes are not negative")
        return value
    known = integer_of(value) if sizing else None
    if known is not None and (size := number_type(known)) is not None:
        return attrs.evolve(size, value=known)
    if is_number(value):
        kind = number_type(value)
        if kind is None:
            raise ArgumentError.of("TIL702", f"{name!r} is {value}, which no integer type holds")
        return kind
    if isinstance(value, str | DType):
        return _named_type(name, value)
    if isinstance(value, tuple | list):
        if _is_shape(value):
            return TensorType(dtype, tuple(int(size) for size in value))
        if len(value) == 2 and isinstance(value[1], tuple | list) and _is_shape(value[1]):
            return TensorType(_dtype(name, value[0]), tuple(int(size) for size in value[1]))
        raise ArgumentError.of(
            "TIL702", f"{name!r} is described by {value!r}; pass an array, a shape, or (dtype, shape)"
        )
    found, shape = array_format(name, value)
    element = DType.of(found)
    assert element is not None  # there are no other arrays
    return TensorType(element, shape)


def array_format(name: str, value: object) -> Format:
    """Return dtype and shape of an array, of the host or of a device.

    Raises:
        ArgumentError: TIL702, it is not an array.
    """
    if isinstance(value, np.ndarray):
        array = to_array(name, value)
        return array.dtype, array.shape
    from tileir.driver.calls.operands import format_of  # it loads arrays of devices

    return format_of(name, value)


def type_of_text(text: str) -> TensorType | None:
    """Return the type of a text like ``f32[2, 3]`` or, for rank 0, ``f32[]``; None for a text in another form.

    Raises:
        TileError: TIL702, the dtype does not exist, or the sizes are not separated by commas.
    """
    match = _TYPE.fullmatch(text.strip())
    if match is None:
        return None
    sizes = [part.strip() for part in match["sizes"].split(",")] if match["sizes"].strip() else []
    if not all(size.isdecimal() and len(size) <= _MOST_DIGITS for size in sizes):
        raise fail("TIL702", f"write sizes as in {match['dtype']}[3, 4]")
    return TensorType(match["dtype"], tuple(map(int, sizes)))


def _named_type(name: str, value: str | DType) -> TensorType:
    """Return the type of a text; a dtype alone has rank 0."""
    try:
        found = TensorType(value, ()) if isinstance(value, DType) or value.isidentifier() else type_of_text(value)
    except TileError as error:
        raise ArgumentError(Diagnostic("TIL702", f"{name!r}: {d.message}") for d in error.diagnostics) from None
    if found is None:
        message = f"{name!r} is described by {value!r}; write a dtype and sizes, such as 'f32[2, 3]', or 'f32[]'"
        raise ArgumentError.of("TIL702", message)
    return found


def is_number(value: object) -> TypeGuard[bool | int | float]:
    """Return whether this is a Python number, which has no dtype, unlike those of NumPy."""
    return isinstance(value, bool | int | float) and not isinstance(value, np.generic)


def passed_values(function: Function, types: Mapping[str, TensorType], arguments: Mapping[str, object]) -> list[object]:
    """Return the argument for each input of a typed function, with numbers converted to their adapted dtypes.

    Args:
        function: A typed function; only its inputs and numbers count.
        types: Types that it was inferred for, by the names of the Tile function.
        arguments: Values by these names.

    Raises:
        ArgumentError: TIL701, a number does not fit, or a value of another kind was passed for one, or another value
            for one from which sizes were computed; TIL308, arithmetic on numbers has no result.
    """
    values = dict(arguments)
    faults = [
        Diagnostic("TIL701", _size_problem(name, kind.value, values[name]))
        for name, kind in types.items()
        if kind.value is not None and integer_of(values[name]) != kind.value
    ]
    for name in passed_numbers(function):
        problem = _kind_problem(name, types[name], values[name])
        if problem is not None:
            faults.append(Diagnostic("TIL701", problem))
        elif types[name].dtype.is_float:
            values[name] = _as_float(values[name])
    if faults:
        raise ArgumentError(faults)
    return input_values(function, values)


def integer_of(value: object) -> int | None:
    """Return the integer value of a number or an array of rank 0, of any dtype; None for anything else."""
    if not isinstance(value, np.ndarray | int | float | np.generic) and hasattr(value, "__dlpack__"):
        from tileir.driver.calls.operands import scalar_of  # it loads arrays of devices

        value = scalar_of(value)
    if isinstance(value, np.ndarray) and value.shape == () and np.issubdtype(value.dtype, np.integer):
        return int(value)
    return int(value) if isinstance(value, int | np.integer) and not isinstance(value, bool) else None


def _as_float(value: object) -> object:
    return float(value) if isinstance(value, int) and abs(value) < 1 << 1023 else value


def _size_problem(name: str, known: int, value: object) -> str:
    given = value if is_number(value) or isinstance(value, np.generic | np.ndarray) else type(value).__name__
    return (
        f"input {name!r} is {given!s:.40}, and it was compiled for {known}, from which sizes are computed: pass that,"
        " or compile it for another value, as tileir.jit does"
    )


def _kind_problem(name: str, kind: TensorType, value: object) -> str | None:
    """Return the problem of a value that is passed for a number; floats may be integers."""
    if not is_number(value):
        return (
            f"input {name!r} is a number here, so pass one, such as {name}.item(), not a value of type"
            f" {type(value).__name__}; or compile it for such a value"
        )
    needed = bool if kind.dtype.is_bool else float if kind.dtype.is_float else int
    if type(value) is needed or (needed is float and type(value) is int):
        return None
    article = {bool: "a bool", float: "a float", int: "an integer"}[needed]
    return f"input {name!r} is {value}, and it was compiled for {article}; pass one, or compile it for this kind"


def _is_shape(value: Sequence[object]) -> bool:
    return all(isinstance(size, int | np.integer) and not isinstance(size, bool) and size >= 0 for size in value)


def _dtype(name: str, value: object) -> DType:
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in (dtype.value for dtype in DType):
        return DType(value)
    try:
        found = DType.of(np.dtype(value))  # type: ignore[call-overload]
    except TypeError:
        found = None
    if found is None:
        raise ArgumentError.of("TIL702", f"{name!r}: {value!r} is not a dtype; {dtype_meant(value)}")
    return found
