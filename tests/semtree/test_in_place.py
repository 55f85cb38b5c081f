from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from tileir.semtree.check.verifier import verify_program
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.ir import KernelFunction
from tileir.semtree.launches import launches
from tileir.semtree.text.parser import parse_kernel, parse_program
from tileir.semtree.transform.in_place import ElementOrder, reuse_in_place

PROGRAM = """\
program {
  input f32 A[16];
  temporary f32 B[16];
  temporary f32 C[16];
  temporary f32 D[16];
  output f32 E[16];
  kernel double(out f32 o[16] noalias, in f32 x[16] noalias) grid(4) {
    i64 g = group_id(0);
    f32x4 v = x[g * 4 : 4];
    o[g * 4 : 4] = v + v;
  }
  kernel reverse(out f32 o[16] noalias, in f32 x[16] noalias) grid(1) {
    for (i64 i = 0; i < 16; i += 1) {
      o[i] = x[15 - i];
    }
  }
  launch 0(B, A);
  launch 0(C, B);
  launch 1(D, C);
  launch 0(E, D);
}
"""


def kernel(body: str, grid: str = "4") -> KernelFunction:
    """Return a kernel that reads ``x`` and writes ``o``, of 64 elements each."""
    return parse_kernel(
        f"kernel k(out f32 o[64] noalias, in f32 x[64] noalias, in i64 n[64]) grid({grid}) {{ {body} }}"
    )


def fits(body: str, grid: str = "4") -> bool:
    return ElementOrder.of(kernel(body, grid)).reads_before_it_writes(1, 0)


def test_a_temporary_takes_the_place_of_one_that_dies() -> None:
    before = parse_program(PROGRAM)
    after = reuse_in_place(before)
    verify_program(after)
    assert [launch.arguments for launch in launches(after.works)] == [("B", "A"), ("B", "B"), ("D", "B"), ("E", "D")]
    first, second, *_ = launches(after.works)
    aliasing = after.kernels[second.kernel]
    assert [param.no_alias for param in aliasing.params] == [False, False]
    assert [param.no_alias for param in after.kernels[first.kernel].params] == [True, True]
    values = {"A": np.arange(16, dtype=np.float32)}
    np.testing.assert_array_equal(run_program(after, values)["E"], run_program(before, values)["E"])


SEVERAL = """\
program {
  input f32 A[16];
  temporary f32 B[16];
  temporary f32 C[16];
  temporary f32 D[16];
  temporary f32 E[16];
  output f32 F[16];
  kernel two(out f32 o[16] noalias, out f32 p[16] noalias, in f32 x[16] noalias, in f32 y[16] noalias) grid(16) {
    i64 g = group_id(0);
    f32 v = x[g];
    o[g] = v + 1.0;
    f32 w = y[g];
    p[g] = v * w;
  }
  kernel add(out f32 o[16] noalias, in f32 x[16] noalias, in f32 y[16] noalias) grid(16) {
    i64 g = group_id(0);
    o[g] = x[g] + y[g];
  }
  launch 0(B, C, A, A);
  launch 0(D, E, B, C);
  launch 1(F, D, E);
}
"""


def test_several_results_take_the_places_of_several_that_die() -> None:
    """The first result may only replace what is read before it is written."""
    before = parse_program(SEVERAL)
    after = reuse_in_place(before)
    verify_program(after)
    assert [launch.arguments for launch in launches(after.works)] == [
        ("B", "C", "A", "A"), ("B", "C", "B", "C"), ("F", "B", "C")
    ]  # fmt: skip
    values = {"A": np.arange(16, dtype=np.float32)}
    np.testing.assert_array_equal(run_program(after, values)["F"], run_program(before, values)["F"])


def test_what_cannot_be_improved_is_returned_itself() -> None:
    other = parse_program(PROGRAM.replace("x[g * 4 : 4]", "x[12 - g * 4 : 4]"))
    assert reuse_in_place(other) is other


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("temporary f32 B", "output f32 B"),  # somebody else reads it
        ("launch 1(D, C)", "launch 1(D, B)"),  # it is still needed
        ("launch 0(B, A);", "launch 0(B, A);\n  launch 1(C, A);"),  # it has a value already
    ],
)
def test_only_temporaries_that_die_where_others_are_born_matter(old: str, new: str) -> None:
    other = parse_program(PROGRAM.replace(old, new))
    assert reuse_in_place(other) is other


@pytest.mark.parametrize(
    ("body", "grid"),
    [
        ("i64 g = group_id(0); o[g] = x[g];", "64"),
        ("i64 g = group_id(0); i64 h = group_id(1); o[g * 8 + h] = x[g * 8 + h];", "8, 8"),
        ("i64 g = group_id(0); for (i64 i = 0; i < 16; i += 4) { o[g * 16 + i : 4] = x[g * 16 + i : 4]; }", "4"),
        (
            "i64 g = group_id(0); for (i64 i = 0; i < 16; i += 1) { if (i < 5) { f32 v = x[i * 4 + g]; "
            "o[i * 4 + g] = v; } }",
            "4",
        ),
        ("i64 g = group_id(0); o[ramp<4>(g, 16)] = x[ramp<4>(g, 16)];", "16"),
        ("i64 g = group_id(0); o[63 - g] = x[63 - g];", "64"),
        ("i64 g = group_id(0); f32 v = x[g]; f32 w = x[g]; o[g] = v; o[g] = v * w;", "64"),
        ("i64 g = group_id(0); for (i64 i = 0; i < 1; i += 1) { f32 v = x[g]; } o[g] = 0.0;", "64"),
        (  # channels of pixels, all of which are read first
            "i64 g = group_id(0); f32x4 v = x[ramp<4>(g * 8, 2)]; f32x4 w = x[ramp<4>(g * 8 + 1, 2)]; "
            "o[ramp<4>(g * 8, 2)] = v + w; o[ramp<4>(g * 8 + 1, 2)] = v - w;",
            "8",
        ),
        (  # one channel after the other
            "i64 g = group_id(0); o[ramp<4>(g * 8, 2)] = x[ramp<4>(g * 8, 2)]; "
            "o[ramp<4>(g * 8 + 1, 2)] = x[ramp<4>(g * 8 + 1, 2)];",
            "8",
        ),
        (  # a remainder of each row
            "i64 g = group_id(0); for (i64 i = 0; i < 3; i += 1) { o[g * 16 + i * 4 : 4] = x[g * 16 + i * 4 : 4]; } "
            "for (i64 i = 0; i < 4; i += 1) { o[g * 16 + 12 + i] = x[g * 16 + 12 + i]; }",
            "4",
        ),
        (  # all of a row before its first result
            "i64 g = group_id(0); f32 s = 0.0; for (i64 i = 0; i < 16; i += 1) { s = s + x[g * 16 + i]; } "
            "for (i64 i = 0; i < 4; i += 1) { o[g * 16 + i * 4 : 4] = broadcast<4>(s); }",
            "4",
        ),
    ],
)
def test_kernels_that_read_what_they_write_next(body: str, grid: str) -> None:
    assert fits(body, grid)


@pytest.mark.parametrize(
    ("body", "grid"),
    [
        ("i64 g = group_id(0); o[g] = x[g + 1];", "63"),  # another pass writes it
        ("i64 g = group_id(0); o[g : 4] = x[g : 4];", "32"),  # vectors overlap
        ("i64 g = group_id(0); o[0] = x[0];", "64"),  # all passes write it
        ("for (i64 i = 0; i < 8; i += 1) { o[0] = x[0]; }", "1"),
        ("i64 g = group_id(0); i64 h = group_id(1); o[g * 4 + h] = x[g * 4 + h];", "8, 8"),  # sums meet
        ("i64 g = group_id(0); o[g] = x[g]; o[g] = o[g] + x[g];", "64"),  # read after it was written
        ("for (i64 i = 0; i < 64; i += 1) { o[i] = x[i]; } for (i64 j = 0; j < 64; j += 1) { o[j] = x[j]; }", "1"),
        ("i64 g = group_id(0); i64 p = n[g]; o[p] = x[p];", "64"),  # from memory
        ("i64 g = group_id(0); o[g * g] = x[g * g];", "8"),
        ("i64 g = group_id(0); i64 p = 0; p = g; o[p] = x[p];", "64"),  # a variable that changes
        ("i64 g = group_id(0); i64 e = n[g]; for (i64 i = 0; i < e; i += 1) { o[i] = x[i]; }", "1"),
        ("i64 g = group_id(0); o[ramp<4>(g, 2)] = x[ramp<4>(g, 2)];", "16"),  # lanes meet
        ("i64 g = group_id(0); f32 v = x[g];", "64"),  # writes nothing
        ("i64 g = group_id(0); o[ramp<2>(g * 4, 2)] = x[ramp<2>(g * 4, 2)]; o[g * 4 : 2] = x[g * 4 + 2 : 2];", "16"),
        ("for (i64 i = 0; i < 8; i += 1) { o[i * 2] = x[i * 2]; f32 v = x[14 - i * 2]; }", "1"),  # against each other
        ("i64 g = group_id(0); for (i64 i = 0; i < 4; i += 1) { o[g * 4 + i] = x[g * 4 + 3 - i]; }", "16"),
        (
            "local f32 s[64] align(16); async s[0 : 4] = x[0 : 4]; async_commit(); o[0] = 1.0; async_wait(0);",
            "1",
        ),  # under way
        ("i64 g = group_id(0); o[g] = x[g]; for (i64 i = 0; i < 1; i += 1) { f32 v = x[g]; }", "64"),  # read later
    ],
)
def test_kernels_of_which_nothing_is_known(body: str, grid: str) -> None:
    assert not fits(body, grid)


ACCESS = st.tuples(
    st.sampled_from(["load", "store"]),
    st.integers(0, 5),
    st.sampled_from([18, 18, 18, 18, 6, -2]),  # by each group
    st.sampled_from([6, 6, 6, 6, 1, 0, -6]),  # by each trip of a loop
    st.sampled_from([1, 3, 3]),  # by each lane
    st.integers(1, 2),
)
LOOP = st.tuples(st.integers(1, 3), st.lists(ACCESS, min_size=1, max_size=4))
BODY = st.lists(st.one_of(ACCESS, LOOP), min_size=1, max_size=3)


def placed(access: tuple[str, int, int, int, int, int], counter: str, name: str) -> str:
    kind, base, group, inner, step, lanes = access
    place = f"{100 + base} + g * {group} + {counter} * {inner}"
    place = f"ramp<2>({place}, {step})" if lanes == 2 else place
    if kind == "store":
        return f"o[{place}] = {'f32x2(1.0)' if lanes == 2 else '1.0'};"
    return f"{'f32x2' if lanes == 2 else 'f32'} {name} = x[{place}];"


@given(grid=st.integers(1, 3), items=BODY)
def test_every_load_is_before_every_store_of_its_element(grid: int, items: list[Any]) -> None:
    text: list[str] = []
    events: list[tuple[str, int, int]] = []  # what is done to which element by which group, in the order of each
    for number, item in enumerate(items):
        trips, accesses = item if len(item) == 2 else (1, [item])
        counter = f"i{number}" if len(item) == 2 else "0"
        inside = " ".join(placed(access, counter, f"v{number}_{place}") for place, access in enumerate(accesses))
        loop = f"for (i64 {counter} = 0; {counter} < {trips}; {counter} += 1) {{ {inside} }}"
        text.append(loop if len(item) == 2 else inside)
        for trip, (kind, base, group, inner, step, lanes) in itertools.product(range(trips), accesses):
            for g, lane in itertools.product(range(grid), range(lanes)):
                events.append((kind, base + g * group + trip * inner + lane * step, g))
    found = parse_kernel(
        f"kernel k(out f32 o[200], in f32 x[200]) grid({grid}) {{ i64 g = group_id(0); {' '.join(text)} }}"
    )
    if ElementOrder.of(found).reads_before_it_writes(1, 0):
        for (at, load), (before, store) in itertools.product(enumerate(events), repeat=2):
            if (load[0], store[0], load[1]) == ("load", "store", store[1]):
                assert load[2] == store[2]
                assert at < before


def test_a_function_uses_it() -> None:
    source = """function (X[N, M], W[M, M]) -> (V) {
        T[i, j : N, M] = +(X[i, k] * W[k, j]); S[i : N] = +(T[i, k]);
        U[i, k : N, M] = +(T[i, k] * S[i]); V[i, j : N, M] = +(U[i, k] * W[k, j]);
    }"""
    x = np.random.default_rng(0).random((8, 8), np.float32)
    executable = tileir.compile(source, [x, x])
    arguments = [launch.arguments for launch in launches(executable.sem.works)]
    assert any(len(set(names)) < len(names) for names in arguments)
    np.testing.assert_allclose(executable(x, x), tileir.evaluate(source, [x, x]), rtol=1e-5)


def test_a_temporary_that_a_launch_reads_twice_stays() -> None:
    """If one parameter took the result's memory, the other would overlap it."""
    before = parse_program("""
program {
  input f32 A[4];
  temporary f32 B[4];
  temporary f32 C[4];
  output f32 D[4];
  kernel double(out f32 o[4] noalias, in f32 x[4] noalias) grid(4) {
    i64 g = group_id(0);
    o[g] = x[g] + x[g];
  }
  kernel reverse_add(out f32 o[4] noalias, in f32 x[4] noalias, in f32 y[4] noalias) grid(1) {
    for (i64 i = 0; i < 4; i += 1) {
      o[i] = x[i] + y[3 - i];
    }
  }
  launch 0(B, A);
  launch 1(C, B, B);
  launch 0(D, C);
}
""")
    values = np.array([1, 2, 3, 5], np.float32)
    results = run_program(reuse_in_place(before), {"A": values})
    np.testing.assert_array_equal(results["D"], 4 * (values + values[::-1]))
