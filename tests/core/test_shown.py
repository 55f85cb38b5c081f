"""Nodes of all representations: their text under ``str``, a short line under ``repr``, the text in notebooks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, get_args

import attrs
import pytest
from hypothesis import given

import tileir
from strategies import loops, typed_text
from strategies.effort import examples
from strategies.formulas import FORMULAS, SOBEL
from strategies.markup import read
from strategies.tile import Case, cases
from tileir.core.dtype import DType
from tileir.core.ops import Aggregation, Combination, Op
from tileir.core.text.shown import NotebookNode, TextNode, counted, shortened
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.stripe import ir as stripe
from tileir.tile import ir as tile
from tileir.typed import ir as typed
from tileir_formula import ir as formula
from tileir_formula.text.parser import parse as parse_formula
from tileir_formula.text.printer import to_text as formula_text

if TYPE_CHECKING:
    from collections.abc import Iterator

LINE = re.compile(r"<\w+( [^\n]{1,100})?>")
STAGES = ("tile", "typed", "stripe", "scheduled", "sem")


def nodes(root: object) -> Iterator[TextNode]:
    """Yield all nodes in a value."""
    pending = [root]
    while pending:
        value = pending.pop()
        if isinstance(value, TextNode):
            yield value
        if isinstance(value, tuple):
            pending.extend(value)
        elif attrs.has(type(value)):
            kind: type = type(value)
            pending.extend(getattr(value, field.name) for field in attrs.fields(kind) if "span" not in field.name)


def check(root: object) -> None:
    for node in nodes(root):
        assert LINE.fullmatch(repr(node)), repr(node)
        assert "without text" not in repr(node)
        assert isinstance(str(node), str)


@examples(8)
@given(cases())
def test_all_nodes_of_programs(case: Case) -> None:
    executable = tileir.compile(case.function, case.types)
    for stage in STAGES:
        program = getattr(executable, stage)
        assert str(program) == tileir.to_text(program)
        check(program)


@examples(50)
@given(typed_text.functions())
def test_all_nodes_of_any_typed_function(function: typed.Function) -> None:
    check(function)


@examples(4)
@given(loops.functions())
def test_all_nodes_of_loops(function: typed.Function) -> None:
    executable = tileir.compile(function)
    for stage in STAGES[1:]:
        check(getattr(executable, stage))


@examples(50)
@given(FORMULAS)
def test_all_nodes_of_formulas(drawn: formula.Formula) -> None:
    check(drawn)
    assert str(drawn) == formula_text(drawn)


def test_a_formula_in_a_line() -> None:
    parsed = parse_formula(SOBEL)
    assert repr(parsed) == "<Formula (photo, paper): 6 steps>"
    assert repr(parsed.steps[-1]) == "<Step threshold(level=0.25, soft=yes) of $4 where region(0, 0, 100, 200)>"
    assert repr(parsed.steps[0]) == "<Step gray = luminance of photo // one channel>"
    assert read(parsed._repr_html_()).text == SOBEL


@pytest.mark.parametrize("module", [formula, tile, typed, stripe, sem], ids=lambda module: module.__name__)
def test_each_class_of_nodes_is_shown(module: object) -> None:
    stage = str(getattr(module, "__package__", ""))
    kinds = [kind for kind in vars(module).values() if isinstance(kind, type) and attrs.has(kind)]
    own = [kind for kind in kinds if kind.__module__.startswith(stage) and kind is not typed.TensorType]
    assert own
    assert [kind.__name__ for kind in own if not issubclass(kind, TextNode)] == []
    assert [kind.__name__ for kind in own if "__repr__" in vars(kind)] == []


def test_short_lines() -> None:
    text = "function (A[M, K], B[K, N]) -> (C) { S[i, j : M, N] = +(A[i, k] * B[k, j]); C = S * 0.5; }"
    executable = tileir.compile(text, [("f32", (4, 5)), ("f32", (5, 6))], passes="accumulate")
    assert repr(executable.tile) == "<Function (A, B) -> (C): 2 statements>"
    assert repr(executable.tile.statements[0]) == "<Contraction S[i, j : M, N] = +(A[i, k] * B[k, j]);>"
    assert repr(executable.typed) == "<Function (A, B) -> (C): 3 operations>"
    assert repr(executable.typed.operations[2]) == "<Elementwise C: f32[4, 6] = mul(S, C_0)>"
    assert repr(executable.stripe) == "<Program (A, B) -> (C): 2 kernels>"
    assert repr(executable.stripe.kernels[0]) == "<Kernel (A, B, S): 4 statements>"
    block = executable.stripe.kernels[0].block
    assert repr(block) == "<Block [i:4, j:6, k:5]: 4 statements>"
    assert repr(block.statements[2]) == "<Intrinsic $S = mul:fp32($A, $B)>"
    assert repr(block.indices[0]) == "<Index i:4>"
    assert repr(executable.sem) == "<Program (A, B) -> (C): 2 kernels>"
    assert repr(executable.sem.kernels[0]).startswith("<KernelFunction kernel_0_A_B(S, A, B): ")
    assert repr(executable.sem.works[0]) == "<Launch launch 0(S, A, B);>"
    assert repr(Affine.of({"i": 2}, 1)) == "<Affine 1 + 2*i>"
    assert repr(stripe.Tags()) == "<Tags>"
    assert shortened("a\n  b" * 100).endswith("…")
    assert [counted(n, "step") for n in (0, 1, 2)] == ["0 steps", "1 step", "2 steps"]


def test_works_are_told_in_words() -> None:
    launch = stripe.Launch(0, ("A", "B"))
    loop = stripe.Loop(stripe.While("C"), (launch,), (stripe.Carry("A", "B"),))
    assert str(stripe.Branch("C", (loop,), (launch,))) == (
        "if (C) {\n  while (C) {\n    launch 0(A, B)\n    A = B\n  }\n} else {\n  launch 0(A, B)\n}"
    )
    assert str(stripe.Loop(3, (launch,))) == "repeat 3 {\n  launch 0(A, B)\n}"
    assert str(sem.While("C")) == "while (C)"
    for kind in (stripe.Product("mma"), stripe.Pipeline(2), stripe.Copy()):
        assert str(kind).startswith("#")


def test_broken_nodes_can_be_looked_at() -> None:
    kind = (Aggregation.SUM, Combination.COND, DType.F32, DType.F32, DType.F32, ())
    broken = typed.Contraction("S", (), (), *kind)
    assert repr(broken) == "<Contraction without text: IndexError>"
    assert repr(sem.Apply(Op.ADD, ())).startswith("<Apply without text")
    assert repr(tile.Function((), (), ())) == "<Function () -> (): 0 statements>"


def test_notebooks_and_sessions_show_texts() -> None:
    executable = tileir.compile("function (A) -> (B) { B = A + 1.0; }", [(3,)])
    for stage in STAGES:
        program = getattr(executable, stage)
        assert isinstance(program, NotebookNode)
        page = read(program._repr_html_().partition("<details>")[0])
        assert page.text == str(program)
        assert set(page.tags) <= {"pre", "b", "i", "span"}
        assert {name for name, _ in page.attributes} <= {"style"}
        assert "b" in page.tags
        printed: list[str] = []

        class Session:
            """Takes what is printed."""

            def text(self, text: str, into: list[str] = printed) -> None:
                """Keep it."""
                into.append(text)

        program._repr_pretty_(Session(), cycle=False)
        assert printed == [str(program)]


def test_markup_of_texts_is_escaped() -> None:
    name = "<b>`&"
    value = typed.Value(name, DType.F32, (2,))
    add = typed.Elementwise("B", Op.NEG, (name,), DType.F32, (2,))
    function = typed.Function((value,), ("B",), (add,))
    text, _, drawn = function._repr_html_().partition("<details>")
    page = read(text)
    assert page.text == str(function)
    assert set(page.tags) <= {"pre", "b", "i", "span"}
    assert name in read(drawn).text
    assert "b" not in read(drawn).tags


def test_all_expressions_and_statements_of_kernels() -> None:
    assert all(issubclass(kind, TextNode) for kind in (*get_args(sem.Expr), *get_args(sem.Stmt)))
