"""Back end of tileir that emits C, compiles it with the system's compiler, and runs it in the process.

Importing this package neither searches nor starts a compiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.runtime.interface import Backend

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tileir import Function, TensorType
    from tileir.runtime.interface import DeviceInfo, Options
    from tileir.semtree.ir import Program
    from tileir_c.compiler import CCompiler
    from tileir_c.executor import CExecutor
    from tileir_c.library import CLibrary

__all__ = ["BACKEND"]


def _devices() -> Sequence[DeviceInfo]:
    from tileir_c.device import device  # a registry that only lists names needs none of this
    from tileir_c.toolchain import find_toolchain

    return (device(find_toolchain()),)


def _compiler(_: DeviceInfo, options: Options) -> CCompiler:
    from tileir_c.compiler import CCompiler
    from tileir_c.toolchain import find_toolchain

    return CCompiler(find_toolchain(), options)


def _executor(device: DeviceInfo, options: Options) -> CExecutor:
    from tileir_c.executor import CExecutor

    available = device.target.threads
    return CExecutor(min(options.threads or available, available))


def _source(program: Program, _: DeviceInfo, text: str) -> str:
    from tileir_c.aot.program import ahead

    return ahead(program, "formula", text).whole


def _library(function: Function, types: Mapping[str, TensorType], name: str) -> Mapping[str, str]:
    from tileir_c.aot.sources import sources

    return sources(function, types, name)


BACKEND: Final[Backend[CLibrary]] = Backend(
    "c",
    _devices,
    _compiler,
    _executor,
    forms={"c": "C"},
    source=_source,
    source_suffix=".c",
    library=_library,
)
"""Target of the entry point of the group ``tileir.backends``."""
