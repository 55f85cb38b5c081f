"""Advice for unsupported objects and memory that cannot be shared: one sentence for each refusal."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from tileir.core.dtype import DType
from tileir.runtime.devices.dlpack import HOST_KINDS, place_of

_TO_DENSE: Final = ("to_dense", "toarray", "todense", "to_numpy")
_TO_FILL: Final = ("filled", "fillna", "fill_null")
_TO_HOST: Final = ("numpy", "cpu", "get", "to_host", "copy_to_host")


def advice_on(value: Any, error: Exception) -> str:
    """Return advice on memory that cannot be shared; nothing if the error gives it."""
    place = place_of(value)
    if place is not None and place[0] not in HOST_KINDS:
        return f"; move it to the host's memory first{way_to_host(value)}"
    if type(value).__name__.endswith("Tracer"):
        return "; it has no elements while it is traced: call this outside, or by a callback such as jax.pure_callback"
    if getattr(value, "requires_grad", False):
        return "; or do this under torch.no_grad(), since no gradient is recorded here"
    if getattr(value, "is_meta", False):
        return "; it has no elements: make it on the host"
    if getattr(value, "is_quantized", False):
        return "; make floats of it first, by its method dequantize()"
    if "layout" in str(error) and (method := _method_of(value, _TO_DENSE)):
        return f"; make it dense first, by its method {method}()"
    if "dtype" in str(error).lower() or " type" in str(error).lower():
        return f"; convert it to one of {', '.join(dtype.value for dtype in DType)}"
    return ""


def advice_for(value: Any) -> str:
    """Return advice on an alternative to an object that is not an array."""
    kind = type(value).__name__
    if isinstance(value, list | tuple | range):
        return f"of type {kind}; pass a NumPy array, for instance numpy.asarray(...)"
    if isinstance(value, bytes):
        return f"of type {kind}, which has no dtype; pass numpy.frombuffer(..., dtype)"
    if isinstance(value, complex):
        return f"of type {kind}, which has no dtype here; pass its real and its imaginary part"
    if isinstance(value, numbers.Number) or kind == "Decimal":
        return f"of type {kind}; pass float(...)"
    if method := _method_of(value, ("toarray", "to_dense", "todense")):
        return f"of type {kind}, which is sparse; make it dense first, by its method {method}()"
    if method := _method_of(value, ("as_py", "item")):
        return f"of type {kind}; pass what its method {method}() returns"
    if hasattr(value, "__iter__") and not isinstance(value, str):
        return f"of type {kind}; pass a NumPy array, for instance numpy.array(list(...))"
    return f"of type {kind}; pass an array, of NumPy say"


def missing_elements(value: Any) -> str | None:
    """Return advice on masked or null elements; None if there is no sign of them."""
    if not _is_lacking(value):
        return None
    return f"fill them first, with {_method_of(value, _TO_FILL) or 'filled'}(...)"


def way_to_host(value: object) -> str:
    """Return an object's method for copying it to the host, as advice; nothing if it has none."""
    method = _method_of(value, _TO_HOST)
    return f", such as by its method {method}()" if method else ""


def _is_lacking(value: Any) -> bool:
    count = getattr(value, "null_count", 0)  # Arrow's nulls: unknown to DLPack, NaN by NumPy's interfaces
    if isinstance(count, int) and count:
        return True
    return bool(np.ma.is_masked(value))


def _method_of(value: object, names: Iterable[str]) -> str | None:
    return next((name for name in names if callable(getattr(value, name, None))), None)
