"""One of several processes that change distributed tensors into arrays and back; the test starts them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

import tileir
from tileir import ArgumentError
from tileir.runtime.transports import Message, Transport
from tileir_torch.distributed import from_dtensor, layout_of, to_dtensor


class Gloo(Transport):
    """A rank of PyTorch's default group, which it sends bytes between."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def exchange(self, sent: Sequence[Message], received: Sequence[Message]) -> None:
        work = [dist.isend(torch.from_numpy(array.reshape(-1).view(np.uint8).copy()), rank) for rank, array in sent]
        work += [dist.irecv(torch.from_numpy(array.reshape(-1).view(np.uint8)), rank) for rank, array in received]
        for each in work:
            each.wait()

    def abort(self, error: BaseException) -> None:
        raise error


class Engine:
    """The processes of PyTorch's default group."""

    name = "gloo"

    def launch(self, size: int, work: Callable[[Transport], Any]) -> Mapping[int, Any]:
        assert size == dist.get_world_size()
        return {dist.get_rank(): work(Gloo())}


def there_and_back(whole: torch.Tensor, mesh: DeviceMesh, placements: Sequence[Any]) -> None:
    """Assert that elements are where they were, as an array and as a tensor again."""
    tensor = distribute_tensor(whole, mesh, placements)
    array = from_dtensor(tensor, Engine())
    bits = torch.uint8 if whole.dtype is torch.bool else whole.dtype
    assert array.shape == tuple(whole.shape)
    shown = torch.from_numpy(array.numpy().view(np.int16)).view(bits) if bits is torch.bfloat16 else array.numpy()
    assert torch.equal(torch.as_tensor(shown), whole), (whole, placements)
    again = to_dtensor(array, mesh, placements)
    assert again.placements == tensor.placements
    assert again.shape == tensor.shape
    assert torch.equal(again.to_local(), tensor.to_local())
    if tensor.to_local().numel():
        assert again.to_local().data_ptr() == array.on_host(dist.get_rank()).ctypes.data
    assert torch.equal(again.full_tensor(), whole)
    plain = to_dtensor(tileir.distributed.array(array.numpy(), array.mesh, array.sharding, transport=Engine()), mesh)
    assert torch.equal(plain.full_tensor(), whole)


def main(file: str, rank: int, size: int) -> None:
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=size)
    line = init_device_mesh("cpu", (size,), mesh_dim_names=("x",))
    grid = init_device_mesh("cpu", (size // 2, 2))
    for shape in ((7, 4), (1,)):
        whole = torch.arange(float(np.prod(shape))).reshape(shape)
        for axis in range(len(shape)):
            there_and_back(whole, line, [Shard(axis)])
        there_and_back(whole, line, [Replicate()])
        for placements in ([Shard(0), Shard(0)], [Shard(len(shape) - 1), Shard(0)], [Replicate(), Shard(0)]):
            there_and_back(whole, grid, placements)
    for dtype in (torch.bfloat16, torch.bool):
        there_and_back(torch.arange(14).reshape(7, 2).to(dtype), line, [Shard(0)])
    double = "function (X[N, M]) -> (Y) { Y = 2 * X; }"
    given = distribute_tensor(torch.arange(28.0).reshape(7, 4), line, [Shard(1)])
    program = tileir.partition(
        double, {"x": size}, {"X": (None, "x")}, outputs={"Y": (None, "x")}, arguments=[given.shape]
    )
    found = tileir.distribute(program, Engine(), options=tileir.Options(quick=True))(from_dtensor(given, Engine()))
    assert torch.equal(to_dtensor(found, line).full_tensor(), 2 * torch.arange(28.0).reshape(7, 4))
    tall = distribute_tensor(torch.arange(10.0).reshape(5, 2), line, [Shard(0)])  # not cut as evenly as tileir does
    rows = layout_of(tall.shape, line, [Shard(0)])
    program = tileir.partition(double, {"x": size}, {"X": rows}, outputs={"Y": rows}, arguments=[tall.shape])
    assert not program.collectives
    found = tileir.distribute(program, Engine(), options=tileir.Options(quick=True))(from_dtensor(tall, Engine()))
    assert torch.equal(to_dtensor(found, line).full_tensor(), 2 * torch.arange(10.0).reshape(5, 2))
    with pytest.raises(ArgumentError, match=r"TIL352.*redistribute it"):
        from_dtensor(DTensor.from_local(torch.ones(2), line, [Partial()]), Engine())
    other = tileir.distributed.array(np.ones(4), {"x": 1, "y": size}, ("y",), transport=Engine())
    with pytest.raises(ArgumentError, match=r"TIL351.*on the mesh x=1"):
        to_dtensor(other, line)
    reverse = DeviceMesh("cpu", list(range(size))[::-1])
    with pytest.raises(ArgumentError, match=r"TIL351.*in their order"):
        from_dtensor(DTensor.from_local(torch.ones(2), reverse, [Replicate()]), Engine())
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
