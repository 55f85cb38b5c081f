"""Native code that every process needs: generated once, and loaded by later processes.

Generating it would take longer than the rest of a call with kernels on disk.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Final

import llvmlite
import llvmlite.binding as llvm

from tileir.core.nodes import attrs
from tileir.runtime.caches.disk_cache import digest_of, recall, remember
from tileir_llvm.device.processor import processor
from tileir_llvm.run.loader import Code, load_code
from tileir_llvm.run.modules import object_code
from tileir_llvm.run.python_functions import address_of, through_table

_TABLE: Final = "python"


def fixed_code(text: str, symbols: Sequence[str], features: tuple[str, ...]) -> Code:
    """Load a module that needs no LLVM passes and is equal in each process.

    Args:
        text: LLVM IR without addresses; it may call functions of Python's C interface by name.
        symbols: Its functions.
        features: Names of features of :func:`tileir_llvm.device.processor.processor`.
    """
    text, names = through_table(text, _TABLE)
    code = load_code((_object(text, features),), (*symbols, *([_TABLE] if names else ())), features)
    if not names:
        return code
    *addresses, table = code.addresses
    (ctypes.c_void_p * len(names)).from_address(table)[:] = [address_of(name) for name in names]
    return attrs.evolve(code, addresses=tuple(addresses))


def _object(text: str, features: tuple[str, ...]) -> bytes:
    """Return the object code of a module from the cache on disk, storing it if missing."""
    versions = (".".join(map(str, llvm.llvm_version_info)), llvmlite.__version__, llvm.get_default_triple())
    key = " | ".join(("llvm fixed code", *versions, processor().name, ",".join(features), digest_of(text)))
    code = recall(key)
    if code is None:
        code = object_code(text, features, optimise=False)
        remember(key, code)
    return code
