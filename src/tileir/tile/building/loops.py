"""While loops: condition and step, each recorded by a builder of its own."""

from __future__ import annotations

from collections.abc import Sequence

from tileir.core import call_site
from tileir.tile import ir
from tileir.tile.building.recording import mistake
from tileir.tile.building.scans import LoopOperands, Step, named, results_of, step_of
from tileir.tile.building.tensors import Operand, Tensor, recorder_of


def while_loop(
    condition: Step,
    step: Step,
    carries: Sequence[Operand],
    constants: Sequence[Operand] = (),
) -> tuple[Tensor, ...]:
    """Run ``step`` as long as ``condition`` holds, as a loop whose number of steps is known only at run time.

    Both are called once, with tensors of a function of their own: the carries and the constants, in this order.
    ``condition`` returns one bool, and ``step`` a new value for each carry, of the same dtype and shape. A
    :class:`tileir.tile.ir.Function` with these inputs and outputs will do as well. There are no derivatives through the
    loop.

    Args:
        condition: Whether there is a further step.
        step: The function of one step. Both functions read only their arguments.
        carries: The values before the first step; at least one.
        constants: Values that every step reads.

    Returns:
        The carries after the last step; unchanged if the condition does not hold at first.

    Raises:
        TileError: TIL218, a function does not match its arguments, or there are no carries; TIL216, one uses a tensor
            of
            the function around it.
    """
    given = (*carries, *constants)
    if not carries:
        raise mistake("TIL218", "a loop has at least one carry, or its condition would never change")
    recorder = recorder_of(given)
    names = [named(recorder, operand) for operand in given]
    passed = LoopOperands.of(recorder, names, len(carries), 0, None)
    asked, _ = step_of(passed, condition)
    function, _ = step_of(passed, step)
    if passed.captured:
        around = (Tensor(recorder, reference) for reference in dict.fromkeys(passed.captured))
        return while_loop(condition, step, carries, (*constants, *around))
    if len(asked.outputs) != 1:
        raise mistake("TIL218", f"the condition returns {len(asked.outputs)} tensors, but one bool is needed")
    if len(function.outputs) != len(carries):
        message = f"the step returns {len(function.outputs)} tensors, but there are {len(carries)} carries"
        raise mistake("TIL218", message)
    first = len(carries)
    statement = ir.While("", tuple(names[:first]), tuple(names[first:]), asked, function, span=call_site())
    return results_of(recorder, recorder.record(statement), passed, passed.sizes[:first])
