"""Validation of a model's arguments against its declarations."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from tileir import ArgumentError, Diagnostic
from tileir_onnx.graph import DTYPES, Given, Port

KINDS: Final = MappingProxyType({dtype: kind for kind, dtype in DTYPES.items()})


def checked(
    ports: Sequence[Port], feeds: Mapping[str, Any], sizes: Mapping[str, int], defaults: Sequence[Port] = ()
) -> dict[str, Any]:
    """Return an array for each input, in order; a tuple of arrays for a sequence; None for an omitted optional input.

    An input has the dtype, the rank and the sizes that the model declares. A named size has one value everywhere. A
    first axis of size 1 may have another size: models are often exported for one example.

    Args:
        ports: The inputs.
        feeds: Arrays by input names; lists and numbers become arrays of the declared dtype.
        sizes: Required values of dimensions, by name.
        defaults: Inputs that have values already, and are returned only if they are fed.

    Raises:
        ArgumentError: TIL705, an input is missing or unknown; TIL701, an array does not fit.
    """
    known = {port.name for port in (*ports, *defaults)}
    faults = [Diagnostic("TIL705", f"the model has no input {name!r:.80}") for name in feeds if name not in known]
    arrays: dict[str, Any] = {}
    found = dict(sizes)
    for port in (*ports, *(port for port in defaults if port.name in feeds)):
        value = feeds.get(port.name)
        if value is None and port.kind == "optional":
            arrays[port.name] = None
            continue
        if value is None:
            faults.append(Diagnostic("TIL705", f"input {port.name!r} ({port.word}) is missing"))
            continue
        told = f"input {port.name!r} is {port.word} in the model"
        try:
            arrays[port.name] = array = _array(port, value)
        except (TypeError, ValueError, OverflowError) as error:
            faults.append(Diagnostic("TIL701", f"{told}, and {type(value).__name__} was passed: {error}"))
            continue
        faults += (Diagnostic("TIL701", f"{told}, {wrong}") for wrong in _wrong(port, array, found))
    if faults:
        raise ArgumentError(faults)
    return arrays


def _array(port: Port, value: Any) -> Any:
    if isinstance(value, list | tuple) and isinstance(port.kind, str):
        return tuple(np.asarray(each) for each in value)
    return value if hasattr(value, "__dlpack__") else np.asarray(value, port.dtype)


def described(port: Port, value: Any, by_value: Collection[str]) -> Given:
    """Return the importer's description of a fed input: its type, or its value if requested."""
    if isinstance(value, tuple):
        return tuple(described(Port(f"{port.name}[{n}]", "", None), each, by_value) for n, each in enumerate(value))
    if value is None:
        return None
    if port.name in by_value:
        return np.asarray(value)
    kind = KINDS[value.dtype] if isinstance(port.kind, str) else port.kind
    return Port(port.name, kind, tuple(map(int, value.shape)))


def key_of(given: Given) -> Hashable:
    """Return the key of an input for which a model is compiled anew."""
    if isinstance(given, tuple):
        return tuple(map(key_of, given))
    return (given.shape, given.tobytes()) if isinstance(given, np.ndarray) else given


def pairs(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield inputs of the function by name, several for a sequence."""
    if isinstance(value, tuple):
        for number, each in enumerate(value):
            yield from pairs(f"{name}[{number}]", each)
    elif value is not None:
        yield name, value


def _wrong(port: Port, array: Any, found: dict[str, int]) -> Iterator[str]:
    """Yield faults of an array, and record sizes of names on their first occurrence."""
    if isinstance(port.kind, str):
        given = array if isinstance(array, tuple) else (array,)
        yield from (f"and has {each.dtype}, which tileir has not" for each in given if each.dtype not in KINDS)
        return
    if port.dtype is None:
        yield "which tileir has no elements of"
        return
    if isinstance(array, np.ndarray) and array.dtype != port.dtype:
        yield f"and {array.dtype} was passed: convert it"
    if port.dims is None:
        return
    shape = tuple(array.shape)
    if len(shape) != len(port.dims):
        yield f"and has {len(shape)} axes here: {shape}"
        return
    for axis, (size, dim) in enumerate(zip(shape, port.dims, strict=True)):
        if isinstance(dim, str):
            if found.setdefault(dim, size) != size:
                yield f"where {dim!r} is {found[dim]}, and has sizes {shape} here"
        elif dim is not None and size != dim and (axis, dim) != (0, 1):
            yield f"and has sizes {shape} here"
