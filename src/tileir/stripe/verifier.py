"""What a legal Stripe program is: one ``check_*`` for each invariant, none of which stops at the first fault."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Final

from tileir.core.errors import Diagnostic, VerifyError
from tileir.stripe.ir import Block, Direction, Special, scalar_output, views_written
from tileir.stripe.scope import Scope, scopes
from tileir.stripe.tags import SERIAL
from tileir.stripe.twins import twins
from tileir.stripe.verify_body import check_aggregations, check_directions, check_scalars, check_specials
from tileir.stripe.verify_content import check_content
from tileir.stripe.verify_order import check_dependencies, check_order, check_placement
from tileir.stripe.verify_views import check_access, check_bounds, check_sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tileir.poly.affine import Affine
    from tileir.stripe.ir import Program, Tags

MAX_DEPTH: Final = 200
"""Blocks nested deeper than this are refused: later stages recurse over nesting."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.']*\Z")


def verify(program: Program, after: str = "", since: Program | None = None) -> None:
    """Raise where ``program`` breaks a rule.

    Args:
        program: What to check.
        after: The pass that made it, for the message.
        since: A program that is known to be legal; kernels that both share are not looked at again.

    Raises:
        VerifyError: One diagnostic for each fault.

    """
    found = diagnose(program, since)
    if not found:
        return
    note = (f"the program was made by the pass {after!r}",) if after else ()
    raise VerifyError(Diagnostic(d.code, d.message, d.span, d.notes + note) for d in found)


def diagnose(program: Program, since: Program | None = None) -> tuple[Diagnostic, ...]:
    """Return everything that is wrong with ``program``; kernels shared with ``since`` are taken as legal.

    Of twins (:mod:`tileir.stripe.twins`), the first is looked at.
    """
    known = _shared_kernels(program, since).union(*(twins(block) for block in program.entry.blocks))
    return (*check_program(program), *_diagnose(program.entry, known))


def diagnose_block(block: Block) -> tuple[Diagnostic, ...]:
    """Return everything that is wrong with ``block`` and the blocks inside it, seen as an entry block."""
    return _diagnose(block, frozenset())


def _diagnose(block: Block, known: frozenset[int]) -> tuple[Diagnostic, ...]:
    inside = tuple(scopes(block, MAX_DEPTH, known))
    found = tuple(chain.from_iterable(check(scope) for scope in inside for check in CHECKS))
    if found:
        return found
    return tuple(chain.from_iterable(check(scope) for scope in inside for check in CHECKS_OF_LEGAL))


def _shared_kernels(program: Program, since: Program | None) -> frozenset[int]:
    """Return the identities of kernels of both programs; none where the views that kernels see changed."""
    if since is None or not program.entry.blocks or not since.entry.blocks:
        return frozenset()
    if program.main.refinements != since.main.refinements:
        return frozenset()
    return frozenset(id(s) for s in since.main.statements) & frozenset(id(s) for s in program.main.statements)


def check_program(program: Program) -> Iterator[Diagnostic]:
    """Check that the entry block holds allocations and the main block, which holds the kernels."""
    entry = program.entry
    if "program" not in entry.tags or entry.indices or entry.constraints:
        yield _fault("the entry block must have the tag program, and no indices or constraints")
    for refinement in entry.refinements:
        if refinement.direction is not Direction.NONE:
            yield _fault(f"{refinement.name!r} of the entry block must be an allocation")
    yield from _check_interface(program)
    yield from _check_buffers(program)
    statements = entry.statements
    main = statements[0] if len(statements) == 1 else None
    if not isinstance(main, Block) or "main" not in main.tags:
        yield _fault("the one statement of the entry block must be a block with the tag main")
        return
    yield from _check_kernels(main, "main")
    yield from _check_main_views(program, main)


def _check_kernels(block: Block, name: str) -> Iterator[Diagnostic]:
    """Check that a block holds kernels and loops, and what loops hold. Without recursion, as nothing bounds nesting."""
    pending = [(block, name)]
    while pending:
        block, name = pending.pop()
        if block.indices or block.constraints:
            yield _fault(f"the {name} block must have no indices or constraints")
        for number, statement in enumerate(block.statements):
            if isinstance(statement, Block) and "loop" in statement.tags:
                yield from _check_loop(statement, f"loop {number} of the {name} block")
                pending.extend((inner, "body") for inner in statement.blocks[:1])
            elif not isinstance(statement, Block) or "kernel" not in statement.tags:
                yield _fault(f"statement {number} of the {name} block must be a block with the tag kernel or loop")


def _check_loop(loop: Block, place: str) -> Iterator[Diagnostic]:
    """Check that a loop is the body of a step and copies of what it made for the next one, once for each index."""
    indices = loop.indices
    if len(indices) != 1 or SERIAL not in indices[0].tags or indices[0].affine is not None or loop.constraints:
        yield _fault(f"{place} must have one index, which is serial, and no constraints")
    body, *copies = loop.statements or (None,)
    if not isinstance(body, Block) or "body" not in body.tags:
        yield _fault(f"{place} must begin with a block with the tag body")
    views = {view.name: view.direction for view in loop.refinements}
    for copy in copies:
        if not isinstance(copy, Special) or copy.name != "copy":
            yield _fault(f"{place} must hold nothing but copies after its body")
        elif len(copy.inputs) == len(copy.outputs) == 1 and (
            views.get(copy.inputs[0]) is not Direction.NONE or views.get(copy.outputs[0]) is not Direction.INOUT
        ):
            yield _fault(f"{place} must copy what it allocates to what it both reads and writes")
    written = {name for copy in copies for name in views_written(copy)}
    for name, direction in views.items():
        if direction is Direction.INOUT and name not in written:
            yield _fault(f"{place} reads and writes {name!r}, but does not copy anything to it after its body")


def _check_main_views(program: Program, main: Block) -> Iterator[Diagnostic]:
    """Check that the main block reads parameters and constants, and writes everything else."""
    given = {*program.inputs, *(buffer.name for buffer in program.buffers)}
    for refinement in main.refinements:
        if refinement.direction.writes and refinement.source in given:
            yield _fault(f"the main block must not write {refinement.source!r}, a parameter or constant")
        if refinement.direction.reads and refinement.source not in given:
            message = f"{refinement.source!r} has no content before the main block: its direction there must be out"
            yield _fault(message)


def _check_interface(program: Program) -> Iterator[Diagnostic]:
    """Parameters and results are allocations of the entry block, each named once."""
    views = {refinement.name: refinement for refinement in program.entry.refinements}
    seen: set[str] = set()
    for name in (*program.inputs, *program.outputs):
        if name in seen:
            yield _fault(f"{name!r} is named twice among the parameters and results: copy it to a result of its own")
        seen.add(name)
        if name not in views:
            yield _fault(f"the entry block has no allocation for {name!r}, a parameter or result")
        elif "user" not in views[name].tags:
            yield _fault(f"{name!r} must have the tag user, since it is a parameter or result")


def _check_buffers(program: Program) -> Iterator[Diagnostic]:
    """Each constant allocation has its content, and no other allocation has one."""
    views = {refinement.name: refinement for refinement in program.entry.refinements}
    seen: set[str] = set()
    for buffer in program.buffers:
        refinement = views.get(buffer.name)
        if refinement is None or not refinement.constant or buffer.name in seen:
            yield _fault(f"the buffer {buffer.name!r} needs one constant allocation of its own in the entry block")
            continue
        seen.add(buffer.name)
        size = refinement.shape.elements * refinement.shape.dtype.itemsize
        if len(buffer.data) != size:
            yield _fault(f"the buffer {buffer.name!r} must hold {size} bytes, not {len(buffer.data)}")
    for name, refinement in views.items():
        if refinement.constant and name not in seen:
            yield _fault(f"the constant {name!r} has no buffer with its content")


def check_depth(scope: Scope) -> Iterator[Diagnostic]:
    """Blocks are not nested without end."""
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
    """Tags are words, sorted and unique; names and comments of blocks are single lines without blanks around them."""
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


def check_indices(scope: Scope) -> Iterator[Diagnostic]:
    """Ranges are positive; index affines are integral and over the parent's indices, constraints over the block's."""
    outer = () if scope.parent is None else scope.parent.values
    for index in scope.block.indices:
        if index.range < 1:
            message = f"index {index.name!r} of {scope.place} has range {index.range}: drop blocks without points"
            yield Diagnostic("TIL505", message)
        if index.affine is not None:
            yield from _check_affine(scope, index.affine, f"index {index.name!r}", outer, "the block around it")
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


def _fault(message: str) -> Diagnostic:
    return Diagnostic("TIL501", message)


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
    check_placement,
    check_content,
)
"""Checks that follow views and indices, which have to be legal for that."""
