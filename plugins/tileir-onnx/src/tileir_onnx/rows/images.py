"""Resizing of images, and sampling by grids."""

from __future__ import annotations

from collections.abc import Sequence

from tileir import ops
from tileir.tile.builder import Tensor
from tileir_onnx.graph import Array
from tileir_onnx.importing import Call
from tileir_onnx.rows.arguments import like, sizes as sizes_of
from tileir_onnx.rows.table import row


@row("Upsample", until=7)
def upsample_1(call: Call, x: Tensor, *, height_scale: float, width_scale: float, mode: str = "nearest") -> Tensor:
    return _scaled(x, [1.0] * (x.rank - 2) + [height_scale, width_scale], mode)


@row("Upsample", since=7, until=9)
def upsample_7(call: Call, x: Tensor, *, scales: Sequence[float], mode: str = "nearest") -> Tensor:
    return _scaled(x, list(scales), mode)


@row("Upsample", since=9, known=("scales",))
@row("Resize", since=10, until=11, known=("scales",))
def upsample(call: Call, x: Tensor, scales: Array, *, mode: str = "nearest") -> Tensor:
    return _scaled(x, [float(each) for each in scales], mode)


def _scaled(x: Tensor, scales: list[float], mode: str) -> Tensor:
    kind = "linear" if mode in ("bilinear", "trilinear") else mode
    y = ops.resize(x, scales=scales, mode=kind, coordinates="asymmetric", nearest="floor")
    return like(y, x)


@row("Resize", since=11, known=("roi", "scales", "sizes"))
def resize(
    call: Call,
    x: Tensor,
    roi: Array | None = None,
    scales: Array | None = None,
    sizes: Array | None = None,
    *,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    wanted = None if sizes is None or not sizes.size else sizes_of(sizes)
    y = ops.resize(
        x,
        wanted,
        scales=None if wanted else [float(each) for each in scales],  # type: ignore[union-attr]  # one of them is there
        axes=axes,
        mode=mode,
        coordinates=_RENAMED.get(coordinate_transformation_mode, coordinate_transformation_mode),
        nearest=nearest_mode,
        coefficient=cubic_coeff_a,
        antialias=bool(antialias),
        exclude_outside=bool(exclude_outside),
        roi=None if roi is None or not roi.size else [float(each) for each in roi],
        extrapolation_value=extrapolation_value,
        policy=keep_aspect_ratio_policy,
    )
    return like(y, x)


_RENAMED = {"tf_half_pixel_for_nn": "half_pixel"}


@row("GridSample", since=16)
def grid_sample(
    call: Call,
    x: Tensor,
    grid: Tensor,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Tensor:
    kind = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    y = ops.grid_sample(x, grid, mode=kind, padding=padding_mode, align_corners=bool(align_corners))
    return like(y, x)


@row("AffineGrid", since=20, known=("size",))
def affine_grid(call: Call, theta: Tensor, size: Array, *, align_corners: int = 0) -> Tensor:
    return ops.affine_grid(theta, sizes_of(size)[2:], align_corners=bool(align_corners))
