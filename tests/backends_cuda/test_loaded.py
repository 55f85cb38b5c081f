"""Addresses from which threads load the left operand of products by four warps, computed on the processor."""

from __future__ import annotations

import ctypes

import llvmlite.binding as llvm
import numpy as np
import pytest

import tileir
from tileir.core.fragments import FRAGMENTS
from tileir.semtree.ir import MatrixMultiply
from tileir.semtree.rewrite import statements
from tileir.semtree.swizzles import folded_place
from tileir_cuda.emit.operands import Matrix
from tileir_cuda.emit.warpgroups import addresses
from tileir_llvm.emit.text import FunctionText, ModuleText

PRODUCT = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"


def product() -> MatrixMultiply:
    options = tileir.Options(fast_math=True)
    executable = tileir.compile(PRODUCT, ["f32[1024, 1024]"] * 2, device="cuda.sm_90a", options=options)
    (kernel,) = executable.sem.kernels
    (found,) = (stmt for stmt in statements(kernel.body) if isinstance(stmt, MatrixMultiply))
    return found


def places(matrix: Matrix, start: int, step: int) -> np.ndarray:
    """Return the address of each word of all threads."""
    out = FunctionText(ModuleText(""))
    for number, address in enumerate(addresses(out, matrix, f"{start}", "%thread", 0, step)):
        out.effect(f"store i32 {address}, ptr {out.pure(f'getelementptr i32, ptr %result, i32 {number}')}")
    out.effect("ret void")
    text = out.text("define void @places(i32 %thread, ptr %result)")
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    builder = llvm.JITLibraryBuilder().add_object_img(machine.emit_object(llvm.parse_assembly(text)))
    library = builder.export_symbol("places").link(llvm.create_lljit_compiler(machine, use_jit_link=True), "places")
    call = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)(library["places"])
    result = np.zeros((128, 4), np.int32)
    for thread in range(128):
        call(thread, result[thread].ctypes.data)
    return result


@pytest.mark.parametrize("step", [0, 3])
def test_threads_load_what_the_instruction_wants(step: int) -> None:
    stmt = product()
    fragment, left = FRAGMENTS[stmt.fragment], stmt.left
    layout = fragment.a.layout
    assert layout is not None
    rows, _, depth = fragment.mnk
    matrix = Matrix.of(left, depth, rows, right=False)
    assert matrix is not None
    assert matrix.across
    found = places(matrix, 0, step)
    threads, held = np.arange(128)[:, None], np.arange(layout.held)[None]
    at = {
        axis: np.vectorize(lambda thread, element, axis=axis: layout.at(axis, thread, element))(threads, held)
        for axis in "mk"
    }
    place = at["m"] * left.strides[0] + (at["k"] + depth * step) * left.strides[1]
    place = folded_place(place, left.fold)
    place ^= (place >> left.shift) & left.mask
    np.testing.assert_array_equal(found, 4 * place)
