"""Each scheduling step says of each kernel what it did to it, or why it refused."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, ClassVar

import attrs
import pytest
from hypothesis import given, strategies as st

from strategies import golden_kernels
from strategies.effort import examples
from strategies.passes import program_of, programs
from strategies.pipelines import PIPELINES
from strategies.schedules import remarked, says_why, tells
from strategies.sources import PACKAGE, module_of, python_files
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.passes.base import NOT_MEANT, map_blocks, map_kernels, run
from tileir.passes.pipelines.catalog import PASSES, pipeline_for
from tileir.passes.recovery import run_without_failing
from tileir.schedule.remarks import Done, Refused, Remark, Remarks, listening, refused
from tileir.stripe.ir import Block, Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir.typed.simplify.preparation import prepared

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tileir.passes.base import Pass

COPY = """
block [i:4]:4 ( // copy
  in I[i] fp32:I(1):(1):4 B
  out O[i] fp32:I(1):(1):4 B
) {
  0: $x = load(I)
  1: O = store($x)
}
"""
PROGRAM = program_of(
    [COPY, COPY.replace("O", "P").replace("[i:4]:4 (", "[i:3]:3 (")], {"I": (4,), "O": (4,), "P": (4,)}
)


@attrs.frozen
class Say:
    """A pass that answers each kernel."""

    answer: Callable[[Block], Block | Refused | Done]
    reqs: tuple[str, ...] = ()
    name: ClassVar[str] = "say"

    def __call__(self, program: Program) -> Program:
        return map_kernels(program, self.answer, self.reqs)


def told(step: Say) -> list[tuple[str, bool, tuple[tuple[str, object], ...]]]:
    kept = Remarks()
    with listening(kept):
        run((step,), PROGRAM)
    return [(remark.code, remark.fired, remark.facts) for remark in kept.all()]


def marked(kernel: Block) -> Block:
    return attrs.evolve(kernel, tags=kernel.tags.add("marked"))


def test_outcomes_are_told_for_each_kernel() -> None:
    assert told(Say(marked)) == [("TR001", True, ())] * 2
    assert told(Say(lambda kernel: kernel)) == [("TR002", False, ())] * 2
    assert told(Say(lambda _: refused("TR113"))) == [("TR113", False, ())] * 2
    assert told(Say(lambda k: Done((marked(k),), (("range", k.indices[0].range),)))) == [
        ("TR001", True, (("range", 4),)),
        ("TR001", True, (("range", 3),)),
    ]
    assert told(Say(marked, reqs=("red",))) == [("TR003", False, ())] * 2


def test_a_refusal_leaves_the_program_itself() -> None:
    assert run((Say(lambda _: refused("TR113")),), PROGRAM) is PROGRAM
    assert map_blocks(PROGRAM, lambda _: refused("TR113"), ("red",)) is PROGRAM


def test_launches_of_one_kernel_share_a_remark() -> None:
    twice = program_of([COPY, COPY.replace("O", "P")], {"I": (4,), "O": (4,), "P": (4,)})
    kept = Remarks()
    with listening(kept):
        run((Say(lambda _: refused("TR113")),), twice)
    (remark,) = kept.all()
    assert len(remark.launches) == 2
    assert remark.kernel == remark.launches[0]


def test_a_pass_that_fails_is_told_once() -> None:
    def fail(_: Block) -> Block:
        raise RuntimeError("no")

    kept = Remarks()
    with listening(kept):
        run_without_failing((Say(marked), Say(fail), Say(lambda _: refused("TR113"))), PROGRAM)
    assert [(remark.position, remark.code) for remark in kept.all()] == [
        *((0, "TR001"),) * 2,
        (1, "TR004"),
        *((2, "TR113"),) * 2,
    ]


def test_positions_count_from_the_first_step() -> None:
    kept = Remarks()
    with listening(kept):
        run((Say(marked), Say(lambda _: NOT_MEANT)), PROGRAM)
    assert [(remark.position, remark.code) for remark in kept.all()] == [*((0, "TR001"),) * 2, *((1, "TR003"),) * 2]


def check(steps: tuple[Pass, ...], program: Program) -> list[Remark]:
    """Ask that each scheduling step says one thing of each kernel, with a reason; return what they did."""
    fired: list[Remark] = []
    for step, names, remarks in remarked(steps, program):
        if says_why(step):
            assert sorted(name for remark in remarks for name in remark.launches) == sorted(names), step
            assert [remark for remark in remarks if remark.code == "TR002"] == [], step
            fired.extend(remark for remark in remarks if remark.fired)
    return fired


@pytest.mark.parametrize("name", ["cpu", "gpu"])
@given(st.data())
@examples(40)
def test_each_step_says_one_thing_of_each_kernel(name: str, data: st.DataObject) -> None:
    target = Target(vector_bytes=data.draw(st.sampled_from((16, 32, 64))), group_threads=256, local_bytes=32 << 10)
    check(PIPELINES[name](target), data.draw(programs()))


@pytest.mark.parametrize("target", ["x86-64-v4", "nvidia-hopper"])
def test_which_step_schedules_which_kernel(target: str, golden: Callable[[str], None]) -> None:
    lines = []
    for name, text, types in golden_kernels.operations(target):
        program = lower(prepared(infer(parse(text), types)))
        fired = check(pipeline_for(golden_kernels.TARGETS[target]), program)
        lines += [f"{name}: {remark.step} {remark.kernel}" for remark in fired]
    golden("\n".join([*lines, ""]))


def remarks_of(text: str, target: str, **types: tuple[DType, tuple[int, ...]]) -> dict[str, Remark]:
    """Return the last remark of each step on a program of one kernel."""
    program = lower(prepared(infer(parse(text), {name: TensorType(*kind) for name, kind in types.items()})))
    kept = Remarks()
    with listening(kept):
        run(pipeline_for(golden_kernels.TARGETS[target]), program, verify=False)
    return {remark.step: remark for remark in kept.all()}


MATMUL = "function (A[M, K], B[K, N]) -> (O) { O[m, n : M, N] = +(A[m, k] * B[k, n]); }"
SCALED = "function (A[M, K], B[K, N]) -> (O) { C = A * 2.0; O[m, n : M, N] = +(C[m, k] * B[k, n]); }"
DIAGONAL = "function (A[M, K], B[K, N]) -> (O) { O[m, n : M, N] = +(A[m, k] * B[k, n]), m - n + k < 9; }"
SUMMED = (
    "function (A[M, C], B[P, C, N]) -> (O) { O[i, j : M, N] = +(A[i + p + q, c] * B[p + q, c, j]), p < 20, q < 20; }"
)
GREATEST = "function (A[M, K], B[K, N]) -> (O) { O[m, n : M, N] = >(A[m, k] * B[k, n]); }"


@pytest.mark.parametrize(
    ("text", "types", "code", "facts"),
    [
        (MATMUL, {"A": (DType.F64, (64, 64)), "B": (DType.F64, (64, 64))}, "TR429", {"left": "f64", "sum": "f64"}),
        (MATMUL, {"A": (DType.F32, (64, 64)), "B": (DType.F32, (64, 64))}, "TR429", {"left": "f32", "right": "f32"}),
        (MATMUL, {"A": (DType.F16, (64, 2)), "B": (DType.F16, (2, 64))}, "TR433", {"range": 2, "depth": 16}),
        (MATMUL, {"A": (DType.F16, (64, 64)), "B": (DType.F16, (64, 8))}, "TR432", {"columns": 8, "least": 16}),
        (GREATEST, {"A": (DType.F16, (64, 64)), "B": (DType.F16, (64, 64))}, "TR427", {"aggregation": "max"}),
        (DIAGONAL, {"A": (DType.F16, (32, 32)), "B": (DType.F16, (32, 32))}, "TR421", {"index": "k"}),
        (SUMMED, {"A": (DType.F16, (1024, 16)), "B": (DType.F16, (32, 16, 1024))}, "TR421", {"index": "j"}),
    ],
)
def test_what_keeps_a_product_from_fragments(
    text: str, types: dict[str, tuple[DType, tuple[int, ...]]], code: str, facts: dict[str, object]
) -> None:
    remark = remarks_of(text, "nvidia-hopper", **types)["matrix_contraction"]
    assert (remark.code, remark.fired, remark.relevant) == (code, False, True)
    assert facts.items() <= dict(remark.facts).items()


def test_what_a_schedule_did_is_told() -> None:
    types = {"A": (DType.F16, (1024, 64)), "B": (DType.F16, (64, 1024))}
    fired = remarks_of(MATMUL, "nvidia-hopper", **types)["matrix_contraction"]
    assert fired.fired
    assert {name for name, _ in fired.facts} == {"rows", "columns", "depth", "stages"}


def modules() -> list[Path]:
    return [path for path in python_files(PACKAGE / "passes") if tells(module_of(path))]


def functions(path: Path) -> list[ast.FunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def bare(function: ast.FunctionDef) -> list[int]:
    """Return the lines on which a function that may refuse returns nothing, or what it was given, without a reason."""
    hint = "" if function.returns is None else ast.unparse(function.returns)
    if "Refused" not in hint or "None" in hint:
        return []
    given = [each.arg for each in function.args.args if each.arg != "self"][:1]
    silent = {"None", *given, *(f"({name},)" for name in given)}
    inner = {
        node
        for each in ast.walk(function)
        if isinstance(each, ast.Lambda | ast.FunctionDef) and each is not function
        for node in ast.walk(each)
    }
    returns = [node for node in ast.walk(function) if isinstance(node, ast.Return) and node not in inner]
    values = [(node.lineno, "None" if node.value is None else ast.unparse(node.value)) for node in returns]
    return [line for line, value in values if value in silent]


@pytest.mark.sampled(22)
@pytest.mark.parametrize("path", modules(), ids=lambda path: path.stem)
def test_no_schedule_refuses_without_a_reason(path: Path) -> None:
    assert [(function.name, line) for function in functions(path) for line in bare(function)] == []


def test_silent_returns_are_found() -> None:
    source = "def f(self, kernel) -> Block | Refused:\n  if a: return kernel\n  if b: return None\n  return other\n"
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    assert bare(function) == [2, 3]


@pytest.mark.sampled(0)
def test_each_scheduling_pass_says_why() -> None:
    """Mappings over kernels are annotated with refusals, so that the test above finds them."""
    asked = {"map_kernels", "expand_kernels", "map_blocks"}
    steps = [function for path in python_files(PACKAGE / "schedule") for function in functions(path)]
    for path in modules():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) in asked]
        hints = {f.name: "" if f.returns is None else ast.unparse(f.returns) for f in (*steps, *functions(path))}
        for call in calls:
            named = {ast.unparse(node).rpartition(".")[2] for node in ast.walk(call.args[1])} & set(hints)
            assert named, f"{path}: {ast.unparse(call)}"
            assert all("Refused" in hints[name] for name in named), path


def test_rooms_have_passes() -> None:
    assert sum(says_why(kind()) for kind in PASSES) > 12
