"""Compilation of LLVM IR text modules to object code and assembly for the host's processor.

Objects that work on a module belong to one thread, and are freed with the last reference to them, so that they are
neither leaked nor freed while in use.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import string_at
from functools import cache
from typing import Any, Final

import llvmlite.binding as llvm
from llvmlite.binding import ffi

from tileir.core.errors import BackendError
from tileir_llvm.device.processor import processor
from tileir_llvm.emit.text import SCHEDULED
from tileir_llvm.run.forking import guard_forks

OPTIMISATION: Final = 2
"""Optimisation level of LLVM's passes. Level 3 unrolls loops to four times as much code without speedup: borders of
convolutions took 40 to 105 ms to optimise (16 to 22 with level 2), and a tenth longer to run.
"""

GENERATION: Final = 3
"""Level of LLVM's code generator."""

QUICK_GENERATION: Final = 1
"""Level of the code generator for quick compilation. Level 0 takes half the time, and its loops run three to five times
as long.
"""


class Passes(llvm.ModulePassManager):
    """Passes for one module, which LLVM consumes.

    llvmlite 0.50 never frees them, as its class finds the empty ``_dispose`` of ``ObjectRef`` before that of pass
    managers: some 50 KiB for each module.
    """

    def __init__(self, builder: llvm.PassBuilder, pointer: Any = None) -> None:
        super().__init__(pointer)
        self.builder = builder  # goes after the passes

    def _dispose(self) -> None:
        ffi.lib.LLVMPY_DisposeNewModulePassManger(self)


def can_pass_the_lock() -> bool:
    """Return whether this llvmlite supports calls without its lock, for which it has no public name."""
    return all(hasattr(call, "_cfn") for call in (_optimise(), _emit()))


def object_code(
    text: str, features: tuple[str, ...], *, optimise: bool = True, past_the_lock: bool = False, quick: bool = False
) -> bytes:
    """Return relocatable object code of a module for the host's processor with these features.

    Args:
        text: LLVM IR.
        features: Names of features of :func:`tileir_llvm.device.processor.processor`.
        optimise: Whether to run LLVM's passes.
        past_the_lock: Whether other threads may enter LLVM meanwhile. The caller is then in
            :data:`tileir_llvm.run.forking.PAST_THE_LOCK`.
        quick: Whether to compile faster to slower code.

    Raises:
        BackendError: TIL805, LLVM refused the code.
    """
    with refusals(), _spare_machine(features, quick) as machine:
        module = parsed(text, machine)
        if optimise:
            optimised(module, _passes(text, machine, quick), past_the_lock)
        return emitted(module, machine, past_the_lock)


def assembly(text: str, features: tuple[str, ...], *, quick: bool = False) -> str:
    """Return the assembly of an optimised module; arguments and errors are those of :func:`object_code`."""
    with refusals(), _spare_machine(features, quick) as machine:
        module = parsed(text, machine)
        optimised(module, _passes(text, machine, quick), past_the_lock=False)
        return machine.emit_assembly(module)


def target_machine(features: tuple[str, ...], *, quick: bool = False) -> llvm.TargetMachine:
    """Return a code generator for the processor with these features, for one thread at a time."""
    _initialise()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=processor().name,
        features=",".join(f"+{feature}" for feature in features),
        opt=QUICK_GENERATION if quick else GENERATION,
        reloc="pic",
        codemodel="default",
        jit=True,
    )


@cache
def _initialise() -> None:
    guard_forks()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@contextmanager
def _spare_machine(features: tuple[str, ...], quick: bool) -> Iterator[llvm.TargetMachine]:
    """Lend a code generator to one thread. Making one is cheap; its first use takes a tenth of a small compilation."""
    spare = _machines.setdefault((features, quick), deque())
    try:
        machine = spare.pop()
    except IndexError:
        machine = target_machine(features, quick=quick)
    yield machine
    spare.append(machine)


_machines: Final[dict[tuple[tuple[str, ...], bool], deque[llvm.TargetMachine]]] = {}
"""Unused code generators, by features, and whether they are quick."""


@contextmanager
def refusals() -> Iterator[None]:
    """Convert LLVM's errors to a defect of tileir: TIL805."""
    try:
        yield
    except RuntimeError as error:
        raise BackendError.of("TIL805", f"LLVM refused the code, which is a defect of tileir: {error}") from error


def parsed(text: str, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """Parse and verify a module, in a separate context."""
    module = llvm.parse_assembly(text, llvm.create_context())
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    return module


def _pass_builder(machine: llvm.TargetMachine) -> llvm.PassBuilder:
    tuning = llvm.create_pipeline_tuning_options(OPTIMISATION)
    tuning.loop_vectorization = True
    tuning.slp_vectorization = True
    return llvm.create_pass_builder(machine, tuning)


def whole_pipeline(builder: llvm.PassBuilder, level: int) -> Passes:
    """Return LLVM's own passes at a speed level."""
    return Passes(builder, ffi.lib.LLVMPY_buildPerModuleDefaultPipeline(builder, level))


def _passes(text: str, machine: llvm.TargetMachine, quick: bool) -> Passes:
    """Return LLVM's whole pipeline; for a scheduled or quick module only the promotion of variables to registers.

    The other passes would not improve a scheduled module: instructions are value-numbered when written, loop-invariant
    instructions hoisted, and parallelism is in vectors. The pipeline takes between half and four fifths of the
    compilation time, mostly for InstCombine, which visits all instructions some eight times.
    """
    builder = _pass_builder(machine)
    if not quick and not text.startswith(SCHEDULED):
        return whole_pipeline(builder, OPTIMISATION)
    passes = Passes(builder)
    passes.add_sroa_pass()
    if _OF_LANES.search(text):
        passes.add_sccp_pass()
    passes.add_simplify_cfg_pass()
    return passes


_OF_LANES: Final = re.compile(r" trunc <\d+ x i64> <i64 ")
"""Converted lane numbers in a test of coordinates: results of these tests are constant if loops do not move the lanes,
and cost registers while code generators treat them as computed.
"""


def optimised(module: llvm.ModuleRef, passes: Passes, past_the_lock: bool) -> None:
    """Run passes over a module."""
    run = _optimise()._cfn if past_the_lock else _optimise()
    run(passes, module, passes.builder)


def emitted(
    module: llvm.ModuleRef, machine: llvm.TargetMachine, past_the_lock: bool, *, assembly: bool = False
) -> bytes:
    """Return object code of a module, or its assembly."""
    emit = _emit()._cfn if past_the_lock else _emit()
    complaint = ffi.OutputString()
    buffer = emit(machine, module, int(not assembly), complaint)
    if not buffer:
        raise RuntimeError(str(complaint))
    try:
        return string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def _optimise() -> Any:
    return ffi.lib.LLVMPY_RunNewModulePassManager


def _emit() -> Any:
    return ffi.lib.LLVMPY_TargetMachineEmitToMemory
