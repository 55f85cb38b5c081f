"""Dot products as LLVM gets them."""

from __future__ import annotations

import pytest

from strategies.devices import launch
from strategies.semtree_values import content
from tileir.core.dtype import DType
from tileir.core.fragments import FRAGMENTS, named
from tileir.semtree.interpret.interpreter import run
from tileir.semtree.ir import Assign, Const, Dot, KernelFunction, Param, ParamAccess, Subscript, Type
from tileir_llvm.emit.dots import SPELT, apply_dot, native_dots
from tileir_llvm.emit.text import FunctionText, ModuleText, Value

VNNI = ("avx512bf16", "avx512f", "avx512vl", "avx512vnni")


def test_a_processor_has_what_its_features_say() -> None:
    assert native_dots(VNNI) == {*named("avx512vnni"), *named("avx512bf16")} == set(SPELT)
    assert native_dots(("avx512vl", "avx512vnni")) == set(named("avx512vnni"))
    assert native_dots(("avx512vl",)) == frozenset()
    assert native_dots(("avx512vnni",)) == frozenset()


@pytest.mark.parametrize("name", SPELT)
def test_the_intrinsic_fits_the_fragment(name: str) -> None:
    (_, lanes, terms), (first, second, total) = FRAGMENTS[name].mnk, FRAGMENTS[name].dtypes
    call = {
        DType.U8: "@llvm.x86.avx512.vpdpbusd.",
        DType.I8: "@llvm.x86.avx512.vpdpbusd.",
        DType.I16: "@llvm.x86.avx512.vpdpwssd.",
        DType.BF16: "@llvm.x86.avx512bf16.dpbf16ps.",
    }[first]
    out = FunctionText(ModuleText(""))
    left, right = Value("%a", Type(first, lanes * terms)), Value("%b", Type(second, lanes * terms))
    result = apply_dot(out, left, right, Value("%c", Type(total, lanes)))
    assert result.type == Type(total, lanes)
    lines = [line for line in out.lines if "call" in line]
    assert len(lines) == (2 if first is second and terms == 4 else 1)
    assert all(f"{call}{32 * lanes}(" in line for line in lines)
    assert len(out.module.declarations) == 1


@pytest.mark.parametrize("terms", [1, 2, 4, 8])
@pytest.mark.parametrize(
    "factors",
    [(DType.U8, DType.I8), (DType.I8, DType.I8), (DType.U8, DType.U8), (DType.I16, DType.I16)],
    ids=str,
)
def test_other_numbers_of_terms_than_the_instruction_adds(factors: tuple[DType, DType], terms: int) -> None:
    """Four pairs of bytes fill a lane, and two pairs of shorts; the others are spelt out."""
    lanes, index = 8, Type(DType.I64)
    names = ("out", "left", "right")
    dtypes = (DType.I32, *factors)
    sizes = (lanes, lanes * terms, lanes * terms)
    parts = [Subscript(n, Const(0, index), Type(d, size)) for n, d, size in zip(names, dtypes, sizes, strict=True)]
    store = Assign(parts[0], Dot(parts[1], parts[2], Const(3, Type(DType.I32, lanes))))
    params = tuple(
        Param(n, d, size, ParamAccess.READ if place else ParamAccess.WRITE)
        for place, (n, d, size) in enumerate(zip(names, dtypes, sizes, strict=True))
    )
    kernel = KernelFunction("k", params, (store,))
    expected, actual = ([content(p.dtype, p.size, seed) for seed, p in enumerate(params)] for _ in range(2))
    run(kernel, expected)
    launch(kernel, actual)
    assert actual[0].tolist() == expected[0].tolist()
