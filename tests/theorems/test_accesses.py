"""Every access of known and of generated kernels lies inside its array; one element less, and a proof fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest

from fuzz.semtree.kernel_case import numbered
from strategies.access_bounds import faults
from strategies.golden_kernels import TARGETS, compiled, operations, workloads
from tileir.driver.compiler import compile_stages
from tileir.semtree.ir import ParamAccess
from tileir.semtree.launches import launches
from tileir.semtree.text.parser import parse_kernel
from tileir_testing.generated.case import program as generated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir.semtree.ir import KernelFunction, Program


def golden(target: str) -> Iterator[tuple[str, Program]]:
    sources = [*operations(target), *(workloads() if target in ("x86-64-v3", "nvidia-hopper") else ())]
    yield from ((name, compiled(function, types, target)) for name, function, types in sources)


@pytest.mark.sampled(0)
@pytest.mark.parametrize("target", TARGETS)
def test_known_kernels_stay_inside_their_arrays(target: str) -> None:
    found = [(name, word) for name, program in golden(target) for kernel in program.kernels for word in faults(kernel)]
    assert found == []


def short_of(kernel: KernelFunction, place: int) -> KernelFunction:
    """Return a kernel that takes one element less for a parameter."""
    params = (attrs.evolve(p, size=p.size - (number == place)) for number, p in enumerate(kernel.params))
    return attrs.evolve(kernel, params=tuple(params))


@pytest.mark.sampled(0)
@pytest.mark.parametrize("target", ["x86-64-v3", "nvidia-hopper"])
def test_a_result_that_is_one_element_short_is_told(target: str) -> None:
    """Some kernel writes the last element of each buffer: the proofs are no mere silence."""
    missed, seen = [], 0
    for name, program in golden(target):
        told: dict[str, bool] = {}
        for launch in launches(program.works):
            kernel = program.kernels[launch.kernel]
            for place, (param, buffer) in enumerate(zip(kernel.params, launch.arguments, strict=True)):
                if param.access is not ParamAccess.READ and not told.get(buffer):
                    told[buffer] = any(f" {param.name}[" in word for word in faults(short_of(kernel, place)))
        seen += len(told)
        missed += [(name, buffer) for buffer, is_told in told.items() if not is_told]
    assert missed == []
    assert seen > 100


@pytest.mark.sampled(0)
@pytest.mark.parametrize("target", ["x86-64-v3", "nvidia-hopper", "amd-cdna3"])
def test_kernels_of_generated_programs_stay_inside_their_arrays(target: str) -> None:
    for number in range(60):
        case = generated(11, number)
        kernels = compile_stages(case.function, case.types, TARGETS[target]).sem.kernels
        assert [word for kernel in kernels for word in faults(kernel)] == [], case


def test_generated_kernels_stay_inside_their_arrays() -> None:
    for number in range(100):
        case = numbered(12, number)
        assert faults(case.kernel) == [], case


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("O[i] = i32(1);", None),
        ("O[i + 1] = i32(1);", "O[i + 1] of 32 elements, for i = 31"),
        ("O[i - 1] = i32(1);", "O[i - 1] of 32 elements, for i = 0"),
        ("if (i < 31) { O[i + 1] = i32(1); }", None),
        ("if (i < 30 | i == 31) { O[i + 1] = i32(1); }", "O[i + 1] of 32 elements, for i = 31"),
        ("O[i : 2] = i32x2(1);", "O[i : 2] of 32 elements, for i = 31"),
        ("O[i / 2 * 2 : 2] = i32x2(1);", None),
        ("O[ramp<4>(i - i % 4, 1)] = i32x4(1);", None),
        ("O[ramp<4>(i - i % 4, 2)] = i32x4(1);", "for i = "),
        ("O[cast<i64>(A[i])] = i32(1);", "O[cast<i64>(A[i])] of 32 elements, for"),
        ("O[min(max(cast<i64>(A[i]), 0), 31)] = i32(1);", None),
        ("i64x2 p = min(max(cast<i64x2>(A[0 : 2]), i64x2(0)), i64x2(31)); O[shuffle<1>(p)] = i32(1);", None),
        (
            "i64x2 p = min(cast<i64x2>(A[0 : 2]), i64x2(31)); O[shuffle<1>(p)] = i32(1);",
            "O[shuffle<1>(p)] of 32 elements",
        ),
        (
            "O[shuffle<0, 3>(ramp<2>(i, 1), ramp<2>(i, 2))] = i32x2(1);",
            "O[shuffle<0, 3>(ramp<2>(i, 1), ramp<2>(i, 2))]",
        ),
        ("O[cast<i64>(A[i]) & 31] = A[i ^ (i >> 2 & 7)];", None),
        ("O[i : 2] = A[30 ^ (i >> 2 & 1) : 2];", "A[30 ^ i >> 2 & 1 : 2] of 32 elements, for i = "),
        ("i32 p = A[i]; if (p >= i32(0) & p < i32(32)) { A[i] = i32(99); O[cast<i64>(p)] = i32(1); }", None),
        ("if (A[i] >= i32(0) & A[i] < i32(32)) { A[i] = i32(99); O[cast<i64>(A[i])] = i32(1); }", "O[cast<i64>(A[i])]"),
        ("i64 p = i * 2; if (p < 32) { O[p] = A[p + 1]; }", None),
        ("i64 p = i * 2; if (p < 32) { O[p] = A[p + 2]; }", "A[p + 2] of 32 elements, for i = 15"),
    ],
)
def test_accesses_are_judged(body: str, words: str | None) -> None:
    text = f"kernel k(inout i32 O[32], inout i32 A[32]) {{ for (i64 i = 0; i < 32; i += 1) {{ {body} }} }}"
    found = faults(parse_kernel(text))
    assert (found == []) if words is None else (words in " ".join(found))
