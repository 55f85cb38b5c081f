"""The suite: 31 workloads, each a Tile text with its inputs and what a NumPy user would write instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

import numpy_peer as peer
import texts

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Inputs:
    """Makes the arguments of a text: random numbers of one element type, and those that are no data."""

    shapes: Mapping[str, tuple[int, ...]]
    dtype: type[np.generic] = np.float32
    units: Mapping[str, Array] = field(default_factory=dict)

    def __call__(self) -> dict[str, Array]:
        generator = np.random.default_rng(1)
        if self.dtype is np.int32:
            drawn = {name: generator.integers(-100, 100, shape, np.int32) for name, shape in self.shapes.items()}
        else:
            drawn = {n: generator.standard_normal(shape).astype(self.dtype) for n, shape in self.shapes.items()}
        return {**drawn, **self.units}

    def types(self) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
        """Return the element type and the shape of each argument, without making any."""
        units = {name: (unit.dtype, unit.shape) for name, unit in self.units.items()}
        return {**{name: (np.dtype(self.dtype), shape) for name, shape in self.shapes.items()}, **units}


@dataclass(frozen=True)
class Workload:
    """One row of the table.

    Attributes:
        name: What it is called in every table.
        text: The Tile function.
        inputs: The arguments, in the order of the text's parameters.
        numpy: Computes the same from those arguments.
        shape: Shape of the result.
        operations: Additions and multiplications; a multiply-add counts 2.
        nbytes: Compulsory traffic: each input read once, each output written once.
        bound: The peak that the rate is compared with: "f32", "f64", "i32" or "memory".
        tolerance: Largest error against a result in f64, relative to the result's largest element.
        dtype: Element type of the result.
    """

    name: str
    text: str
    inputs: Inputs
    numpy: Callable[[dict[str, Array], Array], None]
    shape: tuple[int, ...]
    operations: float
    nbytes: float
    bound: str = "memory"
    tolerance: float = 1e-4
    dtype: type[np.generic] = np.float32

    def call_inputs(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """Return the arguments of the text: arrays that somebody else made under the same letters, and a unit."""
        return {**{name.upper(): array for name, array in arrays.items()}, **self.inputs.units}


def _matmul(
    name: str, rows: int, depth: int, columns: int, bound: str = "f32", dtype: type[np.generic] = np.float32
) -> Workload:
    nbytes = np.dtype(dtype).itemsize * (rows * depth + depth * columns + rows * columns)
    tolerance = {np.float32: 1e-4, np.float64: 1e-11, np.int32: 0.0}[dtype]
    inputs = Inputs({"A": (rows, depth), "B": (depth, columns)}, dtype)
    return Workload(
        name, texts.MATMUL, inputs, peer.product, (rows, columns), 2.0 * rows * depth * columns, nbytes, bound,
        tolerance, dtype,
    )  # fmt: skip


def _convolution(
    data: tuple[int, int, int, int],
    features: int,
    kernel: int,
    *,
    stride: int = 1,
    dilation: tuple[int, int] = (1, 1),
    name: str = "",
) -> Workload:
    batch, height, width, channels = data
    text, (rows, columns) = texts.convolution(height, width, kernel, stride=stride, dilation=dilation)
    weights, shape = (kernel, kernel, channels, features), (batch, rows, columns, features)
    spelt = f"conv{kernel}x{kernel}{name}_{batch}x{height}x{width}x{channels}_{features}"
    nbytes = 4.0 * sum(int(np.prod(dims)) for dims in (data, weights, shape))
    operations = 2.0 * int(np.prod(shape)) * channels * kernel * kernel
    inputs = Inputs({"X": data, "W": weights})
    return Workload(spelt, text, inputs, peer.convolution(stride, dilation), shape, operations, nbytes, "f32")


def _over(name: str, text: str, numpy: Callable[[dict[str, Array], Array], None], shape: tuple[int, ...], *,
          result: tuple[int, ...] | None = None, names: str = "X", per_element: float = 1.0, exact: bool = False,
          dtype: type[np.generic] = np.float32) -> Workload:  # fmt: skip
    """Return a workload that is bound by memory: inputs of one shape, and a result."""
    written = shape if result is None else result
    elements = int(np.prod(shape))
    nbytes = 4.0 * (elements * len(names) + int(np.prod(written)))
    inputs = Inputs(dict.fromkeys(names, shape))
    tolerance = 0.0 if exact else 1e-4
    return Workload(name, text, inputs, numpy, written, per_element * elements, nbytes, "memory", tolerance, dtype)


_ROWS: Final = (4096, 1024)
_SQUARE: Final = (4096, 4096)
_LONG: Final = (1 << 24,)


def _layer_norm() -> Workload:
    inputs = Inputs({"X": _ROWS, "G": _ROWS[1:], "B": _ROWS[1:]})
    count = _ROWS[0] * _ROWS[1]
    return Workload(
        "layernorm_4096x1024", texts.LAYER_NORM, inputs, peer.layer_norm, _ROWS, 8.0 * count, 8.0 * count
    )  # fmt: skip


def _place_of_maximum() -> Workload:
    inputs = Inputs({"X": _SQUARE}, units={"U": np.array(1, np.float32)})
    return Workload(
        "argmax_axis1_4096x4096", texts.PLACE_OF_MAXIMUM, inputs, peer.place_of_maximum, (4096,), 2.0**24, 2.0**26,
        tolerance=0.0, dtype=np.int32,
    )  # fmt: skip


def _batched() -> Workload:
    shape = (32, 128, 128)
    return Workload(
        "bmm_32x128x128x128", texts.BATCHED, Inputs({"A": shape, "B": shape}), peer.product, shape, 2.0 * 32 * 128**3,
        12.0 * 32 * 128**2, "f32",
    )  # fmt: skip


def _depthwise() -> Workload:
    shape = (1, 112, 112, 64)
    count = 112 * 112 * 64
    inputs = Inputs({"X": shape, "W": (3, 3, 64)})
    return Workload(
        "dwconv3x3_1x112x112x64", texts.DEPTHWISE, inputs, peer.depthwise, shape, 18.0 * count, 4.0 * (2 * count + 576)
    )  # fmt: skip


def _attention() -> Workload:
    shape = (16, 512, 64)
    inputs = Inputs(dict.fromkeys("QKV", shape))
    operations = 4.0 * 16 * 512 * 512 * 64 + 5.0 * 16 * 512 * 512
    return Workload(
        "attention_16x512x64", texts.ATTENTION, inputs, peer.attention, shape, operations, 16.0 * 16 * 512 * 64, "f32"
    )


WORKLOADS: Final = (
    *(_matmul(f"sgemm_{size}", size, size, size) for size in (64, 256, 512, 1024, 2048)),
    _matmul("sgemm_4096x64x64", 4096, 64, 64),
    _matmul("gemv_1x4096x4096", 1, 4096, 4096, "memory"),
    _batched(),
    _convolution((1, 56, 56, 64), 64, 3),
    _convolution((8, 28, 28, 128), 128, 3),
    _convolution((1, 56, 56, 256), 64, 1),
    _convolution((1, 56, 56, 64), 64, 3, dilation=(2, 3), name="_dil2x3"),
    _convolution((1, 224, 224, 3), 64, 7, stride=2, name="s2"),
    _depthwise(),
    _over("maxpool2x2_8x112x112x64", texts.MAXIMUM_POOL, peer.maximum_pool, (8, 112, 112, 64), result=(8, 56, 56, 64),
          per_element=0.75, exact=True),
    _over("softmax_4096x1024", texts.SOFTMAX, peer.softmax, _ROWS, per_element=5),
    _layer_norm(),
    _over("sum_axis0_4096x4096", texts.SUM_COLUMNS, peer.total(0), _SQUARE, result=(4096,)),
    _over("sum_axis1_4096x4096", texts.SUM_ROWS, peer.total(1), _SQUARE, result=(4096,)),
    _over("max_2^26", texts.MAXIMUM, peer.maximum, (1 << 26,), result=(), exact=True),
    _place_of_maximum(),
    _over("cumsum_8192", texts.RUNNING_SUM, peer.running_sum, (8192,)),
    _over("cumsum_axis1_1024x1024", texts.RUNNING_SUM_OF_ROWS, peer.running_sum, (1024, 1024)),
    _over("ewchain_2^24", texts.CHAIN, peer.chain, _LONG, names="ABCD", per_element=5),
    _over("gelu_tanh_2^24", texts.GELU, peer.gelu, _LONG, per_element=8),
    _over("stencil3_4096x4096", texts.STENCIL_3, peer.stencil_3, _SQUARE, result=(4096, 4094), per_element=5),
    _over("stencil5_4096x4096", texts.STENCIL_5, peer.stencil_5, _SQUARE, result=(4094, 4094), per_element=6),
    _over("transpose_4096x4096", texts.TRANSPOSE, peer.transpose, _SQUARE, per_element=0, exact=True),
    _matmul("igemm_512_int32", 512, 512, 512, "i32", np.int32),
    _matmul("dgemm_512_float64", 512, 512, 512, "f64", np.float64),
    _attention(),
)  # fmt: skip
"""All workloads, by the names that the peers' tables use."""
