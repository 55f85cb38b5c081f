"""Other compilers and runtimes of networks: each maker returns a call without arguments that gives all results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from models import Array, Network

Run: TypeAlias = Callable[[], Sequence[Array]]
Maker: TypeAlias = Callable[[Network, Path, int], Run]


def tileir(network: Network, file: Path, _threads: int) -> Run:
    """Return a call of a model, which takes a thread for each processor that the process may use."""
    import tileir_onnx

    model = tileir_onnx.load(file)
    return lambda: model.run(network.feeds)


def onnxruntime(network: Network, file: Path, threads: int) -> Run:
    """Return a call of a session on the processor."""
    import onnxruntime as peer  # type: ignore[import-untyped,unused-ignore]

    settings = peer.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = threads, 3
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")  # else its threads take the cores
    session, feeds = peer.InferenceSession(file, settings, providers=["CPUExecutionProvider"]), dict(network.feeds)
    return lambda: session.run(None, feeds)  # type: ignore[no-any-return,unused-ignore]


def openvino(network: Network, file: Path, threads: int) -> Run:
    """Return a request of a model that is compiled for one request at a time, in f32."""
    import openvino as peer  # type: ignore[import-not-found,import-untyped,unused-ignore]

    settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
    compiled = peer.Core().compile_model(file, "CPU", settings)
    request, feeds = compiled.create_infer_request(), dict(network.feeds)

    def run() -> Sequence[Array]:
        found = request.infer(feeds, share_inputs=True, share_outputs=True)
        return [found[at] for at in range(len(compiled.outputs))]

    return run


def inductor(network: Network, _file: Path, threads: int) -> Run:
    """Return a call of what torch.compile makes of a twin of the network, with its weights frozen."""
    import torch
    import torch._inductor.config as settings

    from torch_twin import twin

    torch.set_num_threads(threads)
    settings.freezing = True
    inputs = [torch.from_numpy(each) for each in network.feeds.values()]
    with torch.no_grad():
        compiled = torch.compile(twin(network.model))
        compiled(*inputs)

    def run() -> Sequence[Array]:
        with torch.no_grad():
            found: Any = compiled(*inputs)
        return [each.numpy() for each in found]

    return run


PEERS: Final[Mapping[str, Maker]] = {"onnxruntime": onnxruntime, "openvino": openvino, "inductor": inductor}
"""Peers by name; the first one is also what results are compared with."""


def error_of(found: Sequence[Array], wanted: Sequence[Array], feeds: Mapping[str, Array]) -> float:
    """Return the greatest error of results as a part of the greatest magnitude of each; caches as far as filled."""
    greatest = 0.0
    for own, other in zip(found, wanted, strict=True):
        x, y = np.asarray(own), np.asarray(other)
        if "lengths" in feeds and y.ndim == 4:
            seen = (np.arange(y.shape[2]) <= feeds["lengths"].reshape(-1, 1, 1))[..., None]
            x, y = np.where(seen, x, 0), np.where(seen, y, 0)
        greatest = max(greatest, float(np.abs(x - y).max() / np.abs(y).max()))
    return greatest
