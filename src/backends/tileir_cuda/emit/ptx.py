"""Modules of LLVM IR text to PTX, in process."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import llvmlite.binding as llvm

from tileir_llvm.run.forking import guard_forks
from tileir_llvm.run.modules import parsed, refusals
from tileir_llvm.run.uninterrupted import uninterrupted

if TYPE_CHECKING:
    from tileir_cuda.architectures import Architecture

TRIPLE: Final = "nvptx64-nvidia-cuda"

OPTIMISATION: Final = 3
"""Speed level of LLVM's passes, and of its code generator."""

_PRODUCT_OF_BYTES: Final = "@llvm.nvvm.mma.m16n8k32.row.col.f32.e"
_OF_BYTES: Final = 84
"""Products of 8-bit floats by warps, and the oldest version of PTX that knows them."""


def ptx(text: str, architecture: Architecture) -> str:
    """Return PTX of an optimised module.

    Raises:
        BackendError: TIL805, LLVM refused the code.

    """
    return uninterrupted(lambda: _ptx(text, architecture))


def _ptx(text: str, architecture: Architecture) -> str:
    with refusals():
        machine = _machine(architecture, max(architecture.ptx, _OF_BYTES if _PRODUCT_OF_BYTES in text else 0))
        module = parsed(text, machine)
        tuning = llvm.create_pipeline_tuning_options(OPTIMISATION)
        # Vectors of a thread are but accesses to memory: kernels have those that pay.
        tuning.loop_vectorization = tuning.slp_vectorization = False
        builder = llvm.create_pass_builder(machine, tuning)
        passes = builder.getModulePassManager()
        passes.run(module, builder)
        return machine.emit_assembly(module)


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
