"""Casts of bf16 that back ends for cards leave to the emitter, run on the host for all numbers."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np
import pytest

import tileir
from tileir.core.dtype import DType
from tileir.semtree.ir import Type
from tileir_cuda.architectures import ARCHITECTURES
from tileir_cuda.emit.ptx import ptx
from tileir_llvm.device.host import device
from tileir_llvm.emit.conversions import cast
from tileir_llvm.emit.memory import Offset, Place, load
from tileir_llvm.emit.spelling import register
from tileir_llvm.emit.text import FunctionText, ModuleText, Value
from tileir_llvm.run.loader import load_code
from tileir_llvm.run.modules import object_code

ALL = np.arange(1 << 16, dtype=np.uint16)


def casts(source: DType, lanes: int, *to: DType, head: str = "define void") -> str:
    """Return a function that casts ``lanes`` neighbours to one type after the other."""
    out = FunctionText(ModuleText(""))
    found = Value("%given", Type(source, lanes))
    for dtype in to:
        found = cast(out, found, dtype)
    lines = (
        f"{head} @casts(ptr %from, ptr %to) {{",
        f"  %given = load {register(Type(source, lanes))}, ptr %from, align {source.itemsize}",
        *out.lines,
        f"  store {register(found.type)} {found.text}, ptr %to, align 4",
        "  ret void",
        "}",
    )
    return "\n".join(lines)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 6, 8, 16])
def test_all_numbers_keep_their_bits(lanes: int) -> None:
    features = device().features
    code = load_code((object_code(casts(DType.BF16, lanes, DType.F32), features),), ("casts",), features)
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.addresses[0])
    given = np.append(ALL, ALL[: -len(ALL) % lanes])
    found = np.zeros(len(given) + 4 * lanes, np.float32)
    for first in range(0, len(given), lanes):
        run(given.ctypes.data + 2 * first, found.ctypes.data + 4 * first)
    wanted = given.view(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(found[: len(given)].view(np.uint32), given.astype(np.uint32) << 16)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(found[: len(given)][numbers], wanted[numbers])


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_two_neighbours_take_two_instructions(lanes: int) -> None:
    text = ptx([casts(DType.F32, lanes, DType.BF16, DType.F32, head="define ptx_kernel void")], ARCHITECTURES["sm_90a"])
    names = ("cvt.rn.bf16x2.f32", "shl.b32", "and.b32", "cvt.u32.u16")
    assert [text.count(name) for name in names] == [lanes // 2] * 3 + [0]


@pytest.mark.parametrize("lanes", [1, 2, 3, 8])
@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
def test_elements_that_are_widened_at_each_read_are_those_that_were_stored(dtype: DType, lanes: int) -> None:
    kind, out = Type(dtype, lanes), FunctionText(ModuleText(""))
    found = load(out, Place("%from", dtype, 2, narrow=True), Offset(None, None), kind)
    lines = ("define void @copy(ptr %from, ptr %to) {", *out.lines)
    end = (f"  store {register(kind)} {found.text}, ptr %to, align 2", "  ret void", "}")
    features = device().features
    code = load_code((object_code("\n".join((*lines, *end)), features),), ("copy",), features)
    given = np.arange(0x3C00, 0x3C00 + lanes, dtype=np.uint16)
    copied = np.zeros(lanes, np.uint16)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.addresses[0])(given.ctypes.data, copied.ctypes.data)
    np.testing.assert_array_equal(copied, given)


@pytest.mark.parametrize(("columns", "elements", "again"), [(1 << 16, 64, True), (1 << 14, 32, False)])
def test_rows_that_registers_hold_in_16_bits_are_widened_at_each_read(columns: int, elements: int, again: bool) -> None:
    """Two loops compute with elements of a thread; of few, the exponentials are kept in f32."""
    builder = tileir.FunctionBuilder()
    function = builder.build(Y=tileir.ops.softmax(builder.input("X", "M", "N")))
    listing = tileir.compile(function, [f"f16[2048, {columns}]"], device="cuda.sm_90a").listing("ptx")
    assert (listing.count("cvt.f32.f16") >= 2 * elements) is again
