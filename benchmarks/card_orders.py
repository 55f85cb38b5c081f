"""Sorting, the greatest elements, and quantiles on cards, beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from card_workload import Shapes, Size, Workload
from tileir import DType, ops

F32, F16 = DType.F32, DType.F16


def orders(size: Size) -> Iterator[Workload]:
    """Return rows of all lengths, few and many of them."""

    def row(
        name: str, shape: tuple[int, ...], dtype: DType, program: Callable[..., Any], peer: Callable[..., Any]
    ) -> Workload:
        shapes: Shapes = (tuple(map(size, shape)),)
        return Workload("orders", name, shapes, dtype, program, lambda _, x: peer(x))

    for dtype, shape in ((F32, (1 << 20,)), (F16, (1 << 20,)), (F32, (1 << 24,)), (F32, (1024, 1024)),
                         (F32, (16384, 128)), (F32, (64, 65537))):  # fmt: skip
        yield row("sort", shape, dtype, ops.sort, lambda x: x.sort().values)
    yield row("sort columns", (1024, 1024), F32, lambda x: ops.sort(x, 0), lambda x: x.sort(0).values)
    for count, shape, dtype in ((50, (64, 128256), F32), (50, (64, 128256), F16), (8, (16384, 256), F32),
                                (2, (65536, 64), F32), (8, (1 << 22,), F32)):  # fmt: skip
        kept = min(size(count), size(shape[-1]))
        yield row(f"top {count}", shape, dtype, lambda x, k=kept: ops.top_k(x, k)[0], lambda x, k=kept: x.topk(k)[0])
    yield row("median", (4096, 1025), F32, ops.median, lambda x: x.median(-1).values)
    yield row("quantile", (256, 10000), F32, lambda x: ops.quantile(x, 0.9), lambda x: x.quantile(0.9, -1))
    last = size(1000)
    yield row("k-th", (64, 65536), F32, lambda x: ops.kth_value(x, last)[0], lambda x: x.kthvalue(last).values)
