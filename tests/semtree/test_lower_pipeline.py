"""Software pipelining: the loops whose copies run ahead, and the lowered copies."""

from __future__ import annotations

import attrs
import pytest

from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.poly.affine import Affine
from tileir.semtree.ir import Assign, AsyncCopy, KernelFunction
from tileir.semtree.lower.loops import with_zeros
from tileir.semtree.lower.pipeline import asynchronous, stages_of
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.text.printer import to_text
from tileir.stripe import ir as stripe

LOOP = stripe.Block(
    "steps",
    indices=(stripe.Index("k", 4),),
    refinements=(
        stripe.Refinement(
            "stage",
            stripe.Direction.NONE,
            "",
            (Affine(),),
            stripe.TensorShape.dense(DType.F32, (8,)),
            location=(stripe.Device("LOCAL"),),
        ),
    ),
    statements=(stripe.Block(instruction=stripe.Copy()), stripe.Block()),
    instruction=stripe.Pipeline(3),
)


def test_the_pipeline_says_how_many_iterations_have_memory() -> None:
    assert stages_of(LOOP) == 3
    assert stages_of(attrs.evolve(LOOP, indices=(stripe.Index("p", 2), stripe.Index("k", 4)))) == 3


@pytest.mark.parametrize(
    "other",
    [
        attrs.evolve(LOOP, instruction=None),
        attrs.evolve(LOOP, indices=()),
    ],
)
def test_other_loops_are_ordinary_ones(other: stripe.Block) -> None:
    assert stages_of(other) == 0


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (attrs.evolve(LOOP, constraints=(Affine.index("k"),)), "no constraints"),
        (attrs.evolve(LOOP, indices=(stripe.Index("k", 4, Affine.index("o")),)), "no indices that depend"),
        (attrs.evolve(LOOP, statements=LOOP.statements[::-1]), "these first"),
        (attrs.evolve(LOOP, statements=LOOP.statements[1:]), "blocks that copy ahead"),
        (attrs.evolve(LOOP, refinements=(attrs.evolve(LOOP.refinements[0], location=()),)), "memory of the group"),
    ],
)
def test_pipelines_that_cannot_run_ahead_are_an_error(other: stripe.Block, words: str) -> None:
    with pytest.raises(TileError, match=f"TIL502.*the pipeline steps must .*{words}"):
        stages_of(other)


def copied(body: str) -> KernelFunction:
    kernel = parse_kernel(f"""
kernel k(inout f32 O[8] align(4) noalias, in f32 A[8] align(64) noalias) grid(1) index(i32) {{
  local f32 t[8] align(64);
{body}
}}""")
    return attrs.evolve(kernel, body=asynchronous(kernel.body))


def test_what_is_only_loaded_to_be_stored_is_copied() -> None:
    kernel = copied("""
  for (i32 i = 0; i < 2; i += 1) unroll {
    f32x4 x = A[i * 4 : 4];
    t[i * 4 : 4] = x;
  }""")
    assert "async t[i * 4 : 4] = A[i * 4 : 4];" in to_text(kernel)


def test_what_a_test_keeps_from_being_stored_is_zero() -> None:
    kernel = parse_kernel("""
kernel k(inout f32 O[8] align(4) noalias, in f32 A[8] align(64) noalias) grid(1) index(i32) {
  local f32 t[8] align(64);
  if (group_id(0) < 1) {
    f32x4 x = A[0 : 4];
    t[0 : 4] = x;
  }
}""")
    text = to_text(attrs.evolve(kernel, body=asynchronous(tuple(with_zeros(list(kernel.body))))))
    assert "{\n    async t[0 : 4] = A[0 : 4];\n  } else {\n    t[0 : 4] = f32x4(0.0);\n  }" in text


@pytest.mark.parametrize("body", ["f32 x = A[0] * 2.0;\n  t[0] = x;", "f32x8 x = A[0 : 8];\n  t[0 : 8] = x;"])
def test_what_is_computed_and_what_is_too_wide_stays(body: str) -> None:
    kernel = copied(body)
    assert any(isinstance(stmt, Assign) for stmt in kernel.body)
    assert not any(isinstance(stmt, AsyncCopy) for stmt in kernel.body)
