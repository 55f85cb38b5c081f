"""Distributed arrays: created in parts, redistributed, and shown without being gathered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from tileir.core import ArgumentError, attrs, with_short_traceback
from tileir.driver.calls.arguments import check_kind
from tileir.driver.distribution.collectives import relaid
from tileir.driver.distribution.engines import engine_called, pickled, refusing
from tileir.runtime.array_files import loaded
from tileir.runtime.arrays import to_array
from tileir.runtime.devices.array import DeviceArray
from tileir.runtime.transports import Threads, agree
from tileir.typed.boxes import Box, sizes_of
from tileir.typed.sharding.interpreter import gathered
from tileir.typed.sharding.mesh import Layout, Mesh, Sharding, Split, repeated, whole

if TYPE_CHECKING:
    from tileir.runtime.transports import Array, Engine, Transport

Cut: TypeAlias = "Sharding | Sequence[str | tuple[str, ...] | None]"
"""A sharding, or its entries, as in ``("x", None)``."""


@attrs.frozen(eq=False, repr=False)
class DistributedArray:
    """Array of which each rank of a mesh has a part.

    All ranks create it, and take part in the methods that read remote elements: :meth:`numpy`, ``array[…]``,
    ``str(array)`` and :meth:`resharded`.

    Attributes:
        mesh: The ranks.
        layout: Places along each axis that each rank has.
        parts: Parts of the ranks in this process, by rank: all parts if ranks are threads. Parts that a call left on
            devices are device arrays.
        engine: Engine between the ranks.
    """

    mesh: Mesh
    layout: Layout
    parts: Mapping[int, Array | DeviceArray]
    engine: Engine
    __iter__: ClassVar[None] = None
    """None: iterating over rows would exchange messages for each."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the parts of this process."""
        return _with_parts, (self.mesh, self.layout, dict(self.parts), pickled(self.engine))

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the whole array."""
        return tuple(max(high for _, high in split.intervals) for split in self.layout)

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy dtype of its elements."""
        return next(iter(self.parts.values())).dtype

    @property
    def sharding(self) -> Sharding:
        """Mesh axes along which it is cut."""
        return Sharding(tuple(split.axes for split in self.layout))

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.layout)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of its elements, counted once even if several ranks have them."""
        return self.size * self.dtype.itemsize

    def box(self, rank: int) -> Box:
        """Return the places that a rank has."""
        return self.mesh.box(self.layout, self.mesh.coordinates(rank))

    def on_host(self, rank: int) -> Array:
        """Return the part of a rank in this process as a NumPy array."""
        part = self.parts[rank]
        return part.numpy() if isinstance(part, DeviceArray) else part

    def __repr__(self) -> str:
        """Return a description without the elements, which other ranks have."""
        sizes = ", ".join(map(str, self.shape))
        return f"DistributedArray({self.dtype}[{sizes}] cut {self.sharding} over {self.mesh})"

    def __str__(self) -> str:
        """Return the elements as NumPy prints them; for a large array only the shown elements are sent."""
        edge, many = (np.get_printoptions()[name] for name in ("edgeitems", "threshold"))
        if self.size <= many:
            return str(self.numpy())
        ends = [size if size <= 2 * edge else edge for size in self.shape]
        shown = [np.unique(np.r_[:end, size - end : size]) for end, size in zip(ends, self.shape, strict=True)]
        found = self._elements(shown)
        for axis, (size, places) in enumerate(zip(self.shape, shown, strict=True)):
            if len(places) < size:  # NumPy prints dots for the elements between
                found = np.insert(found, edge, found.take(0, axis), axis)
        return np.array2string(found, threshold=0)

    def numpy(self) -> Array:
        """Return the whole array, on every rank."""
        if len(self.parts) == self.mesh.size:
            return gathered(tuple(map(self.on_host, range(self.mesh.size))), self.layout, self.mesh)
        if all(split.is_whole for split in self.layout):
            return self.on_host(next(iter(self.parts)))
        return next(iter(self._relaid(whole(self.shape)).values()))

    def __getitem__(self, key: Any) -> Array:
        """Return the elements at integers and slices as a NumPy array, on every rank; no other elements are sent.

        Raises:
            ArgumentError: TIL314, there are no such places.
        """
        with refusing(self.engine, self.mesh.size):
            places = self.places_of(key)
        found = self._elements([np.atleast_1d(each) for each in places])
        return found.reshape([each.size for each in places if each.ndim])

    def places_of(self, key: Any) -> list[Array]:
        """Return the places of each axis that an index expression selects.

        Raises:
            ArgumentError: TIL314, there are none.
        """
        entries = key if isinstance(key, tuple) else (key,)
        before = next((number for number, each in enumerate(entries) if each is ...), None)
        if before is not None:
            rest = entries[before + 1 :]
            entries = (*entries[:before], *[slice(None)] * (self.ndim - before - len(rest)), *rest)
        try:
            if len(entries) > self.ndim:
                raise IndexError(f"there are {self.ndim} axes")
            entries = (*entries, *[slice(None)] * (self.ndim - len(entries)))
            every = [each if isinstance(each, slice) else _position(each) for each in entries]
            return [np.arange(size)[each] for size, each in zip(self.shape, every, strict=True)]
        except (IndexError, TypeError, ValueError) as error:
            message = f"{key!r:.80} is no part of {self!r}: {error}; write integers or slices"
            raise ArgumentError.of("TIL314", message) from error

    def __float__(self) -> float:
        """Return its only element."""
        return float(self.numpy())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Refuse: the whole array may exceed the memory of a rank.

        Raises:
            ArgumentError: TIL714, always.
        """
        message = f"{self!r} is not put together unless that is said: write array.numpy(), or array[::8], for a part"
        raise ArgumentError.of("TIL714", message)

    @with_short_traceback
    def resharded(self, sharding: Cut) -> DistributedArray:
        """Return it cut along other mesh axes; ranks exchange elements as necessary.

        Raises:
            ArgumentError: TIL352, the sharding does not fit the array.
        """
        with refusing(self.engine, self.mesh.size):
            layout = Sharding(sharding).layout("the array", self.shape, self.mesh)
        return self.relaid(layout)

    def relaid(self, layout: Layout) -> DistributedArray:
        """Return it with another layout."""
        return self if layout == self.layout else attrs.evolve(self, layout=layout, parts=self._relaid(layout))

    def _relaid(self, layout: Layout) -> Mapping[int, Array]:
        def work(end: Transport) -> Array:
            agree(end, {"how they lay an array out": f"{self.mesh} {self.layout} {layout} {self.dtype}"})
            return relaid("an array", self.on_host(end.rank), self.layout, layout, self.mesh, end)

        return self.engine.launch(self.mesh.size, work)

    def _elements(self, places: Sequence[Array]) -> Array:
        """Return the elements at some places of each axis."""
        boxes = [self.box(rank) for rank in range(self.mesh.size)]
        owned = [[_inside(*each) for each in zip(places, box, strict=True)] for box in boxes]
        sizes = [
            [len(each) for each in inside] if box not in boxes[:rank] else [0] * self.ndim
            for rank, (box, inside) in enumerate(zip(boxes, owned, strict=True))
        ]

        def picked(rank: int) -> Array:
            if not prod(sizes[rank]):
                return np.empty(sizes[rank], self.dtype)
            chosen = zip(places, owned[rank], boxes[rank], strict=True)
            return np.asarray(self.on_host(rank)[np.ix_(*(each[inside] - low for each, inside, (low, _) in chosen))])

        def work(end: Transport) -> list[Array]:
            agree(
                end,
                {"the elements that they read": f"{self.mesh} {self.layout} {self.dtype} {list(map(list, places))}"},
            )
            found = [np.empty(size, self.dtype) for size in sizes]
            end.all_gather(np.asarray(picked(end.rank), order="C"), found, range(end.size))
            return found

        if len(self.parts) == self.mesh.size:
            found = [picked(rank) for rank in range(self.mesh.size)]
        else:
            found = next(iter(self.engine.launch(self.mesh.size, work).values()))
        result = np.empty([len(each) for each in places], self.dtype)
        for inside, part in zip(owned, found, strict=True):
            if part.size:
                result[np.ix_(*inside)] = part
        return result


def _with_parts(
    mesh: Mesh, layout: Layout, parts: Mapping[int, Array | DeviceArray], engine: str | Engine
) -> DistributedArray:
    return DistributedArray(mesh, layout, parts, engine_called(engine))


def _position(entry: Any) -> int:
    """Return an integer of an index expression; a bool is a mask in NumPy and is refused.

    Raises:
        TypeError: It is not an integer.
    """
    if isinstance(entry, bool):
        raise TypeError("'bool' object is a mask")
    return index(entry)


def _inside(places: Array, interval: tuple[int, int]) -> Array:
    low, high = interval
    return np.flatnonzero((low <= places) & (places < high))


@with_short_traceback
def array(
    source: Any,
    mesh: Mesh | Mapping[str, int],
    sharding: Cut,
    *,
    shape: Sequence[int] | None = None,
    transport: str | Engine = "inprocess",
) -> DistributedArray:
    """Return an array of which each rank makes or reads its part; all ranks call it.

    Args:
        source: A function from indices to elements, which takes for each axis an array of indices that broadcast, like
            ``numpy.ogrid``; the path of a ``.npy`` file; or an object with a shape and slicing, of which each rank
            reads its part: an array, or a data set of ``h5py`` or ``zarr``.
        mesh: Number of ranks along each named axis.
        sharding: For each axis of the array the mesh axis along which it is cut, several, or None.
        shape: Extents of the result of a function.
        transport: The engine between ranks, as for :func:`tileir.distribute`.

    Raises:
        ArgumentError: TIL351, TIL352, mesh and sharding do not match; TIL702, the source is not an array; TIL705, a
            function without a shape; TIL901, the file cannot be read.
        BackendError: TIL811, there is no such engine; TIL814, a rank could not make its part, or made one with another
            shape.
    """
    made = mesh if isinstance(mesh, Mesh) else Mesh(mesh)
    engine = engine_called(transport)
    with refusing(engine, made.size):
        read, extents = _reader(source, shape)
        layout = Sharding(sharding).layout("the array", extents, made)

    def work(end: Transport) -> Array:
        box = made.box(layout, made.coordinates(end.rank))
        part = to_array("source", read(box)).copy(order="C")
        if part.shape != sizes_of(box):
            message = f"the source has elements of shape {list(part.shape)} for a part of shape {list(sizes_of(box))}"
            raise ArgumentError.of("TIL701", f"{message}; a function may return what broadcasts to it")
        agree(end, {"the mesh, sharding, shape or dtype of an array": f"{made} {layout} {extents} {part.dtype}"})
        return part

    return DistributedArray(made, layout, engine.launch(made.size, work), engine)


def from_parts(
    parts: Mapping[int, Array], mesh: Mesh | Mapping[str, int], layout: Layout, transport: str | Engine = "inprocess"
) -> DistributedArray:
    """Return the array with parts that ranks have made, for exchange with other libraries.

    Args:
        parts: Parts of the ranks in this process, by rank.
        mesh: The ranks.
        layout: For each axis the :class:`Split` with the places of each rank; parts may differ in size.
        transport: The engine between ranks.

    Raises:
        ArgumentError: TIL352, the layout does not fit the mesh, or no rank has some place; TIL701, a part has another
            shape than its places, or another dtype than the first part, or a rank has no part; TIL702, TIL707, parts or
            layout have a wrong type.
    """
    made = mesh if isinstance(mesh, Mesh) else Mesh(mesh)
    engine, places = engine_called(transport), places_of(layout, made)
    check_kind("parts", parts, Mapping, "a mapping from the ranks of this process to their parts")
    all_here = isinstance(engine, Threads)
    ranks = [rank for rank in range(made.size) if rank in parts]
    if len(parts) != len(ranks) or not ranks or (all_here and len(ranks) < made.size):
        needed = "all of them, since they are threads" if all_here else "those of this process"
        message = f"there are parts of the ranks {list(parts)!r:.80}; give {needed}, of the mesh {made}"
        raise ArgumentError.of("TIL701", message)
    given = {rank: _part_of(rank, parts[rank]) for rank in ranks}
    found = DistributedArray(made, places, given, engine)
    for rank, part in given.items():
        extents = sizes_of(found.box(rank))
        if part.shape != extents or part.dtype != found.dtype:
            message = f"the part of rank {rank} is {part.dtype}{list(part.shape)}, and its places {found.dtype}"
            raise ArgumentError.of("TIL701", f"{message}{list(extents)}")
    return found


def places_of(layout: object, mesh: Mesh) -> Layout:
    """Return a valid layout, in which each place of an array is on some rank of a mesh.

    Raises:
        ArgumentError: TIL707, it is not a layout; TIL352, it does not fit this mesh, or misses places.
    """
    if not isinstance(layout, Sequence) or not all(isinstance(split, Split) for split in layout):
        message = f"the layout {layout!r:.80} is no sequence with a Split for each axis, as program.layout(name) is one"
        raise ArgumentError.of("TIL707", message)
    found = tuple(layout)
    twice = (f"is cut along {axis!r} twice" for axis in repeated(found))
    missing = (f"misses places: {split}" for split in found if not split.is_complete)
    for fault in (*mesh.faults(found), *twice, *missing):
        raise ArgumentError.of("TIL352", f"the layout [{', '.join(map(str, found))}] {fault}")
    return found


def _part_of(rank: int, part: Any) -> Array | DeviceArray:
    return part if isinstance(part, DeviceArray) else to_array(f"the part of rank {rank}", part)


def _reader(source: Any, shape: Sequence[int] | None) -> tuple[Callable[[Box], Any], tuple[int, ...]]:
    """Return a function that makes the part in a box, and the shape of the whole."""
    if isinstance(source, str | Path):
        try:
            source = loaded(Path(source), mapped=True)
        except (OSError, ValueError) as error:
            raise ArgumentError.of("TIL901", f"cannot read {source}: {error}") from error
    if callable(source):
        if shape is None:
            raise ArgumentError.of("TIL705", "an array that a function makes needs its extents, as in shape=(4, 6)")
        return partial(_computed, source), _extents(shape)
    given = source if hasattr(source, "shape") else to_array("source", source)
    extents = tuple(given.shape)
    if shape is not None and _extents(shape) != extents:
        raise ArgumentError.of("TIL701", f"the source is of shape {list(extents)}, not of {list(shape)}")
    return lambda box: given[tuple(slice(*interval) for interval in box)], extents


def _extents(shape: Any) -> tuple[int, ...]:
    """Return the extents of an array.

    Raises:
        ArgumentError: TIL707, they are not extents.
    """
    try:
        found = tuple(index(size) for size in shape)
    except TypeError:
        found = (-1,)
    if min(found, default=0) < 0:
        raise ArgumentError.of("TIL707", f"shape={shape!r:.80} are no extents; write one for each axis, as in (4, 6)")
    return found


def _computed(function: Callable[..., Any], box: Box) -> Array:
    indices = [
        np.arange(low, high).reshape([-1 if axis == number else 1 for axis in range(len(box))])
        for number, (low, high) in enumerate(box)
    ]
    found = to_array("source", function(*indices))
    try:
        return np.broadcast_to(found, sizes_of(box))
    except ValueError:
        return found  # which is refused like others
