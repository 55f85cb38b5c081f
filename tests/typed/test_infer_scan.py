from __future__ import annotations

import pytest

from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import Scan, ScanPart, TensorType

TYPES = {
    "Xs": TensorType(DType.F32, (6, 3)),
    "Ks": TensorType(DType.I32, (5,)),
    "H": TensorType(DType.F32, (3,)),
    "S": TensorType(DType.F32, ()),
}


def function(statement: str, output: str = "R") -> str:
    return f"function (Xs[T, N], Ks[K], H[N], S) -> ({output}) {{ {statement} Q = R; }}"


def test_results_are_last_carries_and_then_stacked_outputs() -> None:
    text = function("P = scan(H; Xs) function (H[N], X[N]) -> (A, B) { A = H + X; B = A * 2; }; R = element(P, 1);")
    found = [operation for operation in infer(parse(text), TYPES).operations if isinstance(operation, Scan)]
    assert [(s.result.part, s.shape) for s in found] == [(ScanPart.FINAL, (3,)), (ScanPart.OUTPUT, (6, 3))]
    assert {s.count for s in found} == {6}


def test_one_result_is_no_tuple() -> None:
    text = function("R = scan(H) 2 + 3 times reverse function (H[N]) -> (A) { A = H * 2; };")
    (scan,) = (operation for operation in infer(parse(text), TYPES).operations if operation.name == "R")
    assert isinstance(scan, Scan)
    assert (scan.count, scan.reverse, scan.shape) == (5, True, (3,))


def test_numbers_are_passed_as_tensors() -> None:
    text = function("Z = 0; R = scan(Z; Ks) function (Z, K) -> (Y) { Y = Z + K; };")
    (scan,) = (operation for operation in infer(parse(text), TYPES).operations if isinstance(operation, Scan))
    assert (scan.dtype, scan.shape) == (DType.I32, ())


@pytest.mark.parametrize(
    ("statement", "faults"),
    [
        ("R = scan(H; Xs, Ks) function (H, X, K) -> (A) { A = H; };", [("TIL331", "Ks")]),
        ("R = scan(H; Xs) 7 times function (H, X) -> (A) { A = H; };", [("TIL331", "Xs")]),
        ("R = scan(H; S) function (H, X) -> (A) { A = H; };", [("TIL305", "S")]),
        ("R = scan(H; Xs) function (H, X) -> (A) { A = H > X; };", [("TIL332", "A")]),
        ("R = scan(H; Xs) function (H, X[N, M]) -> (A) { A = H; };", [("TIL305", "X[N, M]")]),
        ("R = scan(H; Xs) function (H, X) -> (A) { A = H; C = H & X; };", [("TIL302", "H & X")]),
        ("R = scan(H; Xs) function (H[N], X[N]) -> (A, B) { A = H; B = X; };", []),
    ],
)
def test_what_does_not_fit_is_underlined(statement: str, faults: list[tuple[str, str]]) -> None:
    if not faults:
        with pytest.raises(TileError, match="TIL309"):  # a tuple is no output
            infer(parse(function(statement)), TYPES)
        return
    with pytest.raises(TileError) as caught:
        infer(parse(function(statement)), TYPES)
    assert [(d.code, d.underlined) for d in caught.value.diagnostics] == faults
