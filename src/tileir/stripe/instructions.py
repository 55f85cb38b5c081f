"""Device instructions that blocks map to, and their words in text.

Blocks have the same meaning without them, and devices that lack an instruction run the block itself.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from tileir.core.fragments import FRAGMENTS
from tileir.core.nodes import attrs
from tileir.poly.affine import Affine
from tileir.stripe.shapes import Node

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tileir.stripe.blocks import Block, Index
    from tileir.stripe.tags import Tags, TagValue


@attrs.frozen(cache_hash=True, repr=False)
class Product(Node):
    """A matrix product by the named fragment; :class:`Index.role` gives the roles of its indices."""

    form: ClassVar[str] = "{fragment}"
    fragment: str


@attrs.frozen(cache_hash=True, repr=False)
class Pipeline(Node):
    """A loop that runs its blocks with :class:`Copy`, which come first, ``stages - 1`` iterations ahead.

    Each iteration has its own local memory, which the block allocates; ``stages`` copies of it suffice. With
    ``groups``, only this number of groups runs: each takes several points of the grid in turn, and its copies run ahead
    into the next point. With ``registers``, on devices where one thread can request copies, a separate warp does so:
    these are the numbers of registers of its threads, and of all others. The latter run in ``teams`` of equally many
    threads, which exchange nothing. ``cluster`` neighbours along the last index of the grid may form a cluster, whose
    groups share copies of boxes that do not depend on it.
    """

    form: ClassVar[str] = (
        "{stages}[ in {groups} groups][ of {teams} teams][ in clusters of {cluster}][ with {registers} registers]"
    )
    stages: int
    groups: int = 0
    registers: tuple[int, ...] = ()
    teams: int = 1
    cluster: int = 1


@attrs.frozen(cache_hash=True, repr=False)
class Copy(Node):
    """Copies ahead, in a block with :class:`Pipeline`.

    If sizes are given, the block copies a box of a dense tensor, ``box[i]`` of ``extents[i]`` elements along axis i,
    with stride ``strides[i]``: all or, with ``steps``, every ``steps[i]``-th one. They are along axis i of the block's
    view or, with ``axes``, along axis ``axes[i]``, which may combine several: see :meth:`places`. Its tests are that a
    place is in the tensor, and zeros are written for others. On some devices one thread can request the whole copy.
    """

    form: ClassVar[str] = "{box} of {extents} by {strides}[ every {steps}][ along {axes}]"
    box: tuple[int, ...] = ()
    extents: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    axes: tuple[int, ...] = ()

    @property
    def along(self) -> tuple[int, ...]:
        """The axis of the block's view for each axis of the box."""
        return self.axes or tuple(range(len(self.box)))

    @property
    def every(self) -> tuple[int, ...]:
        """The steps along all axes."""
        return self.steps or (1,) * len(self.box)

    def places(self, access: Sequence[Affine], strides: Sequence[int]) -> list[Affine]:
        """Return the place along each axis of the tensor, for one along each axis of the block's view.

        If a view axis combines several tensor axes, a term moves along the first of these, largest strides first, whose
        stride divides it.
        """
        result = [Affine()] * len(self.box)
        for number in dict.fromkeys(self.along):
            own = sorted((i for i, each in enumerate(self.along) if each == number), key=lambda i: -self.strides[i])
            apart = [max(1, self.strides[i] // max(1, strides[number])) for i in own]
            if len(own) == 1:
                result[own[0]] = access[number] / apart[0]
                continue
            rest = access[number].offset
            for i, step in zip(own, apart, strict=True):
                digit, rest = divmod(rest, step)
                result[i] = result[i] + digit
            for name, move in access[number].terms:
                i, step = next(
                    (each for each in zip(own, apart, strict=True) if move % each[1] == 0), (own[-1], apart[-1])
                )
                result[i] = result[i] + Affine.of({name: move}) / step
        return result


@attrs.frozen(cache_hash=True, repr=False)
class CopyBack(Copy):
    """A copy of a box of local memory to a dense tensor, with sizes as in :class:`Copy`.

    Its tests are that a place is in the tensor. On some devices one thread can request the whole copy, asynchronously.
    """


@attrs.frozen(cache_hash=True, repr=False)
class Repair(Node):
    """A block that recomputes results, in case an earlier instruction included terms that constraints exclude.

    Those terms are zeros times something, so they matter only for infinity and NaN: the sum is NaN then. A device runs
    the block if its targets hold a sum like that.
    """


Instruction: TypeAlias = Product | Pipeline | Copy | CopyBack | Repair

PRODUCT: Final = "multiply"
PIPELINE: Final = "pipeline"
COPY: Final = "copy"
COPY_BACK: Final = "copy_back"
REPAIR: Final = "repair"

INSTRUCTIONS: Final = (PRODUCT, PIPELINE, COPY_BACK, REPAIR)
"""Words of text for instructions of blocks; blocks have none of them as tags.

In a pipeline, :data:`COPY` is one, too; elsewhere it is a tag.
"""


class RoleKind(enum.Enum):
    """Axis of a product along which an index moves; the value is the word of text."""

    LANE = "lane"
    """The threads that run a fragment together, from a bit of their number on."""

    ELEMENT = "element"
    """A thread's elements of a fragment, from a bit of their number on."""

    TILE_HIGH = "tile_high"
    """Fragments of rows, of a second index of rows."""

    TILE_ROW = "tile_row"
    """Fragments of rows."""

    TILE_COLUMN = "tile_column"
    """Fragments of columns."""

    DEPTH = "depth"
    """The summed axis."""

    __hash__ = object.__hash__

    @property
    def has_bits(self) -> bool:
        """True if the role has a bit."""
        return self in (RoleKind.LANE, RoleKind.ELEMENT)


@attrs.frozen(cache_hash=True, repr=False)
class Role(Node):
    """Role of an index in a product; ``bit`` is 0 if it has none."""

    kind: RoleKind
    bit: int = 0


def role_words(role: Role) -> dict[str, TagValue]:
    """Return the word of text for a role, with its value."""
    return {role.kind.value: role.bit if role.kind.has_bits else None}


def role_of(tags: Tags) -> tuple[Role | None, Tags]:
    """Return the role given by a word among the ``tags`` of an index of a product, and the other tags."""
    for kind in RoleKind:
        if kind.value in tags:
            bit = tags.get(kind.value)
            if kind.has_bits and isinstance(bit, int) and not isinstance(bit, bool):
                return Role(kind, bit), tags.remove(kind.value)
            if not kind.has_bits and bit is None:
                return Role(kind), tags.remove(kind.value)
    return None, tags


def instruction_faults(block: Block, around: Block | None) -> Iterator[str]:
    """Yield the faults of the instruction of a block in its parent, and of the roles of its indices."""
    copies = around is not None and isinstance(around.instruction, Pipeline)
    for word in (name for name, _ in block.tags.items if name in INSTRUCTIONS or (copies and name == COPY)):
        yield f"a block must not have the tag {word}: say instruction={_CLASSES[word]} instead"
    match block.instruction:
        case Product(fragment=name):
            if name not in FRAGMENTS:
                yield f"there is no fragment {name!r} to multiply matrices by"
            yield from _role_faults(block.indices)
            return
        case Pipeline(stages=stages) if stages < 2:
            yield f"a pipeline has two stages at least, not {stages}"
        case Pipeline(groups=groups) if groups < 0:
            yield f"a pipeline has no fewer groups than none, not {groups}"
        case Pipeline(registers=registers, teams=teams) if teams < 1 or (teams > 1 and not registers):
            yield f"a pipeline has teams where a warp of its own copies, and not {teams} of them"
        case Pipeline(registers=registers) if len(registers) not in (0, 2):
            yield f"a pipeline says registers of threads that copy and of others, and not {len(registers)} numbers"
        case Pipeline(cluster=cluster) if cluster < 1:
            yield f"a cluster has one group at least, not {cluster}"
        case Copy() if not copies and not isinstance(block.instruction, CopyBack):
            yield "a block that copies ahead stands in a block with a pipeline"
        case Copy(box=box, extents=extents, strides=strides) as copy:
            sizes = (box, extents, strides, copy.every)
            if {len(each) for each in (*sizes, copy.along)} != {len(box)} or min(sum(sizes, ()), default=1) < 1:
                yield "a copy of a box has as many sizes, extents, strides and steps, none below 1, and as many axes"
    for index in block.indices:
        if index.role is not None:
            yield f"index {index.name!r} has a role, but the block is no product of matrices"


def _role_faults(indices: Sequence[Index]) -> Iterator[str]:
    roles = [index.role for index in indices if index.role is not None]
    for role in dict.fromkeys(role for role in roles if roles.count(role) > 1):
        yield f"several indices have the role {role.kind.value}, and from the same bit on"
    words = {kind.value for kind in RoleKind}
    for index in indices:
        for word in (name for name, _ in index.tags.items if name in words):
            yield f"index {index.name!r} of a product must not have the tag {word}: say role=Role(…) instead"


_CLASSES: Final = {
    PRODUCT: "Product(…)",
    PIPELINE: "Pipeline(…)",
    COPY: "Copy()",
    COPY_BACK: "CopyBack(…)",
    REPAIR: "Repair()",
}
