"""ONNX models as programs of tileir: ``load`` reads one, and every command of tileir takes its file."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final

from attrs import frozen

import tileir
from tileir import Function, frontends
from tileir_onnx.model import Model, load
from tileir_onnx.options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
    get_device,
    set_default_logger_severity,
    set_default_logger_verbosity,
)
from tileir_onnx.session import (
    InferenceSession,
    IOBinding,
    ModelMetadata,
    NodeArg,
    OrtValue,
    get_available_providers,
)

__all__ = [
    "FRONTEND",
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "Model",
    "ModelMetadata",
    "NodeArg",
    "OrtValue",
    "RunOptions",
    "SessionOptions",
    "__version__",
    "get_available_providers",
    "get_device",
    "load",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
]


@frozen
class _Models:
    """Front end of files ``*.onnx``."""

    name: ClassVar[str] = "onnx"

    def load(self, path: Path) -> Function | frontends.KnownFunction:
        return load(path).known()


__version__: Final = tileir.__version__
FRONTEND: Final = _Models()
