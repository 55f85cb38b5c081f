"""Networks of the benchmarks with few channels beside onnxruntime, and decoding without compilation between words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import tileir
import tileir_onnx
from models import Array, Network, images, pixels, texts

DECODED = "llama_decode"
"""Networks that have a test of their own."""

QUICK = ("detector", "resnet", "unet", "mobilenet", "efficientnet")
"""Those that take more than half a second to compile with all passes."""

SMALL: dict[str, Callable[[int], Network]] = {
    "resnet": partial(images.resnet, stages=[(4, 1), (8, 2)], pixels=32),
    "mobilenet": partial(images.mobilenet, blocks=4, pixels=32),
    "efficientnet": partial(images.efficientnet, stages=2, pixels=32),
    "vit": partial(images.vit, layers=1, size=16, heads=2, pixels=32),
    "convnext": partial(images.convnext, depths=[1, 1], widths=[8, 16], pixels=32),
    "unet": partial(pixels.unet, width=4, levels=2, pixels=16),
    "detector": partial(pixels.detector, widths=[4] * 5, depths=[1] * 4, pixels=32, classes=3),
    "bert": partial(texts.bert, layers=1, size=16, heads=2, rows=5, words=30),
    "gpt2": partial(texts.gpt2, layers=1, size=16, heads=2, rows=5, words=30),
    "gpt2_decode": partial(texts.gpt2_decode, layers=2, size=16, heads=2, past=5, words=30),
    "llama_decode": partial(
        texts.llama_decode, layers=1, size=64, heads=4, key_heads=2, hidden=24, capacity=8, words=30
    ),
    "tagger": partial(texts.tagger, rows=4, hidden=8, size=6, words=30),
    "whisper": partial(texts.whisper, layers=1, size=16, heads=2, frames=12, bands=6),
}


def session_of(network: Network, file: Path) -> onnxruntime.InferenceSession:
    """Write a network to a file, and return it for onnxruntime."""
    onnx.save(network.model, file)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def check(found: Sequence[Array], wanted: Sequence[Array], lengths: Array | None = None) -> None:
    """Compare results of f32, each row beside its greatest element; caches as far as they are filled."""
    if lengths is not None:
        for own, other in zip(found[1:], wanted[1:], strict=True):
            seen = np.arange(own.shape[2]) <= lengths.reshape(-1, 1, 1)
            np.testing.assert_allclose(own * seen[..., None], other * seen[..., None], rtol=0, atol=1e-5)
        found, wanted = found[:1], wanted[:1]
    for own, other in zip(found, wanted, strict=True):
        assert own.shape == other.shape
        scale = np.abs(other).max(-1, keepdims=True)
        np.testing.assert_allclose(own / scale, other / scale, rtol=0, atol=1e-5)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", [name for name in SMALL if name != DECODED])
def test_networks(name: str, tmp_path: Path) -> None:
    network, file = SMALL[name](2), tmp_path / "m.onnx"
    wanted = session_of(network, file).run(None, dict(network.feeds))
    model = tileir_onnx.load(file, options=tileir.Options(quick=True) if name in QUICK else None)
    check(model.run(network.feeds), wanted)


def test_words_behind_each_other_are_decoded_by_one_program(tmp_path: Path) -> None:
    network, file = SMALL[DECODED](2), tmp_path / "m.onnx"
    session, context = session_of(network, file), tileir.Context(disk_cache=None)
    model = tileir_onnx.load(file)
    model.compiler = partial(tileir.jit, context=context)
    feeds = dict(network.feeds)
    for word in range(4):
        feeds["lengths"] = np.array([word, 3 + word], np.int32)
        feeds["x"] = np.array([[word], [7 - word]])
        found = model.run(feeds)
        check(found, session.run(None, feeds), feeds["lengths"])
        feeds |= zip([name for name in feeds if name.startswith("past")], found[1:], strict=True)
        assert len(context.programs) == 1
