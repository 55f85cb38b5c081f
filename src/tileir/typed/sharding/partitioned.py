"""Partitioned programs: a typed function with collectives, and for each value which part of it each rank computes.

The function is one for all ranks, and about whole tensors: a collective is its operand to it, so that without its mesh
it means what it did before. Each rank runs its part of each operation, in the order of the function, and so all ranks
meet in the collectives in one order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.core import ShownProgram, VerifyError, attrs
from tileir.core.errors import Diagnostic
from tileir.poly.affine import Affine
from tileir.typed.ir import Collective, Function
from tileir.typed.sharding.exchanges import kind_of
from tileir.typed.sharding.mesh import Mesh
from tileir.typed.sharding.splits import Split
from tileir.typed.verifier import check_function

if TYPE_CHECKING:
    from collections.abc import Iterator

    import networkx as nx

    from tileir.core import HardwareModel
    from tileir.typed.sharding.explanation import Exchange
    from tileir.typed.sharding.splits import Layout

PART, LOCAL, MERGED = "_part", "_local", "_merged"
"""Suffixes of operations whose result becomes a value by a collective: a part to merge, a value as first made, and
one of merged parts."""


@attrs.frozen(cache_hash=True)
class Share:
    """Terms of an aggregate that each rank takes: those at which a polynomial has a value among its places.

    The polynomial is one of the indices of a contraction. Elsewhere it is ``d0`` for the first axis of the indices of a
    scatter, or for the first axis of what a tuple reduction reads, and so on.
    """

    polynomial: Affine
    split: Split


@attrs.frozen(cache_hash=True)
class Placement:
    """Part of a value that each rank has.

    Attributes:
        layout: Its places on each axis.
        shares: Terms that it has merged; none where its elements are complete.

    """

    layout: tuple[Split, ...]
    shares: tuple[Share, ...] = ()

    @property
    def partial(self) -> tuple[str, ...]:
        """The axes of the mesh along which ranks have parts of an aggregate."""
        return tuple(name for share in self.shares for name in share.split.axes)


@attrs.frozen(cache_hash=True)
class Remark:
    """Sentence about a value of which ranks have more than a part."""

    value: str
    message: str


@attrs.frozen(cache_hash=True, repr=False)
class Partitioned(ShownProgram):
    """A program whose values are spread over the ranks of a mesh.

    Attributes:
        function: The program, with collectives.
        mesh: The ranks.
        placements: The part of each value that each rank has: of inputs, then of operations, in their order.
        remarks: Descriptions of what could not be spread; two programs may differ in them.

    """

    function: Function
    mesh: Mesh
    placements: tuple[tuple[str, Placement], ...]
    remarks: tuple[Remark, ...] = attrs.field(default=(), eq=False)

    def __str__(self) -> str:
        """Return the text."""
        from tileir.typed.sharding.text import to_text  # it imports this

        return to_text(self)

    def graph(self) -> nx.DiGraph[str]:
        """Return the graph of the function, in which collectives are nodes."""
        return self.function.graph()

    def summary(self) -> str:
        """Return the mesh, and how many operations and collectives there are."""
        return f"{self.function.summary()} on {self.mesh}, {len(self.collectives)} collectives"

    @property
    def collectives(self) -> tuple[Collective, ...]:
        """The collectives in the order in which all ranks meet in them."""
        return tuple(each for each in self.function.operations if isinstance(each, Collective))

    def exchanges(self, model: HardwareModel | None = None) -> tuple[Exchange, ...]:
        """Return the collectives with the cause, the bytes and the price of each, by the links of a hardware model."""
        from tileir.typed.sharding.explanation import exchanges  # it imports this

        return exchanges(self, model)

    def layout(self, name: str) -> Layout:
        """Return which places each rank has of a value."""
        return dict(self.placements)[name].layout


def verify(program: Partitioned) -> None:
    """Check the rules of a partitioned program.

    Raises:
        VerifyError: TIL531 for what is wrong with the function, TIL533 for what is wrong with its parts.

    """
    faults = tuple(check_function(program.function)) or tuple(_faults(program))
    if faults:
        raise VerifyError(faults)


def _faults(program: Partitioned) -> Iterator[Diagnostic]:
    definitions = (*program.function.inputs, *program.function.operations)
    if [name for name, _ in program.placements] != [each.name for each in definitions]:
        message = "a partitioned program needs one placement for each value, in the order of their definitions"
        yield Diagnostic("TIL533", message)
        return
    placements = dict(program.placements)
    for each in definitions:
        placement = placements[each.name]
        layouts = [placement.layout, tuple(share.split for share in placement.shares)]
        if isinstance(each, Collective):
            layouts += [each.source, each.target]
            if placement.layout != each.target:
                yield _fault(each.name, "is laid out otherwise than its collective says")
            kind = each.kind if each.kind.merges else kind_of(each.source, each.target)
            if each.kind is not kind:
                yield _fault(each.name, f"is called {each.kind.value}, and is {kind.value}")
            for name in each.inputs:
                if placements[name].layout != each.source:
                    yield _fault(each.name, f"expects {name!r} to be laid out otherwise")
        for message in _wrong_splits([split for layout in layouts for split in layout], program.mesh):
            yield _fault(each.name, message)
        if len(placement.layout) != len(each.shape):
            yield _fault(each.name, f"has a placement with {len(placement.layout)} splits and {len(each.shape)} axes")
            continue
        for split, size in zip(placement.layout, each.shape, strict=True):
            if any(not 0 <= low <= high <= size for low, high in split.intervals):
                yield _fault(each.name, f"has places {split} on an axis of size {size}")
    for name in program.function.outputs:
        if placements[name].shares:
            yield _fault(name, "is a result, and ranks have parts of an aggregate of it")


def _wrong_splits(splits: list[Split], mesh: Mesh) -> Iterator[str]:
    sizes = dict(mesh.axes)
    for split in splits:
        strange = [name for name in split.axes if name not in sizes]
        if strange:
            yield f"is cut along {strange[0]!r}, which the mesh {mesh} does not have"
        elif len(split.intervals) != mesh.extent(split.axes):
            yield f"has {len(split.intervals)} intervals for {mesh.extent(split.axes)} ranks"


def _fault(name: str, message: str) -> Diagnostic:
    return Diagnostic("TIL533", f"{name!r} {message}")
