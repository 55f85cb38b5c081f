"""Libraries that are built while the kernels of their programs are being made."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir
from strategies.devices import compiler
from strategies.processes import in_forked_child
from tileir.core.cancelling import CancelledError
from tileir.core.errors import BackendError, Diagnostic, TileError
from tileir.core.targets.target import Target
from tileir.driver import compiler as stages
from tileir.driver.ahead import Ahead
from tileir.driver.compiler import compile_stages
from tileir.runtime.interface import Options
from tileir.semtree.simplify.simplifier import simplify as simplify_kernel
from tileir.semtree.text.parser import parse_kernel
from tileir.typed.ir import TensorType
from tileir_llvm import compiler as llvm_compiler
from tileir_llvm.compiler import LLVMCompiler
from tileir_llvm.run.parallel_modules import object_codes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tileir.semtree.ir import KernelFunction
    from tileir_llvm.run.library import LLVMLibrary

SCALAR = "for (i64 i = 0; i < 16; i += 1) {{ O[i] = A[i] + {0}.0; }}"
VECTOR = "O[0 : 16] = A[0 : 16] + f32x16({0}.0);"
KERNELS = [
    parse_kernel(
        f"kernel add{number}(out f32 O[16] align(64) noalias, in f32 A[16] align(64) noalias) grid(1) operations(16) "
        f"{{ {(SCALAR, VECTOR)[number % 2].format(number)} }}"
    )
    for number in range(7)
]
TEXT = "function (A[N], B[M, M]) -> (C, D) { C[] = +(A[i]); D[i, j : M, M] = +(B[i, k] * B[k, j]); }"
ARRAYS = {"A": np.ones(100_000, np.float32), "B": np.ones((32, 32), np.float32)}


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> LLVMCompiler:
    """Return a compiler that has two threads on machines of one processor, too."""
    monkeypatch.setattr(LLVMCompiler, "_threads", 2)
    return compiler()


@pytest.mark.parametrize("length", [1, 1000, 1 << 20])
def test_libraries_do_not_tell_how_their_kernels_came(
    length: int, two_threads: LLVMCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPTIMISED_LENGTH", "SCHEDULED_LENGTH"):
        monkeypatch.setattr(llvm_compiler, name, length)
    expected = two_threads.build(KERNELS).save()
    monkeypatch.setattr(LLVMCompiler, "build", None)
    assert built(two_threads, KERNELS, KERNELS).save() == expected


def built(compiler: LLVMCompiler, handed: Sequence[KernelFunction], wanted: Sequence[KernelFunction]) -> LLVMLibrary:
    ahead = Ahead(compiler)
    ahead.begin()
    for kernel in handed:
        ahead.add(kernel)
    return ahead.build(wanted)


def test_other_kernels_than_were_handed_over_are_built_again(two_threads: LLVMCompiler) -> None:
    for wanted in (KERNELS[:3], KERNELS[2:4], []):
        library = built(two_threads, KERNELS[:2], wanted)
        assert library.kernels == tuple(wanted)
        assert library.save() == two_threads.build(wanted).save()


def test_what_fails_ahead_fails_as_it_does_otherwise(
    two_threads: LLVMCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: LLVMCompiler, kernels: Any) -> None:
        raise BackendError.of("TIL805", f"refused {[kernel.name for kernel in kernels]}")

    monkeypatch.setattr(LLVMCompiler, "build_pipelined", refuse)
    assert built(two_threads, KERNELS[:2], KERNELS[:2]).kernels == tuple(KERNELS[:2])
    monkeypatch.setattr(LLVMCompiler, "build", refuse)
    with pytest.raises(BackendError, match="refused \\['add0', 'add1'\\]"):
        built(two_threads, KERNELS[:2], KERNELS[:2])


def test_who_gives_up_leaves_no_thread(two_threads: LLVMCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[BaseException] = []

    def keep(_: LLVMCompiler, kernels: Iterator[KernelFunction]) -> None:
        try:
            list(kernels)
        except BaseException as error:
            seen.append(error)
            raise

    monkeypatch.setattr(LLVMCompiler, "build_pipelined", keep)
    ahead = Ahead(two_threads)
    ahead.begin()
    ahead.close()
    assert seen == []
    ahead = Ahead(two_threads)
    ahead.begin()
    ahead._closed = True  # as if it were closed while kernels wait
    ahead.add(KERNELS[0])
    ahead.close()
    assert [type(error) for error in seen] == [CancelledError]


def test_children_build_what_their_parents_began(two_threads: LLVMCompiler) -> None:
    expected = two_threads.build(KERNELS).save()
    ahead = Ahead(two_threads)
    ahead.begin()
    for kernel in KERNELS:
        ahead.add(kernel)
    assert in_forked_child(lambda: ahead.build(KERNELS).save() == expected)
    assert ahead.build(KERNELS).save() == expected


def test_the_first_kernel_is_compiled_while_the_second_one_is_made(
    two_threads: LLVMCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    del two_threads
    begun, waited = threading.Event(), list[bool]()
    emitted, simplify = object_codes, simplify_kernel

    def telling(texts: Iterator[str], *arguments: Any, **options: Any) -> tuple[bytes, ...]:
        def told() -> Iterator[str]:
            for text in texts:
                begun.set()
                yield text

        return emitted(told(), *arguments, **options)

    def waiting(kernel: KernelFunction) -> KernelFunction:
        waited.append(not waited or begun.wait(60))
        return simplify(kernel)

    for name in ("OPTIMISED_LENGTH", "SCHEDULED_LENGTH"):
        monkeypatch.setattr(llvm_compiler, name, 1)
    monkeypatch.setattr(llvm_compiler, "object_codes", telling)
    monkeypatch.setattr(stages, "simplify_kernel", waiting)
    with tileir.Context(disk_cache=None) as context:
        one, several = tileir.jit(TEXT, context=context, device="llvm")(**ARRAYS)
    assert len(waited) > 1
    assert all(waited)
    assert one == 100_000
    np.testing.assert_array_equal(several, 32.0)


def test_kernels_are_told_of_in_their_order_and_only_legal_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    types = {name: TensorType(tileir.DType.F32, array.shape) for name, array in ARRAYS.items()}
    made: list[KernelFunction] = []
    program = compile_stages(TEXT, types, Target(), made=made.append).sem
    assert list(map(id, made)) == list(map(id, program.kernels))
    monkeypatch.setattr(stages, "kernel_faults", lambda _: (Diagnostic("TIL551", "illegal"),))
    made.clear()
    compile_stages(TEXT, types, Target(), made=made.append)
    assert made == []


def test_programs_that_are_refused_leave_no_thread(two_threads: LLVMCompiler) -> None:
    del two_threads
    before = {*threading.enumerate()}
    with tileir.Context(disk_cache=None) as context, pytest.raises(TileError):
        tileir.compile("function (A[N]) -> (B) { B = missing(A); }", {"A": (4,)}, device="llvm", context=context)
    for thread in {*threading.enumerate()} - before:
        thread.join(60)
        assert not thread.is_alive()


def test_one_thread_builds_nothing_ahead() -> None:
    alone = LLVMCompiler(compiler().device, Options(threads=1))
    assert not alone.pipelines
    ahead = Ahead(alone)
    ahead.begin()
    assert ahead._thread is None
    ahead.add(KERNELS[0])
    assert ahead.build(KERNELS[:1]).kernels == tuple(KERNELS[:1])
