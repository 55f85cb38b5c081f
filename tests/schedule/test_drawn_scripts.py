"""Scripts at random keep the meaning of kernels, whatever of them is refused."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import attrs
import numpy as np
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.passes import arrays_for, assert_same_meaning, programs
from tileir.core.targets.target import Target
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import expand_kernels, run
from tileir.passes.schedules.scripted import expanded_with_makers
from tileir.schedule.emission import kernels_of
from tileir.schedule.remarks import Refused
from tileir.schedule.script import applied
from tileir.schedule.steps.folding import Fold
from tileir.schedule.steps.iterations import Distribute, Fuse, Persist, Skew
from tileir.schedule.steps.loops import Bind, Cut, Jam, Join, Reorder, Specialise, Split
from tileir.schedule.steps.memory import Accumulate as AccumulateApart, Level, Outside, Pipeline, RFactor, Stage
from tileir.schedule.steps.producers import ComputeAt, Inline
from tileir.schedule.steps.tensors import Interleave
from tileir.schedule.tree import Known, Loop, Tail, leaves, no_producer, tree_of
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.lower.lowering import lower as lower_to_semtree
from tileir.stripe.bindings import Binding
from tileir.stripe.interpret.interpreter import interpret

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.schedule.script import Step
    from tileir.schedule.tree import Producers, Tree
    from tileir.stripe.ir import Block, Program


def chains(tree: Tree) -> list[tuple[str, ...]]:
    """Return the names of loops that stand in one another with nothing between them, of two and more."""
    found = []
    for loop in tree.loops():
        chain = [loop]
        while len(chain[-1].body) == 1 and isinstance(chain[-1].body[0], Loop):
            chain.append(chain[-1].body[0])
        found.append(tuple(each.name for each in chain))
    return found


def neighbours(tree: Tree) -> list[tuple[str, str]]:
    """Return the names of loops that stand beside each other."""
    bodies = [tree.body, *(loop.body for loop in tree.loops())]
    pairs = [pair for body in bodies for pair in pairwise(body)]
    return [(one.name, other.name) for one, other in pairs if isinstance(one, Loop) and isinstance(other, Loop)]


@st.composite
def steps(draw: st.DrawFn, tree: Tree, number: int) -> Step | None:
    """Draw a step of which a tree has the loops and the memory; None where it has no loops."""
    names = list(dict.fromkeys(loop.name for loop in tree.loops()))
    if not names:
        return None
    loop, into = draw(st.sampled_from(names)), (f"a{number}", f"b{number}")
    roots = sorted({use.root for leaf in leaves(tree.body) for use in leaf.uses})
    held = [*tree.allocations, *(each for found in tree.loops() for each in found.allocations)]
    memory = [each.name for each in held] or roots
    chain = draw(st.sampled_from(chains(tree)))
    part = chain[: draw(st.integers(1, len(chain)))]
    step: Step = draw(
        st.one_of(
            st.builds(Split, st.just(loop), st.integers(1, 5), st.just(into), st.sampled_from(Tail)),
            st.builds(Reorder, st.permutations(part).map(tuple)),
            st.builds(Join, st.just((part * 2)[:2]), st.just(into[0])),
            st.builds(Jam, st.just(part), st.sampled_from([(), *((name,) for name in names)])),
            st.builds(Cut, st.just(loop), st.integers(1, 4), st.just(into)),
            st.builds(Specialise, st.just(loop), st.just((*into, f"c{number}"))),
            st.builds(Bind, st.just(loop), st.sampled_from(Binding)),
            st.builds(Fuse, st.sampled_from(neighbours(tree) or [(loop, loop)]), st.just(into[0])),
            st.builds(Distribute, st.just(loop), st.integers(1, 3), st.just(into)),
            st.builds(Skew, st.just((part * 2)[:2]), st.integers(1, 3), st.just(into[0])),
            st.builds(Persist, st.just(loop), st.integers(1, 4), st.just(into)),
            st.builds(Stage, st.sampled_from(roots), st.just(loop), st.just(into[0]), st.sampled_from(Level)),
            st.builds(
                Stage,
                st.sampled_from(roots),
                st.just(loop),
                st.just(into[0]),
                st.just(Level.SCRATCH),
                over=st.sampled_from([(), *(chain[-count:] for count in range(1, len(chain) + 1))]),
                pad=st.integers(0, 2),
                lanes=st.integers(1, 3),
                outside=st.sampled_from(Outside),
            ),
            st.builds(AccumulateApart, st.sampled_from(roots), st.just(loop), st.just(into[0])),
            st.builds(
                RFactor,
                st.sampled_from(roots),
                st.just(loop),
                st.just(into[0]),
                through=st.sampled_from([(), (2,), (4,), (4, 2)]),
                around=st.sampled_from(["", *names]),
            ),
            st.builds(
                Interleave,
                st.sampled_from(memory),
                st.integers(0, 2),
                st.integers(2, 3),
            ),
        )
    )
    return step


@st.composite
def steps_of_groups(draw: st.DrawFn, tree: Tree, number: int) -> Step | None:
    """Draw a step of those that share out the points of a kernel to threads."""
    names = list(dict.fromkeys(loop.name for loop in tree.loops()))
    if not names:
        return None
    loop, into = draw(st.sampled_from(names)), (f"a{number}", f"b{number}")
    roots = sorted({use.root for leaf in leaves(tree.body) for use in leaf.uses})
    chain = draw(st.sampled_from(chains(tree)))
    holding = [each.name for each in tree.loops() if each.allocations]
    bindings = (Binding.THREAD, Binding.THREAD, Binding.THREAD, Binding.GRID, Binding.UNROLL)
    step: Step = draw(
        st.one_of(
            st.builds(Cut, st.just(loop), st.integers(1, 4), st.just(into)),
            st.builds(Split, st.just(loop), st.integers(2, 3), st.just(into), st.sampled_from(Tail)),
            st.builds(Jam, st.just(chain[: draw(st.integers(1, len(chain)))])),
            st.builds(Bind, st.just(loop), st.sampled_from(bindings)),
            st.builds(Bind, st.just((loop, chain[-1]) if loop != chain[-1] else loop), st.just(Binding.THREAD)),
            st.builds(RFactor, st.sampled_from(roots), st.just(loop), st.just(into[0]), st.sampled_from(Level)),
            st.builds(Stage, st.sampled_from(roots), st.just(loop), st.just(into[0]), st.just(Level.LOCAL)),
            st.builds(Pipeline, st.sampled_from(holding or [loop]), st.integers(2, 3)),
        )
    )
    return step


@attrs.define
class Drawn:
    """Applies drawn steps to each kernel, as a pass does."""

    name: ClassVar[str] = "drawn"
    data: st.DataObject
    most: int
    steps: Callable[[Tree, int], st.SearchStrategy[Step | None]]
    done: list[object] = attrs.field(factory=list)

    def __call__(self, program: Program) -> Program:
        return expand_kernels(program, self._kernel)

    def _kernel(self, kernel: Block, producer: Producers = no_producer) -> tuple[Block, ...]:
        tree = tree_of(kernel)
        if isinstance(tree, Refused):
            return (kernel,)
        for number in range(self.most):
            step = self.data.draw(self.steps(tree, number))
            if step is None:
                break
            new = applied(step, tree, Known(producer=producer))
            if not isinstance(new, Refused):
                self.done.append(step)
                tree = new
        made = kernels_of(tree)
        return (kernel,) if isinstance(made, Refused) else made


def assert_drawn_steps_keep(program: Program, drawn: Drawn, *, ahead: bool = False) -> None:
    before = run([Accumulate()], program)
    after = run([drawn], before)  # which verifies
    assert_same_meaning(before, after)
    arrays = arrays_for(before)
    found = run_program(lower_to_semtree(after, Target(async_copies=ahead)), arrays, ALL_CHECKS)
    for name, expected in interpret(before, arrays).items():
        np.testing.assert_array_equal(found[name], expected)


@examples(100)
@given(program=programs(most=3), data=st.data(), most=st.integers(1, 8))
def test_drawn_steps_keep_the_meaning(program: Program, data: st.DataObject, most: int) -> None:
    assert_drawn_steps_keep(program, Drawn(data, most, steps))


@st.composite
def steps_that_take_in(draw: st.DrawFn, tree: Tree, number: int) -> Step | None:
    """Draw a step that takes in another kernel, or one that makes room for it."""
    names = [loop.name for loop in tree.loops()]
    if not names or draw(st.integers(0, 3)) == 0:
        return draw(steps(tree, number)) if names else None
    read = sorted({use.root for leaf in leaves(tree.body) for use in leaf.uses if not use.direction.writes})
    root, loop = draw(st.sampled_from(read or [""])), draw(st.sampled_from(names))
    at: Step = draw(st.builds(ComputeAt, st.just(root), st.just(loop), st.just(f"p{number}"), st.sampled_from(Level)))
    held = [(each.name, around.name) for around in tree.loops() for each in around.allocations if each.shape.dims]
    memory, around = draw(st.sampled_from(held or [(root, loop)]))
    rows, axis = draw(st.integers(1, 4)), draw(st.integers(0, 1))
    fold: Step = Fold(memory, around, rows, f"r{number}", axis)
    return draw(st.sampled_from((at, at, Inline(root), *(fold,) * (2 if held else 0))))


@attrs.define
class DrawnWithMakers(Drawn):
    """Applies drawn steps to each kernel, which may take in those before it."""

    def __call__(self, program: Program) -> Program:
        return expanded_with_makers(program, self._kernel)


@examples(150)
@given(
    program=programs(most=4, kinds=("elementwise", "elementwise", "reduce", "product", "window", "choice", "cast")),
    data=st.data(),
    most=st.integers(1, 5),
)
def test_kernels_that_take_in_others_keep_the_meaning(program: Program, data: st.DataObject, most: int) -> None:
    assert_drawn_steps_keep(program, DrawnWithMakers(data, most, steps_that_take_in))


@examples(100)
@given(
    program=programs(most=2, kinds=("elementwise", "reduce", "product", "product", "window")),
    data=st.data(),
    most=st.integers(2, 10),
)
def test_threads_keep_the_meaning(program: Program, data: st.DataObject, most: int) -> None:
    assert_drawn_steps_keep(program, Drawn(data, most, steps_of_groups), ahead=data.draw(st.booleans()))


def steps_of_groups_that_take_in(tree: Tree, number: int) -> st.SearchStrategy[Step | None]:
    return st.one_of(steps_that_take_in(tree, number), steps_of_groups(tree, number))


@examples(100)
@given(
    program=programs(most=3, kinds=("elementwise", "reduce", "product", "window")),
    data=st.data(),
    most=st.integers(2, 8),
)
def test_threads_of_kernels_that_take_in_others_keep_the_meaning(
    program: Program, data: st.DataObject, most: int
) -> None:
    drawn = DrawnWithMakers(data, most, steps_of_groups_that_take_in)
    assert_drawn_steps_keep(program, drawn, ahead=data.draw(st.booleans()))
