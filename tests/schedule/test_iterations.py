"""Loops made one, taken apart, skewed and persistent; tails that overlap; and what isl says of the first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from strategies.polyhedra import set_of, text_of
from tileir.core.dtype import DType
from tileir.driver.executable import Executable
from tileir.passes.base import run
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.poly.affine import Affine
from tileir.schedule.nest import Use
from tileir.schedule.remarks import Refused, Remarks, listening
from tileir.schedule.steps.iterations import Fuse
from tileir.schedule.steps.loops import Split
from tileir.schedule.tree import Known, Leaf, Loop, Tail, Tree, tree_of
from tileir.stripe import ir as stripe
from tileir.stripe.bindings import Binding
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

PRODUCT = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"


def product(steps: str, sizes: tuple[int, int, int] = (5, 7, 6)) -> Executable:
    """Return a product that a script has scheduled, after comparing what it computes."""
    rows, terms, columns = sizes
    random = np.random.default_rng(0)
    a = random.integers(-9, 9, (rows, terms)).astype(np.float32)
    b = random.integers(-9, 9, (terms, columns)).astype(np.float32)
    found = tileir.compile(PRODUCT, {"A": a, "B": b}, passes=f"accumulate, canonicalise, script{{steps=({steps})}}")
    assert [remark.code for remark in found.remarks if remark.step == "script"] == ["TR001"]
    np.testing.assert_array_equal(found(a, b), a @ b)
    return found


def refusal(steps: str) -> tuple[str, dict[str, Any]]:
    types = {name: TensorType(DType.F32, shape) for name, shape in {"A": (5, 7), "B": (7, 6)}.items()}
    found = Remarks()
    with listening(found):
        run(
            parse_pipeline(f"accumulate, canonicalise, script{{steps=({steps})}}"),
            lower(infer(parse(PRODUCT), types)),
        )
    last = list(found.all())[-1]
    return last.code, dict(last.facts)


@pytest.mark.parametrize("sizes", [(5, 7, 6), (6, 3, 4), (13, 2, 31), (7, 5, 4)])
def test_whole_tiles_overlap_at_the_end(sizes: tuple[int, int, int]) -> None:
    steps = (
        "split{loop=j, by=4, into=(block, lane), tail=shift}, split{loop=i, by=2, into=(pair, row), tail=shift},"
        "reorder{loops=(pair, block, row, lane)}, jam{loops=(row, lane)}, bind{loop=row, to=unroll},"
        "bind{loop=lane, to=vector}"
    )
    found = product(steps, sizes)
    blocks = [block for kernel in found.scheduled.main.blocks for block in _inside(kernel)]
    lanes = [index.range for block in blocks for index in block.indices if index.binding is Binding.LANE]
    assert set(lanes) == {4}  # no short vectors,
    assert not any(block.constraints for block in blocks)  # and no tests


def _inside(block: stripe.Block) -> list[stripe.Block]:
    return [block, *(each for inner in block.blocks for each in _inside(inner))]


def test_a_loop_that_is_cut_again_tests_its_tail() -> None:
    product("split{loop=j, by=4, into=(block, own), tail=shift}, split{loop=block, by=2, into=(two, one)}")
    product("split{loop=j, by=4, into=(block, own), tail=shift}, cut{loop=block, at=1, into=(first, last)}")
    product("split{loop=j, by=4, into=(block, own), tail=shift}, jam{loops=(block, own)}")


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "steps",
    [
        "jam{loops=(j)}, distribute{loop=i, after=1, into=(first, second)}",
        "distribute{loop=j, after=1, into=(first, second)}",
        "distribute{loop=j, after=2, into=(first, second)}, distribute{loop=first, after=1, into=(p, q)}",
        "distribute{loop=j, after=2, into=(first, second)}, fuse{loops=(first, second), into=again}",
        "distribute{loop=j, after=(1, 2), into=(first, second, third)}",
        "distribute{loop=(i, j), after=(1, 2)}, fuse{loops=(i, i), into=i}",
        "stage{tensor=A, at=j, into=row}, accumulate{memory=C_acc, at=k, into=part}, distribute{loop=(i, j), after=2}",
        "rfactor{memory=C_acc, loop=k, into=parts}, sink{loop=j}, distribute{loop=j, after=2}",
        "stage{tensor=A, at=j, into=row}, sink{loop=j}, sink{loop=i}",
        "skew{loops=(i, j), by=1, into=front}, reorder{loops=(front, i)}",
        "skew{loops=(i, j), by=3, into=j}",
        "persist{loop=i, groups=2, into=(group, turn)}",
        "persist{loop=i, groups=9, into=(group, turn)}",
        "split{loop=i, by=2, into=(tile, row), tail=peel}, persist{loop=tile, groups=2, into=(group, turn)}",
    ],
)
def test_steps_over_iterations_keep_products(steps: str) -> None:
    product(steps)


def test_what_begins_a_sum_sinks_behind_parts_that_do_not_need_it() -> None:
    found = product("rfactor{memory=C_acc, loop=k, into=parts, stores=true}, sink{loop=j}")
    (kernel,) = found.scheduled.main.blocks
    loops = [[index.name for index in block.indices if index.affine is None] for block in kernel.blocks]
    assert loops == [["k"], [], ["parts_merge"], []]


def test_memory_that_one_part_alone_has_stays_with_it() -> None:
    steps = "stage{tensor=A, at=j, into=row}, rfactor{memory=C_acc, loop=k, into=parts}, sink{loop=j}"
    (kernel,) = product(f"{steps}, distribute{{loop=j, after=3}}").scheduled.main.blocks
    held = {each.name: each.shape.sizes for block in _inside(kernel) for each in block.refinements if not each.source}
    assert held == {"row": (1, 7), "parts": (6, 7), "C_acc": ()}


def test_persistent_groups_are_as_many_as_were_asked_for() -> None:
    (kernel,) = product("persist{loop=i, groups=2, into=(group, turn)}").scheduled.main.blocks
    assert [(index.name, index.range) for index in kernel.indices if index.binding is Binding.GRID] == [("group", 2)]


@pytest.mark.parametrize(
    ("steps", "code", "facts"),
    [
        ("split{loop=k, by=2, into=(a, b), tail=shift}", "TR747", {"memory": "C_acc"}),
        ("fuse{loops=(i, z), into=both}", "TR701", {"loop": "z"}),
        ("fuse{loops=(i, j), into=k}", "TR705", {"name": "k"}),
        ("fuse{loops=(i, j), into=both}", "TR748", {"first": "i", "second": "j"}),
        ("cut{loop=i, at=2, into=(a, b)}, fuse{loops=(a, b), into=both}", "TR749", {"first": 2, "second": 3}),
        ("cut{loop=i, at=(2, 4), into=(a, b, c)}, bind{loop=b, to=unroll}, fuse{loops=(a, b), into=d}", "TR707", {}),
        ("distribute{loop=i, after=1, into=(a, b)}", "TR751", {"items": 1}),
        ("distribute{loop=j, after=3, into=(a, b)}", "TR751", {"items": 3, "after": 3}),
        ("distribute{loop=j, after=1, into=(i, b)}", "TR705", {"name": "i"}),
        ("bind{loop=j, to=unroll}, distribute{loop=j, after=1, into=(a, b)}", "TR707", {"binding": "unroll"}),
        ("distribute{loop=j, after=(2, 1), into=(a, b, c)}", "TR751", {"after": 2}),
        ("distribute{loop=(i, j), after=1, into=(a, b, c)}", "TR708", {"loops": "i, j"}),
        ("distribute{loop=(j, i), after=3}", "TR709", {}),
        ("sink{loop=z}", "TR701", {"loop": "z"}),
        (
            "stage{tensor=A, at=k, into=own, level=local}, pipeline{loop=k}, sink{loop=k}",
            "TR707",
            {"binding": "pipeline"},
        ),
        ("skew{loops=(i, k), by=1, into=f}", "TR709", {}),
        ("skew{loops=(i, j), by=0, into=f}", "TR704", {}),
        ("skew{loops=(i, j), by=1, into=k}", "TR705", {"name": "k"}),
        ("bind{loop=j, to=unroll}, skew{loops=(i, j), by=1, into=f}", "TR707", {"loop": "j"}),
        (
            "cut{loop=i, at=2, into=(a, b)}, stage{tensor=A, at=j, into=copy}, jam{loops=(a)},"
            "interleave{memory=copy, axis=0, by=2}",
            "TR752",
            {"memory": "copy"},
        ),
        ("persist{loop=k, groups=2, into=(g, t)}", "TR718", {"memory": "C_acc"}),
        ("persist{loop=j, groups=2, into=(g, t)}", "TR719", {"loop": "g"}),
        ("bind{loop=i, to=grid}, persist{loop=i, groups=2, into=(g, t)}", "TR707", {"binding": "grid"}),
        ("persist{loop=i, groups=2, into=(j, t)}", "TR705", {"name": "j"}),
    ],
)
def test_what_a_step_refuses_is_a_remark(steps: str, code: str, facts: dict[str, Any]) -> None:
    found, told = refusal(steps)
    assert found == code
    assert facts.items() <= told.items()


def tree_with(body: tuple[Loop, ...]) -> Tree:
    types = {"A": TensorType(DType.F32, (4,))}
    kernel = lower(infer(parse("function (A[N]) -> (B) { B = A + 1.0; }"), types)).main.blocks[0]
    tree = tree_of(kernel)
    assert isinstance(tree, Tree)
    return Tree(tree.kernel, body, (), {})


def use(access: Affine, direction: stripe.Direction) -> Use:
    return Use("M", "M", (access,), (1,), DType.F32, direction)


AFFINES = st.builds(
    lambda loop, inner, offset: Affine.of({"L": loop, "x": inner}, offset),
    st.integers(-2, 2),
    st.integers(-2, 2),
    st.integers(-3, 3),
)


@examples(200)
@given(
    first=AFFINES,
    second=AFFINES,
    test=st.none() | AFFINES,
    sizes=st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3)),
    reads=st.booleans(),
)
def test_loops_become_one_where_isl_finds_no_dependence(
    first: Affine, second: Affine, test: Affine | None, sizes: tuple[int, int, int], reads: bool
) -> None:
    size, one, other = sizes
    tests = () if test is None else (test,)
    direction = stripe.Direction.IN if reads else stripe.Direction.OUT

    def loop(name: str, inner: int, leaf: Leaf) -> Loop:
        return Loop(name, size, (Loop("x", inner, (leaf,)),))

    renamed = {"L": Affine.index("a")}, {"L": Affine.index("b")}
    wrote = Leaf((), (use(first.substitute(renamed[0]), stripe.Direction.OUT),), ())
    later = Leaf((), (use(second.substitute(renamed[1]), direction),), tuple(t.substitute(renamed[1]) for t in tests))
    found = Fuse(("a", "b"), "c")(tree_with((loop("a", one, wrote), loop("b", other, later))), Known())
    apart = {"L": Affine.index("M"), "x": Affine.index("y")}
    meets = set_of(
        ("L", "x", "M", "y"),
        (
            f"0 <= L < {size} and 0 <= M < {size} and 0 <= x < {one} and 0 <= y < {other} and (L < M or M < L)",
            f"{text_of(first)} = {text_of(second.substitute(apart))}",
            *(f"{text_of(each.substitute(apart))} >= 0" for each in tests),
        ),
    )
    assert isinstance(found, Refused) == (not meets.is_empty())
    if isinstance(found, Refused):
        assert (found.code, dict(found.facts)["memory"]) == ("TR750", "M")
    else:
        (fused,) = found.body
        assert isinstance(fused, Loop)
        assert (fused.name, fused.size, len(fused.body)) == ("c", size, 2)


def test_tails_of_what_is_updated_do_not_overlap() -> None:
    read_and_written = Leaf(
        (), (use(Affine.index("a"), stripe.Direction.IN), use(Affine.index("a"), stripe.Direction.OUT))
    )
    found = Split("a", 3, ("p", "q"), Tail.SHIFT)(tree_with((Loop("a", 7, (read_and_written,)),)), Known())
    assert isinstance(found, Refused)
    assert (found.code, dict(found.facts)["memory"]) == ("TR747", "M")


def test_parts_of_one_loop_that_are_fused_share_their_memory() -> None:
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    passes = "accumulate, script{steps=(cut{loop=i, at=1, into=(first, second)}, fuse{loops=(first, second), into=i})}"
    program = tileir.compile("function (A[M, N]) -> (S) { S[i : M] = +(A[i, j]); }", [a], passes=passes)
    assert [remark.fired for remark in program.remarks if remark.step == "script"] == [True]
    np.testing.assert_array_equal(program(a), a.sum(axis=1))
