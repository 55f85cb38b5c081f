"""Running aggregates over the lanes of a vector: what a serial block does lane after lane, in a few steps for all.

Each step merges lanes with those a power of two before them, as in Hillis and Steele, "Data parallel algorithms"
(1986): ``log2(lanes)`` steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.core.errors import fail
from tileir.core.ops import Op
from tileir.semtree import ir as sem
from tileir.stripe.blocks import Binding

if TYPE_CHECKING:
    from tileir.core.ops import Aggregation
    from tileir.core.text.names import NameScope
    from tileir.stripe.ir import Block


@attrs.define
class RunningLanes:
    """The elements that all lanes of one serial block merge into, lane after lane."""

    block: str
    lanes: int
    names: NameScope
    _values: dict[sem.Expr, sem.Var] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, block: Block, lanes: int, names: NameScope) -> RunningLanes | None:
        """Return those of a block; None where its points are unordered, or it has no lanes.

        Raises:
            TileError: TIL502, lanes are not the innermost index of a serial block.
        """
        if lanes == 1 or not block.is_serial:
            return None
        last = block.indices[-1]
        if last.binding is not Binding.LANE or not last.serial:
            message = f"the points of block {block.name or '(unnamed)'} run in order: its last index must be its lanes"
            raise fail("TIL502", f"{message}, which are serial and vector")
        return cls(block.name, lanes, names)

    def merge(
        self, element: sem.Var | sem.Subscript, aggregation: Aggregation, op: Op, value: sem.Expr
    ) -> list[sem.Stmt]:
        """Return statements that merge the lanes of ``value`` into a scalar ``element``, lane 0 first."""
        neutral = aggregation.identity(element.type.dtype)
        # -0.0 changes no number at all, while 0.0 would make 0.0 of -0.0.
        identity = sem.Const.of(-0.0 if op is Op.ADD and value.type.dtype.is_float else neutral, value.type)
        result: list[sem.Stmt] = []
        lanes = self._declared("lanes", value, result)
        distance = 1
        while distance < self.lanes:
            before = sem.Shuffle((identity, lanes), tuple(self._before(lane, distance) for lane in range(self.lanes)))
            lanes = self._declared("lanes", sem.Apply(op, (before, lanes)), result)
            distance *= 2
        running = sem.Apply(op, (sem.Broadcast(element, self.lanes), lanes))
        self._values[element] = self._declared("running", running, result)
        last = sem.Shuffle((lanes,), (self.lanes - 1,))
        result.append(sem.Assign(element, sem.Apply(op, (element, last))))
        return result

    def _before(self, lane: int, distance: int) -> int:
        """Return which lane of identity and value, side by side, is ``distance`` before ``lane``."""
        return 0 if lane < distance else self.lanes + lane - distance

    def _declared(self, stem: str, value: sem.Expr, result: list[sem.Stmt]) -> sem.Var:
        variable = sem.Var(self.names.fresh(stem), value.type)
        result.append(sem.Declare(variable, value))
        return variable

    def found_in(self, element: sem.Var | sem.Subscript) -> sem.Var | sem.Subscript:
        """Return what each lane finds in an element: where lanes before it have merged, what they made of it."""
        return self._values.get(element, element)
