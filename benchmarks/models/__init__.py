"""Networks as ONNX models, built from their public definitions, with random weights: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from models.builder import Array, Builder, Network
from models.images import convnext, efficientnet, mobilenet, resnet, vit
from models.pixels import detector, unet
from models.texts import bert, gpt2, gpt2_decode, llama_decode, tagger, whisper

__all__ = ["MODELS", "Array", "Builder", "Network"]

MODELS: Final[dict[str, Callable[[int], Network]]] = {
    "resnet_50": resnet,
    "mobilenet_v3": mobilenet,
    "efficientnet_b0": efficientnet,
    "vit_b": vit,
    "convnext_t": convnext,
    "unet": unet,
    "yolo": detector,
    "bert_base": bert,
    "gpt2": gpt2,
    "gpt2_decode": gpt2_decode,
    "llama_decode": llama_decode,
    "whisper": whisper,
    "lstm_tagger": tagger,
}
"""Makers of networks by name: each takes the size of a batch."""
