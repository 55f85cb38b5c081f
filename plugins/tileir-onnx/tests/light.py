"""Networks of ImageNet in the wheel of onnx: their graphs are real, their weights are made here."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import ModelProto, numpy_helper

FOLDER: Final = Path(onnx.__file__).parent / "backend/test/data/light"
NAMES: Final = tuple(sorted(path.stem.removeprefix("light_") for path in FOLDER.glob("*.onnx")))

Array = np.ndarray[Any, Any]


def path_of(name: str) -> Path:
    """Return the file of a network, all of whose weights are 0.02."""
    return FOLDER / f"light_{name}.onnx"


def with_weights(name: str, seed: int = 0, *, softmax: bool = True) -> ModelProto:
    """Return a network with weights drawn as He et al. (2015) do, and statistics near those of a normal distribution.

    Args:
        name: The network.
        seed: Where to begin.
        softmax: Whether the last softmax stays; without it, small errors are seen.

    """
    model = onnx.load(path_of(name))
    generator = np.random.default_rng(seed)
    sizes = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    made = {node.output[0]: node for node in model.graph.node if node.op_type == "ConstantOfShape"}
    model.ir_version = 8  # from which on weights are no inputs
    inputs = [each for each in model.graph.input if each.name not in sizes]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    roles = {given: (node.op_type, at) for node in model.graph.node for at, given in enumerate(node.input)}
    for output, node in made.items():
        shape = tuple(map(int, sizes[node.input[0]]))
        model.graph.node.remove(node)
        array = _drawn(generator, shape, *roles[output]).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, output))
    last = model.graph.node[-1]
    if not softmax and last.op_type == "Softmax":
        model.graph.node.remove(last)
        model.graph.output[0].name = last.input[0]
    return model


def _drawn(generator: np.random.Generator, shape: tuple[int, ...], op: str, at: int) -> Array:
    if op == "BatchNormalization":  # scale, bias, mean, variance
        return generator.uniform(0.5, 1.5, shape) if at in (1, 4) else generator.normal(0, 0.1, shape)
    if len(shape) < 2:
        return generator.normal(0, 0.1, shape)
    fan_in = np.prod(shape[1:])
    return generator.normal(0, (2 / fan_in) ** 0.5, shape)


def image_of(model: ModelProto, batch: int = 1, seed: int = 1) -> tuple[str, Array]:
    """Return the name of the input that is an image, and one."""
    name, shape = _input_of(model)
    return name, np.random.default_rng(seed).standard_normal((batch, *shape[1:])).astype(np.float32)


def _input_of(model: ModelProto) -> tuple[str, tuple[int, ...]]:
    weights = {each.name for each in model.graph.initializer}
    (port,) = (each for each in model.graph.input if each.name not in weights)
    return port.name, tuple(each.dim_value for each in port.type.tensor_type.shape.dim)
