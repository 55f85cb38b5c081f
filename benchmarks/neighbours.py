"""Sizes beside those of the suite, which nobody tuned for: few rows, odd sizes, transposed operands, tensors joined,
attention under masks, rows of all lengths, functions of halves, products of bytes, networks of few layers.

    python benchmarks/neighbours.py [--threads 1] [--only REGEX] [--rounds 9]

Each row has the best times of all rounds, in which tileir and its peers take turns: NumPy, and PyTorch where it is
installed. With one thread it is the time of the processor, so that other processes disturb less, else of the clock.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

LEAST_SECONDS: Final = 0.004
"""Calls are timed together until they take as long."""


@dataclass(frozen=True)
class Row:
    """A function, made of tensors of the builder, with its inputs and peers."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    build: Callable[..., Any]
    numpy: Callable[..., Any] | None
    torch: Callable[..., Any] | None
    dtype: str = "f4"


def products(ops: Any, np: Any, torch: Any) -> Iterator[Row]:
    """Yield products of two matrices, and of batches."""
    few = [(rows, 4096, 4096) for rows in (2, 8, 16, 32, 64)]
    odd = [(63, 4095, 4097), (4096, 4096, 65), (300, 2000, 1000), (1500, 300, 700), (64, 8192, 512)]
    odd += [(510, 256, 512), (200, 200, 1000), (128, 128, 1024), (64, 64, 1024), (64, 65536, 64)]
    small = [(size,) * 3 for size in (8, 16, 31, 63, 64, 65, 100, 127, 128, 129, 255, 256, 500, 1000)]
    others = [(64, 4096, 4096), (1500, 300, 700), (2000, 600, 300), (1024, 1024, 256), (4096, 512, 256)]
    others += [(1, 768, 768), (8, 768, 768), *((size,) * 3 for size in (127, 768, 1000, 1024))]
    for kind in ("NN", "NT", "TN", "TT"):
        shapes = (*few, *odd, *small) if kind == "NN" else others
        for rows, depth, columns in shapes:
            first = (rows, depth) if kind[0] == "N" else (depth, rows)
            second = (depth, columns) if kind[1] == "N" else (columns, depth)
            for dtype in ("f4", "f8"):
                name = f"product_{kind}_{rows}x{depth}x{columns}_{dtype}"
                turned = _turned(kind)
                yield Row(
                    name,
                    (first, second),
                    lambda a, b, turned=turned: ops.matmul(*turned(a, b, ops.transpose)),
                    lambda a, b, out, turned=turned: np.matmul(*turned(a, b, np.transpose), out=out),
                    torch and (lambda a, b, turned=turned: torch.matmul(*turned(a, b, torch.t))),
                    dtype,
                )
    for batch, size in ((512, 32), (511, 33), (512, 16), (64, 64), (128, 17)):
        shape = (batch, size, size)
        peer = torch and torch.bmm
        yield Row(f"bmm_{batch}x{size}", (shape, shape), ops.matmul, lambda a, b, out: np.matmul(a, b, out=out), peer)


def _turned(kind: str) -> Callable[[Any, Any, Callable[[Any], Any]], tuple[Any, Any]]:
    return lambda a, b, turn: (a if kind[0] == "N" else turn(a), b if kind[1] == "N" else turn(b))


def bytes_of(ops: Any, _: Any, torch: Any) -> Iterator[Row]:
    """Yield products of i8 summed in i32, the second factor as it is or transposed."""
    for rows, depth, columns in ((256,) * 3, (512,) * 3, (1024,) * 3, (64, 4096, 4096), (128, 768, 768)):
        for kind in ("NN", "NT"):
            turned = _turned(kind)
            yield Row(
                f"product_{kind}_{rows}x{depth}x{columns}_i8",
                ((rows, depth), (depth, columns) if kind == "NN" else (columns, depth)),
                lambda a, b, turned=turned: ops.matmul(
                    *(ops.cast(each, "i32") for each in turned(a, b, ops.transpose))
                ),
                None,
                torch and (lambda a, b, turned=turned: torch._int_mm(*turned(a, b, torch.t))),
                "i1",
            )


def functions(ops: Any, _: Any, torch: Any) -> Iterator[Row]:
    """Yield activations, each in f16, bf16 and f32."""
    functional = torch and torch.nn.functional
    for dtype in ("f2", "bfloat16", "f4"):
        for name in ("gelu", "silu", "sigmoid", "tanh", "softplus"):
            peer = torch and getattr(torch if name in ("sigmoid", "tanh") else functional, name)
            yield Row(f"{name}_{dtype}", ((1 << 20,),), getattr(ops, name), None, peer, dtype)


def layers(ops: Any, _: Any, torch: Any) -> Iterator[Row]:
    """Yield a convolution with batch normalisation, layer normalisation, a network of two layers, reflected borders."""
    functional = torch and torch.nn.functional
    for n, c, size in ((1, 64, 56), (1, 128, 28), (1, 256, 14)):
        yield Row(
            f"convolution_batch_norm_{n}x{c}x{size}",
            ((n, c, size, size), (c, c, 3, 3), (c,), (c,), (c,)),
            lambda x, w, m, g, b: ops.batch_norm_inference(ops.conv(x, w, padding=1), m, g * g + 1, g, b),
            None,
            functional
            and (lambda x, w, m, g, b: functional.batch_norm(functional.conv2d(x, w, padding=1), m, g * g + 1, g, b)),
        )
    for rows, size in ((1000, 1000), (4096, 256), (2048, 768), (30000, 33)):
        yield Row(
            f"layer_norm_{rows}x{size}",
            ((rows, size), (size,), (size,)),
            ops.layer_norm,
            None,
            functional and (lambda x, w, b: functional.layer_norm(x, w.shape, w, b)),
        )
    for rows, first, inner, last in ((32, 64, 64, 10), (64, 784, 128, 10), (128, 256, 256, 256)):
        yield Row(
            f"two_layers_{rows}x{first}x{inner}x{last}",
            ((rows, first), (first, inner), (inner,), (inner, last), (last,)),
            lambda x, w, c, v, d: ops.matmul(ops.relu(ops.matmul(x, w) + c), v) + d,
            None,
            torch and (lambda x, w, c, v, d: torch.addmm(d, torch.relu(torch.addmm(c, x, w)), v)),
        )
    for n, c, size in ((8, 64, 56), (32, 64, 28), (1, 320, 32), (2, 128, 16)):
        yield Row(
            f"reflected_{n}x{c}x{size}",
            ((n, c, size, size),),
            lambda x: ops.pad(x, ((0, 0), (0, 0), (3, 3), (3, 3)), mode="reflect"),
            None,
            functional and (lambda x: functional.pad(x, (3, 3, 3, 3), mode="reflect")),
        )


def joined(ops: Any, np: Any, torch: Any) -> Iterator[Row]:
    """Yield concatenations."""
    for axis, parts in (
        (0, ((1024, 1024),) * 2),
        (1, ((1024, 1024),) * 2),
        (1, ((1000, 333), (1000, 777), (1000, 21))),
        (1, ((8, 64, 28, 28), (8, 32, 28, 28), (8, 16, 28, 28))),
        (0, ((512, 2048),) * 4),
        (1, ((500, 200),) * 9),
    ):
        sizes = "_".join("x".join(map(str, part)) for part in parts)
        peer = torch and (lambda *xs, axis=axis: torch.cat(xs, axis))
        yield Row(
            f"concatenate_{axis}_{sizes}",
            parts,
            lambda *xs, axis=axis: ops.concatenate(xs, axis),
            lambda *xs, out, axis=axis: np.concatenate(xs, axis, out=out),
            peer,
        )


def features(ops: Any, np: Any, torch: Any) -> Iterator[Row]:
    """Yield operations on images whose channels come first."""
    functional = torch and torch.nn.functional
    shapes = ((8, 64, 56), (8, 128, 28), (4, 64, 44), (16, 64, 28), (2, 32, 112), (32, 64, 28), (4, 48, 27))
    for n, c, size in (*shapes, (16, 512, 14)):
        x, shape = (n, c, size, size), f"{n}x{c}x{size}x{size}"
        yield Row(
            f"average_{shape}",
            (x,),
            ops.global_average_pool,
            lambda a, out: np.mean(a, axis=(2, 3), keepdims=True, out=out),
            torch and (lambda a: functional.adaptive_avg_pool2d(a, 1)),
        )
        groups = c // 4
        norm = torch and (lambda a, w, b, groups=groups: functional.group_norm(a, groups, w, b))
        yield Row(
            f"group_norm_{shape}",
            (x, (c,), (c,)),
            lambda a, w, b, groups=groups: ops.group_norm(a, groups, w, b),
            None,
            norm,
        )
        yield Row(
            f"convolution3_{shape}",
            (x, (c, c, 3, 3)),
            lambda a, w: ops.conv(a, w, padding=1),
            None,
            torch and (lambda a, w: functional.conv2d(a, w, padding=1)),
        )
        for window in (3, 7):
            conv = torch and (lambda a, w, c=c, p=window // 2: functional.conv2d(a, w, padding=p, groups=c))
            yield Row(
                f"depthwise{window}_{shape}",
                (x, (c, 1, window, window)),
                lambda a, w, c=c, p=window // 2: ops.conv(a, w, padding=p, groups=c),
                None,
                conv,
            )


def attentions(ops: Any, np: Any, torch: Any) -> Iterator[Row]:
    """Yield attention: whole, causal, in windows, of one sequence to another, and with heads that share keys."""
    sdpa = torch and torch.nn.functional.scaled_dot_product_attention
    shapes = ((8, 128, 64), (8, 512, 64), (4, 1024, 64), (2, 2048, 64), (8, 500, 80), (8, 512, 32), (8, 512, 40))
    for heads, rows, features in shapes:
        shape = (1, heads, rows, features)
        for causal in (False, True):
            yield Row(
                f"attention_{'causal' if causal else 'whole'}_{heads}x{rows}x{features}",
                (shape,) * 3,
                lambda q, k, v, causal=causal: ops.scaled_dot_product_attention(q, k, v, causal=causal),
                None,
                sdpa and (lambda q, k, v, causal=causal: sdpa(q, k, v, is_causal=causal)),
            )
    shared = ((1, 8, 512, 64), (1, 2, 512, 64), (1, 2, 512, 64))
    peer = sdpa and (lambda q, k, v: sdpa(q, k, v, is_causal=True, enable_gqa=True))
    own = ops.scaled_dot_product_attention
    yield Row("attention_shared_8x512x64", shared, lambda q, k, v: own(q, k, v, causal=True), None, peer)
    across = ((1, 8, 100, 64), (1, 8, 700, 64), (1, 8, 700, 64))
    yield Row("attention_across_8x100x700x64", across, own, None, sdpa)
    for window in (64, 256):
        places = np.arange(1024)
        seen = (places[:, None] - places < window) & (places[None] <= places[:, None])
        mask = torch and torch.from_numpy(seen)
        yield Row(
            f"attention_window_{window}_4x1024x64",
            ((4, 1024, 64),) * 3,
            lambda q, k, v, window=window: own(q, k, v, mask=_window(ops, q, k, window), causal=True),
            None,
            sdpa and (lambda q, k, v, mask=mask: sdpa(q, k, v, attn_mask=mask)),
        )


def _window(ops: Any, query: Any, key: Any, window: int) -> Any:
    """Return which keys a query sees that are less than ``window`` before it."""
    scores = ops.matmul(query, ops.transpose(key, (0, 2, 1)))
    return ops.index(scores, 1) - ops.index(scores, 2) < window


def lines(ops: Any, _: Any, torch: Any) -> Iterator[Row]:
    """Yield what runs along rows: softmax, layer normalisation, running sums, sorting."""
    shapes = (((1024, 1024), 1), ((1000, 333), 1), ((1024, 1024), 0), ((64, 8192), 1), ((10000, 10), 1), ((64, 96), 1))
    for shape, axis in (*shapes, ((1000, 1000), 1), ((30000, 33), 1)):
        name = "x".join(map(str, shape))
        peer = torch and (lambda x, axis=axis: torch.softmax(x, axis))
        yield Row(f"softmax_{axis}_{name}", (shape,), lambda x, axis=axis: ops.softmax(x, axis), None, peer)
    long: tuple[tuple[int, ...], ...] = ((8192,), (100, 1000), (1 << 20,))
    for sizes in long:
        for dtype in ("f4", "f8"):
            name = f"{'x'.join(map(str, sizes))}_{dtype}"
            total, sort = (torch and (lambda x: torch.cumsum(x, -1)), torch and (lambda x: torch.sort(x, dim=-1)[0]))
            yield Row(f"cumsum_{name}", (sizes,), lambda x: ops.cumsum(x, -1), None, total, dtype)
            yield Row(f"sort_{name}", (sizes,), lambda x: ops.sort(x, -1), _sorted, sort, dtype)

    norm = torch and (lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]))
    yield Row("layer_norm_64x96", ((64, 96),), ops.layer_norm, None, norm)
    for sizes in ((1000, 64), (64, 1000), (16, 4096), (1 << 16,), (1_000_000,)):
        name = "x".join(map(str, sizes))
        order = torch and (lambda x: torch.sort(x, dim=-1, stable=True)[1])
        yield Row(f"argsort_{name}", (sizes,), lambda x: ops.argsort(x, -1), None, order)
        first = torch and (lambda x: torch.topk(x, 8, -1)[0])
        yield Row(f"top8_{name}", (sizes,), lambda x: ops.top_k(x, 8, -1)[0], None, first)


def _sorted(x: Array, out: Array) -> None:
    out[:] = x
    out.sort(-1)


def measured(calls: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float]) -> dict[str, float]:
    """Return the least time of a call of each, in seconds."""
    counts, best = {}, dict.fromkeys(calls, float("inf"))
    for name, call in calls.items():
        call()
        start = time.perf_counter()
        call()
        counts[name] = max(1, int(LEAST_SECONDS / max(time.perf_counter() - start, 1e-7)))
    for _ in range(rounds):
        for name, call in calls.items():
            start = clock()
            for _ in range(counts[name]):
                call()
            best[name] = min(best[name], (clock() - start) / counts[name])
    return best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(options.threads)
    np = importlib.import_module("numpy")
    torch = importlib.import_module("torch") if importlib.util.find_spec("torch") else None
    tileir = importlib.import_module("tileir")
    if torch is not None:
        torch.set_num_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    context = tileir.Context(options=tileir.Options(threads=options.threads))
    generator = np.random.default_rng(1)
    print("| workload | tileir, us | best peer, us | ratio |\n|---|---:|---:|---:|")
    families = (products, bytes_of, functions, layers, joined, features, attentions, lines)
    for row in (row for rows in families for row in rows(tileir.ops, np, torch)):
        if not re.search(options.only, row.name):
            continue
        arrays = [_array(generator, np, shape, row.dtype) for shape in row.shapes]
        executable = tileir.compile(_function(tileir, row), arrays, context=context)
        out = executable(*arrays)
        calls: dict[str, Callable[[], object]] = {"tileir": partial(executable, *arrays, out=out)}
        if row.numpy is not None:
            calls["NumPy"] = partial(row.numpy, *arrays, out=np.empty_like(out))
        if torch is not None and row.torch is not None:
            calls["PyTorch"] = partial(row.torch, *(_shared(torch, array) for array in arrays))
        times = measured(calls, options.rounds, clock)
        own = times.pop("tileir")
        peer = min(times, key=lambda name: times[name], default="")
        told = f"{peer}, {times[peer] * 1e6:.1f} | {times[peer] / own:.2f}" if peer else " | "
        print(f"| {row.name} | {own * 1e6:.1f} | {told} |", flush=True)


def _array(generator: Any, np: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Return random numbers, integers from -10 to 9 in ``i1``."""
    if dtype == "i1":
        return generator.integers(-10, 10, shape).astype(dtype)
    kind = importlib.import_module("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype
    return generator.standard_normal(shape, np.float32).astype(kind)


def _shared(torch: Any, array: Any) -> Any:
    """Return a tensor of PyTorch over the memory of an array, which NumPy's bf16 is not known to."""
    if array.dtype.name != "bfloat16":
        return torch.from_numpy(array)
    return torch.from_numpy(array.view("i2")).view(torch.bfloat16)


def _function(tileir: Any, row: Row) -> Any:
    builder = tileir.FunctionBuilder()
    inputs = [
        builder.input(f"X{part}", *(f"X{part}_{axis}" for axis in range(len(shape))))
        for part, shape in enumerate(row.shapes)
    ]
    return builder.build(Y=row.build(*inputs))


if __name__ == "__main__":
    main()
