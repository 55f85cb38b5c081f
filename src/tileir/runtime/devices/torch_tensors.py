"""Fast access to PyTorch tensors: NumPy arrays for tensors in the host's memory.

``torch.Tensor.numpy`` takes half a microsecond, and DLPack's methods, written in Python, several. PyTorch is not
imported here: callers that pass tensors have imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tileir.core.dtype import DType

if TYPE_CHECKING:
    from tileir.runtime.arrays import Array


def values_of(value: Any) -> Any:
    """Return a readable tensor whose memory has its values and whose gradient is not recorded; other values unchanged.

    Network parameters are thus read as plain numbers. A tensor computed with recorded gradients stays unchanged, so
    that its library refuses to export it, which would silently end the record. PyTorch would export elements whose sign
    differs from their memory, such as ``conj().imag``, with the wrong sign.
    """
    if getattr(value, "requires_grad", False) and (getattr(value, "is_leaf", False) or not _is_recording()):
        value = value.detach()
    return value.resolve_neg() if _is_negated(value) else value


def memory_of(value: Any) -> Any:
    """Return a writable tensor; other values unchanged.

    A tensor that requires a gradient stays unchanged while gradients are recorded, so that its library refuses it.

    Raises:
        BufferError: Its elements have the opposite sign of its memory.
    """
    if _is_negated(value):
        raise BufferError("its elements have the other sign than its memory; pass tensor.resolve_neg()")
    return value.detach() if getattr(value, "requires_grad", False) and not _is_recording() else value


def host_array(value: Any, *, written: bool = False) -> Array | None:
    """Return the memory of a tensor as a NumPy array; None for other values, and if it takes more than that.

    Args:
        value: Any object.
        written: Whether it will be written to.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor) or not value.is_cpu:
        return None
    return _seen_by_numpy(value, written=written)


def quicker(values: Sequence[Any]) -> list[Any] | None:
    """Return values with NumPy arrays for tensors in the host's memory, and plain tensors for parameters on a card.

    None if this changes nothing, or a value is neither a NumPy array nor a tensor.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    found: list[Any] = []
    changed = False
    for value in values:
        if type(value) is np.ndarray:
            found.append(value)
            continue
        if not isinstance(value, torch.Tensor):
            return None
        plain = _seen_by_numpy(value) if value.is_cpu else values_of(value)
        if plain is None:
            return None
        changed = changed or plain is not value
        found.append(plain)
    return found if changed else None


def _seen_by_numpy(tensor: Any, *, written: bool = False) -> Array | None:
    """Return a tensor's host memory; None if that takes more steps, or is refused."""
    try:
        if tensor.requires_grad:
            tensor = memory_of(tensor) if written else values_of(tensor)
        known = _unknown_to_numpy().get(tensor.dtype)
        if known is None:
            array: Array = tensor.numpy()
            return array
        integers, dtype = known
        array = tensor.view(integers).numpy()  # which refuses negated tensors
        return array.view(dtype)
    except Exception:  # foreign code may raise anything, and DLPack gives the reason
        return None


def _is_negated(value: Any) -> bool:
    return hasattr(value, "resolve_neg") and value.is_neg()


def _is_recording() -> bool:
    torch = sys.modules.get("torch")
    return torch is None or torch.is_grad_enabled()


@cache
def _unknown_to_numpy() -> Mapping[Any, tuple[Any, np.dtype[Any]]]:
    """Return a mapping of PyTorch dtypes unknown to NumPy to integers of their size and the dtype here."""
    torch: Any = sys.modules["torch"]
    names = {"bfloat16": DType.BF16, "float8_e4m3fn": DType.F8E4M3FN, "float8_e5m2": DType.F8E5M2}
    integers = {1: torch.uint8, 2: torch.int16}
    return {getattr(torch, name): (integers[dtype.itemsize], dtype.numpy) for name, dtype in names.items()}
