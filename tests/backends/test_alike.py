"""Kernels that differ in integers only, compiled as one function with parameters."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tileir
from tileir_llvm.emit.alike import MOST_STRIDES, in_order, joined
from tileir_llvm.emit.text import ModuleText

RANDOM = np.random.default_rng(0)


def chain(*sizes: int) -> tuple[str, dict[str, np.ndarray[Any, Any]]]:
    """Return products of matrices one after the other, and their arguments."""
    names = [f"W{number}[N{number}, N{number + 1}]" for number in range(len(sizes) - 1)]
    lines = [
        f"T{number + 1}[i, j : M, N{number + 1}] = +(T{number}[i, k] * W{number}[k, j]);"
        for number in range(len(sizes) - 1)
    ]
    text = f"function (T0[M, N0], {', '.join(names)}) -> (T{len(sizes) - 1}) {{ {' '.join(lines)} }}"
    arrays = {"T0": RANDOM.standard_normal((24, sizes[0])).astype(np.float32)}
    for number, (rows, columns) in enumerate(pairwise(sizes)):
        arrays[f"W{number}"] = RANDOM.standard_normal((rows, columns)).astype(np.float32)
    return text, arrays


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sizes", [(64, 96, 128, 160, 192), (48, 80, 112), (64, 64, 64), (33, 65, 97, 129)])
def test_products_of_other_sizes_share_functions_and_are_right(sizes: tuple[int, ...]) -> None:
    text, arrays = chain(*sizes)
    function = tileir.jit(text, device="llvm")
    wanted = arrays["T0"].astype(np.float64)
    for number in range(len(sizes) - 1):
        wanted = wanted @ arrays[f"W{number}"].astype(np.float64)
    np.testing.assert_allclose(function(**arrays), wanted, rtol=1e-4, atol=1e-3 * np.abs(wanted).max())


def test_products_that_differ_in_their_length_are_compiled_once() -> None:
    lengths = (256, 320, 384, 448)
    text = "function ({}) -> ({}) {{ {} }}".format(
        ", ".join(f"A{n}[M, K{n}], B{n}[K{n}, N]" for n in lengths),
        ", ".join(f"C{n}" for n in lengths),
        " ".join(f"C{n}[i, j : M, N] = +(A{n}[i, k] * B{n}[k, j]);" for n in lengths),
    )
    arrays = {f"A{n}": RANDOM.standard_normal((24, n)).astype(np.float32) for n in lengths}
    arrays |= {f"B{n}": RANDOM.standard_normal((n, 96)).astype(np.float32) for n in lengths}
    function = tileir.jit(text, device="llvm")
    for n, result in zip(lengths, function(**arrays), strict=True):
        wanted = arrays[f"A{n}"].astype(np.float64) @ arrays[f"B{n}"].astype(np.float64)
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-3)
    listing = function.specialise(**arrays).listing("llvm")
    entries, functions = (len(re.findall(f"^define {word}", listing, re.MULTILINE)) for word in ("void", "internal"))
    assert functions < entries


HEADER = (
    "define internal void @{name}.groups(ptr align {align} dereferenceable({size}) %a0, i64 %begin, i64 %end) #0 {{"
)
ENTRY = (
    "define void @{name}(ptr %args) #0 {{\n  call void @{name}.groups(ptr %a0, i64 %begin, i64 %end)\n  ret void\n}}\n"
)


def module(name: str, body: str, align: int = 64, size: int = 4096) -> ModuleText:
    """Return a module of one kernel."""
    made = ModuleText(scheduled=True)
    made.functions.append(ENTRY.format(name=name))
    made.functions.append(f"{HEADER.format(name=name, align=align, size=size)}\nentry:\n{body}  ret void\n}}\n")
    return made


def test_integers_become_parameters_and_promises_hold_for_all() -> None:
    body = "  %v1 = mul nsw i64 %g0, {0}\n  %v2 = getelementptr float, ptr %a0, i64 {1}\n  %v3 = add nsw i64 %v1, 8\n"
    (one,) = joined(
        [
            module("k0", body.format(3, 100)),
            module("k1", body.format(5, 140), 4, 8192),
            module("k2", body.format(7, 60)),
        ]
    )
    *entries, function = one.functions
    assert "align 4 dereferenceable(4096) %a0, i64 %begin, i64 %end, i64 %s0, i64 %s1)" in function
    assert "%v3 = add nsw i64 %v1, 8\n" in function, "it is the same in all"
    given = [re.findall(r"@(\S+)\(ptr %a0, i64 %begin, i64 %end, i64 (-?\d+), i64 (-?\d+)\)", each) for each in entries]
    assert given == [[("k0.groups", "0", "0")], [("k0.groups", "2", "40")], [("k0.groups", "4", "-40")]]


def test_offsets_that_grow_together_are_one_parameter() -> None:
    body = "".join(f"  %v{row} = getelementptr float, ptr %a0, i64 {{{row}}}\n" for row in range(6))
    (one,) = joined([module(f"k{n}", body.format(*(1000 * n + 49 * row for row in range(6)))) for n in range(3)])
    assert "i64 %s0)" in one.functions[-1]
    assert "%s1" not in one.functions[-1]


def test_other_instructions_are_not_joined() -> None:
    made = [module("k0", "  %v1 = sdiv i64 %g0, 3\n"), module("k1", "  %v1 = sdiv i64 %g0, 5\n")]
    assert [len(each.functions) for each in joined(made)] == [2, 2]
    made[1].metadata.append("!{}")
    equal = [module("k0", "  %v1 = mul nsw i64 %g0, 3\n"), module("k1", "  %v1 = mul nsw i64 %g0, 5\n")]
    equal[1].declarations["declare float @f()"] = None
    assert [len(each.functions) for each in joined(equal)] == [2, 2]


def test_loops_of_other_lengths_are_joined() -> None:
    made = [module("k0", "  %v1 = mul nsw i64 %g0, 3\n"), module("k1", "  %v1 = mul nsw i64 %g0, 5\n")]
    for turns, each in enumerate(made):
        each.metadata.append(f'!{{!"branch_weights", i32 {turns}, i32 1}}')
    assert len(list(joined(made))) == 1
    made[1].metadata.append("!{}")
    assert len(list(joined(made))) == 2


def test_loops_of_products_keep_strides_that_would_take_too_many_registers() -> None:
    def body(stride: int) -> str:
        rows = range(1, MOST_STRIDES + 2)
        addresses = "".join(f"  %v{row} = getelementptr float, ptr %a0, i64 {row * stride}\n" for row in rows)
        reads = "".join(f"  %v{20 + row} = load float, ptr %v{row}, align 4\n" for row in rows)
        product = "  %v50 = call float @llvm.fma.f32(float %v21, float %v22, float %v23)\n"
        return (
            f"  br label %loop1\nloop1:\n{addresses}{reads}{product}  br i1 %v60, label %loop1, label %done1\ndone1:\n"
        )

    made = list(joined([module("k0", body(96)), module("k1", body(128)), module("k2", body(96))]))
    assert [len(each.functions) for each in made] == [3, 2]
    few = [module(f"k{n}", body(96 + n).replace("llvm.fma", "llvm.minimum")) for n in range(2)]
    assert len(list(joined(few))) == 1


def test_kernels_with_equal_outlines_come_last_and_together() -> None:
    assert in_order(["a", "b", "c", "a", "d", "c", "a"]) == [1, 4, 0, 3, 6, 2, 5]
