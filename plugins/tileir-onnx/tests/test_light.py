"""Networks of ImageNet with random weights beside onnxruntime, which is none of tileir's oracles elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import light
import tileir_onnx

QUICK = ("squeezenet",)


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=() if each in QUICK else pytest.mark.slow) for each in light.NAMES]
)
def test_networks(name: str, tmp_path: Path) -> None:
    model, file = light.with_weights(name, softmax=False), tmp_path / "m.onnx"
    onnx.save(model, file)
    port, image = light.image_of(model)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    (wanted,) = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"]).run(None, {port: image})
    result = tileir_onnx.load(file)(image)
    np.testing.assert_allclose(result, wanted, rtol=0, atol=2e-6 * np.abs(wanted).max())
