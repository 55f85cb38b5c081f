"""Modules of LLVM IR text to PTX, in process."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Final

import llvmlite.binding as llvm

from tileir_llvm.run.forking import guard_forks
from tileir_llvm.run.modules import emitted, optimised, parsed, refusals, whole_pipeline
from tileir_llvm.run.side_by_side import made_side_by_side

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tileir_cuda.architectures import Architecture

TRIPLE: Final = "nvptx64-nvidia-cuda"

OPTIMISATION: Final = 3
"""Speed level of LLVM's passes, and of its code generator."""

_PRODUCT_OF_BYTES: Final = "@llvm.nvvm.mma.m16n8k32.row.col.f32.e"
_OF_BYTES: Final = 84
"""Products of 8-bit floats by warps, and the oldest version of PTX that knows them."""


_HEADER_ENDS: Final = ".address_size 64\n"


def ptx(texts: Iterable[str], architecture: Architecture, threads: int = 1) -> str:
    """Return PTX of optimised modules, at least one, as one listing under the latest of their versions.

    Args:
        texts: LLVM IR; modules have no names in common. Each is asked for when a thread is free.
        architecture: What it is for.
        threads: How many modules are optimised side by side at most.

    Raises:
        BackendError: TIL805, LLVM refused the code.

    """
    listings = made_side_by_side(partial(_ptx, architecture), texts, threads)
    headers, _, functions = zip(*(listing.partition(_HEADER_ENDS) for listing in listings), strict=True)
    return "".join((max(headers), _HEADER_ENDS, *functions))


def _ptx(architecture: Architecture, text: str, *, past_the_lock: bool = False) -> str:
    with refusals():
        machine = _machine(architecture, max(architecture.ptx, _OF_BYTES if _PRODUCT_OF_BYTES in text else 0))
        module = parsed(text, machine)
        tuning = llvm.create_pipeline_tuning_options(OPTIMISATION)
        # Vectors of a thread are but accesses to memory: kernels have those that pay.
        tuning.loop_vectorization = tuning.slp_vectorization = False
        builder = llvm.create_pass_builder(machine, tuning)
        optimised(module, whole_pipeline(builder, OPTIMISATION), past_the_lock)
        return emitted(module, machine, past_the_lock, assembly=True).decode()


def _machine(architecture: Architecture, version: int) -> llvm.TargetMachine:
    """Return a code generator, which one thread may use."""
    _initialise()
    target = llvm.Target.from_triple(TRIPLE)
    features = f"+ptx{version}"
    return target.create_target_machine(cpu=architecture.name, features=features, opt=OPTIMISATION)


@cache
def _initialise() -> None:
    guard_forks()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
