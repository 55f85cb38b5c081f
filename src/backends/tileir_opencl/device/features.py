"""Features of a device for the text of kernels: a plain value, made from the driver's reports."""

from __future__ import annotations

from typing import Final

from tileir.core.nodes import attrs

WIDEST_UPDATE: Final = 4
"""Bytes of the widest element with atomic updates in OpenCL 1.2."""

SPELT: Final = ("mma_m16n8k16_f16", "mma_m16n8k16_bf16", "mma_m16n8k8_f32")
"""Matrix fragments with PTX statements, as named in :mod:`tileir.core.fragments`."""


@attrs.frozen
class Features:
    """Features of one device, or common features of several.

    Attributes:
        version: Version of OpenCL C.
        fp64: Whether double precision exists; kernels with f64 are refused without it.
        fp16: Whether ``half`` is an arithmetic type (``cl_khr_fp16``). Otherwise, halves only exist in memory.
        ptx: Whether kernels may have PTX statements for a processor with asynchronous copies and matrix products
            (NVIDIA's compute capability 8.0).
        max_lanes: Maximum lanes of a vector: 1, 2, 4, 8 or 16. Wider vectors of a kernel are split.
        max_vector_bytes: Maximum bytes of a vector, if the driver is unreliable with wider vectors.
    """

    version: tuple[int, int] = (1, 2)
    fp64: bool = True
    fp16: bool = False
    ptx: bool = False
    max_lanes: int = 16
    max_vector_bytes: int = 128
