"""Verifier of Stripe programs: one ``check_*`` for each invariant, none of which stops at the first fault.

It includes checks of order and place: dependencies, and memory placed at bytes; of the use of views and scalars by
statements; and of data-dependent stores: memory with these must have its earlier content before all of it is read.
A loop step that stores one row of a stacked result is an example: the rows are unknown, but their number is not. A
reader of more elements, such as the copy of results out of an inner memory, would read undefined elements.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from itertools import chain
from math import prod
from typing import Final, assert_never

from tileir.core import Diagnostic, DType, Op, VerifyError, arithmetic_type, fits, reached
from tileir.poly.affine import Affine
from tileir.stripe.attention import ATTEND, ATTEND_BACK, attend_back_fault, attend_fault
from tileir.stripe.bindings import BINDINGS, WORDS
from tileir.stripe.check.scope import Scope, scopes
from tileir.stripe.check.views import check_access, check_bounds, check_sources
from tileir.stripe.dtypes import intrinsic_dtype, scalar_dtype
from tileir.stripe.instructions import instruction_faults
from tileir.stripe.ir import (
    LIFETIMES,
    PLACES,
    Block,
    Branch,
    Constant,
    Convert,
    Direction,
    Intrinsic,
    Launch,
    Load,
    LoadIndex,
    Loop,
    Program,
    Refinement,
    Special,
    Statement,
    Store,
    Tags,
    While,
    Work,
    scalar_inputs,
    scalar_output,
    views_read,
    views_written,
)
from tileir.stripe.lower.kernel_table import is_laid_out, launched
from tileir.stripe.reductions import reduction_faults
from tileir.stripe.segments import ADD_SEGMENTS, segments_fault
from tileir.stripe.sorting import ORDER, order_fault
from tileir.stripe.works import MAX_LOOPS, depth_of, launches, parts, uses_of


def check_directions(scope: Scope) -> Iterator[Diagnostic]:
    """Statements read and write views as their directions say, and read no undefined content.

    The content of an allocation or a view of direction OUT is defined once an earlier statement has written it. The
    entry block's own allocations get content from outside.
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
    """Along a chain of views, those of a merging view merge in the same way.

    An aggregate is not read while it is computed: other points may still add to it.
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
    """Scalars are defined before they are used, and have the dtype that their use requires."""
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
    """Return the dtype fault of one statement; None if there is none."""
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
    """Check that the known specials fit their views."""
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


def check_dependencies(scope: Scope) -> Iterator[Diagnostic]:
    """Dependencies name earlier statements of the same block."""
    for number, statement in enumerate(scope.block.statements):
        for dependency in statement.deps:
            if not 0 <= dependency < number:
                message = f"statement {number} of {scope.place} depends on {dependency}, which is not before it"
                yield Diagnostic("TIL509", message)


def check_order(scope: Scope) -> Iterator[Diagnostic]:
    """Dependencies of a block, if it has any, order all statements that must not run concurrently."""
    statements = scope.block.statements
    if not any(statement.deps for statement in statements):
        return
    if any(not 0 <= dep < number for number, statement in enumerate(statements) for dep in statement.deps):
        return
    from tileir.stripe.dependences import order_of, requirements  # processors have no use for dependencies

    order = order_of(statements)
    for number, needed in enumerate(requirements(scope)):
        for earlier in needed:
            if not order.follows(number, earlier) and not _reaches(scope, number, earlier):
                message = (
                    f"statement {number} of {scope.place} must wait for {earlier}, which shares memory or a scalar"
                    " with it, but its dependencies do not say so: run the pass compute_deps last"
                )
                yield Diagnostic("TIL513", message)


def _reaches(scope: Scope, later: int, earlier: int) -> bool:
    """Return whether ``later`` follows ``earlier`` transitively."""
    statements = scope.block.statements
    return earlier in reached((later,), lambda number: [d for d in statements[number].deps if d >= earlier])


def check_placement(scope: Scope, lasting: Container[str] = ()) -> Iterator[Diagnostic]:
    """Allocations at the same bytes of one location are not in use at the same time.

    ``lasting`` names allocations of the block that are always in use.
    """
    if all(view.offset is None or view.direction is not Direction.NONE for view in scope.block.refinements):
        return
    from tileir.stripe.lifetimes import clashes  # nor for memory at bytes

    for first, second in clashes(scope.block, lasting):
        message = (
            f"{first!r} and {second!r} in {scope.place} are placed at the same bytes while both are in use: run the"
            " pass memory_placement again"
        )
        yield Diagnostic("TIL514", message)


def check_content(scope: Scope) -> Iterator[Diagnostic]:
    """No statement reads more elements of an allocation of its block than earlier data-dependent stores may write."""
    if scope.parent is None:
        return
    for allocation in scope.block.refinements:
        if allocation.direction is Direction.NONE and allocation.shape.elements > 1:
            yield from _check_allocation(scope, allocation)


def _check_allocation(scope: Scope, allocation: Refinement) -> Iterator[Diagnostic]:
    name, elements, written, chosen = allocation.name, allocation.shape.elements, 0, False
    for number, statement in enumerate(scope.block.statements):
        if written >= elements:
            return
        if chosen and _surely_read(statement, name, elements) > written:
            message = (
                f"statement {number} of {scope.place} reads all elements of {name!r}, of which statements before it can"
                f" have written {written} of {elements} only: bring in the others first"
            )
            yield Diagnostic("TIL506", message)
            return
        written += _most_written(statement, name, elements)
        chosen = chosen or _chooses(statement, name)


def _most_written(statement: Statement, name: str, elements: int) -> int:
    """Return the maximum number of elements that a statement may write through a view; nesting is bounded."""
    match statement:
        case Store(into=into):
            return int(into == name)
        case Special(outputs=outputs):
            return elements if name in outputs else 0
        case Block():
            views = [r for r in statement.refinements if r.source == name and r.direction.writes]
            inner = sum(_most_written(s, r.name, elements) for r in views for s in statement.statements)
            return inner * prod(index.range for index in statement.indices) if inner else 0
        case _:
            return 0


def _chooses(statement: Statement, name: str) -> bool:
    """Return whether a statement writes data-dependent elements through a view."""
    if isinstance(statement, Block):
        views = [r.name for r in statement.refinements if r.source == name and r.direction.writes]
        return any(_chooses(inner, view) for view in views for inner in statement.statements)
    return isinstance(statement, Store) and statement.into == name and statement.index is not None


def _surely_read(statement: Statement, name: str, elements: int) -> int:
    """Return the minimum number of distinct elements that a statement reads through a view, as far as known."""
    match statement:
        case Special(name="copy" | "transpose", inputs=inputs):
            return elements if name in inputs else 0
        case Block(constraints=()):
            ranges = {index.name: index.range for index in statement.indices if index.affine is None}
            views = [r for r in statement.refinements if r.source == name and r.direction is Direction.IN]
            apart = [_points_apart(r, ranges) for r in views if _is_loaded(statement, r.name)]
            inner = [_surely_read(s, r.name, r.shape.elements) for r in views for s in statement.statements]
            return max((*apart, *inner), default=0)
        case _:
            return 0


def _is_loaded(block: Block, name: str) -> bool:
    return any(isinstance(s, Load) and s.index is None and name in views_read(s) for s in block.statements)


def _points_apart(view: Refinement, ranges: dict[str, int]) -> int:
    """Return the elements seen by the points of a block, if each index moves along its own axis; 0 otherwise."""
    moving = [index for affine in view.access for index in affine.indices]
    alone = len(moving) == len(set(moving)) and all(len(affine.indices) <= 1 for affine in view.access)
    if not alone or view.shape.elements != 1 or not ranges.keys() >= set(moving):
        return 0
    return prod(ranges[index] for index in moving)


MAX_DEPTH: Final = 200
"""Maximum nesting of blocks: later stages recurse over nesting."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.']*\Z")


def verify(program: Program, after: str = "", since: Program | None = None) -> None:
    """Raise if ``program`` breaks a rule.

    Args:
        program: The program.
        after: The pass that made it, for the message.
        since: A program known to be legal; shared kernels are not checked again.

    Raises:
        VerifyError: One diagnostic for each fault.
    """
    found = diagnose(program, since)
    if not found:
        return
    note = (f"the program was made by the pass {after!r}",) if after else ()
    raise VerifyError(Diagnostic(d.code, d.message, d.span, d.notes + note) for d in found)


def diagnose(program: Program, since: Program | None = None) -> tuple[Diagnostic, ...]:
    """Return all faults of ``program``; kernels shared with ``since`` are taken as legal.

    Of the launches of a kernel, the first is checked.
    """
    found = tuple(_check_program(program))
    if not _can_nest(program):
        return found
    lasting = frozenset((*program.inputs, *program.outputs))
    return (*found, *_diagnose(program.entry, _known_blocks(program, since), lasting))


def diagnose_block(block: Block) -> tuple[Diagnostic, ...]:
    """Return all faults of ``block`` and nested blocks, as an entry block."""
    return _diagnose(block, frozenset(), frozenset())


def _diagnose(block: Block, known: frozenset[int], lasting: frozenset[str]) -> tuple[Diagnostic, ...]:
    """Return the faults of a block, with allocations that are always in use; known blocks are legal."""
    inside = tuple(scopes(block, MAX_DEPTH, known))
    found = tuple(chain.from_iterable(check(scope) for scope in inside for check in CHECKS))
    if found:
        return found
    placed = (check_placement(scope, lasting if scope.parent is None else ()) for scope in inside)
    legal = (check(scope) for scope in inside for check in CHECKS_OF_LEGAL)
    return tuple(chain.from_iterable((*legal, *placed)))


def _known_blocks(program: Program, since: Program | None) -> frozenset[int]:
    """Return the :func:`id` of blocks to skip: of later launches, and of kernels shared with ``since``."""
    seen = set() if since is None else set(map(id, since.kernels))
    known = []
    for launch in launches(program.works):
        kernel = program.kernels[launch.kernel]
        if id(kernel) in seen:
            known.append(id(launched(kernel, launch)))
        seen.add(id(kernel))
    return frozenset(known)


def check_depth(scope: Scope) -> Iterator[Diagnostic]:
    """Nesting of blocks is bounded."""
    if scope.depth >= MAX_DEPTH and scope.block.blocks:
        yield Diagnostic("TIL510", f"blocks are nested deeper than {MAX_DEPTH}: flatten some")


def check_names(scope: Scope) -> Iterator[Diagnostic]:
    """Names of refinements, indices and scalars are words, and unique within their block."""
    block = scope.block
    scalars = (name for name in map(scalar_output, block.statements) if name is not None)
    for kind, names in (
        ("refinement", [refinement.name for refinement in block.refinements]),
        ("index", [index.name for index in block.indices]),
        ("scalar", list(scalars)),
    ):
        yield from _check_unique(scope, kind, names)


def _check_unique(scope: Scope, kind: str, names: list[str]) -> Iterator[Diagnostic]:
    if len(set(names)) != len(names):
        seen: set[str] = set()
        for name in names:
            if name in seen:
                yield Diagnostic("TIL503", f"{kind} {name!r} is defined twice in {scope.place}")
            seen.add(name)
    for name in names:
        if not _NAME.match(name):
            yield Diagnostic("TIL503", f"{kind} {name!r} in {scope.place} must be letters, digits and underscores")


def check_texts(scope: Scope) -> Iterator[Diagnostic]:
    """Tags are words, sorted and unique; names and comments of blocks are single lines without outer blanks."""
    block = scope.block
    for text in (block.name, *block.comments):
        if text != text.strip() or len(text.splitlines()) > 1:
            yield Diagnostic("TIL503", f"{text!r} in {scope.place} must be one line without blanks around it")
    holders: Iterable[Tags] = (
        block.tags,
        *(item.tags for item in block.refinements if item.tags.items),
        *(item.tags for item in block.indices if item.tags.items),
        *(item.tags for item in block.statements if item.tags.items and not isinstance(item, Block)),
    )
    for tags in holders:
        names = [name for name, _ in tags.items]
        if sorted(set(names)) != names or not all(map(_NAME.match, names)):
            yield Diagnostic("TIL503", f"the tags {names} in {scope.place} must be words, sorted, each once")


def check_instruction(scope: Scope) -> Iterator[Diagnostic]:
    """Instructions and the roles of indices match, and are no tags."""
    for fault in instruction_faults(scope.block, None if scope.parent is None else scope.parent.block):
        yield Diagnostic("TIL505", f"in {scope.place}: {fault}")


def check_reduction(scope: Scope) -> Iterator[Diagnostic]:
    """Reducing blocks have a state of the dtypes of their rule, and run in order."""
    if scope.block.reduction is not None:
        for fault in reduction_faults(scope.block):
            yield Diagnostic("TIL507", f"{fault}: {scope.place}")


def check_indices(scope: Scope) -> Iterator[Diagnostic]:
    """Ranges are positive, bindings no tags; affines are integral, over the indices that they may use."""
    outer = () if scope.parent is None else scope.parent.values
    for index in scope.block.indices:
        if index.range < 1:
            message = f"index {index.name!r} of {scope.place} has range {index.range}: drop blocks without points"
            yield Diagnostic("TIL505", message)
        if index.affine is not None:
            yield from _check_affine(scope, index.affine, f"index {index.name!r}", outer, "the block around it")
        for word in (name for name, _ in index.tags.items if name in WORDS):
            instead = f"binding=Binding.{BINDINGS[word].name}" if word in BINDINGS else "serial=True"
            message = f"index {index.name!r} of {scope.place} must not have the tag {word}: say {instead} instead"
            yield Diagnostic("TIL503", message)
    for constraint in scope.block.constraints:
        yield from _check_affine(scope, constraint, "a constraint", scope.values, "the block")


def check_annotations(scope: Scope) -> Iterator[Diagnostic]:
    """Locations and cache units are integral affines of the block's indices; offsets are not negative."""
    block = scope.block
    devices = [(device, "the location of the block") for device in block.location]
    for refinement in block.refinements:
        what = f"refinement {refinement.name!r}"
        devices.extend((device, what) for device in refinement.location)
        if refinement.cache_unit is not None:
            yield from _check_affine(scope, refinement.cache_unit, what, scope.values, "the block")
        if refinement.bank_dim is not None and not 0 <= refinement.bank_dim < len(refinement.shape.dims):
            yield Diagnostic("TIL504", f"{what} of {scope.place} has no axis {refinement.bank_dim} for its banks")
        if refinement.offset is not None and refinement.offset < 0:
            yield Diagnostic("TIL504", f"{what} of {scope.place} is placed at a negative offset")
    for device, what in devices:
        if device.name and not _NAME.match(device.name):
            yield Diagnostic("TIL503", f"device {device.name!r} in {scope.place} must be letters, digits, underscores")
        for unit in device.units:
            yield from _check_affine(scope, unit, what, scope.values, "the block")


def _check_affine(scope: Scope, affine: Affine, what: str, known: Iterable[str], whose: str) -> Iterator[Diagnostic]:
    if not affine.is_integral:
        yield Diagnostic("TIL505", f"{what} of {scope.place}: {affine} must have whole coefficients")
    for name in affine.indices:
        if name not in known:
            yield Diagnostic("TIL505", f"{what} of {scope.place}: {affine} uses {name!r}, no index of {whose}")


CHECKS: Final[tuple[Callable[[Scope], Iterator[Diagnostic]], ...]] = (
    check_depth,
    check_names,
    check_texts,
    check_indices,
    check_instruction,
    check_reduction,
    check_annotations,
    check_dependencies,
    check_sources,
    check_access,
    check_bounds,
    check_directions,
    check_aggregations,
    check_scalars,
    check_specials,
)

CHECKS_OF_LEGAL: Final[tuple[Callable[[Scope], Iterator[Diagnostic]], ...]] = (
    check_order,
    check_content,
)
"""Checks that presuppose legal views and indices."""


def _check_program(program: Program) -> Iterator[Diagnostic]:
    """Check everything but the content of blocks."""
    memory = {each.name: each for each in program.memory}
    yield from _check_memory(program)
    yield from _check_interface(program, memory)
    yield from _check_buffers(program, memory)
    yield from _check_kernels(program)
    yield from _check_works(program, memory)
    if all(0 <= launch.kernel < len(program.kernels) for launch in launches(program.works)):
        yield from _check_content(program)


def _can_nest(program: Program) -> bool:
    """Return whether a program can be shown as nested blocks: launches have kernels, and these their memory."""
    kernels = program.kernels
    return depth_of(program.works) <= MAX_LOOPS and all(
        0 <= launch.kernel < len(kernels) and len(launch.arguments) == len(kernels[launch.kernel].parameters)
        for launch in launches(program.works)
    )


def _check_memory(program: Program) -> Iterator[Diagnostic]:
    for name, times in Counter(each.name for each in program.memory).items():
        if times > 1:
            yield Diagnostic("TIL503", f"refinement {name!r} is defined twice in the memory of the program")
    for each in program.memory:
        if each.direction is not Direction.NONE:
            yield _fault(f"{each.name!r} of the entry block must be an allocation")
        if taken := [word for word in LIFETIMES if word in each.tags]:
            yield _fault(f"{each.name!r} must not have the tag {taken[0]}, which text makes of parameters and results")


def _check_interface(program: Program, memory: Mapping[str, Refinement]) -> Iterator[Diagnostic]:
    """Parameters and results are memory of the program, each named once."""
    seen: set[str] = set()
    for name in (*program.inputs, *program.outputs):
        if name in seen:
            yield _fault(f"{name!r} is named twice among the parameters and results: copy it to a result of its own")
        seen.add(name)
        if name not in memory:
            yield _fault(f"the entry block has no allocation for {name!r}, a parameter or result")


def _check_buffers(program: Program, memory: Mapping[str, Refinement]) -> Iterator[Diagnostic]:
    """Each constant has its content, and no other memory has one."""
    seen: set[str] = set()
    for buffer in program.buffers:
        refinement = memory.get(buffer.name)
        if refinement is None or not refinement.constant or buffer.name in seen:
            yield _fault(f"the buffer {buffer.name!r} needs one constant allocation of its own in the entry block")
            continue
        seen.add(buffer.name)
        size = refinement.shape.elements * refinement.shape.dtype.itemsize
        if len(buffer.data) != size:
            yield _fault(f"the buffer {buffer.name!r} must hold {size} bytes, not {len(buffer.data)}")
    for name, refinement in memory.items():
        if refinement.constant and name not in seen:
            yield _fault(f"the constant {name!r} has no buffer with its content")


def _check_kernels(program: Program) -> Iterator[Diagnostic]:
    """Kernels are all different, and see only their parameters."""
    first: dict[object, int] = {}
    alike = Counter(kernel.head for kernel in program.kernels)
    for number, kernel in enumerate(program.kernels):
        if alike[kernel.head] > 1 and first.setdefault(kernel.form, number) != number:
            yield _fault(f"the kernels {first[kernel.form]} and {number} are equal: launch the first of them twice")
        block, known = kernel.block, [parameter.name for parameter in kernel.parameters]
        if block.name or block.comments or block.deps:
            yield _fault(f"kernel {number} must have no name, comments and dependencies: its launches have")
        if taken := [word for word in PLACES if word in block.tags]:
            yield _fault(f"kernel {number} must not have the tag {taken[0]}, by which text says where blocks stand")
        if len(set(known)) != len(known):
            yield _fault(f"kernel {number} has two parameters of one name")
        for view in block.refinements:
            if view.direction is not Direction.NONE and view.source not in known:
                yield _fault(f"{view.name!r} of kernel {number} views {view.source!r}, which is none of its parameters")


def _check_works(program: Program, memory: Mapping[str, Refinement]) -> Iterator[Diagnostic]:
    """Works launch kernels on memory that matches their parameters; without recursion, as nesting is unbounded."""
    pending: list[tuple[Work, str, int]] = [(work, f"work {n}", 0) for n, work in enumerate(program.works)]
    while pending:
        work, place, depth = pending.pop()
        if depth > MAX_LOOPS:
            yield _fault(f"loops and branches are nested deeper than {MAX_LOOPS}")
            return
        match work:
            case Launch():
                yield from _check_launch(program, work, memory, place)
            case Loop():
                yield from _check_loop(work, memory, place)
            case Branch():
                yield from _check_condition(work.condition, memory, place)
            case _:
                assert_never(work)
        inner = [each for held in parts(work) for each in held]
        pending.extend((each, f"work {number} of {place}", depth + 1) for number, each in enumerate(inner))


def _check_launch(
    program: Program, launch: Launch, memory: Mapping[str, Refinement], place: str
) -> Iterator[Diagnostic]:
    if not 0 <= launch.kernel < len(program.kernels):
        yield _fault(f"{place} launches kernel {launch.kernel}, of {len(program.kernels)}")
        return
    parameters = program.kernels[launch.kernel].parameters
    if len(parameters) != len(launch.arguments):
        yield _fault(f"{place} launches a kernel of {len(parameters)} parameters on {len(launch.arguments)} arguments")
        return
    if len(set(launch.arguments)) != len(launch.arguments):
        yield _fault(f"{place} names memory twice: a kernel that sees it twice has one parameter for it")
    for parameter, name in zip(parameters, launch.arguments, strict=True):
        if name not in memory:
            yield Diagnostic("TIL503", f"{place} launches a kernel on {name!r}, which the program does not allocate")
        elif not is_laid_out(memory[name], parameter):
            yield _fault(f"{name!r}, an argument of {place}, is not laid out as the parameter {parameter.name!r}")


def _check_loop(loop: Loop, memory: Mapping[str, Refinement], place: str) -> Iterator[Diagnostic]:
    if isinstance(loop.times, While):
        yield from _check_condition(loop.times.memory, memory, place)
        if not loop.works:
            yield _fault(f"{place} does nothing while a condition holds: it would not end")
    elif loop.times < 1:
        yield _fault(f"{place} is a loop of {loop.times} steps: it needs one or more")
    named = [name for carry in loop.carries for name in (carry.kept, carry.made)]
    if len(set(named)) != len(named):
        yield _fault(f"{place} names memory twice among what its steps keep and make")
    for carry in loop.carries:
        kept, made = memory.get(carry.kept), memory.get(carry.made)
        if kept is None or made is None or not kept.shape.holds_what(made.shape):
            yield _fault(f"{place} carries {carry.made!r} to {carry.kept!r}: both must be memory of the same elements")


def _check_condition(name: str, memory: Mapping[str, Refinement], place: str) -> Iterator[Diagnostic]:
    shape = memory[name].shape if name in memory else None
    if shape is None or shape.dtype is not DType.BOOL or shape.elements != 1:
        yield _fault(f"the condition {name!r} of {place} must be memory that holds one bool")


def _check_content(program: Program) -> Iterator[Diagnostic]:
    """Nothing writes parameters and constants, and all memory that is read is written."""
    given = {*program.inputs, *(buffer.name for buffer in program.buffers)}
    for name in uses_of(program.kernels, program.works).written:
        if name in given:
            yield _fault(f"the main block must not write {name!r}, a parameter or constant")


def _fault(message: str) -> Diagnostic:
    return Diagnostic("TIL501", message)
