"""Tensors of PyTorch as what is read the fastest: arrays of NumPy for those in the host's memory.

``torch.Tensor.numpy`` takes half a microsecond, and DLPack's methods, written in Python, several. Nothing here imports
PyTorch: who passes a tensor has done so.
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
    """Return a tensor to read whose memory is its values and whose gradient nobody wants; other values as they are.

    So parameters of a network are read as the numbers that they are. A tensor that was computed while gradients are
    recorded stays as it is, and its library refuses to hand it out: the record would end here in silence. Elements of
    the other sign than the memory, as those of ``conj().imag`` are, PyTorch would hand out with the wrong sign.
    """
    if getattr(value, "requires_grad", False) and (getattr(value, "is_leaf", False) or not _is_recording()):
        value = value.detach()
    return value.resolve_neg() if _is_negated(value) else value


def memory_of(value: Any) -> Any:
    """Return a tensor to write to; other values as they are.

    A tensor whose gradient is wanted stays as it is while gradients are recorded, so that its library refuses it.

    Raises:
        BufferError: Its elements have the other sign than its memory.

    """
    if _is_negated(value):
        raise BufferError("its elements have the other sign than its memory; pass tensor.resolve_neg()")
    return value.detach() if getattr(value, "requires_grad", False) and not _is_recording() else value


def host_array(value: Any, *, written: bool = False) -> Array | None:
    """Return the memory of a tensor as an array of NumPy; None for anything else, and for what takes more than that.

    Args:
        value: Anything.
        written: Whether it will be written to.

    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor) or not value.is_cpu:
        return None
    return _seen_by_numpy(value, written=written)


def quicker(values: Sequence[Any]) -> list[Any] | None:
    """Return values with arrays of NumPy for tensors in the host's memory, and parameters of a card as plain tensors.

    None where this changes nothing, or a value is neither an array of NumPy nor a tensor.
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
    """Return the memory of a tensor in that of the host; None where that takes more, or is refused."""
    try:
        if tensor.requires_grad:
            tensor = memory_of(tensor) if written else values_of(tensor)
        known = _unknown_to_numpy().get(tensor.dtype)
        if known is None:
            array: Array = tensor.numpy()
            return array
        integers, dtype = known
        array = tensor.view(integers).numpy()  # which refuses what is negated
        return array.view(dtype)
    except Exception:  # code of others may fail in any way, and DLPack says why
        return None


def _is_negated(value: Any) -> bool:
    return hasattr(value, "resolve_neg") and value.is_neg()


def _is_recording() -> bool:
    torch = sys.modules.get("torch")
    return torch is None or torch.is_grad_enabled()


@cache
def _unknown_to_numpy() -> Mapping[Any, tuple[Any, np.dtype[Any]]]:
    """Return, for dtypes of PyTorch without an equal in NumPy, integers of the same size and the dtype here."""
    torch: Any = sys.modules["torch"]
    names = {"bfloat16": DType.BF16, "float8_e4m3fn": DType.F8E4M3FN, "float8_e5m2": DType.F8E5M2}
    integers = {1: torch.uint8, 2: torch.int16}
    return {getattr(torch, name): (integers[dtype.itemsize], dtype.numpy) for name, dtype in names.items()}
