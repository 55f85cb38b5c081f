"""Loops, conditions, arrays and barriers as text, and what they do on a device where that is not plain to see."""

from __future__ import annotations

import numpy as np
import pytest

from strategies.opencl_source import run
from tileir.semtree.check.verifier import verify
from tileir.semtree.interpret import interpreter
from tileir.semtree.text.parser import parse_kernel
from tileir_opencl.device.features import Features
from tileir_opencl.emit.emitter import emit


def lines_of(body: str, head: str = "inout i32 P[64] align(64) noalias") -> list[str]:
    """Return the lines of the body of a kernel, without their indentation."""
    kernel = parse_kernel(f"kernel k({head}) index(i32) {{ {body} }}")
    verify(kernel)
    text = emit([kernel], Features())
    return [line.strip() for line in text.partition("\n{\n")[2].splitlines()[:-1]]


def test_a_bound_that_the_body_changes_counts_as_it_was() -> None:
    body = "i32 n = P[0]; for (i32 i = 0; i < n; i += 1) { n = n - 1; P[i + 1] = n; }"
    assert "int i_end = n;" in lines_of(body)
    kernel = parse_kernel(f"kernel k(inout i32 P[64]) index(i32) {{ {body} }}")
    expected, actual = (np.array([9, *[0] * 63], np.int32) for _ in range(2))
    interpreter.run(kernel, [expected])
    run([kernel], [[actual]])
    np.testing.assert_array_equal(actual, expected)


def test_a_bound_that_nothing_changes_stays() -> None:
    lines = lines_of("i32 n = P[0]; for (i32 i = 2; i < n; i += 3) { P[i] = 1; }")
    assert lines[1] == "for (int i = 2; i < n; i += 3)"


def test_a_computed_bound_is_computed_once() -> None:
    lines = lines_of("for (i32 i = 0; i < P[0] & 7; i += 1) { P[i] = 1; }")
    assert lines[:2] == ["int i_end = P[0] & 7;", "for (int i = 0; i < i_end; i++)"]


def test_a_loop_that_never_runs_is_left_out() -> None:
    assert lines_of("for (i32 i = 3; i < 3; i += 1) { P[i] = 1; } P[0] = 2;") == ["P[0] = 2;"]


@pytest.mark.parametrize(("kind", "first"), [("unroll ", "#pragma unroll"), ("vector ", "for (int i = 0; i < 4; i++)")])
def test_kinds_of_loops(kind: str, first: str) -> None:
    assert lines_of(f"for (i32 i = 0; i < 4; i += 1) {kind}{{ P[i] = 1; }}")[0] == first


def test_branches() -> None:
    lines = lines_of("if (P[0] < 3) { P[1] = 1; } else { P[2] = 1; }")
    assert lines == ["if (P[0] < 3)", "{", "P[1] = 1;", "}", "else", "{", "P[2] = 1;", "}"]


def test_local_arrays_of_equal_names_are_declared_apart() -> None:
    shared = "local i32 s[{0}] align(64); s[0] = {0}; P[{0}] = s[0];"
    lines = lines_of(f"if (P[0] < 3) {{ {shared.format(8)} }} else {{ {shared.format(16)} }}")
    assert lines[:2] == ["__local int s[8];", "__local int s_0[16];"]
    assert "s_0[0] = 16;" in lines


def test_equal_local_arrays_share_their_memory() -> None:
    shared = "local i32 s[8] align(64); s[0] = 1; P[1] = s[0];"
    assert lines_of(f"if (P[0] < 3) {{ {shared} }} else {{ {shared} }}")[:2] == ["__local int s[8];", "if (P[0] < 3)"]


def test_repeated_operations_are_computed_once() -> None:
    lines = lines_of("P[0] = (P[1] * 3 + 1) / 5 * ((P[1] * 3 + 1) / 5);")
    assert lines[0].startswith("uint part = ")
    assert lines[1] == "P[0] = (int)(part * part);"


def test_masks_have_the_width_that_variables_have() -> None:
    body = "boolx4 c = P[0 : 4] < i32x4(3); c = c & P[4 : 4] == i32x4(0); P[0 : 4] = c ? P[8 : 4] : i32x4(1);"
    assert lines_of(body) == [
        "char4 c = convert_char4(*(__global int4 *)P < 3);",
        "c = c & convert_char4(*(__global int4 *)(P + 4) == 0);",
        "*(__global int4 *)P = select((int4)(1), *(__global int4 *)(P + 8), convert_int4(c));",
    ]


def test_single_lanes_are_scalars() -> None:
    body = "P[0] = reduce<add>(broadcast<1>(P[1])) + bitcast<i32>(P[ramp<1>(2, 5)]);"
    assert lines_of(body) == ["P[0] = (int)((uint)P[1] + (uint)P[2]);"]


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("259 - i * 32 - local_id(0) >= 0", "if (i * 32 + tid < 260)"),
        ("3 - i >= 0", "if (i < 4)"),
        ("i - 3 >= 0", "if (i >= 3)"),
        ("i * 8 - 3 >= 0", "if (i * 8 >= 3)"),
        ("i - local_id(0) >= 0", "if (i - tid >= 0)"),
        ("3 - i >= 1", "if (3 - i >= 1)"),
        ("2147483647 - i >= 0", "if (2147483647 - i >= 0)"),
        ("-2147483648 - i >= 0", "if ((int)(0x80000000u - (uint)i) >= 0)"),
        ("5 - P[0] >= 0", "if ((int)(5u - (uint)P[0]) >= 0)"),
        ("P[0] - 5 >= 0", "if ((int)((uint)P[0] - 5u) >= 0)"),
    ],
)
def test_guards_are_sums_against_bounds_where_nothing_overflows(condition: str, text: str) -> None:
    head = "kernel k(inout i32 P[64]) grid(9) group(32) index(i32)"
    kernel = parse_kernel(f"{head} {{ i32 i = group_id(0); if ({condition}) {{ P[0] = 1; }} }}")
    verify(kernel)
    assert f"\n  {text}\n" in emit([kernel], Features())
