"""Compilation of LLVM IR modules to PTX, in process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Final

import llvmlite.binding as llvm

from tileir.core.nodes import attrs
from tileir_cuda.architectures import Architecture
from tileir_llvm.run.forking import guard_forks
from tileir_llvm.run.modules import emitted, optimised, parsed, refusals, whole_pipeline
from tileir_llvm.run.parallel_modules import made_side_by_side

TRIPLE: Final = "nvptx64-nvidia-cuda"

OPTIMISATION: Final = 3
"""Optimisation level of LLVM's passes and code generator."""

_PRODUCT_OF_BYTES: Final = "@llvm.nvvm.mma.m16n8k32.row.col.f32.e"
_OF_BYTES: Final = 84
"""Suffix of 8-bit float products of warps, and the oldest version of PTX that supports them."""


_HEADER_ENDS: Final = ".address_size 64\n"


@attrs.frozen
class CompiledModule:
    """Compiled module: PTX, and machine code if the card exists."""

    ptx: str
    cubin: bytes | None = None

    @property
    def code(self) -> bytes:
        """Code for the driver to load."""
        return self.cubin if self.cubin is not None else self.ptx.encode() + b"\0"


def made(
    texts: Iterable[str],
    architecture: Architecture,
    threads: int = 1,
    link: Callable[[str], bytes | None] = lambda _: None,
) -> tuple[CompiledModule, ...]:
    """Return compiled modules.

    Args:
        texts: LLVM IR, requested as threads become free.
        architecture: Target architecture.
        threads: Maximum number of modules compiled in parallel.
        link: Makes machine code of PTX.

    Raises:
        BackendError: TIL805, LLVM refused the code.
    """
    return made_side_by_side(partial(_made, architecture, link), texts, threads)


def ptx(texts: Iterable[str], architecture: Architecture) -> str:
    """Return the PTX of at least one optimised modules as one listing; modules have disjoint names.

    Raises:
        BackendError: TIL805, LLVM refused the code.
    """
    return joined([each.ptx for each in made(texts, architecture)])


def joined(listings: Iterable[str]) -> str:
    """Return listings joined into one, with their latest version."""
    headers, _, functions = zip(*(listing.partition(_HEADER_ENDS) for listing in listings), strict=True)
    return "".join((max(headers), _HEADER_ENDS, *functions))


def _made(
    architecture: Architecture, link: Callable[[str], bytes | None], text: str, *, past_the_lock: bool = False
) -> CompiledModule:
    listing = _ptx(architecture, text, past_the_lock=past_the_lock)
    return CompiledModule(listing, link(listing))


def _ptx(architecture: Architecture, text: str, *, past_the_lock: bool) -> str:
    with refusals():
        machine = _machine(architecture, max(architecture.ptx, _OF_BYTES if _PRODUCT_OF_BYTES in text else 0))
        module = parsed(text, machine)
        tuning = llvm.create_pipeline_tuning_options(OPTIMISATION)
        # Vectors of a thread are only memory accesses: kernels have those that pay.
        tuning.loop_vectorization = tuning.slp_vectorization = False
        builder = llvm.create_pass_builder(machine, tuning)
        optimised(module, whole_pipeline(builder, OPTIMISATION), past_the_lock)
        return emitted(module, machine, past_the_lock, assembly=True).decode()


def _machine(architecture: Architecture, version: int) -> llvm.TargetMachine:
    """Return a code generator, for use by one thread."""
    _initialise()
    target = llvm.Target.from_triple(TRIPLE)
    features = f"+ptx{version}"
    return target.create_target_machine(cpu=architecture.name, features=features, opt=OPTIMISATION)


@cache
def _initialise() -> None:
    guard_forks()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
