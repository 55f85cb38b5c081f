"""Updates as one step, for the interpreter."""

from __future__ import annotations

from tileir.semtree.interpret.evaluation import AGENT, ExpressionCompiler, Frame
from tileir.semtree.interpret.instructions import Action
from tileir.semtree.interpret.memory import Memory
from tileir.semtree.interpret.scalar_arithmetic import operation
from tileir.semtree.ir import Update


def updating(expressions: ExpressionCompiler, stmt: Update) -> Action:
    """Return the closure that merges a value into an element."""
    slot, offset = expressions.slot(stmt.target.array), expressions.evaluator(stmt.target.offset)
    value, merge = expressions.evaluator(stmt.value), operation(stmt.op, stmt.target.type, expressions.numbers)

    plain = not stmt.target.type.dtype.is_float

    def update(frame: Frame) -> None:
        memory: Memory = frame[slot]
        place, own = offset(frame), value(frame)
        if not 0 <= place < len(memory.data):
            raise memory.outside(expressions.kernel, place, place)
        if expressions.watched:
            memory.updates(place, frame[AGENT])
        before = memory.data.item(place) if plain else memory.data[place]
        memory.data[place] = merge(before, own)

    return update
