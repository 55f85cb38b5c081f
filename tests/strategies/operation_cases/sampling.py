"""Cases of images seen through grids."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fuzz.wide.images import cubic_neighbours
from strategies.operations import Case, sample
from tileir import ops

if TYPE_CHECKING:
    from strategies.operations import Array

_IMAGE: Final = sample(2, 3, 4, 5)
_GRID: Final = sample(2, 2, 3, 2, low=-1.6, high=1.6, seed=1)


def sampled(x: Array, grid: Array, mode: str, padding: str, align: bool) -> Array:
    """Return the definition, point by point."""
    result = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for place in np.ndindex(grid.shape[:-1]):
        parts = [
            [_neighbours(g, size, mode, padding, align)] for g, size in zip(grid[place][::-1], x.shape[2:], strict=True)
        ]
        for corner in itertools.product(*(part[0] for part in parts)):
            element, weight = tuple(p for p, _ in corner), float(np.prod([w for _, w in corner]))
            if all(0 <= p < size for p, size in zip(element, x.shape[2:], strict=True)):
                result[(place[0], slice(None), *place[1:])] += weight * x[(place[0], slice(None), *element)]
    return result


def _neighbours(g: float, size: int, mode: str, padding: str, align: bool) -> list[tuple[int, float]]:
    p = (g + 1) / 2 * (size - 1) if align else ((g + 1) * size - 1) / 2
    if padding == "reflection":
        low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
        while not low <= p <= high:
            p = 2 * low - p if p < low else 2 * high - p
    if padding != "zeros":
        p = min(max(p, 0.0), size - 1.0)
    if mode == "nearest":
        return [(round(p), 1.0)]
    if mode == "cubic":
        return cubic_neighbours(np.longdouble(g), size, mode, padding, align)
    low_one = int(np.floor(p))
    return [(low_one, 1 - (p - low_one)), (low_one + 1, p - low_one)]


def _case(mode: str, padding: str, align: bool) -> Case:
    def torch(module: Any, x: Any, grid: Any) -> Any:
        name = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
        return module.nn.functional.grid_sample(x, grid, name, padding, align)

    return Case(
        f"{mode}_{padding}{'_aligned' if align else ''}",
        lambda x, grid: ops.grid_sample(x, grid, mode=mode, padding=padding, align_corners=align),
        {"X": _IMAGE, "G": _GRID},
        lambda x, grid: sampled(x, grid, mode, padding, align),
        torch,
        wrt=("X",) if mode == "nearest" else None,
        tolerance=5,
    )


CASES: Final = (
    _case("linear", "zeros", False),
    _case("linear", "zeros", True),
    _case("linear", "border", False),
    _case("linear", "reflection", False),
    _case("linear", "reflection", True),
    _case("nearest", "zeros", False),
    _case("nearest", "reflection", True),
    *(_case("cubic", padding, align) for padding in ("zeros", "border", "reflection") for align in (False, True)),
    Case(
        "line",
        ops.grid_sample,
        {"X": sample(1, 2, 5), "G": sample(1, 4, 1, low=-1.5, high=1.5, seed=1)},
        lambda x, grid: sampled(x, grid, "linear", "zeros", False),
    ),
    *(
        Case(
            f"affine{'_aligned' if align else ''}",
            lambda m, align=align: ops.affine_grid(m, (3, 4), align_corners=align),
            {"M": sample(2, 2, 3)},
            lambda m, align=align: _affine(m, (3, 4), align),
            lambda torch, m, align=align: torch.nn.functional.affine_grid(m, (2, 1, 3, 4), align),
        )
        for align in (False, True)
    ),
)


def _affine(matrix: Array, sizes: tuple[int, ...], align: bool) -> Array:
    lines = [np.linspace(-1, 1, n) if align else (2 * np.arange(n) + 1) / n - 1 for n in sizes]
    points = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(sizes)], -1)
    result: Array = np.einsum("nij,...j->n...i", matrix, points)
    return result
