"""Advice for names of other libraries, and for mistyped names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from tileir.core.dtype import DType
from tileir.core.text.names import most_alike

ELSEWHERE: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("avg_pool", "avg_pool1d", "avg_pool2d", "avg_pool3d", "mean_pool"), "average_pool"),
        **dict.fromkeys(("max_pool1d", "max_pool2d", "max_pool3d"), "max_pool"),
        **dict.fromkeys(("conv1d", "conv2d", "conv3d", "convolution", "conv_general_dilated"), "conv"),
        **dict.fromkeys(
            ("conv1d_transpose", "conv2d_transpose", "conv_transpose2d", "deconvolution"), "conv_transpose"
        ),
        **dict.fromkeys(("depthwise_conv2d",), "depthwise_conv"),
        **dict.fromkeys(("concat", "cat", "hstack", "vstack"), "concatenate"),
        **dict.fromkeys(("mm", "bmm", "matrix_multiply"), "matmul"),
        **dict.fromkeys(("batch_normalization", "batchnorm"), "batch_norm"),
        **dict.fromkeys(("layer_normalization", "layernorm"), "layer_norm"),
        **dict.fromkeys(("amax", "reduce_max"), "max"),
        **dict.fromkeys(("amin", "reduce_min"), "min"),
        **dict.fromkeys(("average", "reduce_mean"), "mean"),
        **dict.fromkeys(("view",), "reshape"),
        **dict.fromkeys(("clamp",), "clip"),
        **dict.fromkeys(("swish",), "silu"),
        **dict.fromkeys(("expit",), "sigmoid"),
        **dict.fromkeys(("gather",), "take_along_axis"),
        "reduce_sum": "sum",
        "reduce_prod": "prod",
        "absolute": "abs",
        "power": "pow",
        "topk": "top_k",
        "arcsin": "asin",
        "arccos": "acos",
        "arctan": "atan",
        "arctan2": "atan2",
        "grad": "gradient",
        "value_and_grad": "gradient",
        "float16": "f16",
        "half": "f16",
        "bfloat16": "bf16",
        "fp32": "f32",
        "float32": "f32",
        "float": "f32",
        "fp64": "f64",
        "float64": "f64",
        "double": "f64",
        "int": "i32",
        **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
        **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
    }
)
"""Names in other libraries, and their equivalents here."""

_OWN_FORM: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("sum", "reduce_sum"), "a sum over axes is a contraction: O[i : M] = +(A[i, j])"),
        **dict.fromkeys(("prod", "reduce_prod"), "a product over axes is a contraction: O[i : M] = *(A[i, j])"),
        **dict.fromkeys(("max", "amax"), "the maximum over axes is a contraction: O[i : M] = >(A[i, j])"),
        **dict.fromkeys(("min", "amin"), "the minimum over axes is a contraction: O[i : M] = <(A[i, j])"),
        **dict.fromkeys(("mean", "average"), "a mean is a sum over a size: S[i : M] = +(A[i, j]); O = S / N"),
        **dict.fromkeys(("transpose", "permute"), "axes change places in a contraction: O[j, i : N, M] = =(A[i, j])"),
        **dict.fromkeys(("dot", "matmul", "mm"), "a product is a contraction: C[i, j : M, N] = +(A[i, k] * B[k, j])"),
        "where": "write condition ? X : Y",
    }
)


def own_form(name: str) -> str | None:
    """Return the form in Tile for a function of other languages."""
    return _OWN_FORM.get(name.lower())


def meant(name: str, known: Collection[str]) -> str | None:
    """Return the known name that was probably meant: an equivalent, or one with a similar spelling."""
    return ELSEWHERE[name] if ELSEWHERE.get(name) in known else most_alike(name, known, 0.6)


def missing_attribute(owner: str, name: str, known: Collection[str]) -> AttributeError:
    """Build the error for a name that a module lacks, to be raised by the caller."""
    found = None if name.startswith("__") else meant(name, known)
    hint = "" if found is None else f"; did you mean {found!r}?"
    return AttributeError(f"module {owner!r} has no attribute {name!r}{hint}")


def dtype_meant(name: object) -> str:
    """Return advice for an element type that does not exist."""
    known = [dtype.value for dtype in DType]
    long = [dtype.numpy.name for dtype in DType]
    found = meant(name, [*known, *long]) if isinstance(name, str) else None
    short = dict(zip(long, known, strict=True))
    return f"write one of {', '.join(known)}" if found is None else f"did you mean {short.get(found, found)!r}?"
