from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.kernels import PROGRAMS, inputs, stripe_program
from strategies.passes import assert_same_meaning, programs
from tileir.core.errors import TileError
from tileir.core.targets.target import Target
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.lower.lowering import lower
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir_accelerators.tiling.tensorise import Stencil, StencilIndex, Tensorise

if TYPE_CHECKING:
    from tileir.stripe.ir import Program


@st.composite
def stencils(draw: st.DrawFn) -> Stencil:
    rules = st.lists(st.sampled_from((-1, 0, 1)), max_size=2).map(tuple)
    one = st.builds(
        StencilIndex,
        st.sampled_from(("", "m", "n")),
        st.sampled_from((-1, 1, 2, 3)),
        rules.map(lambda r: r[:1]),
        rules,
    )
    idxs = tuple(draw(st.lists(one, min_size=1, max_size=3)))
    return Stencil(idxs, draw(st.sampled_from(("", "unit"))), draw(st.sampled_from((-1, 0, 9))))


@given(programs(6), st.lists(stencils(), min_size=1, max_size=3), st.booleans())
@examples(100)
def test_stencils_keep_the_meaning(program: Program, found: list[Stencil], strict: bool) -> None:
    after = run((Tensorise(reqs=(), stencils=tuple(found), strict=strict),), program)
    verify(after)
    assert_same_meaning(program, after)


def test_matched_blocks_say_what_they_are() -> None:
    program = stripe_program("matmul")
    after = run((Tensorise(outer_set=("outer",), inner_set=("inner",)),), program)
    (outer,) = after.main.blocks
    (inner,) = outer.blocks
    assert outer.tags.has_all(("outer", "contraction"))
    assert inner.tags.has_all(("stencil", "inner", "matrix_multiply_accumulate"))
    assert {i.name: (i.range, i.tags.items) for i in inner.indices if i.tags.items} == {
        "i": (4, (("stencil_m", None),)),
        "j": (16, (("stencil_n", None),)),
        "k": (11, (("stencil_k", None),)),
    }
    assert run((Tensorise(),), after) is after


@pytest.mark.sampled(13)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_default_lowers(name: str) -> None:
    program, values = stripe_program(name), inputs(name)
    after = run((Tensorise(), Accumulate()), program)
    found = run_program(lower(after, Target()), values)
    for output, array in interpret(program, values).items():
        np.testing.assert_array_equal(found[output], array)


def test_nothing_happens_where_nothing_matches() -> None:
    program = stripe_program("matmul")
    assert Tensorise(reqs=("elsewhere",))(program) is program
    assert Tensorise(stencils=())(program) is program
    strict = Tensorise(strict=True)
    assert strict(program) is program


def test_it_has_a_text() -> None:
    (step,) = parse_pipeline("tensorise{strict=true,startup_cost=8}")
    assert step == Tensorise(strict=True, startup_cost=8)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ("stencils=({idxs=({size=0})})", "size of a stencil's index"),
        ("stencils=({idxs=({ins=(-2)})})", "must be strides"),
        ("stencils=({loops=()})", "idxs"),
        ("startup_cost=-1", "startup_cost"),
    ],
)
def test_options_are_checked(options: str, fault: str) -> None:
    with pytest.raises(TileError) as caught:
        parse_pipeline(f"tensorise{{{options}}}")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code in ("TIL542", "TIL543")
    assert fault in diagnostic.message
