"""Branches, loops, scans, sequences and functions of models, beside loops of Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import parser

import tileir
import tileir_onnx

HEAD = '<ir_version: 10, opset_import: ["": 21]>\n'
X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)


def run(text: str, *feeds: Any) -> tuple[Any, ...]:
    model = tileir_onnx.load(parser.parse_model(text).SerializeToString())
    return model.run(dict(zip((port.name for port in model.inputs), feeds, strict=True)))


def compare(found: tuple[Any, ...], *wanted: Any) -> None:
    for result, right in zip(found, wanted, strict=True):
        assert result.dtype == right.dtype
        np.testing.assert_allclose(result, right, rtol=1e-5, atol=1e-5)


LOOP = """g (int64 n, bool c, float[3, 4] x) => (float[3, 4] y, float[n, 3, 4] z) {
  k = Constant<value_float=0.5>()
  y, z = Loop<body = b (int64 i, bool d, float[3, 4] v) => (bool e, float[3, 4] w, float[3, 4] o) {
    e = Identity(d)
    f = Cast<to=1>(i)
    h = Mul(v, k)
    w = Add(h, f)
    o = Add(w, x) }>(n, c, x) }"""


@pytest.mark.parametrize("steps", [0, 1, 3, 200])
@pytest.mark.parametrize("begins", [True, False])
def test_loops_of_known_length(steps: int, begins: bool) -> None:
    state, put_out = X, []
    for step in range(steps if begins else 0):
        state = state * np.float32(0.5) + np.float32(step)
        put_out.append(state + X)
    found = run(HEAD + LOOP, np.array(steps), np.array(begins), X)
    compare(found, state, np.array(put_out, np.float32).reshape(-1, 3, 4))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("limit", [0.1, 50.0, 1e30])
def test_loops_that_end_when_they_are_done(limit: float) -> None:
    text = f"""{HEAD}g (float[3, 4] x) => (float[3, 4] y, int64[k] z) {{
      n = Constant<value_int=100>()
      c = Constant<value=bool {{1}}>()
      l = Constant<value_float={limit}>()
      s = Constant<value_float=1.5>()
      y, z = Loop<body = b (int64 i, bool d, float[3, 4] v) => (bool e, float[3, 4] w, int64 o) {{
        w = Mul(v, s)
        a = Abs(w)
        m = ReduceMax<keepdims=0>(a)
        e = Less(m, l)
        o = Identity(i) }}>(n, c, x) }}"""
    state, put_out = X, []
    for step in range(100):
        state = state * np.float32(1.5)
        put_out.append(step)
        if not np.abs(state).max() < limit:
            break
    compare(run(text, X), state, np.array(put_out))


def test_loops_without_a_bound() -> None:
    text = f"""{HEAD}g (float[3, 4] x) => (float[3, 4] y) {{
      c = Constant<value=bool {{1}}>()
      l = Constant<value_float=50.0>()
      y = Loop<body = b (int64 i, bool d, float[3, 4] v) => (bool e, float[3, 4] w) {{
        w = Add(v, v)
        a = Abs(w)
        m = ReduceMax<keepdims=0>(a)
        e = Less(m, l) }}>("", c, x) }}""".replace('>("", ', ">(, ")
    state = X + X
    while np.abs(state).max() < 50:
        state = state + state
    compare(run(text, X), state)


def test_what_is_carried_may_grow() -> None:
    text = f"""{HEAD}g (float[3, 4] x) => (float[k, 4] y) {{
      n = Constant<value_int=4>()
      c = Constant<value=bool {{1}}>()
      y = Loop<body = b (int64 i, bool d, float[j, 4] v) => (bool d, float[m, 4] w) {{
        w = Concat<axis=0>(v, x) }}>(n, c, x) }}"""
    compare(run(text, X), np.concatenate([X] * 5))


@pytest.mark.parametrize("sign", [1, -1])
def test_branches_of_unknown_conditions(sign: int) -> None:
    text = f"""{HEAD}g (float[3, 4] x) => (float[3, 4] y) {{
      s = ReduceSum<keepdims=0>(x)
      z = Constant<value_float=0.0>()
      c = Less(s, z)
      y = If<then_branch = t () => (float[3, 4] a) {{ a = Add(x, s) }},
             else_branch = e () => (float[3, 4] b) {{ b = Mul(x, s) }}>(c) }}"""
    x = np.abs(X) * np.float32(sign)
    compare(run(text, x), x + x.sum() if x.sum() < 0 else x * x.sum())


def test_branches_by_the_value_of_an_input() -> None:
    text = f"""{HEAD}g (bool c, float[3, 4] x) => (float[k] y) {{
      y = If<then_branch = t () => (float[12] a) {{ m = Constant<value_ints=[-1]>() a = Reshape(x, m) }},
             else_branch = e () => (float b) {{ b = ReduceSum<keepdims=0>(x) }}>(c) }}"""
    compare(run(text, np.array(True), X), X.reshape(-1))
    compare(run(text, np.array(False), X), X.sum())


def test_branches_of_other_sizes() -> None:
    text = f"""{HEAD}g (float[3, 100] x) => (float[k] y) {{
      s = ReduceSum<keepdims=0>(x)
      z = Constant<value_float=0.0>()
      c = Less(s, z)
      y = If<then_branch = t () => (float[3, 100] a) {{ a = Identity(x) }},
             else_branch = e () => (float b) {{ b = Identity(s) }}>(c) }}"""
    with pytest.raises(tileir.TileError, match=r"TIL605.*\[3, 100\]\) in one branch, and .* in the other"):
        run(text, np.zeros((3, 100), np.float32))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("way", "back"), [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("axis", [0, 1])
def test_scans(way: int, back: int, axis: int) -> None:
    text = f"""{HEAD}g (float[a] s, float[3, 4] x) => (float[a] t, float[p, q] z) {{
      k = Constant<value_float=2.0>()
      t, z = Scan<num_scan_inputs=1, scan_input_axes=[{axis}], scan_input_directions=[{way}],
                  scan_output_axes=[{axis}], scan_output_directions=[{back}],
                  body = b (float[a] u, float[a] e) => (float[a] n, float[a] m) {{
        n = Add(u, e)
        m = Mul(n, k) }}>(s, x) }}"""
    rows = np.moveaxis(X, axis, 0)
    rows = rows[::-1] if way else rows
    sums = np.cumsum(rows, 0)
    put_out = (sums * 2)[::-1] if back else sums * 2
    compare(run(text, np.zeros(rows.shape[1], np.float32), X), sums[-1], np.moveaxis(put_out, 0, axis))


def test_arithmetic_on_what_scans_put_out() -> None:
    text = f"""{HEAD}g (float[4] s, float[3, 4] x) => (float[3, 4] y) {{
      t, z = Scan<num_scan_inputs=1, body = b (float[4] u, float[4] e) => (float[4] n, float[4] m) {{
        n = Add(u, e)
        m = Neg(n) }}>(s, x)
      zt = Transpose(z)
      zb = Transpose(zt)
      y = Add(zb, x) }}"""
    compare(run(text, np.zeros(4, np.float32), X), X - np.cumsum(X, 0))


@pytest.mark.parametrize("way", [0, 1])
def test_scans_of_batches(way: int) -> None:
    text = f"""<ir_version: 3, opset_import: ["": 8]>
    g (float[2, 4] s, float[2, 3, 4] x) => (float[2, 4] t, float[2, 3, 4] z) {{
      t, z = Scan<num_scan_inputs=1, directions=[{way}],
                  body = b (float[4] u, float[4] e) => (float[4] n, float[4] m) {{
        n = Add(u, e)
        m = Neg(n) }}>(, s, x) }}"""
    x = np.stack([X, -2 * X])
    sums = np.cumsum(x[:, ::-1] if way else x, 1)
    compare(run(text, np.zeros((2, 4), np.float32), x), sums[:, -1], -sums)


def test_sequences() -> None:
    text = f"""{HEAD}g (float[3, 4] x, float[3, 4] y) => (float[9, 4] a, int64 n, float[3, 4] b, float[2, 3, 4] c) {{
      one = Constant<value_int=1>()
      s = SequenceConstruct(x, y)
      t = SequenceInsert(s, x, one)
      a = ConcatFromSequence<axis=0>(t)
      n = SequenceLength(t)
      last = Constant<value_int=-1>()
      b = SequenceAt(t, last)
      u = SequenceErase(t, one)
      c = ConcatFromSequence<axis=0, new_axis=1>(u) }}"""
    compare(run(text, X, -X), np.concatenate([X, X, -X]), np.array(3), -X, np.stack([X, -X]))
    with pytest.raises(tileir.TileError, match="there is no place 7 in a sequence of 3"):
        run(text.replace("value_int=-1", "value_int=7"), X, -X)


def test_sequences_are_passed_and_returned() -> None:
    text = f"""{HEAD}g (seq(float[m, 4]) s, float[3, 4] x) => (seq(float[m, 4]) t) {{ t = SequenceInsert(s, x) }}"""
    [found] = run(text, [X, -X[:2]], X)
    compare(tuple(found), X, -X[:2], X)


FUNCTIONS = """<ir_version: 10, opset_import: ["": 21, "l": 1]>
g (float[3, 4] x) => (float[3, 4] y) { y = l.f<alpha=3.0>(x) }
<domain: "l", opset_import: ["": 18, "l": 1]> f <alpha, beta: float = 0.25>(x) => (y) {
  a = l.h<k: float=@alpha>(x)
  b = Constant<value_float: float = @beta>()
  y = Add(a, b) }
<domain: "l", opset_import: ["": 13]> h <k>(x) => (y) { c = Constant<value_float: float = @k>() y = Mul(x, c) }
"""


def test_functions() -> None:
    compare(run(FUNCTIONS, X), X * 3 + np.float32(0.25))
    compare(run(FUNCTIONS.replace("alpha=3.0", "alpha=3.0, beta=2.0"), X), X * 3 + 2)


def test_functions_that_call_themselves() -> None:
    with pytest.raises(tileir.TileError, match=r"TIL604.*functions without an end: h calls h"):
        run(FUNCTIONS.replace("y = Mul(x, c)", "y = l.h(x)"), X)


def test_functions_that_stand_for_too_much() -> None:
    parts = [
        f'<domain: "l", opset_import: ["l": 1]> f{n} (x) => (y) {{ a = l.f{n + 1}(x) y = l.f{n + 1}(a) }}'
        for n in range(30)
    ]
    end = '<domain: "l", opset_import: ["": 21]> f30 (x) => (y) { y = Neg(x) }'
    head = '<ir_version: 10, opset_import: ["": 21, "l": 1]>\ng (float[3] x) => (float[3] y) { y = l.f0(x) }'
    with pytest.raises(tileir.TileError, match=r"TIL604.*functions that stand for \d+ nodes"):
        run("\n".join((head, *parts, end)), np.zeros(3, np.float32))


def test_unknown_operators_in_functions_and_branches_are_told() -> None:
    text = FUNCTIONS.replace("y = Mul(x, c)", "y = Odd(x, c)")
    with pytest.raises(tileir.TileError, match=r"TIL605.*no operator Odd of version 13"):
        run(text, X)


def test_operators_that_onnx_defines_by_others() -> None:
    text = f"{HEAD}g (float[3, 4] x) => (float[3, 4] y) {{ y = MeanVarianceNormalization<axes=[1]>(x) }}"
    centred = X - X.mean(1, keepdims=True)
    compare(run(text, X), (centred / (centred.std(1, keepdims=True) + 1e-9)).astype(np.float32))


@pytest.mark.parametrize(
    "text",
    [
        """g (float[3] x) => (float[3] y) {
          s = ReduceSum<keepdims=0>(x)
          z = Constant<value_float=0.0>()
          c = Greater(s, z)
          y = If<then_branch = t () => (float[3] a) { a = Neg(x) },
                 else_branch = e () => (float[3] b) { b = Abs(x) }>(c) }
        """,
        """g (float[3] x) => (float[3] y) {
          z = Constant<value_float=9.0>()
          t = Constant<value_float=2.0>()
          s = ReduceSum<keepdims=0>(x)
          c = Less(s, z)
          n = Constant<value_int=100>()
          y = Loop<body = b (int64 i, bool d, float[3] v) => (bool e, float[3] w) {
            w = Mul(v, t)
            m = ReduceMax<keepdims=0>(w)
            e = Less(m, z) }>(n, c, x) }""",
    ],
    ids=["branch", "loop"],
)
def test_numbers_that_decide_are_compiled_once(text: str) -> None:
    model = tileir_onnx.load(parser.parse_model(HEAD + text).SerializeToString())
    made = []

    def compiler(function: tileir.Function) -> Any:
        made.append(function)
        return tileir.jit(function)

    model.compiler = compiler
    for x in (np.array([1, 2, 3], np.float32), np.array([1, -2, -3], np.float32), np.array([7, 8, 9], np.float32)):
        if "If" in text:
            wanted = -x if x.sum() > 0 else np.abs(x)
        else:
            wanted, goes_on = x, x.sum() < 9
            while goes_on:
                wanted = wanted * np.float32(2)
                goes_on = wanted.max() < 9
        np.testing.assert_array_equal(model(x), wanted)
        np.testing.assert_array_equal(tileir.jit(model.function)(x), wanted)
    assert len(made) == 1


def test_numbers_that_decide_about_shapes_are_asked_for() -> None:
    text = """g (float[3] x) => (float[k] y) {
      z = Constant<value_float=0.0>()
      s = ReduceSum<keepdims=0>(x)
      c = Greater(s, z)
      y = If<then_branch = t () => (float[k] a) { a = Concat<axis=0>(x, x) },
             else_branch = e () => (float[k] b) { b = Abs(x) }>(c) }"""
    for x in (np.array([1, 2, 3], np.float32), np.array([1, -2, -3], np.float32)):
        compare(run(HEAD + text, x), np.concatenate([x, x]) if x.sum() > 0 else np.abs(x))
