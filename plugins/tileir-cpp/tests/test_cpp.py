"""Kernels through C++: generated ones, and what its text looks like; the conformance kit holds it to all else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tileir_cpp
from fuzz.semtree.kernel_case import numbered
from tileir.runtime.interface import Options
from tileir.semtree.text.parser import parse_kernel
from tileir_c.executor import CExecutor
from tileir_c.toolchain import find_toolchain
from tileir_cpp.compiler import CppCompiler
from tileir_cpp.emitter import emit

if TYPE_CHECKING:
    from fuzz.semtree.kernel_case import KernelCase


def compiler() -> CppCompiler:
    return CppCompiler(find_toolchain(), Options())


@pytest.mark.parametrize("seed", range(2))
def test_generated_kernels(seed: int) -> None:
    cases: list[KernelCase] = [numbered(seed, number) for number in range(12)]
    library = compiler().build([case.kernel for case in cases])
    executor = CExecutor(1)
    for number, case in enumerate(cases):
        arrays = case.arrays()
        executor.prepare(library, number).launch([buffer for array in arrays if (buffer := executor.wrap(array))])
        case.check(arrays)


def test_vectors_are_written_as_scalars_are() -> None:
    kernel = parse_kernel(
        "kernel k(out i32 O[8] align(4) noalias, in i32 A[8] align(4) noalias) grid(1) index(i64) {"
        "  i32x8 x = A[0 : 8]; i32x8 y = max(x, -x); O[0 : 8] = y + y; }"
    )
    text, scratch = emit([kernel], ["k_entry"])
    body = text.partition("} // namespace")[2]
    assert "for (int lane" not in body
    assert "const Lanes<int32_t, 8> v_x = load<int32_t, 8>(v_A + INT64_C(0));" in body
    assert "bits<Lanes<int32_t, 8>>(Lanes<uint32_t, 8>(bits<Lanes<uint32_t, 8>>" in body
    assert scratch == (0,)


def test_saved_libraries_know_their_language() -> None:
    kernel = parse_kernel("kernel k(out i32 O[8] align(4) noalias) grid(1) index(i64) { O[0] = i32(3); }")
    library = compiler().build([kernel])
    again = compiler().load([kernel], library.save())
    assert tileir_cpp.BACKEND.listing(again) == library.source
    assert "static_cast<int32_t *>" in again.listing("cpp")
