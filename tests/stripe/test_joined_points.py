"""Points of nested blocks that the interpreter runs as those of one: results and faults are those of one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.drawn_pipelines import pipelines
from strategies.effort import examples
from strategies.passes import arrays_for, program_of, programs
from tileir.core.errors import TileError
from tileir.stripe.interpret import plan
from tileir.stripe.interpret.interpreter import _Machine, contents_after

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.passes.base import Pass
    from tileir.stripe.ir import Program

Array = np.ndarray[Any, Any]
COPY = "0: $x = load(X) 1: O = store($x)"
ONE = "fp32:I(1):(1)"
FOUR = "fp32:I(4):(1)"
SIZES = {"X": (4,), "Y": (4,), "O": (4,)}
X = np.array([1, 2, 4, 8], np.float32)


def one_by_one(program: Program, inputs: Mapping[str, Array], seed: int | None = None) -> dict[str, Array]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "_joined", lambda *_: None)
        return contents_after(program, inputs, seed=seed)


def joined(
    program: Program, inputs: Mapping[str, Array], seed: int | None = None
) -> tuple[dict[str, Array], list[bool]]:
    """Return the contents, and for each try to run nested blocks as one whether it did."""
    tries: list[bool] = []
    usual = _Machine._run_joined

    def watched(*args: Any) -> bool:
        tries.append(usual(*args))
        return tries[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Machine, "_run_joined", watched)
        return contents_after(program, inputs, seed=seed), tries


def tries_of(kernel: str, fill: bool = False) -> list[bool]:
    """Run a kernel in both ways, perhaps on what another one has stored, and return whether blocks were run as one."""
    first = f"block [f:4] ( in X[f] {ONE} out O[f] {ONE} ) {{ {COPY} }}"
    program, inputs = program_of([first, kernel] if fill else [kernel], SIZES, ("O",)), {"X": X, "Y": X + 1}
    found, tries = joined(program, inputs)
    for name, content in one_by_one(program, inputs).items():
        np.testing.assert_array_equal(found[name], content)
    return tries


@examples(60)
@given(programs(4), pipelines(), st.sampled_from((None, 0, 1)))
def test_generated_programs_have_the_same_contents(program: Program, steps: tuple[Pass, ...], seed: int | None) -> None:
    inputs = arrays_for(program)
    for step in steps:
        try:
            program = step(program)
        except TileError:  # drawn passes may refuse
            return
    found, _ = joined(program, inputs, seed)
    for name, content in one_by_one(program, inputs, seed).items():
        np.testing.assert_array_equal(found[name], content)


def test_three_blocks_are_one() -> None:
    """Places, bounds that an index of the outermost block is passed for, and constraints of all of them."""
    kernel = f"""block [i:2] ( in X[0] {FOUR} out O[2*i] fp32:I(2):(1) ) {{
      0: block [j:1] ( 1 - j >= 0 in X[0] {FOUR} out O[j] fp32:I(2):(1) ) {{
        0: block [k:3] ( 1 - k >= 0 in X[3 - k] {ONE} out O[k] {ONE} ) {{ {COPY} }}
      }}
    }}"""
    assert tries_of(kernel) == [True]
    kernel = f"""block [i:2] ( in X[0] {FOUR} out O[0] {FOUR} ) {{
      0: block [p=2*i, k:2] ( 2 - p - k >= 0 in X[p + k] {ONE} out O[p + k] {ONE} ) {{ {COPY} }}
    }}"""
    assert tries_of(kernel) == [True]


def test_sums_over_both_blocks_go_on() -> None:
    kernel = f"""block [i:2] ( in X[2*i] fp32:I(2):(1) out O[0]:add {ONE} ) {{
      0: block [k:2] ( in X[k] {ONE} out O[0]:add {ONE} ) {{ {COPY} }}
    }}"""
    assert tries_of(kernel) == [True]


def test_two_views_merge_into_the_same_sums() -> None:
    kernel = f"""block [i:2] ( in X[2*i] fp32:I(2):(1) in Y[2*i] fp32:I(2):(1) out O[2*i]:add fp32:I(2):(1) ) {{
      0: block [k:2] ( in X[k] {ONE} in Y[k] {ONE} out P=O[k]:add {ONE} out Q=O[k]:add {ONE} ) {{
        0: $x = load(X) 1: P = store($x) 2: $y = load(Y) 3: Q = store($y)
      }}
    }}"""
    assert tries_of(kernel) == [True]


def test_sums_of_the_inner_block_begin_anew_at_each_point() -> None:
    """The last point of the outer block overwrites what the others have added."""
    kernel = f"""block [i:2] ( in X[2*i] fp32:I(2):(1) out O[0] {ONE} ) {{
      0: block [k:2] ( in X[k] {ONE} out O[0]:add {ONE} ) {{ {COPY} }}
    }}"""
    assert tries_of(kernel) == []


def test_points_that_load_what_others_store_run_in_order() -> None:
    kernel = f"""block [i:3] ( in O[i] {ONE} out P=O[i + 1] {ONE} ) {{
      0: block [k:1] ( in O[k] {ONE} out P[k] {ONE} ) {{ 0: $x = load(O) 1: P = store($x) }}
    }}"""
    assert tries_of(kernel, fill=True) == [False]
    assert tries_of(
        kernel.replace("[i:3]", "[i:2]").replace("O[i]", "O[2*i]").replace("[i + 1]", "[2*i + 1]"), True
    ) == [True]


def test_points_that_store_twice_run_in_order() -> None:
    """The first store of a point comes after the second one of the point before."""
    kernel = f"""block [i:3] ( in X[i] {ONE} in Y[i] {ONE} out P=O[i + 1] {ONE} out Q=O[i] {ONE} ) {{
      0: block [k:1] ( in X[k] {ONE} in Y[k] {ONE} out P[k] {ONE} out Q[k] {ONE} ) {{
        0: $x = load(X) 1: P = store($x) 2: $y = load(Y) 3: Q = store($y)
      }}
    }}"""
    assert tries_of(kernel) == [False]
    assert tries_of(kernel.replace("[i:3]", "[i:2]").replace("O[i]", "O[2*i]").replace("[i + 1]", "[2*i + 1]")) == [
        True
    ]


def test_blocks_in_order_and_elements_that_are_looked_up_are_left_alone() -> None:
    kernel = f"""block [i:2] ( in X[0] {FOUR} out O[2*i] fp32:I(2):(1) ) {{
      0: block [k:2] ( in X[0] {FOUR} out O[k] {ONE} ) {{ {COPY} }}
    }}"""
    assert tries_of(kernel) == [True]
    assert tries_of(kernel.replace("[i:2]", "[(#serial i:2)]")) == []
    assert tries_of(kernel.replace("[k:2]", "[(#serial k:2)]")) == []
    assert tries_of(kernel.replace(COPY, "0: $k = load_index(k) 1: $x = load(X[$k]) 2: O = store($x)")) == []


def test_the_first_point_out_of_bounds_is_told() -> None:
    """Together they would tell of the farthest one."""
    kernel = f"""block [i:3] ( in X[2*i] fp32:I(2):(1) out O[i] {ONE} ) {{
      0: block [k:2] ( 8 - k >= 0 in X[2*k] {ONE} out O[0] {ONE} ) {{ {COPY} }}
    }}"""
    program, inputs, told = program_of([kernel], SIZES, ("O",)), {"X": X, "Y": X}, []
    for run in (one_by_one, contents_after):
        with pytest.raises(TileError) as caught:
            run(program, inputs)
        told.append(str(caught.value))
    assert "TIL511" in told[0]
    assert "at 4 along axis 0" in told[0]
    assert told[0] == told[1]


def test_a_block_that_only_writes_has_nothing_for_the_only_one_inside_to_read() -> None:
    """So no points are joined that read what they have stored themselves."""
    inside = f"block [i:4]:4 (inout O[i] {ONE}) {{ 0: $x = load(O) 1: O = store($x) }}"
    outside = f"block [j:1]:1 (out O[0] {FOUR}) {{ 0: {inside} }}"
    with pytest.raises(TileError, match="reads 'O', which nothing has written before"):
        joined(program_of([outside], SIZES, ("O",)), {"X": X})
