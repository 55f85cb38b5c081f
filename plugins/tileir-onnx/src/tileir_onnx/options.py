"""Options of sessions and calls, with the names and numbers of onnxruntime."""

from __future__ import annotations

from enum import Enum
from typing import Any

from attrs import define, field

import tileir
from tileir import ArgumentError


class GraphOptimizationLevel(Enum):
    """Levels of onnxruntime's graph rewriting; they make no difference to tileir."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(Enum):
    """Sequential or parallel nodes; tileir decides itself."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(Enum):
    """Order of nodes; tileir decides itself."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


@define
class SessionOptions:
    """Options of a session. Options of onnxruntime without meaning here are accepted without effect.

    Attributes:
        intra_op_num_threads: Threads of a call; 0 for all that the process may use.
        enable_profiling: Whether :meth:`InferenceSession.end_profiling` writes the times of calls.
        profile_file_prefix: Prefix of that file's name.
    """

    intra_op_num_threads: int = 0
    inter_op_num_threads: int = 0
    enable_profiling: bool = False
    profile_file_prefix: str = "tileir_profile_"
    graph_optimization_level: Any = GraphOptimizationLevel.ORT_ENABLE_ALL
    execution_mode: Any = ExecutionMode.ORT_SEQUENTIAL
    execution_order: Any = ExecutionOrder.DEFAULT
    enable_mem_pattern: bool = True
    enable_cpu_mem_arena: bool = True
    enable_mem_reuse: bool = True
    use_per_session_threads: bool = True
    log_severity_level: int = 2
    log_verbosity_level: int = 0
    logid: str = ""
    optimized_model_filepath: str = ""
    use_deterministic_compute: bool = True
    _sizes: dict[str, int] = field(factory=dict, init=False)
    _entries: dict[str, str] = field(factory=dict, init=False)

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Fix the size of a named dimension: calls with another size are errors."""
        self._sizes[name] = size

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Store an entry, which has no effect."""
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """Return an entry that was added.

        Raises:
            ArgumentError: TIL707, it was not.
        """
        return _entry(self._entries, key)

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of dimensions by their names."""
        return self._sizes


@define
class RunOptions:
    """Options of a call, without effect."""

    log_severity_level: int = 2
    log_verbosity_level: int = 0
    logid: str = ""
    terminate: bool = False
    only_execute_path_to_fetches: bool = False
    _entries: dict[str, str] = field(factory=dict, init=False)

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Store an entry, which has no effect."""
        self._entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        """Return an entry that was added.

        Raises:
            ArgumentError: TIL707, it was not.

        """
        return _entry(self._entries, key)


def get_device() -> str:
    """Return ``GPU`` if there is an NVIDIA card, otherwise ``CPU``."""
    return "GPU" if any(device.id.startswith("cuda.") for device in tileir.devices()) else "CPU"


def set_default_logger_severity(level: int) -> None:
    """Accept a level, without effect: the logger ``tileir`` is one of :mod:`logging`."""


def set_default_logger_verbosity(level: int) -> None:
    """Accept a level, without effect: the logger ``tileir`` is one of :mod:`logging`."""


def _entry(entries: dict[str, str], key: str) -> str:
    if key not in entries:
        raise ArgumentError.of("TIL707", f"there is no entry {key!r:.80}")
    return entries[key]
