"""Tests of what depends on the version of Python, which all versions run; one of them runs the others."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parents[1]
PYTHON: Final = (
    "architecture/test_public_api.py",
    "backends/test_array_calls.py",
    "backends/test_forking.py",
    "backends/test_gate_of_forks.py",
    "backends/test_kept_memory.py",
    "backends/test_pool.py",
    "backends/test_uninterrupted.py",
    "core/test_array_value.py",
    "core/test_attrs.py",
    "core/test_cancellation.py",
    "core/test_codec.py",
    "core/test_collection.py",
    "core/test_distributions.py",
    "core/test_dtype.py",
    "core/test_errors.py",
    "core/test_forking.py",
    "core/test_json_versions.py",
    "core/test_protocols.py",
    "core/test_shown.py",
    "core/test_tracebacks.py",
    "driver/test_arguments.py",
    "driver/test_compiling_in_threads.py",
    "driver/test_device_arrays.py",
    "driver/test_executable.py",
    "driver/test_extensions.py",
    "driver/test_jit.py",
    "driver/test_pending.py",
    "driver/test_pickling.py",
    "driver/test_stepper.py",
    "driver/test_wrong_kinds.py",
    "runtime",
    "tools/test_soak.py",
    "tile/test_builder.py",
    "tile/test_builder_functions.py",
    "tile/test_builder_scans.py",
)
"""Tests of what depends on the version of Python: dispatch, buffers, pickling, threads and forks, annotations, and what
classes show. They get the marker ``python``, by which the versions beside the one that runs everything choose them."""


_PATHS: Final = frozenset(TESTS / each for each in PYTHON)


@functools.cache  # each of forty thousand tests asks
def depends_on_python(path: Path) -> bool:
    """Return whether the tests of a file, or of some files of a folder, get the marker ``python``."""
    return not _PATHS.isdisjoint((path, *path.parents))
