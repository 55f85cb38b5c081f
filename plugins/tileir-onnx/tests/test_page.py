"""The examples of the manual's page on models, as somebody would type them."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

PAGE = Path(__file__).parents[3] / "docs" / "onnx.md"


def test_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    w = np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["c"], name="/conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes,
        "page",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 3, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 4, 8, 8])],
        [numpy_helper.from_array(w, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", PAGE.read_text("utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    printed = []
    for code, wanted in blocks:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(code, str(PAGE), "exec"), names)
        assert not wanted or out.getvalue() == wanted
        printed += out.getvalue().splitlines()
    assert printed[0] == "['image: float[N, 3, 8, 8]']"
    assert printed[1] == "(1, 4, 8, 8) float32"
    assert printed[2:4] == ["True", "True"]
    assert printed[4] == "Dimage"
    assert printed[5].startswith("function (#image: f32[N, 3, 8, 8])")
    assert printed[-1] == "True"
