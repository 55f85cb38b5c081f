"""Kernels to object code for the host's processor."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, TypeVar

import attrs
import llvmlite
import llvmlite.binding as llvm
from llvmlite.binding import ffi

from tileir.core.errors import BackendError, Diagnostic
from tileir.semtree.expansions import expand_kernel
from tileir.semtree.verifier import verify
from tileir_llvm.dots import native_dots
from tileir_llvm.emitter import emit
from tileir_llvm.floats import NATIVE
from tileir_llvm.forking import guard_forks
from tileir_llvm.library import LLVMLibrary, part_names
from tileir_llvm.side_by_side import Job, is_possible
from tileir_llvm.side_by_side import object_codes as compiled_side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tileir.runtime.interface import DeviceInfo, Options
    from tileir.semtree.ir import KernelFunction

T = TypeVar("T")

OPTIMISATION: Final = 3
"""Speed level of LLVM's pass pipeline. Levels 2 and 3 take the same time for kernels."""
MODULE_LENGTH: Final = 1 << 16
"""Modules are compiled side by side; one with so many characters, a twentieth of a second's work, is long enough."""


@attrs.frozen
class LLVMCompiler:
    """Compiles for one device; may be used from several threads."""

    device: DeviceInfo
    options: Options

    @property
    def identity(self) -> str:
        """Versions, processor, features and options: everything beside the kernels that object code depends on."""
        versions = ".".join(map(str, llvm.llvm_version_info))
        target = self.device.target
        parts = (
            f"tileir-{version('tileir')}",
            f"llvmlite-{llvmlite.__version__}",
            f"llvm-{versions}",
            llvm.get_default_triple(),
            target.name,
            f"{target.vector_bytes * 8}-bit",
            ",".join(self.device.features),
            "fast-math" if self.options.fast_math else "precise",
        )
        return " ".join(parts)

    def build(self, kernels: Sequence[KernelFunction]) -> LLVMLibrary:
        """Verify, expand, emit, optimise and assemble kernels.

        Raises:
            VerifyError: a kernel is not legal.
            BackendError: TIL804, a kernel needs what processors lack; TIL805, LLVM refused the code.

        """
        for kernel in kernels:
            verify(kernel)
        target = self.device.target
        dots = native_dots(self.device.features, fast_math=self.options.fast_math)
        expanded = [expand_kernel(kernel, NATIVE, dots) for kernel in kernels]
        texts = emit(
            expanded, vector_bits=target.vector_bytes * 8, fast_math=self.options.fast_math, length=MODULE_LENGTH
        )
        threads = min(self.options.threads or target.threads, target.threads)
        codes = object_codes(texts, self.device.features, threads)
        return LLVMLibrary(tuple(kernels), texts, codes, self._assembly)

    def load(self, kernels: Sequence[KernelFunction], parts: Mapping[str, bytes]) -> LLVMLibrary:
        """Undo :meth:`LLVMLibrary.save`.

        Raises:
            BackendError: TIL806, a part is missing or is not text.

        """
        texts: list[str] = []
        codes: list[bytes] = []
        try:
            while not texts or part_names(len(texts))[0] in parts:
                text, code = part_names(len(texts))
                texts.append(parts[text].decode())
                codes.append(bytes(parts[code]))
        except (KeyError, UnicodeDecodeError) as error:
            message = f"the saved parts {sorted(parts)} are not those of an LLVM library; compile again"
            raise BackendError((Diagnostic("TIL806", message),)) from error
        return LLVMLibrary(tuple(kernels), tuple(texts), tuple(codes), self._assembly)

    def _assembly(self, text: str) -> str:
        machine = target_machine(self.device.features)
        return _translated(text, machine, machine.emit_assembly)


def object_code(text: str, features: tuple[str, ...], *, optimise: bool = True) -> bytes:
    """Return relocatable object code of a module for the host's processor with these features.

    Raises:
        BackendError: TIL805, LLVM refused the code.

    """
    machine = target_machine(features)
    return _translated(text, machine, machine.emit_object, optimise=optimise)


def object_codes(texts: Sequence[str], features: tuple[str, ...], threads: int) -> tuple[bytes, ...]:
    """Return what :func:`object_code` makes of each module, with so many threads at most.

    Raises:
        BackendError: TIL805, LLVM refused the code.

    """
    if len(texts) == 1 or threads == 1 or not is_possible():
        return tuple(object_code(text, features) for text in texts)
    target_machine(features)
    with _refusals(), ExitStack() as stack:
        jobs = []
        for text in texts:
            machine = stack.enter_context(_machine(features))
            module = stack.enter_context(_module(text, machine))
            builder = stack.enter_context(_pass_builder(machine))
            passes = stack.enter_context(builder.getModulePassManager())
            jobs.append(Job(module, machine, builder, passes, stack.enter_context(ffi.OutputString())))
        return tuple(compiled_side_by_side(jobs, threads))


@cache
def target_machine(features: tuple[str, ...]) -> llvm.TargetMachine:
    """Return LLVM's code generator for the host; llvmlite lets one thread at a time use it."""
    guard_forks()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return _machine(features)


def _machine(features: tuple[str, ...]) -> llvm.TargetMachine:
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=",".join(f"+{feature}" for feature in features),
        opt=OPTIMISATION,
        reloc="pic",
        codemodel="default",
        jit=True,
    )


def _translated(
    text: str, machine: llvm.TargetMachine, finish: Callable[[llvm.ModuleRef], T], *, optimise: bool = True
) -> T:
    """Parse, verify and optimise a module, and return what ``finish`` makes of it."""
    with _refusals(), _module(text, machine) as module:
        if optimise:
            builder = _pass_builder(machine)
            builder.getModulePassManager().run(module, builder)
        return finish(module)


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        message = f"LLVM refused the code, which is a defect of tileir: {error}"
        raise BackendError((Diagnostic("TIL805", message),)) from error


@contextmanager
def _module(text: str, machine: llvm.TargetMachine) -> Iterator[llvm.ModuleRef]:
    """Parse and verify a module, in a context of its own."""
    with llvm.create_context() as context, llvm.parse_assembly(text, context) as module:
        module.triple = llvm.get_default_triple()
        module.data_layout = str(machine.target_data)
        module.verify()
        yield module


def _pass_builder(machine: llvm.TargetMachine) -> llvm.PassBuilder:
    tuning = llvm.create_pipeline_tuning_options(OPTIMISATION)
    tuning.loop_vectorization = True
    tuning.slp_vectorization = True
    return llvm.create_pass_builder(machine, tuning)
