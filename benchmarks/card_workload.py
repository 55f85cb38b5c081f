"""A program for cards beside the calls of PyTorch that do the same, and the sizes that it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tileir import DType

Size = Callable[[int], int]
Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Workload:
    """A program and its peer.

    ``program`` takes tensors of the builder, ``peer`` PyTorch and its tensors; both return a tensor or several.
    ``operations`` counts those of contractions; programs without any are bound by memory. ``fused`` says that the
    compiler of PyTorch makes fewer kernels than the peer has calls. With ``fast_math`` f32 may be rounded to TF32.
    """

    group: str
    name: str
    shapes: Shapes
    dtype: DType
    program: Callable[..., Any]
    peer: Callable[..., Any]
    operations: float = 0
    fused: bool = False
    fast_math: bool = False

    @property
    def is_loop(self) -> bool:
        """Say whether a clock for each launch would slow them; a peer's launches become a graph."""
        return self.group == "scans"

    @property
    def title(self) -> str:
        return f"{self.name} {'tf32' if self.fast_math and self.dtype is DType.F32 else self.dtype.value} " + " ".join(
            "x".join(map(str, shape)) for shape in self.shapes[:2]
        )


def full(size: int) -> int:
    """Return the size as it is."""
    return size


def small(size: int) -> int:
    """Return a small size that is as odd as a large one."""
    return size if size <= 8 else 16 + size % 8
