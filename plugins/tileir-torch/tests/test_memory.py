"""Memory of tensors under ``torch.compile``: views, updates, layouts, and threads and processes that share it."""

from __future__ import annotations

import gc
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import Any, Final

import pytest
import torch
from torch import nn

from beside_eager import alike, compiled, same, tensor

pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's own, about what it compiles


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def test_arguments_are_changed_in_place() -> None:
    def function(x: Any, y: Any) -> Any:
        x.add_(y).mul_(2)
        y[0] = 7
        return x.sum()

    same(function, tensor(3), tensor(3, seed=1))


def test_views_of_arguments_are_changed() -> None:
    def function(x: Any) -> Any:
        x[1:].zero_()
        x.T[0].add_(1)
        return x[0]

    same(function, tensor(3, 3))


def test_a_result_is_a_view_of_an_argument() -> None:
    x = tensor(4, 3)
    view = compiled(lambda x: x[1:].T)(x)
    x.zero_()
    assert not view.any()
    assert view.stride() == x[1:].T.stride()


def test_results_share_memory_as_in_eager_execution() -> None:
    def function(x: Any) -> Any:
        y = x + 1
        return y[1:], y[0], (x * 2).expand(2, *x.shape)

    tail, first, wide = compiled(function)(tensor(3, 4))
    assert tail.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
    assert (tail.storage_offset(), wide.stride()) == (4, (0, 4, 1))
    alike((tail, first, wide), function(tensor(3, 4)))


def test_parts_of_an_argument_share_its_memory() -> None:
    x = tensor(3, 4, grad=True)
    part, other = compiled(lambda x: (x.unbind(0)[1], x.sin()))(x)
    assert part.data_ptr() == x[1].data_ptr()
    (part.sum() + other.sum()).backward()
    alike(x.grad, x.detach().cos() + torch.tensor([[0.0], [1.0], [0.0]]))


def test_a_detached_view_that_is_written_to_has_no_gradient() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x.clamp(-1, 1) * 2
        return y, y.detach().transpose_(0, 1)

    y, view = compiled(function)(tensor(3, 4, grad=True))
    assert (y.requires_grad, view.requires_grad) == (True, False)
    assert view.data_ptr() == y.data_ptr()


def test_an_update_of_a_part_keeps_the_memory_between() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        between = x.squeeze().as_strided((3,), (2,), 1)
        x[..., 1:] = 0.25
        return between.cos(), x

    parts = [tensor(3, 16)[:, ::2] for _ in range(2)]
    alike(compiled(function)(parts[0]), function(parts[1]))


def test_arguments_and_results_can_be_resized() -> None:
    x = tensor(3)
    y = compiled(lambda x: x * 2)(x)
    assert x.resize_(100).shape == y.resize_(100).shape == (100,)


PARALLEL: Final = """
import sys, torch, torch.distributed as dist, tileir_torch
from torch import nn

rank, file = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
wrapped = nn.parallel.DistributedDataParallel(model)
made = torch.compile(wrapped, backend=tileir_torch.backend)
x = torch.randn(6, 4, generator=torch.Generator().manual_seed(5))
made(x[rank::2]).square().mean().backward()
model2 = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
model2.load_state_dict(model.state_dict())
model2(x).square().mean().backward()
for mine, right in zip(model.parameters(), model2.parameters()):
    torch.testing.assert_close(mine.grad, right.grad)
dist.destroy_process_group()
"""


@pytest.mark.sampled(0)
def test_gradients_are_shared_by_processes() -> None:
    with tempfile.TemporaryDirectory() as folder:
        words = [[sys.executable, "-W", "ignore", "-c", PARALLEL, str(rank), f"{folder}/meeting"] for rank in range(2)]
        running = [subprocess.Popen(each, stderr=subprocess.PIPE, text=True) for each in words]
        told = [each.communicate()[1] for each in running]
    assert [each.returncode for each in running] == [0, 0], told


def test_arguments_overlap() -> None:
    def function(x: Any, y: Any) -> Any:
        x.add_(1)
        return y * 2

    made = compiled(function)
    for cut in (slice(None), slice(1, None)):
        mine, other = torch.zeros(4), torch.zeros(4)
        alike(made(mine, mine[cut]), function(other, other[cut]))
        alike(mine, other)


def test_out_is_written() -> None:
    def function(x: Any, out: Any) -> Any:
        return torch.mul(x, 2, out=out)

    x, room = tensor(3), torch.empty(3)
    assert compiled(function)(x, room) is room
    alike(room, x * 2)


def test_tensors_with_gaps_and_repeats() -> None:
    made = compiled(lambda x: (x * 2).sum(-1))
    for x in (tensor(4, 6)[:, ::2], tensor(6, 4).T, tensor(4, 1).expand(4, 3), tensor(4, 6)[:, 1:]):
        alike(made(x), (x * 2).sum(-1))


def test_no_axes_and_no_elements() -> None:
    same(lambda x: x * 2 + 1, tensor())
    same(lambda x: (x.sum(0), x.reshape(-1), torch.cat([x, x])), torch.empty(0, 3))


def test_last_channels_stay_last() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU())
    x = tensor(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    found, wanted = compiled(model)(x), model(x)
    alike(found, wanted)
    assert found.stride() == wanted.stride()


def test_results_belong_to_the_caller() -> None:
    made, x = compiled(lambda x: x * 2), tensor(1000)
    kept = [made(x + at) for at in range(5)]
    for at, found in enumerate(kept):
        alike(found, (x + at) * 2)


@pytest.mark.sampled(0)
def test_two_threads_compile_at_once() -> None:
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            model = nn.Sequential(nn.Linear(4 + seed, 8), nn.ReLU(), nn.Linear(8, 2))
            made = compiled(model)
            for n in (2, 3):
                alike(made(tensor(n, 4 + seed)), model(tensor(n, 4 + seed)))
        except BaseException as error:  # shown by the test below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


class Doubled(torch.utils.data.Dataset):  # type: ignore[misc]
    """Examples that workers compute with what the parent has compiled."""

    def __init__(self, call: Any) -> None:
        self.call = call

    def __len__(self) -> int:
        return 8

    def __getitem__(self, at: int) -> Any:
        return self.call(torch.full((3,), float(at)))


def test_workers_of_a_loader_are_forked() -> None:
    made = compiled(lambda x: x * 2 + 1)
    made(torch.ones(3))
    loader = torch.utils.data.DataLoader(Doubled(made), batch_size=4, num_workers=2, multiprocessing_context="fork")
    found = torch.cat(list(loader))
    alike(found, torch.arange(8.0)[:, None].expand(8, 3) * 2 + 1)
    alike(made(torch.ones(3)), torch.full((3,), 3.0))


@pytest.mark.sampled(0)
def test_memory_stays_flat_over_calls() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    made, x = compiled(model), tensor(32, 64)
    for _ in range(20):
        made(x).sum().backward()
    gc.collect()
    before = _resident()
    for _ in range(1000):
        made(x).sum().backward()
    gc.collect()
    assert _resident() - before < 4 << 20


@pytest.mark.sampled(0)
def test_memory_stays_flat_over_recompilations() -> None:
    def again(n: int) -> None:
        torch._dynamo.reset()
        compiled(lambda x: (x @ x).relu())(tensor(4 + n % 2, 4 + n % 2))

    for n in range(20):
        again(n)
    gc.collect()
    before = _resident()
    for n in range(50):
        again(n)
    gc.collect()
    assert _resident() - before < 16 << 20


def _resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123  no file of a user's
        return int(file.read().split()[1]) * 4096
