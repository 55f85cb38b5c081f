"""The interpreter against a slow one that follows the definition word by word, and on programs worth naming."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.passes import program_of
from strategies.stripe import cases, tiled
from tileir.core.dtype import DType
from tileir.core.errors import ArgumentError, TileError, VerifyError
from tileir.core.numbers import arithmetic
from tileir.core.ops import Aggregation
from tileir.stripe.flattening import with_entry
from tileir.stripe.interpret import plan
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.interpret.memory import neutral, poison
from tileir.stripe.ir import (
    Block,
    Constant,
    Convert,
    Direction,
    Intrinsic,
    Load,
    LoadIndex,
    Program,
    Refinement,
    Special,
    Store,
)
from tileir.stripe.text.parser import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

Array = np.ndarray[Any, Any]


@attrs.define(eq=False)
class Place:
    """A view at one point: a list of elements, the first one's position, and the elements that its scope has stored."""

    memory: list[Any]
    offset: int
    refinement: Refinement
    stored: set[int] | None


def slowly(program: Program, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Follow the text of ``tileir.stripe.ir``: one point after the other, one element after the other."""
    places = {}
    for r in program.entry.refinements:
        content = inputs.get(r.name)
        memory = [None] * r.shape.elements if content is None else list(content.reshape(-1))
        places[r.name] = Place(memory, 0, r, None)
    run(program.main, {}, places)
    return {
        name: np.array(places[name].memory, places[name].refinement.shape.dtype.numpy).reshape(
            places[name].refinement.shape.sizes
        )
        for name in program.outputs
    }


def run(block: Block, outer: Mapping[str, int], sources: Mapping[str, Place]) -> None:
    opened: dict[str, set[int]] = {r.name: set() for r in block.refinements}
    starts = [0 if i.affine is None else int(i.affine.evaluate(outer)) for i in block.indices]
    spans = [range(start, start + i.range) for start, i in zip(starts, block.indices, strict=True)]
    for point in product(*spans):
        values = dict(zip((i.name for i in block.indices), point, strict=True))
        if all(constraint.evaluate(values) >= 0 for constraint in block.constraints):
            places = {r.name: place(r, values, sources, opened[r.name]) for r in block.refinements}
            run_body(block, values, places)


def place(r: Refinement, values: Mapping[str, int], sources: Mapping[str, Place], opened: set[int]) -> Place:
    if r.direction is Direction.NONE:
        return Place([None] * r.shape.span, 0, r, None)
    source = sources[r.source]
    offset = source.offset + sum(
        int(a.evaluate(values)) * d.stride for a, d in zip(r.access, r.shape.dims, strict=True)
    )
    scoped = r.direction is Direction.OUT and r.aggregation not in (None, Aggregation.ASSIGN)
    stored = (source.stored if source.stored is not None else opened) if scoped else None
    return Place(source.memory, offset, r, stored)


def run_body(block: Block, values: Mapping[str, int], places: Mapping[str, Place]) -> None:
    scalars: dict[str, Array] = {}
    for statement in block.statements:
        match statement:
            case Block():
                run(statement, values, places)
            case Load(source=source, into=into, index=index):
                scalars[into] = np.asarray(places[source].memory[position(places[source], scalars, index)])
            case Store(source=source, into=into, index=index):
                store(places[into], position(places[into], scalars, index), scalars[source])
            case LoadIndex(affine=affine, into=into, dtype=dtype):
                scalars[into] = arithmetic.constant(int(affine.evaluate(values)), dtype)
            case Constant(into=into, dtype=dtype, value=value):
                scalars[into] = arithmetic.constant(value, dtype)
            case Intrinsic(op=op, inputs=names, into=into):
                scalars[into] = arithmetic.apply(op, *(scalars[name] for name in names))
            case Convert(input=name, into=into, dtype=dtype):
                scalars[into] = arithmetic.cast(scalars[name], dtype)
            case Special(outputs=(name,)):
                fill(places[name], statement)


def position(view: Place, scalars: Mapping[str, Array], index: str | None) -> int:
    if index is None:
        return view.offset
    dim = view.refinement.shape.dims[0]
    return view.offset + max(0, min(int(scalars[index]), dim.size - 1)) * dim.stride


def store(view: Place, offset: int, value: Array) -> None:
    aggregation = view.refinement.aggregation
    first = view.stored is not None and offset not in view.stored
    if view.stored is not None:
        view.stored.add(offset)
    if aggregation is None or first:
        view.memory[offset] = value
    else:
        view.memory[offset] = arithmetic.merge(aggregation, np.asarray(view.memory[offset]), value)


def fill(view: Place, special: Special) -> None:
    shape = view.refinement.shape
    value = special.parameters[0][1] if special.parameters else 0
    assert isinstance(value, int)
    for point in product(*(range(size) for size in shape.sizes)):
        offset = view.offset + sum(p * stride for p, stride in zip(point, shape.strides, strict=True))
        view.memory[offset] = arithmetic.constant(value, shape.dtype)


@examples(100)
@given(cases(), st.sampled_from([None, 0, 1]))
def test_it_follows_the_definition(case: tuple[Program, dict[str, Array]], seed: int | None) -> None:
    program, inputs = case
    expected = slowly(program, inputs)
    actual = interpret(program, inputs, seed=seed)
    assert list(actual) == list(expected)
    for name, right in expected.items():
        np.testing.assert_array_equal(actual[name], right)
        assert actual[name].dtype == right.dtype


@examples(50)
@given(cases())
def test_pieces_of_a_box_make_no_difference(case: tuple[Program, dict[str, Array]]) -> None:
    program, inputs = case
    expected = interpret(program, inputs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "CHUNK", 3)
        actual = interpret(program, inputs)
    for name, right in expected.items():
        np.testing.assert_array_equal(actual[name], right)


def kernel_program(header: str, body: str, inputs: str = "A", dtype: str = "fp32", size: int = 4) -> Program:
    """Return a program of one kernel over vectors A and O."""
    shape = f"{dtype}:I({size}):(1)"
    direction = "in A[0]" if inputs else "out A[0]"
    return parse(f"""program ({inputs}) -> (O)
0: #program
block [] (
    #user none new@0x0 A[0] {shape}
    #user none new@0x0 O[0] {shape}
) {{
  0: #main
  block [] (
      {direction} {shape}
      out O[0] {shape}
  ) {{
    0: #kernel
    block {header}
    {{
      {body}
    }}
  }}
}}
""")


ONE = "fp32:I(1):(1)"


def test_a_scope_overwrites_first_and_keeps_what_is_not_stored() -> None:
    program = kernel_program(
        "[] ( out O[0] fp32:I(4):(1) in A[0] fp32:I(4):(1) )",
        f"""0: (O) = fill(value=9)
      1: block [i:2, k:3] ( 1 - k >= 0 in A[2*i + k] {ONE} out O[i]:add {ONE} )
      {{ 0: $a = load(A) 1: O = store($a) }}""",
    )
    result = interpret(program, {"A": np.array([1, 2, 3, 4], np.float32)})
    np.testing.assert_array_equal(result["O"], [3, 7, 9, 9])


def test_each_execution_of_a_block_opens_its_scope_anew() -> None:
    program = kernel_program(
        "[r:2] ( in A[2*r] fp32:I(2):(1) out O[r] fp32:I(1):(1) )",
        f"""0: block [k:2] ( in A[k] {ONE} out O[0]:max {ONE} ) {{ 0: $a = load(A) 1: O = store($a) }}
      1: block [k:2] ( in A[k] {ONE} out O[0]:add {ONE} ) {{ 0: $a = load(A) 1: O = store($a) }}""",
    )
    result = interpret(program, {"A": np.array([1, 2, 3, 4], np.float32)})
    np.testing.assert_array_equal(result["O"][:2], [3, 7])


def test_undefined_memory_shows() -> None:
    program = kernel_program(f"[i:2] ( in A[i] {ONE} out O[i] {ONE} )", "0: $a = load(A) 1: O = store($a)")
    result = interpret(program, {"A": np.ones(4, np.float32)})["O"]
    assert np.isnan(result[2:]).all()
    assert [poison(d) for d in (DType.I8, DType.U8, DType.BOOL)] == [-128, 255, True]


def test_points_that_touch_each_other_run_one_by_one() -> None:
    program = kernel_program(
        "[] ( in A[0] fp32:I(4):(1) out O[0] fp32:I(4):(1) )",
        f"""0: (O) = copy(A)
      1: block [i:3] ( inout O[i] {ONE} out P = O[1 + i] {ONE} ) {{ 0: $a = load(O) 1: P = store($a) }}""",
    )
    array = np.array([1, 2, 3, 4], np.float32)
    np.testing.assert_array_equal(interpret(program, {"A": array})["O"], [1, 1, 1, 1])
    shuffled = [interpret(program, {"A": array}, seed=seed)["O"].tolist() for seed in range(8)]
    assert any(result != [1, 1, 1, 1] for result in shuffled)  # which is how illegal parallelism is found


@pytest.mark.parametrize(
    ("header", "body", "words"),
    [
        (f"[i:4] ( 8 - i >= 0 in A[1 + i] {ONE} out O[i] {ONE} )", "0: $a = load(A) 1: O = store($a)", "at 4 along"),
        (f"[i:4] ( 8 - i >= 0 in A[i - 1] {ONE} out O[i] {ONE} )", "0: $a = load(A) 1: O = store($a)", "at -1 along"),
        (
            "[i:2] ( in A[2*i] fp32:I(2):(1) out O[2*i] fp32:I(2):(1) )",
            f"0: block [j:2] ( 8 - j >= 0 in A[3*j] {ONE} out O[j] {ONE} ) {{ 0: $a = load(A) 1: O = store($a) }}",
            "at 5 along",
        ),
    ],
)
def test_accesses_out_of_bounds_are_errors(header: str, body: str, words: str) -> None:
    program = kernel_program(header, body)
    for seed in (None, 1):
        with pytest.raises(TileError, match=words) as caught:
            interpret(program, {"A": np.ones(4, np.float32)}, seed=seed)
        assert caught.value.diagnostics[0].code == "TIL511"


def test_a_halo_is_not_the_end_of_the_row_before() -> None:
    text = """program (A) -> (O)
0: #program block [] ( #user none A[0, 0] fp32:I(2, 2):(2, 1) #user none O[0, 0] fp32:I(2, 2):(2, 1) ) {
  0: #main block [] ( in A[0, 0] fp32:I(2, 2):(2, 1) out O[0, 0] fp32:I(2, 2):(2, 1) ) {
    0: #kernel block [i:2, j:2] ( 3 + i >= 0 in A[i, j - 1] fp32:I(1, 1):(2, 1) out O[i, j] fp32:I(1, 1):(2, 1) )
    { 0: $a = load(A) 1: O = store($a) }
  }
}
"""
    with pytest.raises(TileError, match="at -1 along axis 1"):
        interpret(parse(text), {"A": np.ones((2, 2), np.float32)})


def test_indirect_accesses_clamp() -> None:
    header = "[i:4] ( in A[0] i32:I(4):(1) in B = A[i] i32:I(1):(1) out O[i] i32:I(1):(1) )"
    program = kernel_program(header, "0: $b = load(B) 1: $a = load(A[$b]) 2: O = store($a)", dtype="i32")
    result = interpret(program, {"A": np.array([3, -7, 99, 1], np.int32)})["O"]
    np.testing.assert_array_equal(result, [1, 3, 1, -7])
    wide = kernel_program(
        header.replace("i32", "u64"), "0: $b = load(B) 1: $a = load(A[$b]) 2: O = store($a)", dtype="u64"
    )
    result = interpret(wide, {"A": np.array([3, 2**64 - 1, 0, 1], np.uint64)})["O"]
    np.testing.assert_array_equal(result, [1, 1, 3, 2**64 - 1])


def test_constant_buffers_are_read() -> None:
    text = """program () -> (O)
0: #program block [] ( #user none O[0] i16:I(2):(1) none const C[0] i16:I(2):(1) ) {
  0: #main block [] ( in C[0] i16:I(2):(1) out O[0] i16:I(2):(1) ) {
    0: #kernel block [] ( in C[0] i16:I(2):(1) out O[0] i16:I(2):(1) ) { 0: (O) = copy(C) }
  }
}
buffer C = "0100ffff"
"""
    np.testing.assert_array_equal(interpret(parse(text), {})["O"], [1, -1])


def test_specials_without_meaning_are_refused() -> None:
    program = kernel_program("[] ( in A[0] fp32:I(4):(1) out O[0] fp32:I(4):(1) )", "0: (O) = gemm(A)")
    with pytest.raises(TileError, match="'gemm' has no meaning"):
        interpret(program, {"A": np.ones(4, np.float32)})


def test_arrays_must_fit() -> None:
    program = kernel_program(f"[i:4] ( in A[i] {ONE} out O[i] {ONE} )", "0: $a = load(A) 1: O = store($a)")
    good: Array = np.ones(4, np.float32)
    wrong: list[dict[str, Array]] = [{}, {"A": good[:3]}, {"A": np.ones(4)}, {"A": good, "B": good}]
    for inputs in wrong:
        with pytest.raises(ArgumentError) as caught:
            interpret(program, inputs)
        assert [d.code for d in caught.value.diagnostics] == ["TIL701"]


def test_programs_are_verified_first() -> None:
    program = kernel_program(f"[i:5] ( in A[i] {ONE} out O[i] {ONE} )", "0: $a = load(A) 1: O = store($a)")
    with pytest.raises(VerifyError):
        interpret(program, {"A": np.ones(4, np.float32)})


def test_neutral_values_keep_the_sign_of_zero() -> None:
    assert str(neutral(Aggregation.SUM, DType.F32)) == "-0.0"
    assert neutral(Aggregation.SUM, DType.I8) == 0
    assert neutral(Aggregation.MAX, DType.F32) == float("-inf")


def test_a_tiled_matrix_product_of_some_size() -> None:
    size = 64
    shape = f"fp32:I({size}, {size}):({size}, 1)"
    element = f"fp32:I(1, 1):({size}, 1)"
    program = parse(f"""program (A, B) -> (O)
0: #program block [] ( #user none A[0, 0] {shape} #user none B[0, 0] {shape} #user none O[0, 0] {shape} ) {{
  0: #main block [] ( in A[0, 0] {shape} in B[0, 0] {shape} out O[0, 0] {shape} ) {{
    0: #kernel block [i:{size}, j:{size}, k:{size}]
    ( in A[i, k] {element} in B[k, j] {element} out O[i, j]:add {element} )
    {{ 0: $a = load(A) 1: $b = load(B) 2: $c = mul($a, $b) 3: O = store($c) }}
  }}
}}
""")
    split = tiled(program.main.blocks[0], {"i": 8, "j": 7, "k": 8})
    main = attrs.evolve(program.main, statements=(split,))
    program = with_entry(program, attrs.evolve(program.entry, statements=(main,)))
    left, right = np.random.default_rng(0).standard_normal((2, size, size), np.float32)
    result = interpret(program, {"A": left, "B": right})["O"]
    np.testing.assert_allclose(result, left @ right, rtol=1e-4, atol=1e-4)


SERIAL = """
block []:1 (
    in X[0] fp32:I(6):(1):24 B
    out O[0] fp32:I(6):(1):24 B
    none new@0x00000000 last[0] fp32:I(1):(1):4 B
) {
  0: $zero = (fp32)0.0
  1: last = store($zero)
  2: block [(#serial i:2), j:3]:6 (
      in X[3*i + j] fp32:I(1):(1):4 B
      in before = last[0] fp32:I(1):(1):4 B
      out after = last[0] fp32:I(1):(1):4 B
      out O[3*i + j] fp32:I(1):(1):4 B
  ) {
    0: $before = load(before)
    1: O = store($before)
    2: $x = load(X)
    3: after = store($x)
  }
}
"""

TRANSPOSE = """
block []:1 (
    in X[0, 0] fp32:I(2, 3):(3, 1):24 B
    out O[0, 0] fp32:I(3, 2):(2, 1):24 B
) {
  0: (O) = transpose(X)
}
"""


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_points_of_serial_blocks_run_in_order(seed: int | None) -> None:
    program = program_of([SERIAL], {"X": (6,), "O": (6,)})
    given = np.arange(1, 7, dtype=np.float32)
    np.testing.assert_array_equal(interpret(program, {"X": given}, seed=seed)["O"], [0, 1, 2, 3, 4, 5])


def test_transpose_exchanges_axes() -> None:
    program = program_of([TRANSPOSE], {"X": (2, 3), "O": (3, 2)})
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(interpret(program, {"X": given})["O"], given.T)


def test_transpose_needs_views_that_fit() -> None:
    program = program_of([TRANSPOSE.replace("I(3, 2):(2, 1)", "I(2, 3):(3, 1)")], {"X": (2, 3), "O": (2, 3)})
    with pytest.raises(VerifyError, match="two axes, exchanged"):
        interpret(program, {"X": np.zeros((2, 3), np.float32)})
