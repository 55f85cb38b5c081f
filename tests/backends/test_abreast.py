"""Long iterations of unrolled loops are written operation by operation, where none of them sees what another does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.devices import compiler, launch
from strategies.effort import examples
from tileir.semtree.interpret import interpreter
from tileir.semtree.ir import For
from tileir.semtree.text.parser import parse_kernel
from tileir_llvm.emit.statements import runs_abreast

HEADER = "kernel k(inout f32 O[256] align(4) noalias, inout f32 A[256] align(4) noalias) grid(2) operations(64)"
CHAIN = "f32x8 b = a * a - a; f32x8 c = b * b - b; f32x8 d = c * a - b; f32x8 e = d * d - a; f32x8 g = e * b - c;"
LONG = f"{CHAIN} f32x8 h = max(min(g * d - e, f32x8(2.0)), f32x8(-2.0));"


def check(text: str) -> None:
    """Compare with the interpreter, by numbers that stay small."""
    kernel = parse_kernel(text)
    results = []
    for run in (interpreter.run, launch):
        results.append([np.zeros(256, np.float32), (np.arange(256) % 3 - 1).astype(np.float32)])
        run(kernel, results[-1])
    for one, other in zip(*results, strict=True):
        assert one.tolist() == other.tolist()


def are_abreast(text: str) -> bool:
    """Return whether the second iteration reads before the first one is done: LLVM's text has all loads in front."""
    lines = compiler().build([parse_kernel(text)]).listing("llvm").splitlines()
    first_product = next(number for number, line in enumerate(lines) if "= fmul <8 x float>" in line)
    return sum("= load <8 x float>" in line for line in lines[:first_product]) == 4


def unrolled(body: str, header: str = HEADER, before: str = "") -> str:
    return f"{header} {{ {before} for (i64 i = 0; i < 4; i += 1) unroll {{ {body} }} }}"


READ = "f32x8 a = A[i * 8 : 8];"
WRITE = "O[i * 8 : 8] = h;"


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (unrolled(f"{READ} {LONG} {WRITE}"), True),
        (unrolled(f"{READ} {LONG} A[i * 8 : 8] = h;"), True),
        (unrolled(f"f32x8 a = A[24 - i * 8 : 8]; {LONG} A[24 - i * 8 : 8] = h;"), True),
        (unrolled(f"{READ} {LONG} O[i * 8 : 8] = O[i * 8 : 8] + h;"), True),
        (unrolled(f"{READ} f32x8 h = a * a - a * a; {WRITE}"), False),
        (unrolled(f"{READ} {LONG} O[i * 4 : 8] = h;"), False),
        (unrolled(f"{READ} {LONG} O[0 : 8] = O[0 : 8] + h;"), False),
        (unrolled(f"{READ} {LONG} A[i * 8 + 8 : 8] = h;"), False),
        (unrolled(f"{READ} {LONG} A[i * 8 + 4 : 4] = f32x4(7.0); {WRITE}"), False),
        (unrolled(f"{READ} {LONG} s = s + reduce<add>(h); {WRITE}", before="f32 s = 0.0;"), False),
        (unrolled(f"{READ} {LONG} {WRITE}", HEADER.replace(" noalias", "")), False),
        (unrolled(f"i64 p = i * i * 8; {READ} {LONG} O[p : 8] = h;"), False),
        (unrolled(f"{READ} {LONG} if (i < 2) {{ {WRITE} }}"), False),
    ],
    ids=[
        "apart",
        "in place",
        "backwards",
        "added to what is there",
        "short",
        "overlapping",
        "one place",
        "what the next one reads",
        "part of what is read",
        "a variable",
        "arrays that may overlap",
        "a place of unknown distance",
        "a branch",
    ],
)
def test_iterations_are_abreast_where_they_are_long_and_apart(text: str, expected: bool) -> None:
    assert are_abreast(text) == expected
    check(text)


PLACES = st.builds(
    "{} * {} + {}".format, st.sampled_from(["i", "(3 - i)", "i * 2"]), st.sampled_from([0, 4, 8, 16]), st.integers(0, 9)
)
STORES = st.builds("{}[{} : 8] = {};".format, st.sampled_from("AO"), PLACES, st.sampled_from("ah"))
READS = st.builds("f32x8 a = {}[{} : 8] + {}[{} : 8];".format, *[st.sampled_from("AO"), PLACES] * 2)


@examples(40)
@given(READS, st.lists(STORES, min_size=1, max_size=3))
def test_unrolled_iterations_do_what_they_do_in_turn(read: str, stores: list[str]) -> None:
    check(unrolled(f"{read} {LONG} {' '.join(stores)}"))


def test_names_mean_the_same_behind_the_loop() -> None:
    loop = f"for (i64 i = 0; i < 4; i += 1) unroll {{ {READ} {LONG} {WRITE} }}"
    check(f"{HEADER} {{ i64 n = group_id(0); f32x8 first = A[0 : 8]; {loop} O[n * 64 + 64 : 8] = first; {loop} }}")


def test_a_loop_is_looked_at_once_however_often_those_around_it_are_unrolled(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[For] = []

    def noted(loop: For, assigned: frozenset[str], shared: frozenset[str]) -> bool:
        asked.append(loop)
        return runs_abreast(loop, assigned, shared)

    monkeypatch.setattr("tileir_llvm.emit.statements.runs_abreast", noted)
    inner = "for (i64 j = 0; j < 2; j += 1) unroll { O[i * 16 + j * 8 : 8] = A[i * 16 + j * 8 : 8]; }"
    check(unrolled(inner))
    assert len(asked) == 2
