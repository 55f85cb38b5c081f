"""Arrays that a model is called with, checked against what it declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tileir import ArgumentError, Diagnostic
from tileir_onnx.graph import Port


def checked(ports: Sequence[Port], feeds: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return an array for each input, in order.

    An input has the dtype, the number of axes and the sizes that the model declares. A name among these means one size.
    A first axis of size 1 may have another one: models are often exported for one example.

    Args:
        ports: The inputs.
        feeds: Arrays by their names; lists and numbers become arrays of the declared dtype.
        sizes: The values that dimensions must have, by their names.

    Raises:
        ArgumentError: TIL705, an input is missing, or there is none of a name; TIL701, an array does not fit.

    """
    known = {port.name for port in ports}
    faults = [Diagnostic("TIL705", f"the model has no input {name!r:.80}") for name in feeds if name not in known]
    arrays: dict[str, Any] = {}
    found = dict(sizes)
    for port in ports:
        if port.name not in feeds:
            faults.append(Diagnostic("TIL705", f"input {port.name!r} ({port.word}) is missing"))
            continue
        array = feeds[port.name]
        arrays[port.name] = array = array if hasattr(array, "__dlpack__") else np.asarray(array, port.dtype)
        told = f"input {port.name!r} is {port.word} in the model"
        faults += (Diagnostic("TIL701", f"{told}, {wrong}") for wrong in _wrong(port, array, found))
    if faults:
        raise ArgumentError(faults)
    return arrays


def _wrong(port: Port, array: Any, found: dict[str, int]) -> Iterator[str]:
    """Yield what is wrong with an array, and note the sizes of names that it is the first to have."""
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
