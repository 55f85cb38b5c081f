"""Outcomes of entries of PyTorch's tests: bounds of errors, samples that are refused or wrong, and the report."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import tileir
from tileir_torch import opinfo


def entry(op: Callable[..., Any], *inputs: torch.Tensor, name: str = "own") -> Any:
    """Return what an entry of the database looks like."""
    samples = [SimpleNamespace(input=x, args=(), kwargs={}, output_process_fn_grad=lambda found: found) for x in inputs]
    return SimpleNamespace(
        name=name,
        op=op,
        variant_test_name="",
        supports_autograd=True,
        supported_dtypes=lambda _: {torch.float32},
        supported_backward_dtypes=lambda _: {torch.float32},
        sample_inputs=lambda _, __, requires_grad: [
            SimpleNamespace(**{**vars(each), "input": each.input.clone().requires_grad_(requires_grad)})
            for each in samples
        ],
    )


X = torch.linspace(-2, 2, 12).reshape(3, 4)


@pytest.mark.filterwarnings("ignore")
def test_what_is_right() -> None:
    sine = entry(torch.sin, X, X[0])
    assert list(opinfo.cases(sine)) == ["f32", opinfo.GRADIENTS]
    for case in opinfo.cases(sine):
        found = opinfo.run("sin", sine, case, None)
        assert (found.outcome, found.samples, found.right, found.reasons) == ("right", 2, 2, ())


@pytest.mark.filterwarnings("ignore")
def test_samples_that_eager_execution_refuses_do_not_count() -> None:
    found = opinfo.run("mm", entry(lambda x: x @ x.T if x.dim() == 2 else x @ x[1:], X, X[0]), "f32", None)
    assert (found.outcome, found.samples) == ("right", 1)


@pytest.mark.filterwarnings("ignore")
def test_gradients_that_are_zero_without_memory() -> None:
    assert opinfo.run("sgn", entry(torch.sgn, X), opinfo.GRADIENTS, None).outcome == "right"


def test_equal_elements_may_come_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        opinfo, "backend", lambda *_, **__: lambda x: [torch.argsort(x + torch.tensor([2e-6, 1e-6, 0]))]
    )
    ties = entry(torch.argsort, torch.ones(3), name="argsort")
    assert opinfo.run("argsort", ties, "f32", None).outcome == "right"
    monkeypatch.setattr(opinfo, "backend", lambda *_, **__: lambda x: [torch.argsort(-x)])
    assert opinfo.run("argsort", entry(torch.argsort, X, name="argsort"), "f32", None).outcome == "wrong"


def test_functions_of_integers_are_compared_with_exact_values(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.tensor([-8, 3])
    monkeypatch.setattr(opinfo, "backend", lambda *_, **__: lambda x: [torch.special.i1(x.double()).float()])
    assert opinfo.run("i1", entry(torch.special.i1, x), "f32", None).outcome == "right"


def test_derivatives_of_digamma_are_compared_with_those_of_mpmath(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.tensor([0.34, 1.5], dtype=torch.float64)
    trigamma = torch.tensor([9.738683569081294, 0.9348022005446793], dtype=torch.float64)
    monkeypatch.setattr(opinfo, "backend", lambda *_, **__: lambda *_: [trigamma])
    case = entry(lambda x, n: torch.polygamma(n, x), x, name="polygamma")
    sample = case.sample_inputs("cpu", torch.float64, requires_grad=False)[0]
    assert opinfo._tried(case, SimpleNamespace(**{**vars(sample), "args": (1,)}), is_gradient=False) == ("right", "")


@pytest.mark.parametrize(("n", "pole"), [(0, float("-inf")), (1, float("inf")), (2, float("-inf"))])
@pytest.mark.parametrize("found", [float("inf"), float("-inf"), 7.0])
def test_at_poles_that_eager_has_is_right(n: int, pole: float, found: float, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.tensor([False, True])
    one = float(torch.polygamma(n, torch.ones(())))
    monkeypatch.setattr(opinfo, "backend", lambda *_, **__: lambda *_: [torch.tensor([found, one])])
    case = entry(lambda x, n: torch.polygamma(n, x), x, name="polygamma")
    sample = SimpleNamespace(input=x, args=(n,), kwargs={}, output_process_fn_grad=lambda found: found)
    assert opinfo._tried(case, sample, is_gradient=False)[0] == ("right" if found == pole else "wrong")


@pytest.mark.parametrize(
    ("cases", "right"),
    [
        ([("f32", "right", 9, 9), ("f16", "partly", 5, 3)], True),
        ([("f32", "right", 9, 9), ("f16", "partly", 3, 2)], False),
        ([("f32", "partly", 9, 8), ("f16", "right", 3, 3)], False),
        ([("f32", "right", 9, 9), ("f16", "wrong", 5, 4)], False),
        ([("f32", "right", 9, 9), ("bool", "refused", 0, 0), (opinfo.GRADIENTS, "wrong", 9, 0)], True),
        ([("f32", "right", 9, 9), ("bool", "crash", 0, 0)], False),
        ([("i64", "right", 3, 3)], True),
        ([("f32", "right", 0, 0)], False),
    ],
)
def test_which_entries_count(cases: list[tuple[str, str, int, int]], right: bool) -> None:
    found = [opinfo.Verdict("add", case, outcome, (), samples, good) for case, outcome, samples, good in cases]
    assert opinfo.counts(found) is right


@pytest.mark.filterwarnings("ignore")
def test_what_is_refused_says_why() -> None:
    found = opinfo.run("nonzero", entry(torch.nonzero, X), "f32", None)
    assert found.outcome == "refused"
    assert "nonzero" in found.reasons[0]


@pytest.mark.filterwarnings("ignore")
def test_what_is_wrong_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opinfo, "backend", lambda module, *_, **__: lambda *x: [each + 1e-5 for each in module(*x)])
    found = opinfo.run("sin", entry(torch.sin, X), "f32", None)
    assert found.outcome == "wrong"
    assert "differs in 12 of 12" in found.reasons[0]


@pytest.mark.parametrize(
    ("found", "by_element", "wrong"),
    [
        (1 + 2**-22, True, False),
        (1 + 2**-18, True, True),
        (float("nan"), True, True),
        (float("inf"), False, True),
        (1 - 2**-17, False, True),
    ],
)
def test_bounds_are_a_few_roundings(found: float, by_element: bool, wrong: bool) -> None:
    right = torch.tensor([1.0])
    off = opinfo.off(torch.tensor([found]), right, right.double(), is_by_element=by_element)
    assert bool(off.any()) is wrong


def test_sums_may_be_as_wrong_as_the_greatest() -> None:
    wanted = torch.tensor([1000.0, 1e-3])
    found = wanted + torch.tensor([0.0, 1e-4])
    assert not opinfo.off(found, wanted, wanted.double(), is_by_element=False).any()
    assert opinfo.off(found, wanted, wanted.double(), is_by_element=True).tolist() == [False, True]


def test_the_report() -> None:
    found = [
        opinfo.Verdict("add", "f32", "right", (), 3, 3),
        opinfo.Verdict("add", "bool", "refused", ("TIL605: no row",), 1, 0),
        opinfo.Verdict("sin", "f32", "right", (), 2, 2),
        opinfo.Verdict("svd", "f32", "refused", ("TIL605: no row",), 2, 0),
        opinfo.Verdict("erf", "f32", "wrong", ("wrong: result 0 differs",), 2, 1),
    ]
    lines = opinfo.report(found).splitlines()
    assert lines[1].split() == ["entries", "1", "1", "1", "1", "0", "4"]
    assert "1 of 4 entries count: all samples of f32 and 3 of other dtypes are right" in lines
    assert "wrong: erf f32: wrong: result 0 differs" in lines
    assert any(line.split(": ")[-1] == "add, svd" for line in lines)


def test_a_database_that_is_not_there(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(opinfo, "import_module", lambda _: SimpleNamespace())
    with pytest.raises(tileir.BackendError, match=r"TIL903.*pip install expecttest"):
        opinfo.entries()
    with pytest.raises(SystemExit, match="2"):
        opinfo.main([])
    assert capsys.readouterr().err.startswith("error[TIL903]")
