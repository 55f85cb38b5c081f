"""Networks from the operation library, with the types of their inputs: ResNet-18, DenseNet-121, a block of GPT-2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir import FunctionBuilder, ops
from tileir.core.dtype import DType
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from tileir.tile.builder import Tensor
    from tileir.tile.ir import Function

STAGES: Final = ((64, 1), (128, 2), (256, 2), (512, 2))
"""Channels of the four stages of ResNet, and the stride with which each begins."""


DENSE: Final = (6, 12, 24, 16)
"""Layers of the four blocks of DenseNet-121, each of which adds 32 channels."""


class _Network:
    """Declares the inputs of a network, each with its type."""

    def __init__(self, dtype: DType) -> None:
        self.builder = FunctionBuilder()
        self.dtype = dtype
        self.types: dict[str, TensorType] = {}

    def input(self, stem: str, *shape: int) -> Tensor:
        name = f"{stem}{len(self.types)}"
        self.types[name] = TensorType(self.dtype, shape)
        return self.builder.input(name, *(f"{name}D{axis}" for axis in range(len(shape))))

    def built(self, result: Tensor) -> tuple[Function, dict[str, TensorType]]:
        return self.builder.build(Result=result), self.types

    def convolution(self, x: Tensor, channels: int, features: int, size: int, stride: int) -> Tensor:
        """Return a convolution, normalised by the statistics that training has left."""
        weights = self.input("W", features, channels, size, size)
        return self.normalised(ops.conv(x, weights, stride=stride, padding=size // 2), features)

    def normalised(self, x: Tensor, features: int) -> Tensor:
        """Return a tensor normalised by the statistics that training has left."""
        mean, variance, scale, shift = (self.input(stem, features) for stem in ("Mean", "Var", "Scale", "Shift"))
        return ops.batch_norm_inference(x, mean, variance, scale, shift)


def resnet_18(batch: int, size: int, dtype: DType = DType.F32) -> tuple[Function, dict[str, TensorType]]:
    """Return ResNet-18 for pictures of ``size`` x ``size``. Source: He et al., "Deep residual learning", 2015."""
    net = _Network(dtype)
    x = ops.relu(net.convolution(net.input("Image", batch, 3, size, size), 3, 64, 7, 2))
    x, channels = ops.max_pool(x, 3, stride=2, padding=1), 64
    for features, first in STAGES:
        for stride in (first, 1):
            y = ops.relu(net.convolution(x, channels, features, 3, stride))
            y = net.convolution(y, features, features, 3, 1)
            if channels != features:
                x = net.convolution(x, channels, features, 1, stride)
            x, channels = ops.relu(x + y), features
    pooled = ops.mean(x, (2, 3))
    return net.built(ops.matmul(pooled, net.input("Head", 512, 1000)) + net.input("Bias", 1000))


def densenet_121(batch: int, size: int, dtype: DType = DType.F32) -> tuple[Function, dict[str, TensorType]]:
    """Return DenseNet-121, of some 230 different kernels, for pictures of ``size`` x ``size``.

    Source: Huang et al., "Densely connected convolutional networks", 2017.
    """
    net = _Network(dtype)
    x = ops.relu(net.convolution(net.input("Image", batch, 3, size, size), 3, 64, 7, 2))
    x, channels = ops.max_pool(x, 3, stride=2, padding=1), 64
    for block, layers in enumerate(DENSE):
        for _ in range(layers):
            y = ops.relu(net.convolution(ops.relu(net.normalised(x, channels)), channels, 128, 1, 1))
            y = ops.conv(y, net.input("W", 32, 128, 3, 3), padding=1)
            x, channels = ops.concatenate([x, y], 1), channels + 32
        x = ops.relu(net.normalised(x, channels))
        if block < len(DENSE) - 1:
            x = ops.average_pool(ops.conv(x, net.input("W", channels // 2, channels, 1, 1)), 2, stride=2)
            channels //= 2
    return net.built(ops.matmul(ops.mean(x, (2, 3)), net.input("Head", channels, 1000)) + net.input("Bias", 1000))


def gpt_block(
    batch: int, time: int, width: int, heads: int, dtype: DType = DType.F32
) -> tuple[Function, dict[str, TensorType]]:
    """Return a block of GPT-2: causal attention of many heads, and a network of two layers, each with a norm."""
    net = _Network(dtype)
    x = net.input("X", batch, time, width)
    y = ops.layer_norm(x, net.input("G", width), net.input("B", width))
    parts = ops.matmul(y, net.input("Into", width, 3 * width)) + net.input("B", 3 * width)
    parts = ops.reshape(parts, batch, time, 3, heads, width // heads)
    query, key, value = ops.unstack(ops.permute(parts, (2, 0, 3, 1, 4)), 3)
    mixed = ops.scaled_dot_product_attention(query, key, value, causal=True)
    mixed = ops.reshape(ops.permute(mixed, (0, 2, 1, 3)), batch, time, width)
    x = x + ops.matmul(mixed, net.input("Out", width, width)) + net.input("B", width)
    y = ops.layer_norm(x, net.input("G", width), net.input("B", width))
    y = ops.gelu(ops.matmul(y, net.input("Up", width, 4 * width)) + net.input("B", 4 * width))
    return net.built(x + ops.matmul(y, net.input("Down", 4 * width, width)) + net.input("B", width))
