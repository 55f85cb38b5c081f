"""Operations of PyTorch written in Tile: values, gradients, fake tensors, compilers of PyTorch, and errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import torch
from torch.library import opcheck

import tileir
import tileir_torch
from tileir_torch.custom import PROGRAMS

GELU_BIAS: Final = tileir_torch.op(
    "tileirtests::gelu_bias",
    "function (X, Bias) -> (Y) { Z = X + Bias; Y = 0.5 * Z * (1.0 + erf(Z * 0.7071067811865476)); }",
)
SHIFTED: Final = tileir_torch.op(
    "tileirtests::shifted",
    """function (X[N, K], W[K, M], Size, Scale) -> (Y, Positive) {
        Z[n, m : N, M] = +(X[n, k] * W[k, m]);
        Cut[n, m : N, Size] = =(Z[n, m]);
        Y = Cut * Scale;
        Positive = as_i64(Z > 0);
    }""",
    numbers="Scale",
)


def tensor(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0, grad: bool = False) -> Any:
    made = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)
    return made.requires_grad_(grad)


def gelu_bias(x: Any, bias: Any) -> Any:
    return torch.nn.functional.gelu(x + bias)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_values(dtype: torch.dtype) -> None:
    x, bias = tensor(4, 5, dtype=dtype), tensor(5, dtype=dtype, seed=1)
    found = GELU_BIAS(x, bias)
    assert found.dtype == dtype
    bound = 8 * torch.finfo(dtype).eps
    torch.testing.assert_close(found.double(), gelu_bias(x.double(), bias.double()), rtol=bound, atol=bound)


def test_tensors_with_gaps_and_of_no_elements() -> None:
    x, bias = tensor(6, 5).T[:, ::2], tensor(1)
    torch.testing.assert_close(GELU_BIAS(x, bias), gelu_bias(x, bias))
    repeated = tensor(5).expand(4, 5)
    torch.testing.assert_close(GELU_BIAS(repeated, bias), gelu_bias(repeated, bias))
    assert GELU_BIAS(torch.empty(0, 3), tensor(3)).shape == (0, 3)
    torch.testing.assert_close(GELU_BIAS(tensor(), tensor()), gelu_bias(tensor(), tensor()))


def test_several_results_sizes_and_numbers() -> None:
    x, w = tensor(4, 5), tensor(5, 3, seed=1)
    y, positive = SHIFTED(x, w, 2, 0.5)
    wanted = x.double() @ w.double()
    torch.testing.assert_close(y.double(), wanted[:, :2] * 0.5, rtol=1e-5, atol=1e-6)
    assert torch.equal(positive, (wanted > 0).long())
    assert torch.equal(torch.ops.tileirtests.shifted(x, w, 2, 0.5)[0], y)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("checked", [torch.autograd.gradcheck, torch.autograd.gradgradcheck])
def test_gradients_of_both_orders(checked: Any) -> None:
    assert checked(GELU_BIAS, (tensor(2, 3, dtype=torch.float64, grad=True), tensor(3, dtype=torch.float64, grad=True)))
    x, w = tensor(2, 3, dtype=torch.float64, grad=True), tensor(3, 3, dtype=torch.float64, seed=1, grad=True)
    assert checked(lambda x, w: SHIFTED(x, w, 2, 1.5)[0], (x, w))


def test_only_what_is_needed_has_a_gradient() -> None:
    x, bias = tensor(2, 3), tensor(3, grad=True)
    GELU_BIAS(x, bias).sum().backward()
    assert x.grad is None
    (wanted,) = torch.autograd.grad(gelu_bias(x, bias).sum(), bias)
    torch.testing.assert_close(bias.grad, wanted)


@pytest.mark.sampled(0)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # PyTorch's own
def test_what_pytorch_checks() -> None:
    opcheck(GELU_BIAS, (tensor(4, 5, grad=True), tensor(5, grad=True)))
    opcheck(SHIFTED, (tensor(4, 5, grad=True), tensor(5, 3), 2, 0.5))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_one_graph_serves_all_sizes() -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(lambda x, b: GELU_BIAS(x, b) * 2, backend="aot_eager", fullgraph=True, dynamic=True)
    with torch.compiler.set_stance("default"):
        for n in (3, 7, 9):
            x, bias = tensor(n, 5, grad=True), tensor(5, grad=True)
            found = torch.autograd.grad(compiled(x, bias).sum(), (x, bias))
            torch.testing.assert_close(found, torch.autograd.grad((gelu_bias(x, bias) * 2).sum(), (x, bias)))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


class Shifted(torch.nn.Module):  # type: ignore[misc]  # types are checked without PyTorch
    def forward(self, x: Any, w: Any) -> Any:
        return SHIFTED(x, w, 2, 0.5)[0]


def test_export_keeps_symbols() -> None:
    sizes = {"x": {0: torch.export.Dim("n", min=2, max=100)}, "w": None}
    exported = torch.export.export(Shifted(), (tensor(4, 5), tensor(5, 3)), dynamic_shapes=sizes).module()
    x, w = tensor(7, 5), tensor(5, 3)
    torch.testing.assert_close(exported(x, w), (x @ w)[:, :2] * 0.5)


def test_arithmetic_of_symbols() -> None:
    text = "function (A[N], K[M]) -> (O) { O[i : 2 * (N - M) + 3] = +(A[i + j] * K[j]); }"
    wide = tileir_torch.op("tileirtests::wide", text)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(lambda a, k: wide(a, k).sin(), backend="aot_eager", fullgraph=True, dynamic=True)
    for n in (5, 8, 11):
        assert compiled(tensor(n), tensor(3)).shape == (2 * (n - 3) + 3,)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_dtypes_and_sizes_that_only_compiling_tells() -> None:
    ordered = tileir_torch.op("tileirtests::ordered", "function (X) -> (O) { O = argsort(X, 0); }")
    x = tensor(6)
    assert torch.equal(ordered(x).long(), x.argsort())
    opcheck(ordered, (x,))


def test_names_that_schemas_do_not_have() -> None:
    function = tileir.FunctionBuilder()
    a, b = function.input("0.weight", "N"), function.input("None", "N")
    odd = tileir_torch.op("tileirtests::odd", function.build(Y=a - b))
    assert torch.equal(odd(tensor(3), tensor(3, seed=1)), tensor(3) - tensor(3, seed=1))


def test_files_and_constants(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).standard_normal(30_000).astype(np.float32)
    bound = tileir.bind(tileir.parse("function (X[N], W[N]) -> (Y) { Y = X * W; }"), W=weights)
    file = tmp_path / "weighted.tileir"
    tileir.save(bound, file)
    weighted = tileir_torch.op("tileirtests::weighted", file)
    x = tensor(30_000, grad=True)
    weighted(x).sum().backward()
    assert np.array_equal(x.grad.numpy(), weights)


@pytest.mark.parametrize("file", ["README.md", "../../README.md"])
def test_pages_show_an_operation_that_works(file: str) -> None:
    page = (Path(__file__).parent.parent / file).read_text(encoding="utf-8")
    (code,) = [each for each in re.findall(r"```py\w*\n(.*?)```", page, re.DOTALL) if "tileir_torch.op(" in each]
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    torch.testing.assert_close(namespace["gelu_bias"](tensor(4, 5), tensor(5)), gelu_bias(tensor(4, 5), tensor(5)))


def test_an_operation_is_replaced_and_its_program_known() -> None:
    for factor in (2, 3):
        scaled = tileir_torch.op("tileirtests::scaled", f"function (X) -> (Y) {{ Y = X * {factor}; }}")
        assert torch.equal(scaled(tensor(3)), tensor(3) * factor)
    assert "X * 3" in tileir.to_text(PROGRAMS[torch.ops.tileirtests.scaled.default])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gelu", "function (X) -> (Y) { Y = X; }"), r"TIL707.*as in 'mylib::gelu_bias', not 'gelu'"),
        ((3, "function (X) -> (Y) { Y = X; }"), r"TIL707.*not '3'"),
        (("aten::gelu", "function (X) -> (Y) { Y = X; }"), r"TIL707.*'aten' is taken"),
        (("tileirtests::a", "function (X) -> (Y) { Y = X"), r"TIL102"),
        (("tileirtests::a", "function (X) -> (Y) { Y = Z; }"), r"TIL201.*Z"),
    ],
)
def test_bad_names_and_programs(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(tileir.TileError, match=message):
        tileir_torch.op(*arguments)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("function (X) -> (Y) { Y = X; }", r"TIL710.*no input 'S'"),
        ("function (X[N], S) -> (Y) { Y[i : S] = =(X[i]); }", r"TIL711.*sizes are computed from 'S'"),
        ("function (X[N], S[N]) -> (Y) { Y = X * S; }", r"TIL711.*'S' has axes"),
    ],
)
def test_bad_numbers(text: str, message: str) -> None:
    with pytest.raises(tileir.ArgumentError, match=message):
        tileir_torch.op("tileirtests::a", text, numbers=["S"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, w: (x, w.T), r"TIL304.*'W': axis 0 of its argument is 3 long, and not 5"),
        (lambda x, w: (x[0], w), r"TIL305.*'X': its argument has 1 axes, and not 2"),
        (lambda x, w: (x.to(torch.complex64), w), r"TIL317.*'X': its argument is torch.complex64, no dtype of Tile"),
    ],
)
def test_arguments_that_do_not_fit(change: Any, message: str) -> None:
    with pytest.raises(tileir.TileError, match=message):
        SHIFTED(*change(tensor(4, 5), tensor(5, 3)), 2, 0.5)
    with pytest.raises(Exception, match=message.partition(".*")[0]), torch._subclasses.FakeTensorMode() as mode:
        SHIFTED(*change(mode.from_tensor(tensor(4, 5)), mode.from_tensor(tensor(5, 3))), 2, 0.5)


def test_a_declared_dtype_is_checked() -> None:
    narrow = tileir_torch.op("tileirtests::narrow", "function (X: f32[N]) -> (Y) { Y = X; }")
    with pytest.raises(tileir.TileError, match=r"TIL317.*argument is torch.float64, and not f32; convert it"):
        narrow(tensor(3, dtype=torch.float64))
