"""Models of ONNX as programs of tileir: ``load`` reads one, and every command of tileir takes its file."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final

from attrs import frozen

from tileir import Function
from tileir_onnx.model import Model, load
from tileir_onnx.session import (
    InferenceSession,
    IOBinding,
    OrtValue,
    RunOptions,
    SessionOptions,
    get_available_providers,
)

__all__ = [
    "FRONTEND",
    "IOBinding",
    "InferenceSession",
    "Model",
    "OrtValue",
    "RunOptions",
    "SessionOptions",
    "get_available_providers",
    "load",
]


@frozen
class _Models:
    """The front end of files ``*.onnx``."""

    name: ClassVar[str] = "onnx"

    def load(self, path: Path) -> Function:
        return load(path).function


FRONTEND: Final = _Models()
