"""Features of a device that the text of kernels may use: a plain value, made from the driver's reports."""

from __future__ import annotations

from typing import Final

from tileir.core.nodes import attrs

WIDEST_UPDATE: Final = 4
"""Bytes of the widest element that devices of OpenCL 1.2 update as one step."""

SPELT: Final = ("mma_m16n8k16_f16", "mma_m16n8k16_bf16", "mma_m16n8k8_f32")
"""The matrix fragments that have statements of PTX, as :mod:`tileir.core.fragments` names them."""


@attrs.frozen
class Features:
    """Facts of one device, or of what several have in common.

    Attributes:
        version: Of OpenCL C.
        fp64: Whether double precision exists; kernels with f64 are refused without it.
        fp16: Whether ``half`` is a type of values (``cl_khr_fp16``). Where it is not, only memory holds halves.
        ptx: Whether kernels may have statements of PTX for a processor with asynchronous copies and products of
            matrices (NVIDIA's compute capability 8.0).
        max_lanes: Most lanes of a vector: 1, 2, 4, 8 or 16. Wider vectors of a kernel are split.
        max_vector_bytes: Most bytes of a vector, where the driver cannot be trusted with all that the language has.

    """

    version: tuple[int, int] = (1, 2)
    fp64: bool = True
    fp16: bool = False
    ptx: bool = False
    max_lanes: int = 16
    max_vector_bytes: int = 128
