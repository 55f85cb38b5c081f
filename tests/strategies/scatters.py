"""Programs that add updates to rows that data choose, and arrays for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tileir.core.dtype import DType
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from tileir.stripe.ir import Program


def scattering(
    updates: tuple[int, ...],
    rest: tuple[int, ...],
    size: int,
    dtype: DType = DType.F32,
    terms: str = "D",
    *,
    function: str = "scatter",
) -> Program:
    """Return a program that adds ``terms`` of D, ``[*updates, *rest]``, into ``[size, *rest]``, or puts them there."""
    shapes = {"D": (*updates, *rest), "I": updates, "T": (size, *rest)}
    inputs = ", ".join(f"{name}[{', '.join(f'{name}{n}' for n in range(len(s)))}]" for name, s in shapes.items())
    parsed = parse(f"function ({inputs}) -> (R) {{ R = {function}({terms}, I, T); }}")
    dtypes = {"D": dtype, "I": DType.I32, "T": dtype}
    return lower(infer(parsed, {name: TensorType(dtypes[name], shape) for name, shape in shapes.items()}))


def values(program: Program, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Return small integers, whose sums are exact, and places of which some are outside."""
    found: dict[str, np.ndarray[Any, Any]] = {}
    random = np.random.default_rng(seed)
    memory = {view.name: view.shape for view in program.entry.refinements}
    for name in program.inputs:
        size = memory["T"].sizes[0]
        drawn = random.integers(*((-2, size + 2) if name == "I" else (0, 4)), memory[name].sizes)
        found[name] = drawn.astype(memory[name].dtype.numpy)
    return found


def added(arrays: dict[str, np.ndarray[Any, Any]], terms: str = "D") -> np.ndarray[Any, Any]:
    """Return the sums of ``terms`` of D by NumPy; places outside are those next to them."""
    total, updates = np.zeros_like(arrays["T"]), arrays["D"]
    updates = {"D": updates, "D + 1": updates + 1, "D * D": updates * updates}[terms]
    np.add.at(total, np.clip(arrays["I"], 0, len(total) - 1), updates)
    return total


def replaced(arrays: dict[str, np.ndarray[Any, Any]], terms: str = "D") -> np.ndarray[Any, Any]:
    """Return T with rows replaced by ``terms`` of D, one after the other; places outside are those next to them."""
    rows, updates = arrays["T"].copy(), arrays["D"]
    updates = {"D": updates, "D + 1": updates + 1, "D * D": updates * updates}[terms]
    for place in np.ndindex(arrays["I"].shape):
        rows[np.clip(arrays["I"][place], 0, len(rows) - 1)] = updates[place]
    return rows
