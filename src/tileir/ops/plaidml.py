"""PlaidML's names for equivalent operations: ``tileir.ops.plaidml.Summation`` is ``tileir.ops.sum``.

Names that PlaidML and the library share are not listed, and neither are operations whose options differ.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from tileir.ops.shared.foundation import Tensor

ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "All": "all",
        "Any": "any",
        "BinaryCrossentropy": "binary_crossentropy",
        "Cast": "cast",
        "Concatenate": "concatenate",
        "Convolution": "conv",
        "ConvolutionTranspose": "conv_transpose",
        "CumulativeProd": "cumprod",
        "CumulativeSum": "cumsum",
        "Dot": "dot",
        "Elu": "elu",
        "Equal": "equal",
        "Flatten": "flatten",
        "Gather": "take",
        "Gemm": "gemm",
        "ImagePatches": "image_patches",
        "IsMax": "is_max",
        "LogSoftmax": "log_softmax",
        "MatMul": "matmul",
        "MaxReduce": "max",
        "Mean": "mean",
        "MinReduce": "min",
        "NotEqual": "not_equal",
        "Pow": "pow",
        "Prod": "prod",
        "Relu": "relu",
        "Reshape": "reshape",
        "Softmax": "softmax",
        "Sqrt": "sqrt",
        "Summation": "sum",
        "Variance": "variance",
        "broadcast": "broadcast_to",
        "ceiling": "ceil",
        "convolution": "conv",
        "explicit_padding": "pad",
        "gather": "take",
        "l2norm": "l2_normalise",
        "lrn": "local_response_norm",
        "mvn": "mean_variance_norm",
        "topk": "top_k",
    }
)
"""The library's name for each of PlaidML's."""


def __getattr__(name: str) -> Callable[..., Tensor]:
    """Return the operation with PlaidML's name ``name``."""
    if name not in ALIASES:
        raise AttributeError(f"PlaidML has no operation {name!r} that means the same as one of tileir.ops")
    operation: Callable[..., Tensor] = getattr(importlib.import_module("tileir.ops"), ALIASES[name])
    return operation


def __dir__() -> list[str]:
    return sorted(ALIASES)
