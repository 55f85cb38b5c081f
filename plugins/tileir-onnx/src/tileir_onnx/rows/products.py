"""Products of matrices."""

from __future__ import annotations

from tileir import ops
from tileir.tile.builder import Tensor
from tileir_onnx.importing import Call
from tileir_onnx.rows.table import row


@row("MatMul")
def matmul(call: Call, x: Tensor, y: Tensor) -> Tensor:
    return ops.matmul(x, y)


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
    return ops.gemm(x, y, c, alpha=alpha, beta=beta, transpose_x=bool(transA), transpose_y=bool(transB))
