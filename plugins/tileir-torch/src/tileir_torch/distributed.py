"""Conversion between PyTorch's distributed tensors and distributed arrays: each rank passes its part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard

from tileir import ArgumentError, distributed
from tileir_torch.calls import array_seen, tensor_over

__all__ = ["from_dtensor", "layout_of", "to_dtensor"]


def from_dtensor(tensor: DTensor, transport: Any) -> distributed.DistributedArray:
    """Return the array with the parts of a distributed tensor, sharing their memory if they are contiguous.

    All ranks call it. Parts stay in place, including those of unevenly divided axes.

    Args:
        tensor: The tensor, in host memory.
        transport: The engine between ranks, as for :func:`tileir.distributed.array`.

    Raises:
        ArgumentError: TIL351, the ranks of its mesh are not all ranks in order; TIL352, ranks have terms of a sum, or
            interleaved pieces; TIL707, it is not a distributed tensor; TIL714, it is on another device.
    """
    _check(tensor, DTensor)
    mesh = _mesh(tensor.device_mesh)
    layout = layout_of(tuple(tensor.shape), tensor.device_mesh, tensor.placements)
    part = tensor.to_local().detach()
    if part.device.type != "cpu":
        message = f"the tensor is on {tensor.device_mesh.device_type}; move it to the memory of the host first"
        raise ArgumentError.of("TIL714", message)
    rank = tensor.device_mesh.get_rank()
    return distributed.from_parts({rank: array_seen(part.contiguous())}, mesh, layout, transport)


def to_dtensor(
    array: distributed.DistributedArray, mesh: DeviceMesh, placements: Sequence[Placement] | None = None
) -> DTensor:
    """Return a distributed tensor with the elements of an array; all ranks call it.

    Ranks exchange elements that PyTorch distributes differently: of 7 places it gives 3, 3 and 1 to three ranks, and
    tileir 3, 2 and 2.

    Args:
        array: The array, on the ranks of the mesh.
        mesh: The ranks, with equal numbers along each axis.
        placements: A placement for each mesh axis; by default that of the array.

    Raises:
        ArgumentError: TIL351, TIL352 or TIL707, as for :func:`from_dtensor`, or the array is on another mesh.
    """
    _check(array, distributed.DistributedArray)
    made = _mesh(mesh)
    if [size for _, size in made.axes] != [size for _, size in array.mesh.axes]:
        raise ArgumentError.of("TIL351", f"the array is on the mesh {array.mesh}, and not on {made}")
    if placements is None:
        cut = {name: axis for axis, names in enumerate(array.sharding.axes) for name in names}
        placements = [Shard(cut[name]) if name in cut else Replicate() for name, _ in array.mesh.axes]
    names = {new: old for (new, _), (old, _) in zip(made.axes, array.mesh.axes, strict=True)}
    layout = tuple(
        distributed.Split(tuple(names[axis] for axis in split.axes), split.intervals)
        for split in layout_of(array.shape, mesh, placements)
    )
    part = array.relaid(layout).on_host(mesh.get_rank())
    strides = torch.empty(array.shape, device="meta").stride()
    return DTensor.from_local(
        tensor_over(part), mesh, placements, run_check=False, shape=torch.Size(array.shape), stride=strides
    )


def layout_of(shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]) -> tuple[distributed.Split, ...]:
    """Return the layout of a tensor with PyTorch's placements.

    Args:
        shape: Extents of the tensor.
        mesh: The ranks.
        placements: A placement for each mesh axis.

    Raises:
        ArgumentError: TIL351, TIL352, as for :func:`from_dtensor`, or placements do not fit mesh or tensor.
    """
    sizes = dict(_mesh(mesh).axes)
    if len(placements) != len(sizes):
        message = f"there are {len(placements)} placements for the mesh {_mesh(mesh)}; give one for each of its axes"
        raise ArgumentError.of("TIL352", message)
    axes: list[tuple[str, ...]] = [() for _ in shape]
    intervals = [[(0, size)] for size in shape]
    for name, placement in zip(sizes, placements, strict=True):
        if type(placement) is Shard:
            if not -len(shape) <= placement.dim < len(shape):
                raise ArgumentError.of(
                    "TIL352", f"Shard({placement.dim}) cuts no axis of a tensor of shape {list(shape)}"
                )
            axis = placement.dim % len(shape)
            axes[axis] = (*axes[axis], name)
            intervals[axis] = [piece for low, high in intervals[axis] for piece in _chunks(low, high, sizes[name])]
        elif not placement.is_replicate():
            message = (
                f"ranks along {name!r} have {placement} of the tensor; redistribute it to Shard or Replicate first"
            )
            raise ArgumentError.of("TIL352", message)
    return tuple(distributed.Split(names, tuple(each)) for names, each in zip(axes, intervals, strict=True))


def _chunks(low: int, high: int, parts: int) -> list[tuple[int, int]]:
    """Return the pieces of an interval by the rule of ``torch.chunk``: equal sizes until nothing is left."""
    step = -(-(high - low) // parts)
    return [(min(high, low + step * part), min(high, low + step * (part + 1))) for part in range(parts)]


def _check(value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise ArgumentError.of("TIL707", f"this takes a {kind.__name__}, not a {type(value).__name__}")


def _mesh(mesh: DeviceMesh) -> distributed.Mesh:
    ranks = mesh.mesh.flatten().tolist()
    if ranks != list(range(torch.distributed.get_world_size())):
        message = f"the mesh has the ranks {ranks}; arrays are on all ranks, in their order"
        raise ArgumentError.of("TIL351", message)
    names = mesh.mesh_dim_names or [f"axis{number}" for number in range(mesh.mesh.ndim)]
    return distributed.Mesh(dict(zip(names, mesh.mesh.shape, strict=True)))
