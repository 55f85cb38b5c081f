"""Channels, and copies of boxes of tensors, which are their messages; re-exported by :mod:`tileir.semtree.ir`."""

from __future__ import annotations

from typing import ClassVar, Final

from tileir.core import OPERANDS, Role, attrs, role
from tileir.core.nodes.rules import Rule, at_least
from tileir.semtree.expressions import Expr, Subscript
from tileir.semtree.kinds import ChannelStep, Collective, Deferred, Scope

_READ: Final = role(Role.OPERAND, Subscript)
_WRITTEN: Final = role(Role.TARGET, Subscript)
_PLACE: Final = role(Role.PLACE, Subscript)


@attrs.frozen(cache_hash=True, repr=False)
class Channel(Collective):
    """Take a step of a channel: a queue of messages, each of which is a set of a group's copies to local memory.

    ``channel`` is the first element of a local array of u64 that nothing else uses, two for each message that may
    be under way. Each thread takes its own steps, in the order of the messages, as :class:`ChannelStep` describes.
    """

    form: ClassVar[str] = "channel {step} {channel}"
    step: ChannelStep
    channel: Subscript = attrs.field(metadata=_PLACE)


@attrs.frozen(cache_hash=True, repr=False)
class BulkCopy(Collective, Deferred):
    """Begin to copy a box of a tensor to a local array, once for the group, as part of the next message of a channel.

    The tensor is in a parameter from ``source`` on: axis i has ``extents[i]`` elements with stride ``strides[i]``, 1
    for the last one. The box has ``box[i]`` elements, from ``at[i]`` on, which may be below 0 and beyond the end:
    elements outside the tensor are zero. With ``steps`` the box takes every ``steps[i]``-th element along axis i. Row
    by row, its elements go to contiguous places from ``target`` on, moved by ``shift``, ``mask`` and ``fold`` as in a
    :class:`MatrixOperand`. They are undefined until the message is received.

    If ``scope`` is the cluster, all its groups request the same box. Each copies an equal part
    (:func:`tileir.semtree.clusters.part_of`) to the local arrays of all of them. The channel then belongs to the
    cluster: a group receives a message when all groups have sent it and their copies have arrived, and acquires a
    place when the threads of all groups have released it.
    """

    form: ClassVar[str] = (
        "bulk_copy {channel} {target} = {source} box({box}) of({extents}) by({strides}) at({at})"
        "[ every({steps})][ swizzle({shift}, {mask})][ fold({fold})][ to {scope}]"
    )
    channel: Subscript = attrs.field(metadata=_PLACE)
    target: Subscript = attrs.field(metadata=_WRITTEN)
    source: Subscript = attrs.field(metadata=_READ)
    box: tuple[int, ...]
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    at: tuple[Expr, ...] = attrs.field(metadata=OPERANDS)
    shift: int = 0
    mask: int = 0
    fold: tuple[int, int, int] = (0, 0, 0)
    steps: tuple[int, ...] = ()
    scope: Scope = Scope.GROUP

    @property
    def every(self) -> tuple[int, ...]:
        """The steps along all axes."""
        return self.steps or (1,) * len(self.box)

    @property
    def tensor(self) -> Subscript:
        """The first element of the tensor."""
        return self.source

    @property
    def local(self) -> Subscript:
        """The first element of the box in the local array."""
        return self.target


@attrs.frozen(cache_hash=True, repr=False)
class BulkStore(Collective, Deferred):
    """Begin to copy a box of a local array to a tensor, once for the group.

    The tensor, the box, and its layout in the local array from ``source`` on are described as in a :class:`BulkCopy`.
    The tensor is in a parameter from ``target`` on, to which the kernel writes by nothing else. Elements outside the
    tensor are not written. The local array may be written again after a :class:`BulkWait` and a barrier, and the tensor
    is complete when the kernel ends.
    """

    form: ClassVar[str] = (
        "bulk_store {target} = {source} box({box}) of({extents}) by({strides}) at({at})"
        "[ swizzle({shift}, {mask})][ fold({fold})]"
    )
    target: Subscript = attrs.field(metadata=_WRITTEN)
    source: Subscript = attrs.field(metadata=_READ)
    box: tuple[int, ...]
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    at: tuple[Expr, ...] = attrs.field(metadata=OPERANDS)
    shift: int = 0
    mask: int = 0
    fold: tuple[int, int, int] = (0, 0, 0)

    @property
    def every(self) -> tuple[int, ...]:
        """The steps along all axes, which are 1."""
        return (1,) * len(self.box)

    @property
    def tensor(self) -> Subscript:
        """The first element of the tensor."""
        return self.target

    @property
    def local(self) -> Subscript:
        """The first element of the box in the local array."""
        return self.source


@attrs.frozen(cache_hash=True, repr=False)
class BulkWait(Collective):
    """Wait until all but the last ``pending`` bulk stores of the group have read their local arrays.

    One of its threads does so, and the others know of it after the next barrier.
    """

    form: ClassVar[str] = "bulk_wait({pending})"
    rules: ClassVar = (Rule(at_least("pending", 0), "so many stores of boxes cannot be pending: {pending}", "TIL551"),)
    pending: int = 0
