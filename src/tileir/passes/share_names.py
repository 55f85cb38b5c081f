"""Kernels that differ in names only get the same names, so that what follows looks at one of them for all.

A network has a few kinds of layers and many of each. Fusion leaves equal kernels that differ in the names of their
tensors; scheduling them is most of the work of compiling, and comes to the same for all of a kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import attrs

from tileir.core.rewrite import rewritten
from tileir.passes.base import with_kernels
from tileir.stripe import ir as stripe
from tileir.stripe.twins import getter, outside

if TYPE_CHECKING:
    from collections.abc import Mapping

_view: Final = getter(stripe.Refinement, "name", "source", "tags")
_index: Final = getter(stripe.Index, "tags")


@attrs.frozen
class ShareNames:
    """Give kernels that are equal but for names the statements and views of the first of them.

    The tensors that they see must be laid out alike, and be the caller's for both or for none.

    Names are those of views, scalars and blocks; comments count as names. Indices have the same names already, or
    kernels stay different: affines are sorted by them. What a kernel itself is called, and the tensors that it sees,
    stay. Put it behind all passes that look at several kernels: those that look at one at a time do their work once
    for all that are equal (:mod:`tileir.stripe.twins`).
    """

    name: ClassVar[str] = "share_names"

    def __call__(self, program: stripe.Program) -> stripe.Program:
        """Return the program with equal kernels sharing what they hold."""
        firsts: dict[object, stripe.Block] = {}
        views = {view.name: view for view in program.main.refinements}
        users = {r.name for r in program.entry.refinements if "user" in r.tags}
        theirs = {view.name for view in program.main.refinements if view.source in users}

        def shared(statement: stripe.Statement) -> tuple[stripe.Statement, ...]:
            if not isinstance(statement, stripe.Block):
                return (statement,)
            owners = tuple(view.source in theirs for view in statement.refinements)
            first = firsts.setdefault((form(statement, {}), outside(statement, views), owners), statement)
            return (statement if first is statement else _named(statement, first),)

        return with_kernels(program, rewritten(program.main.statements, shared))


def _named(kernel: stripe.Block, like: stripe.Block) -> stripe.Block:
    """Return ``kernel`` with the names of ``like``, which is equal otherwise."""
    if kernel.statements is like.statements:
        return kernel
    views = zip(kernel.refinements, like.refinements, strict=True)
    refinements = tuple(attrs.evolve(other, source=own.source) for own, other in views)
    return attrs.evolve(like, name=kernel.name, comments=kernel.comments, refinements=refinements)


def form(block: stripe.Block, outer: Mapping[str, int]) -> object:
    """Return what blocks have in common that differ in names only; nesting is bounded, so recursion is.

    Args:
        block: A block of a legal program.
        outer: Numbers of the views of the block around it; none where it does not count which of them it sees.

    """
    views = {view.name: number for number, view in enumerate(block.refinements)}
    scalars: dict[str, int] = {}
    statements = tuple(
        form(statement, views) if isinstance(statement, stripe.Block) else _form(statement, views, scalars)
        for statement in block.statements
    )
    return (
        tuple((outer.get(view.source), _view(view), _exact(view.tags)) for view in block.refinements),
        tuple((_index(index), _exact(index.tags)) for index in block.indices),
        block.constraints,
        block.location,
        _exact(block.tags),
        block.deps,
        statements,
    )


def _form(statement: stripe.Statement, views: Mapping[str, int], scalars: dict[str, int]) -> object:
    """Return what statements have in common that differ in names only; scalars get numbers when they are defined."""
    used = tuple(scalars.get(name) for name in stripe.scalar_inputs(statement))
    read = tuple(views.get(name) for name in stripe.views_read(statement))
    written = tuple(views.get(name) for name in stripe.views_written(statement))
    defined = stripe.scalar_output(statement)
    if defined is not None:
        scalars[defined] = len(scalars)
    return type(statement), used, read, written, _content(statement), _exact(statement.tags), statement.deps


def _content(statement: stripe.Statement) -> object:
    """Return what a statement says without names."""
    match statement:
        case stripe.LoadIndex(affine=affine, dtype=dtype):
            return affine, dtype
        case stripe.Constant(dtype=dtype, value=value):
            return dtype, repr(value)
        case stripe.Intrinsic(op=op, dtype=dtype):
            return op, dtype
        case stripe.Convert(dtype=dtype):
            return dtype
        case stripe.Special(name=name, parameters=parameters):
            return name, repr(parameters)
        case stripe.Load() | stripe.Store() | stripe.Block():
            return None


def _exact(tags: stripe.Tags) -> str:
    """Return tags as text, which tells 0.0 from -0.0 and 1 from True."""
    return repr(tags.items) if tags.items else ""
