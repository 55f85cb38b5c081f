"""Forms of accesses, by the known facts about their addresses."""

from __future__ import annotations

import pytest

from tileir.semtree.check.verifier import verify
from tileir.semtree.text.parser import parse_kernel
from tileir_opencl.device.features import Features
from tileir_opencl.emit.emitter import emit


def line_of(statement: str, params: str = "inout f32 P[64] align(128) noalias, in f32 Q[64] align(4) noalias") -> str:
    """Return the last line of the source of a kernel whose body ends with ``statement``."""
    start = "i32 g = group_id(0); i32 four = g * 4; i32 odd = four + 1;"
    kernel = parse_kernel(f"kernel k({params}) grid(4) index(i32) {{ {start} {statement} }}")
    verify(kernel)
    return emit([kernel], Features()).splitlines()[-2].strip()


@pytest.mark.parametrize(
    ("statement", "line"),
    [
        ("P[four : 4] = f32x4(1.0);", "*(__global float4 *)(P + four) = (float4)(1.0f);"),
        ("P[four * 2 + 8 : 8] = f32x8(1.0);", "*(__global float8 *)(P + (four * 2 + 8)) = (float8)(1.0f);"),
        ("P[0 : 2] = f32x2(1.0);", "*(__global float2 *)P = (float2)(1.0f);"),
        ("P[odd : 4] = f32x4(1.0);", "vstore4((float4)(1.0f), 0, P + odd);"),
        ("P[four : 8] = f32x8(1.0);", "vstore8((float8)(1.0f), 0, P + four);"),
        ("P[four : 3] = f32x3(1.0);", "vstore3((float3)(1.0f), 0, P + four);"),
        ("P[0] = reduce<add>(Q[four : 2]);", "P[0] = lanes.s0 + lanes.s1;"),
        ("P[g & 60] = Q[four];", "P[g & 60] = Q[four];"),
        ("P[(g & 60) : 4] = f32x4(1.0);", "*(__global float4 *)(P + (g & 60)) = (float4)(1.0f);"),
        ("P[ramp<4>(g, 1)] = f32x4(1.0);", "vstore4((float4)(1.0f), 0, P + g);"),
        ("P[ramp<4>(0, 1)] = f32x4(1.0);", "*(__global float4 *)P = (float4)(1.0f);"),
        ("P[0 : 2] = Q[broadcast<2>(g)];", "*(__global float2 *)P = (float2)(Q[g]);"),
        ("P[0 : 2] = Q[ramp<2>(g, 8)];", "*(__global float2 *)P = (float2)(Q[g], Q[g + 8]);"),
        ("P[0 : 2] = Q[ramp<2>(g, 1) + broadcast<2>(odd)];", "*(__global float2 *)P = vload2(0, Q + (g + odd));"),
        ("P[0 : 2] = Q[ramp<2>(g, 3) - ramp<2>(0, 2)];", "*(__global float2 *)P = vload2(0, Q + g);"),
        ("P[0 : 2] = Q[ramp<2>(g, 3) * i32x2(2)];", "*(__global float2 *)P = (float2)(Q[g * 2], Q[g * 2 + 6]);"),
        ("P[0 : 2] = Q[i32x2(2) * ramp<2>(g, 3)];", "*(__global float2 *)P = (float2)(Q[2 * g], Q[2 * g + 6]);"),
        ("P[0 : 2] = Q[i32x2(5) + broadcast<2>(g)];", "*(__global float2 *)P = (float2)(Q[5 + g]);"),
        ("P[0 : 2] = Q[ramp<2>(g, 1) * ramp<2>(g, 1)];", "*(__global float2 *)P = (float2)(Q[place.s0], Q[place.s1]);"),
        ("P[0 : 2] = Q[-ramp<2>(-g, -1)];", "*(__global float2 *)P = vload2(0, Q + -(-g));"),
        ("P[0 : 2] = Q[i32x2(7) & ramp<2>(g, 1)];", "*(__global float2 *)P = (float2)(Q[place.s0], Q[place.s1]);"),
        ("P[0 : 2] = Q[four : 2];", "*(__global float2 *)P = vload2(0, Q + four);"),
    ],
)
def test_form_of_accesses(statement: str, line: str) -> None:
    assert line_of(statement) == line


@pytest.mark.parametrize(
    ("dtype", "line"),
    [
        ("f16", "vstorea_half4_rte(vloada_half4(0, Q + four), 0, P + four);"),
        ("i8", "*(__global char4 *)(P + four) = *(__global const char4 *)(Q + four);"),
        ("f64", "*(__global double4 *)(P + four) = *(__global const double4 *)(Q + four);"),
    ],
)
def test_vectors_of_other_types(dtype: str, line: str) -> None:
    params = f"out {dtype} P[64] align(128) noalias, in {dtype} Q[64] align(128) noalias"
    assert line_of("P[four : 4] = Q[four : 4];", params) == line


def test_halves_are_gathered_as_floats() -> None:
    params = "inout f16 P[64] align(128) noalias, in f16 Q[64] align(128) noalias"
    line = line_of("P[0 : 2] = Q[ramp<2>(g, 3)];", params)
    assert line == "vstorea_half2_rte((float2)(vload_half(g, Q), vload_half(g + 3, Q)), 0, P);"


def test_a_variable_that_is_assigned_proves_nothing() -> None:
    line = line_of("four = four + 1; P[four : 4] = f32x4(1.0);")
    assert line == "vstore4((float4)(1.0f), 0, P + four);"
