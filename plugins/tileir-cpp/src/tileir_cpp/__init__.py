"""Back end of tileir that emits C++, on the compiler and the executor of `tileir-c`.

It demonstrates how little a further language requires: `emitter.py` emits the output of :mod:`tileir.semtree.legalise`.
Importing this package neither searches nor starts a compiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tileir.runtime.interface import Backend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.runtime.interface import DeviceInfo, Options
    from tileir_c.executor import CExecutor
    from tileir_c.library import CLibrary
    from tileir_cpp.compiler import CppCompiler

__all__ = ["BACKEND"]


def _devices() -> Sequence[DeviceInfo]:
    from tileir_c.device import device  # a registry that only lists names needs none of this
    from tileir_c.toolchain import find_toolchain

    found = device(find_toolchain())
    return (attrs.evolve(found, id="cpp.0", backend="cpp"),)


def _compiler(_: DeviceInfo, options: Options) -> CppCompiler:
    from tileir_c.toolchain import find_toolchain
    from tileir_cpp.compiler import CppCompiler

    return CppCompiler(find_toolchain(), options)


def _executor(device: DeviceInfo, options: Options) -> CExecutor:
    from tileir_c.executor import CExecutor

    available = device.target.threads
    return CExecutor(min(options.threads or available, available))


BACKEND: Final[Backend[CLibrary]] = Backend("cpp", _devices, _compiler, _executor, forms={"cpp": "C++"}, rank=-1)
"""Target of the entry point of the group ``tileir.backends``; its device has to be named."""
