"""Scatters whose order does not matter, by concurrent atomic updates.

```text O = fill(0)                     O = fill(0) O[$i] = store_add($d)    ->     O[$i] = store_add($d)  atomic
of i32

O = fill(0)                     W = fill(0)                            an i32 for each i8 O[$i] = store_add($d)    ->
W[$i] = store_add(i32($d))  atomic
                                O = i8(W)
```
"""

from __future__ import annotations

from typing import ClassVar

from tileir.core import DType, NameScope, attrs
from tileir.core.updates import updated_in
from tileir.passes.base import at_least
from tileir.passes.kernels import cleared_scatter, left
from tileir.passes.kernels.replacement import Outcome, Replacement, replaced_behind
from tileir.schedule import accepted, refused, refusing
from tileir.stripe import ir as stripe


@attrs.frozen
class AtomicScatter:
    """Turn scatters whose order does not matter into atomic updates.

    Applies to sums of integers, and to maxima and minima, whose results have the same bits in any order. Elements
    narrower than the device's atomics are accumulated in wider ones.

    Attributes:
        update_bytes: Widest element that the device updates atomically, in bytes; 0 if it has no atomics.
    """

    name: ClassVar[str] = "atomic_scatter"
    update_bytes: int = attrs.field(default=0, validator=at_least(0))

    def __call__(self, program: stripe.Program) -> stripe.Program:
        """Return the program with these stores marked."""
        if not self.update_bytes:
            return left(program, refused("TR620"))
        return replaced_behind(program, self._updated)

    @refusing
    def _updated(self, before: stripe.Statement | None, kernel: stripe.Block, names: NameScope) -> Outcome:
        """Return a kernel with atomic stores; refused if their order matters."""
        clear, output = accepted(cleared_scatter(before, kernel))
        if any(each.direction.reads for each in clear.refinements):
            return refused("TR665")
        how, dtype = output.aggregation, output.shape.dtype
        wide = None if how is None or how.op is None else updated_in(how.op, dtype)
        if wide is None or wide.itemsize > self.update_bytes:
            return refused("TR620" if wide else "TR692", view=output.source)
        if wide is dtype:
            return Replacement((_marked(kernel, output, output),))
        return _widened(clear, kernel, output, wide, names)


def _marked(kernel: stripe.Block, output: stripe.Refinement, into: stripe.Refinement) -> stripe.Block:
    """Return a kernel whose stores are marked, and go to another view, with conversion to its dtype."""
    statements: list[stripe.Statement] = []
    for statement in kernel.statements:
        if isinstance(statement, stripe.Store) and statement.into == output.name:
            source = statement.source
            if into is not output:
                source = f"{source}_wide"
                statements.append(stripe.Convert(statement.source, source, into.shape.dtype))
            statement = attrs.evolve(statement, source=source, tags=statement.tags.add(stripe.ATOMIC))
        statements.append(statement)
    refinements = tuple(into if each is output else each for each in kernel.refinements)
    return attrs.evolve(kernel, refinements=refinements, statements=tuple(statements), deps=())


def _widened(
    clear: stripe.Block, kernel: stripe.Block, output: stripe.Refinement, wide: DType, names: NameScope
) -> Replacement:
    """Return kernels that clear wider memory, update it, and convert it, and this memory."""
    (cleared,) = (each for each in clear.refinements if each.direction.writes)
    sizes = [int(access.bounds(clear.ranges)[1]) + 1 for access in cleared.access]
    memory = stripe.allocation(names.fresh(f"{output.source}_wide"), wide, sizes)

    def view(of: stripe.Refinement, direction: stripe.Direction) -> stripe.Refinement:
        dims = tuple(attrs.evolve(dim, size=size) for dim, size in zip(memory.shape.dims, of.shape.sizes, strict=True))
        shape = attrs.evolve(memory.shape, dims=dims)
        return attrs.evolve(of, source=memory.name, direction=direction, shape=shape)

    first = tuple(
        attrs.evolve(each, dtype=wide, value=wide.typed(each.value)) if isinstance(each, stripe.Constant) else each
        for each in clear.statements
    )
    empty = attrs.evolve(clear, refinements=(view(cleared, cleared.direction),), statements=first, deps=())
    source = attrs.evolve(view(cleared, stripe.Direction.IN), name="wide", aggregation=None)
    back = attrs.evolve(
        clear,
        name=f"{kernel.name}_narrow" if kernel.name else "",
        refinements=(source, cleared),
        statements=(
            stripe.Load("wide", "element"),
            stripe.Convert("element", "narrow", output.shape.dtype),
            stripe.Store("narrow", cleared.name),
        ),
        comments=kernel.comments,
        tags=stripe.Tags.of("eltwise"),
        deps=(),
    )
    blocks = (empty, _marked(kernel, output, view(output, output.direction)), back)
    return Replacement(blocks, (memory,), clears=True)
