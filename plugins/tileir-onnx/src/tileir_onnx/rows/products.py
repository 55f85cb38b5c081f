"""Products of matrices and tensors."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from tileir import ops
from tileir.tile.builder import Tensor
from tileir_onnx.importing import Call
from tileir_onnx.rows.arguments import like, wide
from tileir_onnx.rows.table import row


@row("MatMul")
def matmul(call: Call, x: Tensor, y: Tensor) -> Tensor:
    return like(ops.matmul(x, y), x)


@row("Gemm", until=7)
def gemm_before_7(
    call: Call,
    x: Tensor,
    y: Tensor,
    c: Tensor,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    broadcast: int = 0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    return gemm(call, x, y, c, alpha=alpha, beta=beta, transA=transA, transB=transB)


@row("Gemm", since=7)
def gemm(
    call: Call,
    x: Tensor,
    y: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    scales = [int(each) if each == int(each) else each for each in (alpha, beta)]  # which keeps products of integers
    result = ops.gemm(x, y, c, alpha=scales[0], beta=scales[1], transpose_x=bool(transA), transpose_y=bool(transB))
    return like(result, x)


@row("Einsum")
def einsum(call: Call, *tensors: Tensor, equation: str) -> Tensor:
    return like(ops.einsum(equation, *tensors), tensors[0])


@row("Det")
def det(call: Call, x: Tensor) -> Tensor:
    """Return determinants; tensors use NumPy's functions."""
    return ops.cast(cast("Tensor", np.linalg.det(cast("Any", wide(x)))), x.dtype)
