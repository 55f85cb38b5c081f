from __future__ import annotations

import attrs
import pytest

import tileir
from tileir.driver.calls.arguments import tensor_types
from tileir.driver.compiler import compile_stages
from tileir.semtree.check.verifier import verify_program
from tileir.semtree.ir import Launch, Program
from tileir.semtree.text.parser import parse_program
from tileir.semtree.transform import in_place
from tileir.semtree.transform.in_place import anonymous, share_kernels

SOURCE = """\
program {
  input f32 A[8];
  temporary f32 B[8];
  output f32 C[8];
  kernel first(out f32 o[8], in f32 x[8]) grid(1) {
    for (i64 i = 0; i < 8; i += 1) {
      f32 v = x[i];
      o[i] = v + v;
    }
  }
  // another one
  kernel second(out f32 p[8], in f32 y[8]) grid(1) {
    for (i64 j = 0; j < 8; j += 1) {
      f32 w = y[j];
      p[j] = w + w;
    }
  }
  launch 0(B, A);
  launch 1(C, B);
}
"""


def program(text: str = SOURCE) -> Program:
    return parse_program(text)


def test_kernels_that_differ_in_names_become_one() -> None:
    shared = share_kernels(program())
    assert shared.kernels == program().kernels[:1]
    assert shared.works == (Launch(0, ("B", "A")), Launch(0, ("C", "B")))
    verify_program(shared)


def test_kernels_that_do_something_else_stay() -> None:
    for old, new in [("w + w", "w * w"), ("y[j]", "y[7 - j]"), ("in f32 y[8]", "in f32 y[8] align(64)")]:
        other = program(SOURCE.replace(old, new))
        assert share_kernels(other) is other


def test_kernels_with_other_integers_need_not_be_renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_place, "anonymous", None)
    other = program(SOURCE.replace("y[j]", "y[7 - j]"))
    assert share_kernels(other) is other


def test_names_that_two_kernels_exchange_are_told_apart() -> None:
    swapped = SOURCE.replace("w + w", "y[j] - w")
    other = program(swapped.replace("v + v", "v - x[i]"))
    assert share_kernels(other) is other


def test_names_do_not_count() -> None:
    first, second = program().kernels
    assert anonymous(first) == anonymous(second)
    assert anonymous(first) != anonymous(attrs.evolve(second, operations=9))


def test_layers_of_one_shape_are_compiled_once() -> None:
    layers = "\n".join(f"T{layer + 1}[i, j : N, N] = +(T{layer}[i, k] * W[k, j]);" for layer in range(50))
    source = f"function (T0[N, N], W[N, N]) -> (T50) {{ {layers} }}"
    function = tileir.parse(source)
    stages = compile_stages(function, tensor_types(function, [(8, 8)] * 2), tileir.Target())
    assert len(stages.sem.works) == 50
    assert len(stages.sem.kernels) <= 3  # the first and the last have arrays of the caller, of another alignment
