"""Results of contractions: declared first, or made by the contraction itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, TypedDict, Unpack

from tileir.core import Aggregation, call_site
from tileir.tile.building.contractions import CombinedElements, combined_of, write
from tileir.tile.building.indices import Dim, Polynomial, polynomial_of, size_of
from tileir.tile.building.recording import Recorder, Target, mistake
from tileir.tile.building.tensors import Tensor, value_of

Indices: TypeAlias = "Sequence[Polynomial | Dim | int]"
Sizes: TypeAlias = "Sequence[Dim | int]"


class ContractionOptions(TypedDict, total=False):
    """Options of a contraction besides its indices and sizes; see :meth:`FunctionBuilder.tensor`."""

    name: str | None
    default: Tensor | None
    no_defract: bool


def declared(recorder: Recorder, sizes: Sizes, default: Tensor | None = None, no_defract: bool = False) -> Target:
    """Return the declaration of the result of a contraction.

    Raises:
        TileError: Something is no size, or the default is no tensor of as many axes.
    """
    recorder.check_open()
    exprs = tuple(size_of(recorder, size) for size in sizes)
    if default is None:
        return Target(exprs, None, no_defract, call_site())
    if not isinstance(default, Tensor):
        raise mistake("TIL205", "a default is a tensor of the same sizes")
    value_of(recorder, default)
    rank = recorder.ranks.get(default.reference, len(exprs))
    if rank != len(exprs):
        raise mistake("TIL209", f"the default has rank {rank}, but there are {len(exprs)} sizes")
    return Target(exprs, default.reference, no_defract, call_site())


def contraction(
    recorder: Recorder,
    aggregation: Aggregation,
    value: CombinedElements,
    indices: Indices,
    sizes: Sizes,
    **options: Unpack[ContractionOptions],
) -> Tensor:
    """Aggregate ``value`` into a new tensor of the given sizes, at the given output indices.

    Raises:
        TileError: A mistake of a single contraction.
    """
    name = options.get("name")
    target = declared(recorder, sizes, options.get("default"), options.get("no_defract", False))
    combined = combined_of(recorder, value)
    exprs = tuple(polynomial_of(recorder, index).expr for index in indices)
    if len(exprs) != len(target.sizes):
        raise mistake("TIL208", f"there are {len(exprs)} indices but {len(target.sizes)} sizes")
    if name is not None:
        recorder.claim(name)
    return Tensor(recorder, write(recorder, name, target, exprs, aggregation, combined))
