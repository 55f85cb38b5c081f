"""Scripts as users write them: as text and JSON, for all sizes, and told apart where they refuse."""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir
from tileir.core import Aggregation, attrs
from tileir.core.dtype import DType
from tileir.core.errors import ParseError
from tileir.core.targets.target import Target
from tileir.passes.base import run
from tileir.passes.pipelines import pipeline
from tileir.passes.pipelines.catalog import PASSES, load_pipeline, parse_pipeline
from tileir.passes.schedules.scripted import Scripted, with_scripts
from tileir.poly.affine import Affine
from tileir.schedule.nest import Use
from tileir.schedule.remarks import Remarks, listening
from tileir.schedule.script import Step
from tileir.schedule.steps.legality import no_vector
from tileir.schedule.tree import Leaf, Loop
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.stripe.bindings import Binding
from tileir.stripe.ir import Direction, Load, Store
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir_performance.explain.text import remark_lines

if TYPE_CHECKING:
    from collections.abc import Callable

PRODUCT = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
TILES = """script{
  match={loops=(row, column), reductions=(term), reads=(left, right), writes=(out)},
  parameters=({name=rows, value=3}, {name=lanes, value="VECTOR_BYTES // 4"}),
  steps=(
    split{loop=column, by="2 * lanes", into=(panel, tile), tail=peel},
    split{loop=row, by=rows, into=(block, own), tail=peel},
    reorder{loops=(panel, block, own, tile)},
    split{loop=tile, by=lanes, into=(vector, lane), tail=peel},
    jam{loops=(own, vector, lane)},
    stage{tensor=right, at=panel, into=packed},
    split{loop=packed_1, by=lanes, into=(packed_vector, packed_lane), tail=peel},
    bind{loop=packed_lane, to=vector}, bind{loop=packed_vector, to=unroll},
    bind{loop=panel, to=grid}, bind{loop=own, to=unroll}, bind{loop=vector, to=unroll}, bind{loop=lane, to=vector}
  )
}"""


def script(text: str) -> Scripted:
    (step,) = parse_pipeline(text)
    assert isinstance(step, Scripted)
    return step


def remarks_of(text: str, source: str = PRODUCT, **shapes: tuple[int, ...]) -> list[tuple[str, dict[str, Any]]]:
    """Return the codes and facts of what the last step of a pipeline says."""
    types = {name: TensorType(DType.F32, shape) for name, shape in (shapes or {"A": (5, 7), "B": (7, 6)}).items()}
    program = lower(infer(parse(source), types))
    found = Remarks()
    with listening(found):
        run(parse_pipeline(f"accumulate,{text}"), program)
    return [(remark.code, dict(remark.facts)) for remark in found.all()][-1:]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (3, 16, 5), (7, 33, 4), (4, 31, 9), (3, 15, 2), (64, 64, 64), (50, 40, 1)]
)
def test_one_text_serves_all_sizes(sizes: tuple[int, int, int]) -> None:
    rows, columns, terms = sizes
    random = np.random.default_rng(0)
    a, b = random.integers(-9, 9, (rows, terms)), random.integers(-9, 9, (terms, columns))
    left, right = a.astype(np.float32), b.astype(np.float32)
    passes = f"accumulate,canonicalise,{TILES},thread"
    product = tileir.compile(PRODUCT, {"A": left, "B": right}, passes=passes)
    panels = [index for block in product.scheduled.main.blocks for index in block.indices if index.name == "panel"]
    assert all(index.binding is Binding.GRID for index in panels)
    full = columns // (2 * product.device.target.vector_bytes // 4)
    assert bool(panels) == (full > 1 and terms > 1)  # one alone is no loop, and a sum of one term no reduction
    np.testing.assert_array_equal(product(left, right), a @ b)


def test_text_and_json_are_read_back() -> None:
    step = script(TILES)
    assert parse_pipeline(pipeline.to_text([step])) == (step,)
    assert load_pipeline(pipeline.to_json([step])) == (step,)
    assert pipeline.to_value([step])[0]["options"]["steps"][0]["split"]["tail"] == "peel"  # type: ignore[index]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("names", [("i", "j", "k", "l"), ("z", "a", "s", "r"), ("y", "x", "d", "c")])
@pytest.mark.parametrize("before", ["accumulate", "accumulate, canonicalise{merge=false}"])
def test_loops_lie_in_the_order_of_memory_whatever_they_are_called(names: tuple[str, ...], before: str) -> None:
    row, column, outer, inner = names
    text = f"""function (A[M, K, L], B[K, L, N]) -> (C) {{
        C[{row}, {column} : M, N] = +(A[{row}, {outer}, {inner}] * B[{outer}, {inner}, {column}]); }}"""
    a, b = np.arange(60, dtype=np.int64).reshape(3, 4, 5), np.arange(120, dtype=np.int64).reshape(4, 5, 6)
    steps = "cut{loop=row, at=1, into=(first, rows)}, cut{loop=term, at=1, into=(one, terms)}"
    passes = f"{before}, script{{match={{loops=(row, column), reductions=(part, term)}}, steps=({steps})}}"
    program = tileir.compile(text, [a, b], passes=passes)
    sizes = {index.name: index.range for block in program.scheduled.main.nested() for index in block.indices}
    assert (sizes["rows"], sizes["column"], sizes["part"], sizes["terms"]) == (2, 6, 4, 4)
    np.testing.assert_array_equal(program(a, b), np.tensordot(a, b, 2))


def test_facts_of_the_target_become_parameters() -> None:
    step = script(TILES).for_target(Target(vector_bytes=32))
    assert next((each.name, each.value) for each in step.parameters) == ("VECTOR_BYTES", 32)
    assert step.for_target(Target(vector_bytes=64)) == step


SUMS = """script{steps=(
    split{loop=k, by=8, into=(step, lane), tail=peel}, reorder{loops=(lane, step)},
    rfactor{memory=S_acc, loop=lane, into=parts}, reorder{loops=(step, lane)},
    bind{loop=lane, to=vector}, bind{loop=parts_start, to=vector}, bind{loop=parts_merge, to=unroll}
)}"""


@pytest.mark.sampled(5)
@pytest.mark.parametrize("size", [8, 13, 16, 100])
@pytest.mark.parametrize("how", ["+", "*", ">", "<"])
def test_lanes_have_partial_results_of_their_own(size: int, how: str) -> None:
    text = f"function (A[M, K]) -> (S) {{ S[i : M] = {how}(A[i, k]); }}"
    values = np.random.default_rng(0).integers(1, 3, (5, size)).astype(np.int64 if how == "*" else np.float32)
    reducers: dict[str, Callable[..., Any]] = {"+": np.sum, "*": np.prod, ">": np.max, "<": np.min}
    reduced = reducers[how](values, axis=1)
    rows = tileir.compile(text, {"A": values}, passes=f"accumulate,canonicalise,{SUMS}")
    assert [remark.fired for remark in rows.remarks if remark.step == "script"] == [True]
    np.testing.assert_array_equal(rows(values), reduced)


LEVELS = """script{steps=(
    split{loop=k, by=16, into=(step, part), tail=peel},
    rfactor{memory=S_acc, loop=part, into=parts, through=(8, 4), around=step},
    bind{loop=(parts_left_0, parts_left_1, parts_merge), to=vector}, bind{loop=(parts_start, parts_more_0), to=unroll}
)}"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", [16, 37, 100])
@pytest.mark.parametrize("how", ["+", "*", ">", "<"])
def test_lanes_merge_partial_results_level_by_level(size: int, how: str) -> None:
    text = f"function (A[M, K]) -> (S) {{ S[i : M] = {how}(A[i, k]); }}"
    values = np.random.default_rng(0).integers(1, 3, (5, size)).astype(np.int64 if how == "*" else np.float32)
    reducers: dict[str, Callable[..., Any]] = {"+": np.sum, "*": np.prod, ">": np.max, "<": np.min}
    rows = tileir.compile(text, {"A": values}, passes=f"accumulate,canonicalise,{LEVELS}")
    found = [[i.range for i in block.indices] for block in rows.scheduled.main.blocks[0].blocks]
    assert found[-4:-1] == [[8], [4], [4]]  # 16 parts, halves of halves, and the sum of four lanes
    np.testing.assert_array_equal(rows(values), reducers[how](values, axis=1))


def test_lanes_that_read_what_they_merge_into_are_refused() -> None:
    use = Use("A", "A", (Affine.index("i"),), (1,), DType.F32, Direction.IN)
    into = Use("S", "S", (Affine(),), (1,), DType.F32, Direction.INOUT, Aggregation.SUM)
    seen = attrs.evolve(into, name="T", direction=Direction.IN, aggregation=None)
    statements = (Load("A", "a"), Store("a", "S"))
    assert no_vector(Loop("i", 4, (Leaf(statements, (use, into)),))) is None
    found = no_vector(Loop("i", 4, (Leaf((*statements, Load("T", "t")), (use, into, seen)),)))
    assert found is not None
    assert found.code == "TR721"


def test_a_loop_is_cut_at_several_places() -> None:
    passes = 'accumulate,canonicalise,script{steps=(cut{loop=i, at=(2, "i - 1"), into=(first, most, last)})}'
    a = np.arange(30, dtype=np.int32).reshape(5, 6)
    total = tileir.compile("function (A[M, N]) -> (S) { S[i : M] = +(A[i, j]); }", {"A": a}, passes=passes)
    ranges = [i.range for block in total.scheduled.main.blocks[0].blocks for i in block.indices if i.name != "j"]
    assert ranges == [2, 2]  # the last row alone is no loop
    np.testing.assert_array_equal(total(a), a.sum(axis=1))


BORDERS = """script{steps=(
    specialise{loop=i, into=(top, rows, bottom)}, specialise{loop=j, into=(left, columns, right)},
    bind{loop=top, to=grid}, bind{loop=rows, to=grid}, bind{loop=bottom, to=grid}
)}"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("shape", "kernels"), [((9, 20), 3), ((3, 3), 3), ((30, 4), 3), ((2, 9), 1)])
def test_what_lies_inside_tests_nothing(shape: tuple[int, int], kernels: int) -> None:
    text = "function (A[M, N]) -> (C) { C[i, j : M, N] = +(A[i + k - 1, j + l - 1]), k < 3, l < 3; }"
    a = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    sums = np.lib.stride_tricks.sliding_window_view(np.pad(a, 1), (3, 3)).sum(axis=(2, 3))
    program = tileir.compile(text, {"A": a}, passes=f"accumulate,{BORDERS}")
    np.testing.assert_array_equal(program(a), sums)
    blocks = program.scheduled.main.blocks
    assert len(blocks) == kernels
    if kernels == 3:
        inside = blocks[1].blocks[1]
        assert not any(block.constraints for block in (blocks[1], inside, *inside.blocks))


def test_scripts_come_before_the_schedules_of_the_target() -> None:
    steps = with_scripts(Target(pipeline="cpu"), script(TILES))
    names = [step.name for step in steps]
    assert names.index("script") + 1 == names.index("register_tile")
    assert names.index("accumulate") < names.index("script")


def test_kernels_that_no_script_fits_are_scheduled_as_ever() -> None:
    text = "function (A[N], B[N]) -> (C) { C = A + B; }"
    passes = with_scripts(tileir.Context().device().target, script(TILES))
    x = np.arange(100, dtype=np.float32)
    total = tileir.compile(text, {"A": x, "B": x}, passes=passes)
    np.testing.assert_array_equal(total(x, x), 2 * x)


REFUSALS: dict[str, tuple[str, dict[str, Any]]] = {
    "split{loop=z, by=2, into=(a, b)}": ("TR701", {"loop": "z"}),
    "split{loop=i, by=two, into=(a, b)}": ("TR702", {"name": "two"}),
    'split{loop=i, by="i // 0", into=(a, b)}': ("TR703", {"expression": "i // 0"}),
    "split{loop=i, by=0, into=(a, b)}": ("TR704", {"value": "0"}),
    "split{loop=i, by=2, into=(j, b)}": ("TR705", {"name": "j"}),
    "split{loop=i, by=2, into=(a, a)}": ("TR705", {"name": "a"}),
    "split{loop=i, by=2, into=(i, i)}": ("TR705", {"name": "i"}),
    'split{loop=i, by=2, into=("a b", c)}': ("TR760", {"name": "a b"}),
    "persist{loop=i, groups=2, into=(a, a)}": ("TR705", {"name": "a"}),
    "cut{loop=i, at=(1, 3), into=(a, b, a)}": ("TR705", {"name": "a"}),
    "split{loop=k, by=2, into=(p_0, q)}, stage{tensor=A, at=i, into=p}": ("TR705", {"name": "p_0"}),
    "split{loop=k, by=2, into=(p_1, q)}, jam{loops=(j)}, accumulate{memory=C_acc, at=q, into=p}": (
        "TR705",
        {"name": "p_1"},
    ),
    "stage{tensor=B, at=i, into=p}, interleave{memory=p, axis=2, by=4}": ("TR714", {"axes": 2}),
    "split{loop=i, by=2, into=(a, b), tail=even}": ("TR706", {"size": 5, "factor": 2}),
    "bind{loop=i, to=grid}, bind{loop=i, to=unroll}": ("TR707", {"binding": "grid"}),
    "reorder{loops=(i, i)}": ("TR708", {}),
    "reorder{loops=(i, k)}": ("TR709", {}),
    "join{loops=(i, j), into=both}": ("TR710", {"outer": "i"}),
    "stage{tensor=C, at=i, into=copy}": ("TR712", {"tensor": "C"}),
    "stage{tensor=D, at=i, into=copy}": ("TR738", {"tensor": "D"}),
    "stage{tensor=A, at=i, into=copy, order=(0, 0)}": ("TR714", {"axes": 2}),
    "accumulate{memory=A, at=k, into=part}": ("TR715", {"memory": "A"}),
    "rfactor{memory=C, loop=k, into=parts}": ("TR715", {"memory": "C"}),
    "rfactor{memory=C_acc, loop=k, into=j}": ("TR705", {"name": "j"}),
    "split{loop=k, by=2, into=(p_start, q)}, rfactor{memory=C_acc, loop=q, into=p}": ("TR705", {"name": "p_start"}),
    "bind{loop=k, to=unroll}, rfactor{memory=C_acc, loop=k, into=parts}": ("TR707", {"binding": "unroll"}),
    "place{memory=C, level=local}": ("TR716", {"memory": "C"}),
    "cut{loop=i, at=5, into=(a, b)}": ("TR717", {"size": 5}),
    "cut{loop=i, at=(2, 2), into=(a, b, c)}": ("TR717", {"at": "2, 2"}),
    "cut{loop=i, at=(2, 3), into=(a, b)}": ("TR717", {"size": 5}),
    "specialise{loop=i, into=(a, b, c)}": ("TR737", {"loop": "i"}),
    "specialise{loop=i, into=(a, j, c)}": ("TR705", {"name": "j"}),
    "bind{loop=k, to=grid}": ("TR718", {"loop": "k"}),
    "bind{loop=j, to=grid}": ("TR719", {"loop": "j", "around": "i"}),
    "reorder{loops=(j, i)}, bind{loop=i, to=grid}": ("TR719", {"loop": "i", "around": "j"}),
    "jam{loops=(j)}, reorder{loops=(j, i)}": ("TR709", {"loop": "i"}),
    "accumulate{memory=out, at=j, into=own}": ("TR715", {}),
    "jam{loops=(i)}, bind{loop=i, to=vector}": ("TR721", {"loop": "i"}),
    "jam{loops=(j)}, split{loop=j, by=4, into=(v, l)}, bind{loop=l, to=vector}": (
        "TR722",
        {"loop": "l", "step": "2 bind"},
    ),
    "bind{loop=i, to=dot}": ("TR726", {"to": "dot"}),
    "bind{loop=(), to=unroll}": ("TR708", {"loops": ""}),
    "bind{loop=(i, l), to=unroll}": ("TR701", {"loop": "l"}),
    "bind{loop=(j, k), to=grid}": ("TR718", {"step": "0 bind", "loop": "k"}),
    "jam{loops=(j)}, split{loop=j, by=4, into=(v, l)}, bind{loop=(i, l), to=vector}": ("TR721", {"loop": "i"}),
    "rfactor{memory=C_acc, loop=k, into=parts, through=(3)}": ("TR706", {"factor": 3}),
    "rfactor{memory=(C_acc, C_acc), loop=k, into=parts}": ("TR708", {}),
    "rfactor{memory=C_acc, loop=j, into=parts, around=k}": ("TR701", {"loop": "j"}),
    "rfactor{memory=C_acc, loop=k, into=parts, around=z}": ("TR701", {"loop": "z"}),
    "split{loop=k, by=2, into=(p, q)}, bind{loop=p, to=unroll}, rfactor{memory=C_acc, loop=q, into=parts, around=p}": (
        "TR707",
        {"binding": "unroll"},
    ),
    "split{loop=k, by=2, into=(step, part)}, rfactor{memory=C_acc, loop=step, into=parts, stores=true}": (
        "TR765",
        {"memory": "parts"},
    ),
    "accumulate{memory=C_acc, at=k, into=part, over=(z)}": ("TR701", {"loop": "z"}),
    "rfactor{memory=C_acc, loop=k, into=parts, through=(1, 1)}": ("TR706", {"size": 1}),
    "split{loop=k, by=2, into=(p_more_0, q)}, rfactor{memory=C_acc, loop=q, into=p, through=(1)}": (
        "TR705",
        {"name": "p_more_0"},
    ),
    "stage{tensor=A, at=i, into=own}, distribute{loop=i, after=1, into=(a, b)}, bind{loop=a, to=grid}": (
        "TR758",
        {"step": "2 bind", "loop": "a", "memory": "own"},
    ),
}


@pytest.mark.parametrize("steps", REFUSALS)
def test_what_a_step_refuses_is_a_remark_with_the_facts(steps: str) -> None:
    code, facts = REFUSALS[steps]
    ((found, told),) = remarks_of(f"script{{steps=({steps})}}")
    assert found == code
    assert facts.items() <= told.items()


def test_code_that_is_too_long_and_vectors_that_are_too_wide_are_refused() -> None:
    unrolled = "bind{loop=k, to=unroll}, bind{loop=i, to=unroll}"
    ((code, facts),) = remarks_of(f"script{{steps=({unrolled})}}", A=(70, 70), B=(70, 2000))
    assert (code, facts["step"], facts["most"]) == ("TR755", "1 bind", 1 << 12)
    ((code, facts),) = remarks_of("script{steps=(jam{loops=(j)}, bind{loop=j, to=vector})}", A=(70, 70), B=(70, 2000))
    assert (code, facts["step"], facts["size"], facts["most"]) == ("TR759", "1 bind", 2000, 1024)


def test_patterns_tell_why_they_do_not_fit() -> None:
    text = "function (A[M, K], B[K, N]) -> (C, S) { C[i, j : M, N] = +(A[i, k] * B[k, j]); S[i : M] = +(A[i, k]); }"
    program = lower(infer(parse(text), {"A": TensorType(DType.F32, (5, 7)), "B": TensorType(DType.F32, (7, 6))}))
    for match, codes in (
        ("kernel=kernel_1", ["TR724", "TR001"]),
        ("loops=(i)", ["TR725", "TR001"]),
        ("kernel=other", ["TR724", "TR724"]),
        ("loops=(a, b, c)", ["TR725", "TR725"]),
    ):
        found = Remarks()
        steps = "split{loop=i, by=2, into=(o, p)}"
        with listening(found):
            run(parse_pipeline(f"accumulate, script{{match={{{match}}}, steps=({steps})}}"), program)
        assert [remark.code for remark in found.all() if remark.step == "script"] == codes
        assert [*remark_lines(found.all())]  # that it fits none is not passed over
    assert remarks_of("thread,script{steps=()}")[0][0] == "TR101"


def test_a_pattern_names_one_of_several_launches_of_a_kernel() -> None:
    text = "function (A[N], B[N]) -> (C, D) { C = A + 1; D = B + 1; }"
    arrays = [np.arange(12, dtype=np.int32), np.arange(3, 15, dtype=np.int32)]
    for number in range(2):
        steps = f"script{{match={{kernel=kernel_{number}}}, steps=(split{{loop=i1, by=4, into=(o, p)}})}}"
        program = tileir.compile(text, arrays, passes=f"canonicalise, {steps}")
        found = [[index.name for index in block.indices] for block in program.scheduled.main.blocks]
        assert found[number] == ["o", "p"]
        assert found[1 - number] == ["i1"]
        for result, expected in zip(program(*arrays), tileir.evaluate(text, arrays), strict=True):
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("match", "code", "name"),
    [
        ("loops=(k, j)", "TR705", "k"),  # the loop of the sum has this name
        ("loops=(a, a)", "TR705", "a"),
        ("reads=(C, B)", "TR705", "C"),
        ("reads=(C_acc, B)", "TR705", "C_acc"),
        ('loops=("", j)', "TR760", ""),
    ],
)
def test_patterns_give_no_name_twice(match: str, code: str, name: str) -> None:
    assert remarks_of(f"script{{match={{{match}}}}}") == [(code, {"name": name})]


def test_parameters_have_names_of_their_own() -> None:
    twice = "script{parameters=({name=p, value=1}, {name=p, value=2})}"
    assert remarks_of(twice) == [("TR705", {"name": "p"})]
    ((code, facts),) = remarks_of('script{parameters=({name=p, value="q + 1"})}')
    assert (code, facts["parameter"], facts["name"]) == ("TR702", "p", "q")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("script{steps=(splt{loop=i})}", "did you mean split"),
        ("script{steps=(split{loop=i, by=2})}", "needs the field into"),
        ("script{steps=(split{loop=i, by=2, into=(a, b), tale=peel})}", "has no field tale; did you mean tail"),
        (
            "script{steps=(split{loop=i, by=2, into=(a, b), tail=pel})}",
            "takes one of even, guard, peel, pad, mask, shift",
        ),
        ("script{steps=(split)}", "takes one of split, reorder"),
    ],
)
def test_mistakes_in_the_text_are_told_at_their_place(text: str, said: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_pipeline(text)
    (fault,) = caught.value.diagnostics
    assert said in fault.message
    assert fault.span is not None
    assert "steps" in fault.message


def test_all_steps_have_names_and_docstrings() -> None:
    kinds = typing.get_args(Step)
    assert len({kind.name for kind in kinds}) == len(kinds)
    assert all(kind.__doc__ for kind in kinds)
    assert Scripted in PASSES


@pytest.mark.sampled(4)
@pytest.mark.parametrize("tail", ["guard", "peel", "pad", "mask"])
@pytest.mark.parametrize(
    "apart", ["accumulate{memory=C_acc, at=k, into=part}", "rfactor{memory=C_acc, loop=k, into=part}"]
)
def test_parts_stay_within_the_memory_that_they_are_merged_into(tail: str, apart: str) -> None:
    """Rows of accumulators, which a jam made, have no room for the whole of the last tile."""
    a = np.arange(9, dtype=np.int32)
    passes = f"""accumulate, script{{steps=(
        jam{{loops=(i)}}, split{{loop=i, by=8, into=(tile, own), tail={tail}}}, {apart}
    )}}"""
    text = "function (A[N]) -> (C) { C[i : N] = +(A[k]), i - k < N; }"
    program = tileir.compile(text, [a], passes=passes)
    expected = tileir.evaluate(text, [a])
    np.testing.assert_array_equal(run_program(program.sem, {"A": a}, ALL_CHECKS)["C"], expected)
    np.testing.assert_array_equal(program(a), expected)


@pytest.mark.parametrize("tail", ["peel", "mask"])
def test_lanes_merge_into_elements_some_places_apart(tail: str) -> None:
    a = np.arange(93, dtype=np.int64).reshape(3, 31)
    text = "function (A[M, N]) -> (C) { C[i, j : 2*M, N] = +(A[i - k, j]), k < 2; }"
    passes = f"""accumulate, canonicalise, script{{steps=(
        jam{{loops=(i)}}, split{{loop=j, by=5, into=(vector, lane), tail={tail}}}, jam{{loops=(lane)}},
        bind{{loop=lane, to=vector}}
    )}}"""
    program = tileir.compile(text, [a], passes=passes)
    assert [remark.fired for remark in program.remarks if remark.step == "script"][-1:] == [True]
    expected = tileir.evaluate(text, [a])
    np.testing.assert_array_equal(run_program(program.sem, {"A": a}, ALL_CHECKS)["C"], expected)
    np.testing.assert_array_equal(program(a), expected)


@pytest.mark.parametrize("body", ["R > 2", "R * 2"])
def test_what_one_statement_assigns_is_read_behind_a_loop(body: str) -> None:
    text = f"""function (A[M, N]) -> (R, G, S) {{
        R[i, j : M, N] = =(A[i, N - 1 - j]); G = gather(A, as_i32(R)); S = {body}; }}"""
    array = np.arange(9, dtype=np.uint8).reshape(1, 9)
    steps = "fusion, canonicalise, script{steps=(split{loop=i3, by=4, into=(block, row), tail=peel})}"
    program = tileir.compile(text, {"A": array}, passes=steps)
    assert [each.code for each in program.remarks if each.step == "script"] == ["TR001"]
    for found, expected in zip(program(array), tileir.evaluate(text, [array]), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "steps",
    [
        "cut{loop=i, at=2, into=(a, b)}, jam{loops=(a)}, jam{loops=(b)}",
        "cut{loop=i, at=2, into=(a, b)}, jam{loops=(b)}, jam{loops=(a)}, reorder{loops=(j)}",
        "cut{loop=i, at=4, into=(a, b)}, cut{loop=a, at=1, into=(c, d)}, jam{loops=(d)}, jam{loops=(b)}",
        "specialise{loop=k, into=(a, b, c)}, jam{loops=(i), above=(b)}, jam{loops=(b)}",
        "specialise{loop=i, into=(a, b, c)}, jam{loops=(b)}, jam{loops=(a)}, jam{loops=(c)}",
    ],
)
def test_memory_of_one_name_moves_out_of_several_loops(steps: str) -> None:
    """Each part of a loop that was cut has the memory of an iteration under one name."""
    a = np.arange(27, dtype=np.int32).reshape(9, 3)
    text = "function (A[M, N]) -> (C) { C[i, j : M, N] = +(A[i + k - 1, j]), k < 3; }"
    for staged in ("stage{tensor=A, at=i, into=rows}", "accumulate{memory=C_acc, at=k, into=part}"):
        passes = f"accumulate, script{{steps=({staged}, {steps})}}"
        program = tileir.compile(text, [a], passes=passes)
        assert [remark.code for remark in program.remarks if remark.step == "script"] == ["TR001"]
        np.testing.assert_array_equal(program(a), tileir.evaluate(text, [a]))


def test_sums_at_places_that_are_read_are_not_split() -> None:
    """Sums of floats by places: an array of partial tables would have to be merged element by element."""
    source = "function (U[N], L[M]) -> (O) { I = as_i32(index(U, 0) * 0); O = scatter(U, I, L); }"
    steps = "script{steps=(rfactor{memory=O, loop=i1, into=parts})}"
    told = remarks_of(steps, source, U=(4,), L=(5,))
    assert [code for code, _ in told] == ["TR761"]


@pytest.mark.parametrize("step", ["jam{loops=(i1, i2)}", "distribute{loop=i2, after=1, into=(a, b)}"])
def test_tables_are_no_arrays_over_loops(step: str) -> None:
    """Data choose among elements along the first axis, which an array over iterations has before its own."""
    source = "function (U[N, K], J[N], L[M, K]) -> (O) { I = as_i32(J); O = scatter(U, I, L); }"
    steps = f"script{{steps=(reorder{{loops=(i1, i2)}}, accumulate{{memory=O, at=i2, into=own}}, {step})}}"
    told = remarks_of(steps, source, U=(17, 4), J=(17,), L=(5, 4))
    assert "TR761" in [code for code, _ in told], told
