"""Functions and modules under ``torch.compile(backend="tileir")``, beside eager."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import tileir_torch
from tileir_torch.calls import Specialising

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(function, backend=tileir_torch.backend, options=options or None)


def whole(function: Callable[..., Any]) -> Callable[..., Any]:
    return compiled(function, fullgraph=True)


class Small(nn.Module):
    """Convolution, norms and products."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.linear = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm(self.conv(x)))
        y = nn.functional.max_pool2d(y, 2).mean((2, 3))
        return self.linear(y).softmax(-1)


def test_training_steps_equal_eager() -> None:
    ours, theirs = Small(), Small()
    theirs.load_state_dict(ours.state_dict())
    steps: list[Any] = [whole(ours), theirs]
    optimisers = [torch.optim.SGD(module.parameters(), lr=0.1) for module in (ours, theirs)]
    for _ in range(3):
        x, target = torch.randn(2, 3, 8, 8), torch.tensor([1, 3])
        for run, optimiser in zip(steps, optimisers, strict=True):
            optimiser.zero_grad()
            nn.functional.cross_entropy(run(x), target).backward()
            optimiser.step()
    for mine, eager in zip(ours.state_dict().values(), theirs.state_dict().values(), strict=True):
        torch.testing.assert_close(mine, eager)


def test_mutations_of_inputs_are_those_of_eager() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        x[1:3].mul_(y)
        return x.t() * 2

    x, y = torch.randn(4, 3), torch.randn(3)
    eager, ours = x.clone(), x.clone()
    expected, found = function(eager, y), whole(function)(ours, y)
    torch.testing.assert_close(ours, eager)
    torch.testing.assert_close(found, expected)
    assert found.stride() == expected.stride()


def test_inputs_that_get_each_others_values_are_written_behind_all_reads() -> None:
    def function(x: torch.Tensor, y: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        kept = x.clone()
        x.copy_(y)
        y.copy_(kept)
        counts += 1
        return x - y

    x, y, counts = torch.randn(4), torch.randn(4), torch.zeros(3, dtype=torch.int64)
    found = whole(function)(other_x := x.clone(), other_y := y.clone(), counts)
    torch.testing.assert_close((other_x, other_y, found), (y, x, y - x))
    assert counts.tolist() == [1, 1, 1]


def test_tensors_that_lie_otherwise_than_before_are_noticed() -> None:
    operation = torch.ops.aten.sub.Tensor
    with FakeTensorMode():
        module = make_fx(lambda x, y: [operation(x, y)])(torch.empty(3, 4), torch.empty(3, 4))
    run = Specialising(module.graph, module)
    x, y, odd = torch.randn(3, 4), torch.randn(3, 4), torch.randn(4, 3).t()
    negated = torch.randn(3, 4, dtype=torch.complex64).conj().imag
    for given in ((x, y), (x, y), (odd, y), (x, y), (negated, y), (x, odd), (x.requires_grad_(), y), (x, y)):
        torch.testing.assert_close(run(given)[0], (given[0] - given[1]).detach())


def test_tensors_that_are_kept_with_the_other_sign_are_written_to() -> None:
    def function(x: torch.Tensor, y: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        x.mul_(3)
        y.add_(x)
        n.add_(1)
        return x - y

    for _ in range(2):
        x, y, n = (torch.randn(4, dtype=torch.complex64) for _ in range(3))
        wanted, given = ([each.clone().conj().imag for each in (x, y, n)] for _ in range(2))
        torch.testing.assert_close(whole(function)(*given), function(*wanted))
        torch.testing.assert_close(given, wanted)


def test_what_cannot_be_compiled_runs_in_eager() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x) * 2
        z = torch.linalg.eigvalsh(y @ y.T + torch.eye(4))
        return z.cos() + x.sum()

    x = torch.randn(4, 4)
    torch.testing.assert_close(compiled(function)(x), function(x), rtol=1e-4, atol=1e-4)
    with pytest.raises(Exception, match="linalg_eigh") as error:
        whole(function)(x)
    assert "torch.linalg.eigvalsh(y @ y.T" in str(error.value)


def test_dynamic_sizes_are_compiled_for_each_class_and_told_at_the_ninth() -> None:
    ours = torch.compile(lambda x: x.reshape(-1).cumsum(0) * x.shape[0], backend=tileir_torch.backend, dynamic=True)
    for rows in range(2, 10):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(ours(x), x.reshape(-1).cumsum(0) * rows)
    with pytest.warns(tileir_torch.SizesWarning, match="9th class of sizes"):
        ours(torch.randn(10, 3))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_floats(dtype: torch.dtype) -> None:
    x, w = torch.randn(5, 8, dtype=dtype), torch.randn(6, 8, dtype=dtype)

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(nn.functional.linear(x, w)).softmax(-1)

    torch.testing.assert_close(whole(function)(x, w), function(x, w))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "x",
    [
        torch.arange(12.0).reshape(3, 4).T,
        torch.arange(3.0).expand(4, 3),
        torch.arange(24.0)[::2].reshape(4, 3),
        torch.zeros(0, 3),
        torch.randn(2, 3, 4, 3).to(memory_format=torch.channels_last)[0, 0],
    ],
    ids=["transposed", "expanded", "with gaps", "empty", "part"],
)
def test_inputs_however_they_lie_in_memory(x: torch.Tensor) -> None:
    function = whole(lambda x: (x * 2 + 1).sum(0))
    torch.testing.assert_close(function(x), (x * 2 + 1).sum(0))


def test_channels_last_comes_and_stays() -> None:
    conv = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last)
    with torch.no_grad():
        expected, found = conv(x), whole(conv)(x)
    torch.testing.assert_close(found, expected)
    assert found.stride() == expected.stride()


def test_tensors_that_a_function_makes_of_literals_are_constants() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x[torch.tensor([0, 1, 0]), :, torch.tensor([2, 2, 2])] * torch.tensor([1.0, 2.0, 3.0, 4.0])

    ours, theirs = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4, 5)
    theirs.copy_(ours)
    ours.requires_grad_(), theirs.requires_grad_()
    found = whole(lambda x: function(x[0]))(ours)
    expected = function(theirs[0])
    torch.testing.assert_close(found, expected)
    found.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_unknown_options_are_refused() -> None:
    with pytest.raises(Exception, match="there is no option whole"):
        compiled(lambda x: x + 1, whole=True)(torch.zeros(2))


def test_complex_numbers_run_in_eager() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.fft.rfft(x * 2).abs() + 1

    x = torch.randn(8)
    torch.testing.assert_close(compiled(function)(x), function(x))


def test_unsupported_nodes_have_reasons() -> None:
    class Values(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.eigvalsh(x) + torch.rand(3)

    program = torch.export.export(Values(), (torch.eye(3),)).run_decompositions()
    found = tileir_torch.unsupported(program.graph_module)
    assert {each.target for each in found} >= {"aten._linalg_eigh.default", "aten.rand.default"}
    assert all(each.reason for each in found)
    assert copy.copy(found[0]) == found[0]


def test_each_input_that_is_copied_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    made = whole(lambda x, y, z: x + y * z)
    x, y, z = torch.randn(4, 6)[:, ::2], torch.randn(8, 3)[::2], torch.randn(3, 4).t()
    with caplog.at_level("INFO", logger="tileir"):
        for _ in range(2):
            torch.testing.assert_close(made(x, y, z), x + y * z)
    told = [record.getMessage() for record in caplog.records if "is copied" in record.getMessage()]
    assert len(told) == 2
    assert all("as its axes lie with gaps in memory" in each for each in told)
    assert all(any(f"strides {each.stride()}" in line for line in told) for each in (x, y))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("function", "make"),
    [
        (lambda x, y: x @ y, lambda a, b: (torch.randn(a, b), torch.randn(b, 3))),
        (lambda x: x.reshape(-1, 2).sum(1) * x.shape[0], lambda a, b: (torch.randn(2 * a, b),)),
        (lambda x: x + torch.arange(x.shape[0])[:, None] * torch.arange(0, x.shape[1] * 2, 2), None),
        (lambda x, y: x[:, None].expand(x.shape[0], y.shape[0]) * y, lambda a, b: (torch.randn(a), torch.randn(b))),
        (lambda x: x.view(x.shape[0] * x.shape[1]).cumsum(0).view_as(x), None),
        (lambda x: nn.functional.pad(x, (0, 8 - x.shape[1] % 8)), None),
        (lambda x: x[: x.shape[0] // 2 + 1] + torch.full((x.shape[1],), float(x.shape[0])), None),
        (lambda x: nn.functional.conv1d(x, torch.ones(4, 3, 3), stride=2), lambda a, b: (torch.randn(a, 3, b + 4),)),
    ],
)
def test_sizes_that_change_wherever_they_are_used(function: Any, make: Any) -> None:
    made = torch.compile(function, backend=tileir_torch.backend, dynamic=True)
    for a, b in ((3, 4), (7, 5), (6, 6)):
        given = (make or (lambda a, b: (torch.randn(a, b),)))(a, b)
        mine, theirs = ([each.clone().requires_grad_() for each in given] for _ in range(2))
        found, expected = made(*mine), function(*theirs)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        found.square().sum().backward()
        expected.square().sum().backward()
        for one, other in zip(mine, theirs, strict=True):
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_training_under_autocast(dtype: torch.dtype) -> None:
    model = Small()
    other, exact = copy.deepcopy(model), copy.deepcopy(model).double()
    x = torch.randn(4, 3, 8, 8)

    def gradients(module: nn.Module, call: Callable[..., Any], x: torch.Tensor) -> list[torch.Tensor]:
        with torch.autocast("cpu", dtype=dtype, enabled=x.dtype is torch.float32):
            found = call(x)
        (found.float()[:, 0] * 3).sum().backward()
        return [found.detach(), module.linear.weight.grad, module.norm.weight.grad, module.conv.weight.grad]

    triples = zip(
        gradients(other, compiled(other), x),
        gradients(model, model, x),
        gradients(exact, exact, x.double()),
        strict=True,
    )
    for mine, eager, right in triples:
        assert mine.dtype is eager.dtype
        scale = right.abs().max()
        assert (mine - right).abs().max() <= 2 * (eager - right).abs().max() + torch.finfo(dtype).eps * scale
