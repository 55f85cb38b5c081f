"""Merges into places that data choose, by all threads at the same time where their order does not matter.

```text
O = fill(0)                     O = fill(0)
O[$i] = store_add($d)    ->     O[$i] = store_add($d)  atomic          of i32

O = fill(0)                     W = fill(0)                            an i32 for each i8
O[$i] = store_add($d)    ->     W[$i] = store_add(i32($d))  atomic
                                O = i8(W)
```
"""

from __future__ import annotations

from typing import ClassVar

from tileir.core import DType, NameScope, attrs
from tileir.core.updates import updated_in
from tileir.passes.base import at_least, with_temporaries
from tileir.passes.kernels.expansion import called_block, left
from tileir.passes.kernels.forms import against_flat
from tileir.schedule import Refused, refused, refusing, remark, rule_out
from tileir.stripe import ir as stripe


@attrs.frozen
class AtomicScatter:
    """Turn scatters whose order does not matter into atomic updates.

    Those are sums of integers, and maxima and minima: results have the same bits in any order. Elements that are
    narrower than what devices update are kept in wider ones meanwhile.

    Attributes:
        update_bytes: The widest elements that the device updates as one step; 0 where it updates none.
    """

    name: ClassVar[str] = "atomic_scatter"
    update_bytes: int = attrs.field(default=0, validator=at_least(0))

    def __call__(self, program: stripe.Program) -> stripe.Program:
        """Return the program with such stores marked."""
        if not self.update_bytes:
            return left(program, refused("TR620"))
        names = NameScope.of(r.name for r in program.memory)
        statements: list[stripe.Statement] = []
        added: list[stripe.Refinement] = []
        changed = False
        for number, kernel in enumerate(program.main.statements):
            clear = statements[-1] if statements else None
            why = self._against(clear, kernel) if isinstance(kernel, stripe.Block) else None
            if isinstance(kernel, stripe.Block):
                remark(called_block(kernel), why, number=number)
            if not isinstance(kernel, stripe.Block) or not isinstance(clear, stripe.Block) or why is not None:
                statements.append(kernel)
                continue
            changed = True
            (output,) = _written(kernel)
            wide = _wide(output)
            if wide is output.shape.dtype:
                statements.append(_marked(kernel, output, output))
                continue
            made, memory = _widened(clear, kernel, names)
            statements[-1:] = made
            added.append(memory)
        return with_temporaries(program, statements, added) if changed else program

    @refusing
    def _against(self, clear: stripe.Statement | None, kernel: stripe.Block) -> Refused | None:
        """Return why updates need an order; None where all threads may make them."""
        if "scatter" not in kernel.tags:
            return refused("TR664")
        rule_out(against_flat(kernel))
        (output,) = _written(kernel)
        if not (
            isinstance(clear, stripe.Block)
            and "fill" in clear.tags
            and [each.source for each in _written(clear)] == [output.source]
            and not any(each.direction.reads for each in clear.refinements)
        ):
            return refused("TR665")
        wide = _wide(output)
        if wide is None or wide.itemsize > self.update_bytes:
            return refused("TR620" if wide else "TR692", view=output.source)
        return None


def _written(kernel: stripe.Block) -> tuple[stripe.Refinement, ...]:
    return tuple(each for each in kernel.refinements if each.direction.writes)


def _wide(output: stripe.Refinement) -> DType | None:
    """Return the dtype in which elements are updated; None where their order matters."""
    how = output.aggregation
    return None if how is None or how.op is None else updated_in(how.op, output.shape.dtype)


def _marked(kernel: stripe.Block, output: stripe.Refinement, into: stripe.Refinement) -> stripe.Block:
    """Return a kernel whose stores are marked, and go to another view, of whose dtype they are."""
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
    clear: stripe.Block, kernel: stripe.Block, names: NameScope
) -> tuple[tuple[stripe.Block, ...], stripe.Refinement]:
    """Return kernels that clear wider memory, update it, and convert it, and this memory."""
    (output,), (cleared,) = _written(kernel), _written(clear)
    wide = _wide(output)
    assert wide is not None  # as the kernel was not refused
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
    return (empty, _marked(kernel, output, view(output, output.direction)), back), memory
