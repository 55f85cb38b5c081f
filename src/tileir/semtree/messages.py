"""Channels, and copies of boxes of tensors, which are their messages; :mod:`tileir.semtree.ir` holds these names."""

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
    """Take a step of a channel: a queue of messages, each of which is some copies that a group makes to local memory.

    ``channel`` is the first element of a local array of u64 that nothing else touches, two for each message that may
    be under way. Each thread takes steps of its own, in the order of the messages; :class:`ChannelStep` tells which.
    """

    form: ClassVar[str] = "channel {step} {channel}"
    step: ChannelStep
    channel: Subscript = attrs.field(metadata=_PLACE)


@attrs.frozen(cache_hash=True, repr=False)
class BulkCopy(Collective, Deferred):
    """Begin to copy a box of a tensor to a local array, for the next message of a channel; the group does so once.

    The tensor lies in a parameter from ``source`` on: axis i has ``extents[i]`` elements that are ``strides[i]`` apart,
    1 at the last one. The box has ``box[i]`` of them, from ``at[i]`` on, which may be below 0 and beyond the end: what
    is not in the tensor is zero. They are every one along axis i or, with ``steps``, every ``steps[i]``-th one. Row by
    row, they go to neighbours from ``target`` on, which are moved as those of a :class:`MatrixOperand` are by
    ``shift``, ``mask`` and ``fold``. They are undefined until the message is received.

    Where ``scope`` is the cluster, all groups of it ask for the same box. Each copies an equal part, which
    :func:`tileir.semtree.clusters.part_of` tells, to the local arrays of all of them. The channel is that of the
    cluster then: a group receives a message when all groups have sent it and their copies have arrived, and acquires a
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
    """Begin to copy a box of a local array to a tensor; the group does so once.

    The tensor, the box, and how this lies in the local array from ``source`` on are said as in a :class:`BulkCopy`. The
    tensor lies in a parameter from ``target`` on, to which a kernel writes by nothing else. What is not in the tensor
    is not written. The local array may be written again behind a :class:`BulkWait` and a barrier, and the tensor is
    there when the kernel ends.
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
        """The steps along all axes: none is left out."""
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

    One of its threads does so, and the others know of it behind the next barrier.
    """

    form: ClassVar[str] = "bulk_wait({pending})"
    rules: ClassVar = (Rule(at_least("pending", 0), "so many stores of boxes cannot be pending: {pending}", "TIL551"),)
    pending: int = 0
