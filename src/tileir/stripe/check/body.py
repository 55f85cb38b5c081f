"""Checks of what the statements of a block do with its views and scalars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import assert_never

from tileir.core import Diagnostic, DType, Op, arithmetic_type, fits
from tileir.stripe.attending import ATTEND, ATTEND_BACK, attend_back_fault, attend_fault
from tileir.stripe.check.scope import Scope
from tileir.stripe.dtypes import intrinsic_dtype, scalar_dtype
from tileir.stripe.ir import (
    Block,
    Constant,
    Convert,
    Direction,
    Intrinsic,
    Load,
    LoadIndex,
    Refinement,
    Special,
    Statement,
    Store,
    scalar_inputs,
    scalar_output,
    views_read,
    views_written,
)
from tileir.stripe.segments import ADD_SEGMENTS, segments_fault
from tileir.stripe.sorting import ORDER, order_fault


def check_directions(scope: Scope) -> Iterator[Diagnostic]:
    """Statements read and write views as their directions say, and read no content that is undefined.

    What an allocation or a view of direction OUT holds is defined once a statement before has written it. Content of
    the entry block's own allocations comes from outside.
    """
    if scope.parent is None:
        yield from _check_unknown_views(scope)
        return
    written: set[str] = set()
    for number, statement in enumerate(scope.block.statements):
        reads, writes = views_read(statement), views_written(statement)
        for name in reads:
            view = scope.views.get(name)
            if view is not None and not (view.direction.reads or name in written):
                message = f"statement {number} of {scope.place} reads {name!r}, which nothing has written before"
                yield Diagnostic("TIL506", message)
        for name in writes:
            view = scope.views.get(name)
            if view is not None and view.direction is Direction.IN:
                message = f"statement {number} of {scope.place} writes {name!r}, which has direction in"
                yield Diagnostic("TIL506", message)
        written.update(writes)
    yield from _check_unknown_views(scope)


def _check_unknown_views(scope: Scope) -> Iterator[Diagnostic]:
    """Check that loads, stores and specials name refinements of the block; blocks are checked with the views."""
    for number, statement in enumerate(scope.block.statements):
        if isinstance(statement, Block):
            continue
        for name in (*views_read(statement), *views_written(statement)):
            if name not in scope.views:
                message = f"statement {number} of {scope.place} uses {name!r}, which is no refinement of the block"
                yield Diagnostic("TIL503", message)


def check_aggregations(scope: Scope) -> Iterator[Diagnostic]:
    """Along a chain of views, one that merges is only ever viewed to merge in the same way.

    An aggregate is not read where it is being made: other points may still add to it.
    """
    for view in scope.block.refinements:
        if not view.merges:
            continue
        if not view.direction.writes:
            yield _disagree(scope, view, "aggregates, so its direction must be out or inout")
        op = view.aggregation.op if view.aggregation is not None else None
        if op is not None and not op.works_on(view.shape.dtype):
            dtype = view.shape.dtype
            wider = DType.I32 if dtype.is_bool else arithmetic_type(dtype)
            yield _disagree(scope, view, f"cannot apply {op.value} to {dtype.value}: aggregate in {wider.value}")
    for statement in scope.block.statements:
        if isinstance(statement, Load) and statement.source in scope.views and scope.views[statement.source].merges:
            yield _disagree(scope, scope.views[statement.source], "aggregates, so it cannot be loaded")
    if scope.parent is None:
        return
    for view in scope.block.refinements:
        source = scope.source(view)
        if source is None or not source.merges:
            continue
        if (view.aggregation, view.direction) != (source.aggregation, source.direction):
            yield _disagree(scope, view, f"must aggregate and have the direction as {source.name!r}, which it views")


def _disagree(scope: Scope, view: Refinement, message: str) -> Diagnostic:
    return Diagnostic("TIL507", f"{view.name!r} in {scope.place} {message}")


def check_scalars(scope: Scope) -> Iterator[Diagnostic]:
    """Scalars are defined before they are used, and have the dtype that their use asks for."""
    views = {name: view.shape.dtype for name, view in scope.views.items()}
    scalars: dict[str, DType | None] = {}
    for number, statement in enumerate(scope.block.statements):
        if isinstance(statement, Block):
            continue
        unknown = [name for name in scalar_inputs(statement) if name not in scalars]
        for name in unknown:
            message = f"statement {number} of {scope.place} uses ${name}, which nothing before it in the block defines"
            yield Diagnostic("TIL508", message)
        if not unknown and (fault := _scalar_fault(scope, statement, scalars, views)) is not None:
            yield Diagnostic("TIL508", f"statement {number} of {scope.place}: {fault}")
        if (into := scalar_output(statement)) is not None:
            scalars[into] = scalar_dtype(statement, views)


def _scalar_fault(
    scope: Scope, statement: Statement, scalars: Mapping[str, DType | None], views: Mapping[str, DType]
) -> str | None:
    """Say what is wrong with the dtypes of one statement; None where nothing is."""
    match statement:
        case Load(source=source, index=index) | Store(into=source, index=index):
            if index is not None and (fault := _index_fault(scope, source, scalars[index])) is not None:
                return fault
            if isinstance(statement, Store):
                return _store_fault(statement, scalars[statement.source], views.get(source))
            return None
        case Constant(dtype=dtype, value=value):
            return None if fits(value, dtype) else f"{value!r} does not fit {dtype.value}"
        case LoadIndex(affine=affine, dtype=dtype):
            if not affine.is_integral or any(name not in scope.values for name in affine.indices):
                return f"{affine} must be an integral affine of the block's indices"
            return "an index is no truth value: compare it" if dtype.is_bool else None
        case Intrinsic():
            return _intrinsic_fault(statement, [scalars[name] for name in statement.inputs])
        case Convert() | Special() | Block():
            return None
        case _:
            assert_never(statement)


def _index_fault(scope: Scope, source: str, dtype: DType | None) -> str | None:
    if dtype is not None and not dtype.is_integer:
        return f"the index into {source!r} must be an integer, not {dtype.value}"
    view = scope.views.get(source)
    if view is not None and (not view.shape.dims or view.shape.dims[0].size < 1):
        return f"{source!r} has no axis 0 to index"
    return None


def _store_fault(statement: Store, dtype: DType | None, wanted: DType | None) -> str | None:
    if dtype is None or wanted is None or dtype is wanted:
        return None
    return f"${statement.source} is {dtype.value}, but {statement.into!r} holds {wanted.value}: convert it"


def _intrinsic_fault(statement: Intrinsic, operands: list[DType | None]) -> str | None:
    op, info = statement.op, statement.op.info
    if len(operands) != info.arity:
        return f"{op.value} takes {info.arity} operands, not {len(operands)}"
    if op is Op.COND and operands[0] not in (None, DType.BOOL):
        return "the condition of cond must be bool"
    values = [dtype for dtype in operands[1 if op is Op.COND else 0 :] if dtype is not None]
    if any(dtype is not values[0] for dtype in values):
        return f"the operands of {op.value} must have one dtype, not {', '.join(dtype.value for dtype in values)}"
    if values and not op.works_on(values[0]):
        return f"{op.value} does not work on {values[0].value}"
    if op is Op.BITS and values and (statement.dtype.is_bool or statement.dtype.bits != values[0].bits):
        return f"{op.value} cannot read {values[0].value} as {statement.dtype.value}"
    natural = intrinsic_dtype(op, operands)
    if natural is not None and natural is not statement.dtype:
        return f"{op.value} of these operands is {natural.value}, not {statement.dtype.value}"
    return None


def check_specials(scope: Scope) -> Iterator[Diagnostic]:
    """Check that the specials whose meaning is known fit their views."""
    for number, statement in enumerate(scope.block.statements):
        if isinstance(statement, Special) and (fault := _special_fault(scope, statement)) is not None:
            yield Diagnostic("TIL512", f"statement {number} of {scope.place}: {fault}")


def _special_fault(scope: Scope, special: Special) -> str | None:
    outputs = [scope.views[name] for name in special.outputs if name in scope.views]
    inputs = [scope.views[name] for name in special.inputs if name in scope.views]
    if any(view.merges for view in (*inputs, *outputs)):
        return f"{special.name} cannot use a view that aggregates"
    if special.name == "prefetch":
        ahead = dict(special.parameters)
        fits_form = special.inputs and not special.outputs and ahead.keys() <= {"ahead"}
        whole = all(type(value) is int for value in ahead.values())
        return None if fits_form and whole else "prefetch takes inputs, no output, and the parameter ahead, an integer"
    if special.name == ATTEND:
        return attend_fault(special, inputs, outputs)
    if special.name == ATTEND_BACK:
        return attend_back_fault(special, inputs, outputs)
    if special.name in (ORDER, ADD_SEGMENTS):
        return (order_fault if special.name == ORDER else segments_fault)(special, inputs, outputs)
    if special.name not in ("copy", "fill", "zero", "transpose"):
        return None
    reads = special.name in ("copy", "transpose")
    if len(special.outputs) != 1 or len(special.inputs) != (1 if reads else 0):
        return f"{special.name} takes one output and {'one input' if reads else 'no input'}"
    names = [name for name, _ in special.parameters]
    if names != (["value"] if special.name == "fill" else []):
        return "fill takes the parameter value, copy, zero and transpose take none"
    for _, value in special.parameters:
        if value is None or isinstance(value, str) or (outputs and not fits(value, outputs[0].shape.dtype)):
            return f"{value!r} does not fit what is filled"
    for source, target in zip(inputs, outputs, strict=False):
        if special.name == "transpose":
            turned = tuple(reversed(source.shape.sizes))
            if len(turned) != 2 or turned != target.shape.sizes or source.shape.dtype is not target.shape.dtype:
                return f"transpose needs views of two axes, exchanged, not {source.name!r} and {target.name!r}"
        elif source.shape.sizes != target.shape.sizes or source.shape.dtype is not target.shape.dtype:
            return f"copy needs views of one shape and dtype, not {source.name!r} and {target.name!r}"
    return None
