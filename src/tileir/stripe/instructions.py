"""Instructions of a device that blocks stand for, beside their meaning; and the words by which text says so.

The blocks mean the same without, and that is how devices run them that have no such instruction.
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
    """A product of matrices by the fragment of that name: :class:`Index.role` says what its indices move along."""

    form: ClassVar[str] = "{fragment}"
    fragment: str


@attrs.frozen(cache_hash=True, repr=False)
class Pipeline(Node):
    """A loop that runs its blocks with :class:`Copy`, which come first, ``stages - 1`` iterations ahead.

    Each iteration has its own local memory, which the block allocates; ``stages`` of them do at a time. Where so many
    ``groups`` are asked for, no more than that run: each takes several points of the grid in turn, and its copies run
    ahead into the next point. With ``registers``, devices that can ask for copies by one thread have a warp of its own
    do so: these are how many its threads have, and those of all others. The latter go on in ``teams`` of as many
    threads, which hand each other nothing. So many neighbours along the last index of the grid may be a ``cluster``,
    whose groups copy boxes together that do not depend on it.
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

    Where its sizes are said, the block copies a box of a dense tensor, ``box[i]`` of ``extents[i]`` elements along axis
    i, which are ``strides[i]`` apart: every one or, with ``steps``, every ``steps[i]``-th one. They lie along axis i of
    what the block sees or, with ``axes``, axis ``axes[i]``, which may stand for several: see :meth:`places`. Its tests
    are that a place is in the tensor, and zeros are written for others. One thread can ask for all of it on some
    devices.
    """

    form: ClassVar[str] = "{box} of {extents} by {strides}[ every {steps}][ along {axes}]"
    box: tuple[int, ...] = ()
    extents: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    axes: tuple[int, ...] = ()

    @property
    def along(self) -> tuple[int, ...]:
        """The axis of what the block sees for each axis of the box."""
        return self.axes or tuple(range(len(self.box)))

    @property
    def every(self) -> tuple[int, ...]:
        """The steps along all axes."""
        return self.steps or (1,) * len(self.box)

    def places(self, access: Sequence[Affine], strides: Sequence[int]) -> list[Affine]:
        """Return the place along each axis of the tensor, for one along each axis of what the block sees.

        Where one of these stands for several of the tensor, a term moves along the first one, of those far apart first,
        that has it as a multiple.
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
    """Copies a box of local memory to a dense tensor, of which sizes say what those of a :class:`Copy` say.

    Its tests are that a place is in the tensor. One thread can ask for all of it on some devices, and go on meanwhile.
    """


@attrs.frozen(cache_hash=True, repr=False)
class Repair(Node):
    """A block that writes again what is there, unless an instruction before took terms in that constraints leave out.

    Those terms are zeros times something, so they make a difference only where that is no finite number: the sum is
    none then. A device runs the block where what it is going to write holds such a sum.
    """


Instruction: TypeAlias = Product | Pipeline | Copy | CopyBack | Repair

PRODUCT: Final = "multiply"
PIPELINE: Final = "pipeline"
COPY: Final = "copy"
COPY_BACK: Final = "copy_back"
REPAIR: Final = "repair"

INSTRUCTIONS: Final = (PRODUCT, PIPELINE, COPY_BACK, REPAIR)
"""Words by which text says what instruction a block is; blocks have none of them as tags.

In a pipeline there is :data:`COPY`, too; elsewhere that is a tag.
"""


class RoleKind(enum.Enum):
    """Axis of a product that an index moves along; the value is the word of text."""

    LANE = "lane"
    """The threads that run a fragment together, from a bit of their number on."""

    ELEMENT = "element"
    """What a thread holds of a fragment, from a bit of its number on."""

    TILE_HIGH = "tile_high"
    """Fragments of rows, of a second index of rows."""

    TILE_ROW = "tile_row"
    """Fragments of rows."""

    TILE_COLUMN = "tile_column"
    """Fragments of columns."""

    DEPTH = "depth"
    """What is summed up."""

    __hash__ = object.__hash__

    @property
    def has_bits(self) -> bool:
        """True if a bit belongs to it."""
        return self in (RoleKind.LANE, RoleKind.ELEMENT)


@attrs.frozen(cache_hash=True, repr=False)
class Role(Node):
    """Role of an index in a product; ``bit`` is 0 where none belongs to it."""

    kind: RoleKind
    bit: int = 0


def role_words(role: Role) -> dict[str, TagValue]:
    """Return the word of text for a role, with its value."""
    return {role.kind.value: role.bit if role.kind.has_bits else None}


def role_of(tags: Tags) -> tuple[Role | None, Tags]:
    """Return the role that a word among the ``tags`` of an index of a product stands for, and the other tags."""
    for kind in RoleKind:
        if kind.value in tags:
            bit = tags.get(kind.value)
            if kind.has_bits and isinstance(bit, int) and not isinstance(bit, bool):
                return Role(kind, bit), tags.remove(kind.value)
            if not kind.has_bits and bit is None:
                return Role(kind), tags.remove(kind.value)
    return None, tags


def instruction_faults(block: Block, around: Block | None) -> Iterator[str]:
    """Yield what is wrong with the instruction of a block in another one, and with the roles of its indices."""
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
