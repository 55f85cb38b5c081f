"""Each kind of name that somebody writes is told which one may be meant when it is misspelt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable

SUM = "function (Alpha[M, K]) -> (Beta) { Gamma = Alpha + 1.0; Beta[i : M] = +(Gamma[i, k]); }"
STEP = "function (Weight) -> (Next) { Next = Weight * 2.0; }"
TYPES = ["f32[3, 4]"]
GIVEN = np.ones((3, 4), np.float32)


def parsed(statements: str, inputs: str = "A[M]", outputs: str = "B") -> Callable[[], object]:
    return lambda: tileir.parse(f"function ({inputs}) -> ({outputs}) {{ {statements} }}")


def compiled(text: str = SUM, **options: Any) -> Callable[[], object]:
    return lambda: tileir.compile(text, TYPES, **options)


TILE: dict[str, tuple[Callable[[], object], str]] = {
    "function": (lambda: tileir.parse("fnction (A) -> (B) { B = A; }"), "function"),
    "tensor": (parsed("B = Alhpa;", "Alpha"), "Alpha"),
    "dimension": (parsed("B[i : Rosw] = =(A[i]);", "A[Rows]"), "Rows"),
    "output": (parsed("Beta = A;", outputs="Betta"), "Beta"),
    "builtin": (parsed("B = expp(A);"), "exp"),
    "cast": (parsed("B = as_flot(A, 32);"), "as_float"),
    "no_defract": (parsed("B[i : M] = +(A[i]) no_defrct;"), "no_defract"),
    "default": (parsed("B[i : M] = +(A[i]) defalt A;"), "default"),
    "scan": (
        parsed(
            "S = scna(H; A) function (X[N], Y[N]) -> (P, Q) { P = X + Y; Q = P; }; B = element(S, 0);", "H[N], A[M, N]"
        ),
        "scan",
    ),
}
TYPED = {
    "dtype": (lambda: tileir.compile(SUM, ["f23[3, 4]"]), "f32"),
    "dtype of NumPy": (lambda: tileir.compile(SUM, [("flaot32", (3, 4))]), "f32"),
    "dtype of a type": (lambda: tileir.TensorType("f46", (3,)), "f64"),
    "input": (lambda: tileir.compile(SUM, {"Alhpa": "f32[3, 4]"}), "Alpha"),
    "input of a call": (lambda: tileir.jit(SUM)(Alhpa=GIVEN), "Alpha"),
    "input to evaluate": (lambda: tileir.evaluate(SUM, {"Alhpa": GIVEN}), "Alpha"),
    "result": (lambda: tileir.jit(SUM)(GIVEN, out={"Beto": np.ones(3)}), "Beta"),
    "input to bind": (lambda: tileir.bind(SUM, Alhpa=GIVEN), "Alpha"),
    "input of a gradient": (lambda: tileir.gradient(SUM, wrt=["Alhpa"]), "Alpha"),
    "output of a gradient": (lambda: tileir.gradient(SUM, wrt=["Alpha"], of="Beto"), "Beta"),
    "state": (lambda: tileir.stepper(STEP, {"Weight": "Next"}, {"Wieght": GIVEN}), "Weight"),
    "updated": (lambda: tileir.stepper(STEP, {"Wieght": "Next"}, {"Weight": GIVEN}), "Weight"),
    "update": (lambda: tileir.stepper(STEP, {"Weight": "Nexxt"}, {"Weight": GIVEN}), "Next"),
    "stage": (lambda: tileir.parse(SUM, stage="tyled"), "typed"),
    "format": (lambda: tileir.compile('{"format": "tileir.tile.Functon"}'), "tileir.tile.Function"),
}
SCHEDULED = {
    "device": (compiled(device="lvm"), "llvm"),
    "target": (compiled(target="nvidia-hoper"), "nvidia-hopper"),
    "parameter": (lambda: tileir.explain(SUM, TYPES, target="nvidia-hopper:SMZ=3"), "SMS"),
    "pass": (compiled(passes="acumulate"), "accumulate"),
    "option": (compiled(passes="vectorise{chnk=3}"), "chunk"),
    "pass in JSON": (compiled(passes='[{"name": "acumulate"}]'), "accumulate"),
    "option in JSON": (compiled(passes='[{"name": "vectorise", "options": {"chnk": 3}}]'), "chunk"),
    "key in JSON": (compiled(passes='[{"name": "vectorise", "optons": {"chunk": 3}}]'), "options"),
    "step": (lambda: tileir.parse("script{steps=(splt{loop=i})}", stage="script"), "split"),
    "field of a step": (lambda: tileir.parse("script{steps=(split{lop=i, by=2})}", stage="script"), "loop"),
    "step of a pipeline": (lambda: tileir.explain(SUM, TYPES, passes="accumulate", after="acumulate"), "accumulate"),
    "listing": (lambda: tileir.compile(SUM, TYPES, device="llvm").listing("lvm"), "llvm"),
    "operation": (lambda: ops.softmx, "softmax"),  # type: ignore[attr-defined]
    "operation of others": (lambda: ops.avg_pool, "average_pool"),  # type: ignore[attr-defined]
    "name of the package": (lambda: tileir.complie, "compile"),  # type: ignore[attr-defined]
}


@pytest.mark.parametrize("kind", [*TILE, *TYPED, *SCHEDULED])
def test_the_name_that_may_be_meant_is_told(kind: str) -> None:
    mistake, meant = {**TILE, **TYPED, **SCHEDULED}[kind]
    with pytest.raises((tileir.TileError, AttributeError)) as caught:
        mistake()
    assert "did you mean" in str(caught.value)
    told = str(caught.value).split("did you mean", 1)[1]
    assert meant in told.splitlines()[0]


def test_products_by_an_operator_of_python_are_told_how_to_be_written() -> None:
    with pytest.raises(tileir.ParseError, match=r"there is no operator '@'; a product of matrices is O\[i, j : M, N\]"):
        tileir.parse("function (X) -> (A) { A = X @ X; }")
