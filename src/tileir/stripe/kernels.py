"""Kernels: blocks over parameters, and the common form of kernels that are equal except for names.

Names are those of views, scalars and blocks; comments count as names. Names of indices must be equal: affines are
sorted by them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, cached_property
from operator import attrgetter
from typing import ClassVar, Final

from tileir.core import attrs, call_of, counted, slots, statements_in
from tileir.stripe import blocks as stripe
from tileir.stripe.blocks import Block
from tileir.stripe.shapes import Location, Node, TensorShape, TopLevelNode


@attrs.frozen(cache_hash=True, repr=False)
class Parameter(Node):
    """Memory on which a kernel is launched, as the kernel declares it."""

    form: ClassVar[str] = "{name}{location:location} {shape}"
    name: str
    shape: TensorShape
    location: Location = ()
    bank_dim: int | None = None


@attrs.frozen(cache_hash=True, repr=False)
class Key:
    """Nested tuples as a key that is hashed once, as each pass looks up all kernels."""

    parts: object


@attrs.frozen(cache_hash=True, slots=False, repr=False)
class Kernel(TopLevelNode):
    """A block whose views have names of ``parameters`` as their sources; it has no name, comments or deps itself."""

    parameters: tuple[Parameter, ...]
    block: Block

    @cached_property
    def reads(self) -> frozenset[str]:
        """The parameters that it reads."""
        return frozenset(view.source for view in self.block.refinements if view.direction.reads)

    @cached_property
    def writes(self) -> frozenset[str]:
        """The parameters that it writes."""
        return frozenset(view.source for view in self.block.refinements if view.direction.writes)

    @cached_property
    def head(self) -> object:
        """A cheap key, equal for kernels of one form."""
        block = self.block
        ranges = tuple([index.range for index in block.indices])
        return Key((tuple(map(_layout, self.parameters)), ranges, block.constraints, len(block.statements)))

    @cached_property
    def form(self) -> object:
        """The kernel without names, equal for equivalent kernels."""
        return Key(form_of(self))

    @cached_property
    def launched(self) -> dict[object, Block]:
        """Cached blocks of ``main`` for launches of the kernel."""
        return {}

    def summary(self) -> str:
        """Return the parameters, and the number of statements."""
        names = call_of("", [each.name for each in self.parameters])
        return f"{names}: {counted(statements_in(self.block.statements), 'statement')}"


def _getter(kind: type[attrs.AttrsInstance], *without: str) -> Callable[[object], object]:
    return attrgetter(*(field.name for field in attrs.fields(kind) if field.name not in without))


_view: Final = _getter(stripe.Refinement, "name", "source", "tags")
_index: Final = _getter(stripe.Index, "tags")
_layout: Final = _getter(Parameter, "name")


def form_of(kernel: Kernel) -> object:
    """Return a hashable form that is equal for kernels that differ only in names."""
    sources = {parameter.name: number for number, parameter in enumerate(kernel.parameters)}
    return tuple(map(_layout, kernel.parameters)), _form(kernel.block, sources)


def _form(block: stripe.Block, outer: Mapping[str, int]) -> object:
    """Return the form of a block; ``outer`` numbers the views of its parent. Nesting is bounded."""
    views = {view.name: number for number, view in enumerate(block.refinements)}
    scalars: dict[str, int] = {}
    statements = tuple(
        _form(statement, views) if isinstance(statement, stripe.Block) else _statement(statement, views, scalars)
        for statement in block.statements
    )
    return (
        tuple((outer.get(view.source), _view(view), _exact(view.tags)) for view in block.refinements),
        tuple((_index(index), _exact(index.tags)) for index in block.indices),
        block.constraints,
        block.location,
        _exact(block.tags),
        block.deps,
        block.reduction,
        block.instruction,
        statements,
    )


def _statement(statement: stripe.Statement, views: Mapping[str, int], scalars: dict[str, int]) -> object:
    """Return the form of a statement; scalars get numbers when they are defined."""
    used = tuple(map(scalars.get, stripe.scalar_inputs(statement)))
    read = tuple(map(views.get, stripe.views_read(statement)))
    written = tuple(map(views.get, stripe.views_written(statement)))
    defined = stripe.scalar_output(statement)
    if defined is not None:
        scalars[defined] = len(scalars)
    kind: type = type(statement)
    return kind, used, read, written, _content_of(kind)(statement), _exact(statement.tags), statement.deps


@cache
def _content_of(kind: type) -> Callable[[object], object]:
    """Return a function from statements to their content without names: their data fields."""
    named = {slot.name for slot in slots(kind)} | {"tags", "deps"}
    fields = [field for field in attrs.fields(kind) if field.name not in named]
    if not any(field.eq_key for field in fields):
        return attrgetter(*(field.name for field in fields)) if fields else lambda _: None
    keys = [(attrgetter(field.name), field.eq_key or (lambda value: value)) for field in fields]
    return lambda statement: tuple([key(get(statement)) for get, key in keys])


def _exact(tags: stripe.Tags) -> str:
    """Return tags as text, which distinguishes 0.0 from -0.0 and 1 from True."""
    return repr(tags.items) if tags.items else ""
