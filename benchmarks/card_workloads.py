"""Programs for cards with the calls of PyTorch that do the same: products, convolutions, attention, rows, networks.

Each workload is written once, for tensors of the builder and for tensors of PyTorch. Sizes go through a function, so
that a small version of all of them can be checked on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from card_attention import HALVES, attention
from card_convolutions import bottlenecks, gradients
from card_orders import orders
from card_scans import scans
from card_scatters import scatters
from card_workload import Size, Workload, full
from tileir import DType, ops
from tileir.tile.builder_functions import gradient


def workloads(size: Size = full) -> Iterator[Workload]:
    """Return all workloads, those of one group beside each other."""
    yield from _products(size)
    yield from _convolutions(size)
    yield from gradients(size)
    yield from attention(size)
    yield from _rows(size)
    yield from _axes(size)
    yield from orders(size)
    yield from scatters(size)
    yield from _copies(size)
    yield from _networks(size)
    yield from bottlenecks(size)
    yield from scans(size)


def _product(
    size: Size, rows: int, columns: int, depth: int, dtype: DType, *, fast_math: bool = False, name: str = "product"
) -> Workload:
    m, n, k = size(rows), size(columns), size(depth)
    return Workload(
        "products",
        name,
        ((m, k), (k, n)),
        dtype,
        ops.matmul,
        lambda _, a, b: a @ b,
        2.0 * m * n * k,
        fast_math=fast_math,
    )


def _product_of_bytes(size: Size, edge: int, *, fast_math: bool) -> Workload:
    """Return a product of 8-bit floats with a bf16 result; PyTorch takes the right factor by columns only."""
    n = size(edge)

    def peer(torch: Any, a: Any, b: Any) -> Any:
        if not a.is_cuda:
            return a @ b.t()
        one = torch.ones((), device=a.device)
        return torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=fast_math)

    return Workload(
        "products",
        "fast A @ B^T" if fast_math else "A @ B^T",
        ((n, n), (n, n)),
        DType.F8E4M3FN,
        lambda a, b: ops.cast(ops.matmul(a, ops.transpose(b)), DType.BF16),
        peer,
        2.0 * n**3,
        fast_math=fast_math,
    )


def _products(size: Size) -> Iterator[Workload]:
    for dtype in HALVES:
        for edge in (1000, 1024, 1536, 2048, 3000, 4096, 5120, 8192):
            yield _product(size, edge, edge, edge, dtype)
    for rows, columns, depth in ((64, 8192, 8192), (8192, 64, 8192), (16, 8192, 8192), (1, 8192, 8192), (4100,) * 3):
        yield _product(size, rows, columns, depth, DType.F16)
    for edge in (1000, 1536, 4096):
        yield _product(size, edge, edge, edge, DType.F32)
    for rows, columns, depth in ((4096,) * 3, (4095,) * 3, (2049, 4097, 3001)):
        yield _product(size, rows, columns, depth, DType.F32, fast_math=True)
    for fast_math in (False, True):
        for edge in (4096, 8192):
            yield _product_of_bytes(size, edge, fast_math=fast_math)
    n, batch, edge = size(4096), size(64), size(512)
    square, cube = ((n, n), (n, n)), 2.0 * n**3
    half = DType.F16
    yield Workload(
        "products",
        "A @ B^T",
        square,
        half,
        lambda a, b: ops.matmul(a, ops.transpose(b)),
        lambda _, a, b: a @ b.T,
        cube,
    )
    yield Workload(
        "products",
        "A^T @ B",
        square,
        half,
        lambda a, b: ops.matmul(ops.transpose(a), b),
        lambda _, a, b: a.T @ b,
        cube,
    )
    yield Workload(
        "products",
        "batched",
        ((batch, edge, edge),) * 2,
        half,
        ops.matmul,
        lambda _, a, b: a @ b,
        2.0 * batch * edge**3,
    )
    yield Workload(
        "products",
        "gelu(A @ B + bias)",
        (*square, (n,)),
        half,
        lambda a, b, c: ops.gelu(ops.matmul(a, b) + c),
        lambda torch, a, b, c: torch.nn.functional.gelu(torch.addmm(c, a, b)),
        cube,
        fused=True,
    )
    edge = size(2048)
    four = ((edge, edge),) * 4
    yield Workload(
        "products",
        "A @ B + C @ D",
        four,
        half,
        lambda a, b, c, d: ops.matmul(a, b) + ops.matmul(c, d),
        lambda torch, a, b, c, d: torch.addmm(a @ b, c, d),
        4.0 * edge**3,
        fused=True,
    )
    yield Workload(
        "products",
        "silu(A @ B) * (A @ C)",
        four[:3],
        half,
        lambda a, b, c: ops.silu(ops.matmul(a, b)) * ops.matmul(a, c),
        lambda torch, a, b, c: torch.nn.functional.silu(a @ b) * (a @ c),
        4.0 * edge**3,
        fused=True,
    )


def _convolution(
    size: Size, dtype: DType, layout: str, sizes: tuple[int, int, int, int], window: int, stride: int = 1
) -> Workload:
    batch, edge, channels, features = (size(n) for n in sizes)
    pad = window // 2
    out = (edge + 2 * pad - window) // stride + 1
    operations = 2.0 * batch * out * out * features * channels * window * window
    name = f"conv{window}x{window}" + (f"/{stride}" if stride > 1 else "") + f" {layout}"
    if layout == "nchw":
        return Workload(
            "convolutions",
            name,
            ((batch, channels, edge, edge), (features, channels, window, window)),
            dtype,
            lambda x, w: ops.conv(x, w, stride=stride, padding=pad),
            lambda torch, x, w: torch.nn.functional.conv2d(x, w, stride=stride, padding=pad),
            operations,
        )
    return Workload(
        "convolutions",
        name,
        ((batch, edge, edge, channels), (features, window, window, channels)),
        dtype,
        lambda x, w: ops.conv(x, w, stride=stride, padding=pad, layout="nxc", kernel_layout="kxc"),
        lambda torch, x, w: torch.nn.functional.conv2d(
            x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), stride=stride, padding=pad
        ).permute(0, 2, 3, 1),
        operations,
    )


def _convolutions(size: Size) -> Iterator[Workload]:
    stages = ((32, 56, 64, 64), (32, 28, 128, 128), (32, 14, 256, 256), (32, 7, 512, 512))
    for dtype in (DType.F16, DType.F32):
        for layout in ("nhwc", "nchw"):
            for sizes in stages:
                yield _convolution(size, dtype, layout, sizes, 3)
            yield _convolution(size, dtype, layout, (32, 56, 256, 64), 1)
    yield _convolution(size, DType.F16, "nhwc", (32, 56, 128, 128), 3, 2)
    for layout in ("nhwc", "nchw"):
        yield _convolution(size, DType.F16, layout, (32, 224, 3, 64), 7, 2)
    for dtype in (DType.F32, DType.F16):
        yield _depthwise(size, dtype)


def _depthwise(size: Size, dtype: DType) -> Workload:
    batch, edge, channels = size(32), size(112), size(96)
    return Workload(
        "memory",
        "depthwise3x3 nhwc",
        ((batch, edge, edge, channels), (channels, 3, 3, 1)),
        dtype,
        lambda x, w: ops.conv(x, w, padding=1, layout="nxc", kernel_layout="kxc", groups=channels),
        lambda torch, x, w: torch.nn.functional.conv2d(
            x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), padding=1, groups=channels
        ).permute(0, 2, 3, 1),
    )


def _rows(size: Size) -> Iterator[Workload]:
    for rows, columns in ((65536, 1000), (16384, 4096), (4096, 8192), (2048, 32768), (1024, 50257)):
        shape = (size(rows), size(columns))
        for dtype in (DType.F32, DType.F16):
            yield Workload(
                "memory", "softmax", (shape,), dtype, ops.softmax, lambda torch, x: torch.softmax(x, -1), fused=True
            )
            if columns > 40000:
                continue
            yield Workload(
                "memory",
                "layer norm",
                (shape, shape[1:], shape[1:]),
                dtype,
                lambda x, g, b: ops.layer_norm(x, g, b),
                lambda torch, x, g, b: torch.nn.functional.layer_norm(x, (x.shape[-1],), g, b),
                fused=True,
            )
            yield Workload(
                "memory",
                "rms norm",
                (shape, shape[1:]),
                dtype,
                lambda x, g: ops.rms_norm(x, g),
                lambda torch, x, g: torch.nn.functional.rms_norm(x, (x.shape[-1],), g, 1e-6),
                fused=True,
            )


def _axes(size: Size) -> Iterator[Workload]:
    """Return functions of rows that lie beside each other, in several stretches, or that nothing can hold."""
    long = (((64, 70000), 1), ((2048, 100000), 1), ((1, 131072), 1))
    for shape, axis in (((4096, 4096), 0), ((1000, 1000), 0), ((64, 512, 768), 1), *long):
        for dtype in (DType.F32, DType.F16):
            yield _along("softmax", size, shape, axis, dtype)
    for shape, axes in (((4096, 4096), 0), ((1024, 512), 0), ((32, 64, 3136), (0, 2)), ((2048, 100000), 1)):
        yield _along("standardised", size, shape, axes, DType.F32)
    yield _along("logsumexp", size, (4096, 4096), 0, DType.F32)
    yield _along("share", size, (64, 1024, 256), 1, DType.F32)
    yield _along("share", size, (8, 128, 768), (0, 1, 2), DType.F32)


def _along(name: str, size: Size, shape: tuple[int, ...], axes: int | tuple[int, ...], dtype: DType) -> Workload:
    """Return a function of rows along ``axes``."""

    def standardised(x: Any) -> Any:
        centred = x - ops.mean(x, axes, keepdims=True)
        return centred * ops.rsqrt(ops.mean(centred * centred, axes, keepdims=True) + 1e-5)

    def peer_standardised(torch: Any, x: Any) -> Any:
        variance, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
        return (x - mean) * torch.rsqrt(variance + 1e-5)

    programs: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "softmax": (lambda x: ops.softmax(x, axes), lambda torch, x: torch.softmax(x, axes)),
        "logsumexp": (lambda x: ops.logsumexp(x, axes), lambda torch, x: torch.logsumexp(x, axes)),
        "standardised": (standardised, peer_standardised),
        "share": (
            lambda x: x * x / ops.sum(x * x, axes, keepdims=True),
            lambda _, x: x * x / (x * x).sum(axes, keepdim=True),
        ),
    }
    program, peer = programs[name]
    along = ",".join(map(str, axes)) if isinstance(axes, tuple) else str(axes)
    return Workload(
        "memory", f"{name} along axis {along}", (tuple(map(size, shape)),), dtype, program, peer, fused=True
    )


def _copies(size: Size) -> Iterator[Workload]:
    rows, half, single = (size(16384), size(4096)), DType.F16, DType.F32
    line, square = (size(1 << 27),), (size(8192), size(8192))
    for dtype in (single, half):
        for axis in (0, 1):
            yield Workload(
                "memory",
                f"sum of axis {axis}",
                (rows,),
                dtype,
                lambda x, axis=axis: ops.sum(x, axis),
                lambda _, x, axis=axis: x.sum(axis),
            )
        yield Workload(
            "memory", "transpose", (square,), dtype, ops.transpose, lambda _, x: x.T.contiguous(), fused=True
        )
    yield Workload("memory", "sum of all", (rows,), single, ops.sum, lambda _, x: x.sum())
    yield Workload("memory", "maximum of all", (rows,), single, ops.max, lambda _, x: x.max())
    yield Workload("memory", "scale", (line,), half, lambda x: x * 2.0, lambda _, x: x * 2)
    yield Workload("memory", "gelu", (line,), half, ops.gelu, lambda torch, x: torch.nn.functional.gelu(x), fused=True)
    yield Workload(
        "memory",
        "running sum of axis 1",
        (rows,),
        single,
        lambda x: ops.cumsum(x, 1),
        lambda _, x: x.cumsum(1),
        fused=True,
    )
    yield Workload(
        "memory",
        "max pool 3x3/2 nhwc",
        ((size(32), size(112), size(112), size(64)),),
        half,
        lambda x: ops.max_pool(x, 3, stride=2, padding=1, layout="nxc"),
        lambda torch, x: torch.nn.functional.max_pool2d(x.permute(0, 3, 1, 2), 3, 2, 1).permute(0, 2, 3, 1),
    )
    yield Workload("memory", "stencil of 5 points", (square,), single, _stencil, _stencil_peer, fused=True)


def _stencil(x: Any) -> Any:
    inside = ops.pad(x, 1)
    above, left, right, below = (
        ops.slice(inside, key) for key in (np.s_[:-2, 1:-1], np.s_[1:-1, :-2], np.s_[1:-1, 2:], np.s_[2:, 1:-1])
    )
    return 0.25 * (above + left + right + below) - x


def _stencil_peer(torch: Any, x: Any) -> Any:
    inside = torch.nn.functional.pad(x, (1, 1, 1, 1))
    return 0.25 * (inside[:-2, 1:-1] + inside[1:-1, :-2] + inside[1:-1, 2:] + inside[2:, 1:-1]) - x


def _layer(width: int, heads: int) -> Callable[..., Any]:
    def forward(x: Any, into: Any, out: Any, up: Any, down: Any) -> Any:
        batch, time, _ = x.dims
        parts = ops.reshape(ops.matmul(ops.layer_norm(x), into), batch, time, 3, heads, width // heads)
        query, key, value = ops.unstack(ops.permute(parts, (2, 0, 3, 1, 4)), 3)
        mixed = ops.permute(ops.scaled_dot_product_attention(query, key, value), (0, 2, 1, 3))
        x = x + ops.matmul(ops.reshape(mixed, batch, time, width), out)
        return x + ops.matmul(ops.gelu(ops.matmul(ops.layer_norm(x), up)), down)

    return forward


def _layer_peer(width: int, heads: int) -> Callable[..., Any]:
    def forward(torch: Any, x: Any, into: Any, out: Any, up: Any, down: Any) -> Any:
        batch, time, _ = x.shape
        f = torch.nn.functional
        parts = (f.layer_norm(x, (width,)) @ into).view(batch, time, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        mixed = f.scaled_dot_product_attention(parts[0], parts[1], parts[2]).transpose(1, 2)
        x = x + mixed.reshape(batch, time, width) @ out
        return x + f.gelu(f.layer_norm(x, (width,)) @ up) @ down

    return forward


def _networks(size: Size) -> Iterator[Workload]:
    batch, time, width, heads = size(8), size(1024), size(1024), 16
    shapes = ((batch, time, width), (width, 3 * width), (width, width), (width, 4 * width), (4 * width, width))
    forward, peer = _layer(width, heads), _layer_peer(width, heads)
    operations = 24.0 * batch * time * width**2 + 4.0 * batch * time**2 * width
    for dtype in (DType.F16, DType.F32):
        yield Workload("networks", "transformer layer", shapes, dtype, forward, peer, operations, fused=True)

    def step(*tensors: Any) -> Any:
        loss = ops.sum(forward(*tensors))
        return tuple(gradient(loss, tensor) for tensor in tensors)

    def step_peer(torch: Any, *tensors: Any) -> Any:
        with torch.enable_grad():
            leaves = [tensor.detach().requires_grad_() for tensor in tensors]
            return torch.autograd.grad(peer(torch, *leaves).sum(), leaves)

    yield Workload("networks", "transformer layer, gradients", shapes, DType.BF16, step, step_peer, 3 * operations)
