"""Tuple reductions in blocks: scalar programs as statements, and the rules for reducing blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tileir.core.combines import ScalarProgram
from tileir.stripe.blocks import Block, Constant, Direction, Intrinsic, Statement


def statements_of(
    program: ScalarProgram, inputs: Sequence[str], fresh: Callable[[str], str]
) -> tuple[list[Statement], tuple[str, ...]]:
    """Return statements that compute a program from some scalars, and the scalars that are its outputs."""
    scalars = list(inputs)
    statements: list[Statement] = []
    for step in program.steps:
        into = fresh("constant" if step.op is None else step.op.value)
        if step.op is None:
            assert step.value is not None
            statements.append(Constant(into, step.dtype, step.value))
        else:
            operands = tuple(scalars[number] for number in step.inputs)
            statements.append(Intrinsic(step.op, operands, into, step.dtype))
        scalars.append(into)
    return statements, tuple(scalars[number] for number in program.outputs)


def state_of(block: Block) -> tuple[str, ...]:
    """Return the names of the state views of a reducing block."""
    return tuple(view.name for view in block.refinements if view.direction is Direction.INOUT)


def reduction_faults(block: Block) -> Iterator[str]:
    """Yield the faults of the reduction of a block, in words."""
    assert block.reduction is not None
    reduction = block.reduction
    if reduction.combine.element(reduction.elements) is not reduction.elements:
        yield f"{reduction.combine.value} does not reduce {reduction.elements.value}"
        return
    views = [block.refinement(name) for name in state_of(block)]
    state = [view.shape.dtype for view in views if view.shape.elements == 1 and not view.merges]
    if state != list(reduction.rule.state) or len(state) != len(views):
        wanted = ", ".join(dtype.value for dtype in reduction.rule.state)
        yield f"the state of {reduction.combine.value} is {wanted}, which its inout views have to be, an element each"
    if block.indices and not block.is_serial:
        yield "a block that reduces runs in order: its indices have to be serial"
