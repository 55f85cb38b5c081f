"""Transport of one rank: NCCL messages and merges in the stream of the rank's kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs
import numpy as np
from nccl.bindings import nccl

from tileir import to_device
from tileir.core import Aggregation
from tileir.runtime.devices.array import DeviceArray
from tileir.runtime.transports import Merge, Message, Transport, told
from tileir_nccl.cards import Card, address

_BYTES: Final = nccl.DataType.Uint8

_TYPES: Final = {
    "int8": nccl.DataType.Int8,
    "int32": nccl.DataType.Int32,
    "int64": nccl.DataType.Int64,
    "uint8": nccl.DataType.Uint8,
    "uint32": nccl.DataType.Uint32,
    "uint64": nccl.DataType.Uint64,
    "float16": nccl.DataType.Float16,
    "bfloat16": nccl.DataType.Bfloat16,
    "float32": nccl.DataType.Float32,
    "float64": nccl.DataType.Float64,
}
_OPERATIONS: Final = {
    Aggregation.SUM: nccl.RedOp.Sum,
    Aggregation.PROD: nccl.RedOp.Prod,
    Aggregation.MAX: nccl.RedOp.Max,
    Aggregation.MIN: nccl.RedOp.Min,
}


def native(how: Aggregation, dtype: np.dtype[Any], *, ordered: bool) -> tuple[int, int] | None:
    """Return type and operation by which NCCL merges correctly; None if it does not.

    It has no 16-bit integers, and its extrema of floats lose NaN. Floats are added in its own order, which is unique
    for two summands.
    """
    if how not in _OPERATIONS:
        return None
    adds = how in {Aggregation.SUM, Aggregation.PROD}
    if dtype == np.bool_:  # 0 and 1: a sum is true if any is, a product if all are
        some = how in {Aggregation.SUM, Aggregation.MAX}
        return int(_BYTES), int(nccl.RedOp.Max if some else nccl.RedOp.Min)
    if dtype.name not in _TYPES or (dtype.kind not in "iu" and (ordered or not adds)):
        return None
    return int(_TYPES[dtype.name]), int(_OPERATIONS[how])


@attrs.define(eq=False, slots=False)
class NCCLTransport(Transport):
    """Rank with a card. Its methods do not wait for the work that they put into the card's stream."""

    card: Card
    ordered: bool
    records = True

    def __attrs_post_init__(self) -> None:
        self.rank, self.size, self.device = self.card.meeting.rank, self.card.meeting.size, self.card.device
        self.turn, self.alike = self.card.meeting.turn, self.card.alike

    @property
    def agreed(self) -> frozenset[str]:
        """Texts of the programs that all ranks are known to run, in this call or an earlier one."""
        return self.card.agreed.get(self.turn, frozenset())

    @agreed.setter
    def agreed(self, texts: frozenset[str]) -> None:
        self.card.agreed = {self.turn: texts}

    def exchange(self, sent: Sequence[Message], received: Sequence[Message]) -> None:
        """Send and receive all messages at once; host messages are waited for."""
        outgoing = [(rank, self._there(array)) for rank, array in sent if array.nbytes]
        incoming = [(rank, array, self._there(array)) for rank, array in received if array.nbytes]
        if not outgoing and not incoming:
            return
        self._enter()
        communicator, _ = self.card.communicator(range(self.size))
        rooms = [room for _, _, room in incoming]
        with self.card.enqueued([array for _, array in outgoing], rooms) as stream:
            nccl.group_start()
            for rank, array in outgoing:
                nccl.send(address(array), array.nbytes, int(_BYTES), rank, communicator, stream)
            for rank, _, room in incoming:
                nccl.recv(address(room), room.nbytes, int(_BYTES), rank, communicator, stream)
            nccl.group_end()
        for _, array, room in incoming:
            if isinstance(array, np.ndarray):
                array.reshape(-1).view(np.uint8)[...] = room.numpy()
        self.card.meeting.check(())

    def merged(self, merges: Sequence[Merge], group: Sequence[int]) -> bool:
        """Merge integers, and sums and products of floats unless they are ordered, in one call of the card."""
        ordered = self.ordered and len(group) > 2
        kinds = [native(each.how, each.result.dtype, ordered=ordered) for each in merges]
        if None in kinds:
            return False
        full = [(kind, each) for kind, each in zip(kinds, merges, strict=True) if any(p.nbytes for p in each.parts)]
        if not full:
            return True
        self._enter()
        communicator, ranks = self.card.communicator(group)
        read = [part for _, each in full for part in each.parts if part.nbytes]
        with self.card.enqueued(read, [each.result for _, each in full]) as stream:
            nccl.group_start()
            for kind, (parts, result, _) in full:
                assert kind is not None
                if len(parts) == 1:
                    nccl.all_reduce(address(parts[0]), address(result), result.size, *kind, communicator, stream)
                    continue
                for rank, part in zip(group, parts, strict=True):
                    if part.nbytes:
                        root = ranks.index(rank)
                        nccl.reduce(address(part), address(result), part.size, *kind, root, communicator, stream)
            nccl.group_end()
        return True

    def check(self) -> None:
        """Raise if another rank failed in the turn of this transport, or was late."""
        self.card.meeting.check((), self.turn)

    def hand_over_again(self) -> None:
        """Count the collectives of replayed work as one."""
        self.place = "recorded work"
        self._enter()
        self.card.hand_over_again()

    def abort(self, error: BaseException) -> None:
        """Notify the others, which raise the error when they next wait, including those that wait on their cards."""
        self.card.meeting.fail(told(error))

    def _enter(self) -> None:
        self.card.meeting.place = self.place

    def _there(self, array: Any) -> DeviceArray:
        """Return an array on the card: itself, or the bytes of one of the host."""
        if isinstance(array, DeviceArray):
            return array
        return to_device(np.ascontiguousarray(array).reshape(-1).view(np.uint8), self.device)
