"""Text to kernels: round trips both ways, faults with their place, and hostile text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from strategies.effort import examples
from strategies.semtree import kernel_cases
from tileir.core.errors import MAX_FAULTS, ParseError
from tileir.semtree.text.parser import parse_kernel, parse_program
from tileir.semtree.text.printer import to_text

if TYPE_CHECKING:
    from strategies.semtree import KernelCase


@examples(150)
@given(case=kernel_cases(depth=2))
def test_parse_undoes_print(case: KernelCase) -> None:
    text = to_text(case.kernel)
    parsed = parse_kernel(text)
    assert parsed == case.kernel
    assert to_text(parsed) == text


HEADER = "kernel k(in f32 A[16], out f32 B[16], in i32 N[4], inout bool F[4]) grid(4, 2) {"


def faults(body: str) -> list[tuple[str, str]]:
    with pytest.raises(ParseError) as caught:
        parse_kernel(f"{HEADER}\n{body}\n}}\n")
    return [(fault.code, fault.underlined) for fault in caught.value.diagnostics]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("B[0] = A[0] @ 2.0;", [("TIL101", "@")]),
        ("B[0] = ;", [("TIL102", ";")]),
        ("B[0] = A[0]", [("TIL102", "}")]),
        ("B[0] = A[0] +;", [("TIL102", ";")]),
        ("B[0] 3.0;", [("TIL102", "3.0")]),
        ("f32 for = 1.0;", [("TIL102", "for")]),
        ("f32 x = bool(3);", [("TIL102", "3")]),
        ("i64 x = i64(0.5);", [("TIL102", "0.5")]),
        ("f32 x = f32(y);", [("TIL102", "y")]),
        ("f32 x = f32(true);", [("TIL102", "true")]),
        ("f32 x = reduce<sub>(A[0 : 4]);", [("TIL102", "sub")]),
        ("f32x1 x = 0.5;", [("TIL102", "f32x1")]),
        ("f32 x = cast<float>(0);", [("TIL102", "float")]),
        ("private f32x4 p[4] align(64);", [("TIL102", "f32x4")]),
        ("for (i64 i = 0; j < 4; i += 1) { }", [("TIL102", "j")]),
        ("for (i64 i = 0; i < 4; i += x) { barrier(); }", [("TIL102", "x")]),
        ("for (i64 i = 0; i < 4; i += 1) dance { }", [("TIL102", "dance")]),
        ("x = 1.0;", [("TIL201", "x")]),
        ("if (true) { f32 x = 1.0; } B[0] = x;", [("TIL201", "x")]),
        ("for (i64 i = 0; i < 4; i += 1) { } B[i] = 0.5;", [("TIL201", "i")]),
        ("f32 x = 1.0; i64 x = 2;", [("TIL202", "x")]),
        ("f32 A = 1.0;", [("TIL202", "A")]),
        ("for (i64 B = 0; B < 4; B += 1) { }", [("TIL202", "B")]),
        ("B[0] = 99999999999999999999;", [("TIL104", "99999999999999999999")]),
        ("B[0] = 1e39;", [("TIL104", "1e39")]),
        ("i8 x = i8(128);", [("TIL104", "128")]),
        ("u8 x = u8(-1);", [("TIL104", "-1")]),
        ("private f32 p[" + "1" * 50 + "] align(64);", [("TIL104", "1" * 50)]),
        ("B[0] = 1;", [("TIL552", "1")]),
        ("i64 x = 0.5;", [("TIL552", "0.5")]),
        ("B[0] = A[0] + N[0];", [("TIL552", "A[0] + N[0]")]),
        ("B[0] = max(A[0]);", [("TIL552", "max(A[0])")]),
        ("B[0] = A[F[0]];", [("TIL552", "A[F[0]]")]),
        ("B[0] = A[N[0 : 4] : 2];", [("TIL552", "A[N[0 : 4] : 2]")]),
        ("B[0] = ~A[0];", [("TIL552", "~A[0]")]),
        ("F[0] = F[0] + F[1];", [("TIL552", "F[0] + F[1]")]),
        ("B[0] = A[0] ? 1.0 : 2.0;", [("TIL552", "A[0] ? 1.0 : 2.0")]),
        ("if (N[0]) { barrier(); } else { barrier(); }", [("TIL552", "N[0]")]),
        ("i64 x = group_id(2);", [("TIL552", "group_id(2)")]),
        ("i64 x = local_id(1);", [("TIL552", "local_id(1)")]),
        ("f32 x = bitcast<f32>(0);", [("TIL552", "bitcast<f32>(0)")]),
        ("i64x0 x = 0;", [("TIL201", "i64x0")]),
        ("f32 x = 1.0; B[0] = x[0];", [("TIL552", "[")]),
        ("f32x9999 x = broadcast<9999>(1.0);", [("TIL552", "broadcast<9999>(1.0)")]),
        ("exp(A[0]) = 1.0;", [("TIL102", "exp(A[0])")]),
        ("B[0] = $;", [("TIL101", "$")]),
    ],
)
def test_fault_is_underlined(body: str, expected: list[tuple[str, str]]) -> None:
    assert faults(body) == expected


def test_all_faulty_statements_are_reported() -> None:
    body = "f32 x = y; x = z; for (i64 i = q; i < 4; i += 1) { B[i] = w; } if (1) { } else { } B[0] = x + v;"
    assert [text for _, text in faults(body)] == ["y", "z", "q", "1", "v"]


def test_reading_goes_on_behind_unknown_characters() -> None:
    found = faults('B[0] = A[0] @ 2.0; B[1] = $; B[2] = y; "text"; B[3] = 1.0;')
    assert found == [("TIL101", "@"), ("TIL101", "$"), ("TIL201", "y"), ("TIL102", '"text"')]


def test_too_many_faults_end_the_parse() -> None:
    assert len(faults("x = 1;" * 1000)) == MAX_FAULTS


def test_missing_brace_is_reported_once() -> None:
    with pytest.raises(ParseError) as caught:
        parse_kernel(HEADER + " if (true) { for (i64 i = 0; i < 4; i += 1) {")
    assert [fault.code for fault in caught.value.diagnostics] == ["TIL102"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "TIL102"),
        ("@", "TIL101"),
        ("kernel", "TIL102"),
        ("kernel k() grid(1) { } }", "TIL102"),
        ("kernel k(f32 A[1]) grid(1) { }", "TIL102"),
        ("kernel k(in f32 A) grid(1) { }", "TIL102"),
        ("kernel k() grill(1) { }", "TIL102"),
        ("kernel k() grid(1) index(f32) { }", "TIL552"),
        ("kernel k(in f32 A[1], in f32 A[1]) grid(1) { }", "TIL202"),
        ("kernel `` () grid(1) { }", "TIL101"),
    ],
)
def test_faulty_header(text: str, code: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_kernel(text)
    assert [fault.code for fault in caught.value.diagnostics] == [code]


@pytest.mark.parametrize(
    "text",
    [
        "program { dance f32 A[1]; }",
        "program { input f32 A[1] }",
        "program { constant f32 A[1] = 12; }",
        "program { launch k(A); }",
        "program { launch 0(A)",
        "program {",
    ],
)
def test_faulty_program(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_program(text)
    assert [fault.code for fault in caught.value.diagnostics] == ["TIL102"]


@pytest.mark.parametrize(
    "body",
    [
        "B[0] = " + "(" * 1_000_000,
        "B[0] = " + "-" * 100_000 + "A[0];",
        "B[0] = " + "exp(" * 100_000,
        "B[0] = A[0]" + " + A[0]" * 100_000 + ";",
        "B[0] = " + "true ? " * 100_000,
        "B[0] = " + "A[" * 100_000,
        "if (true) {" * 100_000,
        "".join(f"for (i64 c{n} = 0; c{n} < 1; c{n} += 1) {{" for n in range(10_000)),
    ],
    ids=lambda body: body[:16],
)
def test_hostile_nesting_is_a_fault(body: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_kernel(HEADER + body)
    assert caught.value.diagnostics[-1].code == "TIL103"


def test_many_statements_are_no_problem() -> None:
    kernel = parse_kernel(HEADER + "B[0] = A[0];" * 10_000 + "}")
    assert len(kernel.body) == 10_000


PROGRAM = """\
program {
  input f32 `for`[4];
  output f32 B[];
  constant i16 K[2] = "01000200";
  temporary bool T[2, 2];

  // B[] = +(for[i]);
  //
  kernel sum(
      in f32 A[4] align(64) noalias,
      out f32 B[1]
  ) grid(1) index(i32) operations(8) {
    f32 x = A[0] - (A[1] - A[2]) * -A[3];
    B[0] = x < f32(nan) ? -(1.0) : x == 2.0 ? -1.0 : f32(-inf);
  }

  launch 0(`for`, B);
}
"""


def test_program_text_is_stable() -> None:
    assert to_text(parse_program(PROGRAM)) == PROGRAM


def test_comments_that_do_not_lead_a_kernel_are_skipped() -> None:
    text = to_text(parse_kernel("kernel k() // here\ngrid(1) {\n // there\n } // after\n"))
    assert text == "kernel k(\n) grid(1) {\n}\n"


@pytest.mark.parametrize(("content", "words"), [("00FF", "two digits each"), ("sha256 00", "only the digest")])
def test_bytes_of_constants(content: str, words: str) -> None:
    with pytest.raises(ParseError, match=words):
        parse_program(f'program {{ constant u8 K[2] = "{content}"; }}')
