"""Small Stripe programs with every shape of kernel that passes must know, and arrays to run them on."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import attrs
import islpy as isl
import numpy as np
from hypothesis import strategies as st

from tileir.core.dtype import DType
from tileir.core.ops import Aggregation, Combination, Op
from tileir.poly.affine import Affine
from tileir.stripe.flattening import flattened
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Block, Direction, Program, Refinement, TensorShape
from tileir.stripe.lower.lowering import lower
from tileir.stripe.text.parser import parse_block
from tileir.typed.ir import (
    Access,
    Cast,
    Constant,
    Constraint,
    Contraction,
    Coordinate,
    Elementwise,
    Function,
    Gather,
    Reshape,
    Scatter,
    Value,
)
from tileir_testing.isl.index_flow import premature_reads, undefined_reads
from tileir_testing.isl.index_leaves import stores
from tileir_testing.isl.index_sets import difference, races

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tileir.typed.ir import Operation, Shape

    Array: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.generic]]

SHAPES: tuple[Shape, ...] = ((), (4,), (1, 4), (3, 1), (3, 4), (4, 3), (2, 6), (12,), (2, 3, 2))
"""Shapes that broadcast with each other, reshape into each other, or fit a product or a window."""


MOST_LEAVES = 60
"""Stores of programs whose index sets are compared: unrolled ones have thousands."""

MOST_OPERATIONS = 50_000
"""Steps that isl may take for one question; some polyhedra of small programs take minutes."""


@attrs.define
class _Functions:
    """Draws one operation after the other; values are i32, so that no result depends on an order of sums."""

    draw: st.DrawFn
    values: dict[str, Shape]
    operations: list[Operation] = attrs.field(factory=list)

    def pick(self) -> str:
        return self.draw(st.sampled_from(list(self.values)))

    def name(self) -> str:
        return f"v{len(self.operations)}"

    def add(self, operation: Operation) -> None:
        self.operations.append(operation)
        if operation.dtype is DType.I32:
            self.values[operation.name] = operation.shape

    def elementwise(self) -> None:
        left, right = self.pick(), self.pick()
        try:
            shape = np.broadcast_shapes(self.values[left], self.values[right])
        except ValueError:
            right, shape = left, self.values[left]
        op = self.draw(st.sampled_from((Op.ADD, Op.MUL, Op.MAX, Op.SUB)))
        self.add(Elementwise(self.name(), op, (left, right), DType.I32, shape))

    def choice(self) -> None:
        value = self.pick()
        shape = self.values[value]
        zero = Constant(self.name(), DType.I32, 0)
        self.add(zero)
        self.values.pop(zero.name)
        positive = Elementwise(self.name(), Op.CMP_GT, (value, zero.name), DType.BOOL, shape)
        self.add(positive)
        self.add(Elementwise(self.name(), Op.COND, (positive.name, value, zero.name), DType.I32, shape))

    def cast(self) -> None:
        value = self.pick()
        shape = self.values[value]
        narrow = Cast(self.name(), value, DType.I8, shape)
        self.add(narrow)
        self.add(Cast(self.name(), narrow.name, DType.I32, shape))

    def reshape(self) -> None:
        value = self.pick()
        count = int(np.prod(self.values[value]))
        shapes = [shape for shape in SHAPES if int(np.prod(shape)) == count]
        self.add(Reshape(self.name(), value, DType.I32, self.draw(st.sampled_from(shapes or [self.values[value]]))))

    def coordinate(self) -> None:
        shape = self.values[self.pick()]
        if shape:
            self.add(Coordinate(self.name(), self.draw(st.integers(0, len(shape) - 1)), DType.I32, shape))

    def gather(self) -> None:
        data, indices = self.pick(), self.pick()
        if self.values[data]:
            shape = (*self.values[indices], *self.values[data][1:])
            self.add(Gather(self.name(), data, indices, DType.I32, shape))

    def scatter(self) -> None:
        indices = self.pick()
        shape = self.values[indices]
        if shape:
            self.add(Scatter(self.name(), indices, indices, DType.I32, DType.I32, (5,)))

    def reduce(self) -> None:
        """Aggregate along some axes, or move axes about."""
        value = self.pick()
        shape = self.values[value]
        kept = self.draw(st.permutations(range(len(shape))))[: self.draw(st.integers(0, len(shape)))]
        names = [f"i{axis}" for axis in range(len(shape))]
        output = tuple(Affine.index(names[axis]) for axis in kept)
        result = tuple(shape[axis] for axis in kept)
        unique = len(kept) == len(shape)
        how = self.draw(st.sampled_from(tuple(Aggregation)[: None if unique else -1]))
        inputs = (Access(value, tuple(map(Affine.index, names))),)
        self._contract(output, inputs, how, Combination.NONE, result)

    def product(self) -> None:
        pairs = [
            (a, b)
            for a, one in self.values.items()
            for b, other in self.values.items()
            if len(one) == len(other) == 2 and one[1] == other[0]
        ]
        if not pairs:
            return
        left, right = self.draw(st.sampled_from(pairs))
        i, j, k = map(Affine.index, "ijk")
        inputs = (Access(left, (i, k)), Access(right, (k, j)))
        how = self.draw(st.sampled_from((Aggregation.SUM, Aggregation.MAX)))
        shape = (self.values[left][0], self.values[right][1])
        self._contract((i, j), inputs, how, Combination.MUL, shape)

    def window(self) -> None:
        """Slide a window over a vector: with padding, gaps, partial results or all at once."""
        value = self.pick()
        if len(self.values[value]) != 1:
            return
        x, k = Affine.index("x"), Affine.index("k")
        step, offset = self.draw(st.integers(1, 2)), self.draw(st.integers(-2, 1))
        inputs = (Access(value, (x + k + offset,)),)
        width = Constraint(k, self.draw(st.integers(1, 3)))
        size = self.draw(st.integers(1, 6))
        defaults = [name for name, shape in self.values.items() if shape == (size,)]
        default = self.draw(st.sampled_from([None, *defaults]))
        how = self.draw(st.sampled_from((Aggregation.SUM, Aggregation.MAX, Aggregation.MIN, Aggregation.PROD)))
        self._contract((x * step,), inputs, how, Combination.NONE, (size,), (width,), default)

    def overlap(self) -> None:
        """Add up what falls on one element from several output points."""
        value = self.pick()
        shape = self.values[value]
        if len(shape) != 2:
            return
        i, j = Affine.index("i"), Affine.index("j")
        self._contract(
            (i + j,), (Access(value, (i, j)),), Aggregation.SUM, Combination.NONE, (sum(shape) - 1,), reduce=False
        )

    def _contract(
        self,
        output: tuple[Affine, ...],
        inputs: tuple[Access, ...],
        how: Aggregation,
        combination: Combination,
        shape: Shape,
        constraints: tuple[Constraint, ...] = (),
        default: str | None = None,
        *,
        reduce: bool = True,
    ) -> None:
        dtype = DType.I32
        self.add(
            Contraction(
                self.name(), output, inputs, how, combination, dtype, dtype, dtype, shape, constraints, default, reduce
            )
        )


KINDS = ("elementwise",) * 4 + (
    "choice", "cast", "reshape", "coordinate", "gather", "scatter", "reduce", "product", "window", "overlap",
)  # fmt: skip


@st.composite
def functions(draw: st.DrawFn, most: int = 8, kinds: tuple[str, ...] = KINDS) -> Function:
    """Typed functions of up to ``most`` steps over small i32 tensors."""
    shapes = draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3))
    inputs = tuple(Value(f"in{number}", DType.I32, shape) for number, shape in enumerate(shapes))
    build = _Functions(draw, {value.name: value.shape for value in inputs})
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=most)):
        getattr(build, kind)()
    if not build.operations:
        build.elementwise()
    made = [operation.name for operation in build.operations]
    last = made[-1]
    outputs = draw(st.lists(st.sampled_from(made), max_size=2, unique=True).filter(lambda names: last not in names))
    return Function(inputs, (*outputs, last), tuple(build.operations))


def programs(most: int = 8, kinds: tuple[str, ...] = KINDS) -> st.SearchStrategy[Program]:
    """Stripe programs as lowering makes them."""
    return functions(most, kinds).map(lower)


def arrays_for(program: Program, seed: int = 0) -> dict[str, Array]:
    """Return small random integers for each parameter."""
    random = np.random.default_rng(seed)
    shapes = {name: program.entry.refinement(name).shape for name in program.inputs}
    return {name: random.integers(-4, 5, shape.sizes).astype(shape.dtype.numpy) for name, shape in shapes.items()}


def assert_same_meaning(
    before: Program, after: Program, arrays: Mapping[str, Array] | None = None, *, whole: bool = True
) -> None:
    """Run both programs, the second one also with shuffled points, and compare the results; see :func:`assert_ordered`.

    Args:
        before: A program.
        after: What passes made of it.
        arrays: An array for each input; by default random ones.
        whole: Whether the programs write all of their memory, so that nothing undefined is copied.

    """
    given = arrays_for(before) if arrays is None else arrays
    expected = interpret(before, given)
    for seed in (None, 7):
        actual = interpret(after, given, seed=seed)
        assert actual.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_array_equal(actual[name], value, err_msg=name)
    assert_ordered(after, whole=whole)


def assert_same_index_sets(before: Program, after: Program) -> None:
    """Compare which elements meet at the points of two programs, as far as isl does so at once."""
    if max(len(stores(before).leaves), len(stores(after).leaves)) <= MOST_LEAVES:
        found = _decided(lambda: difference(before, after))
        assert not found, found


def assert_ordered(program: Program, *, whole: bool = True) -> None:
    """Let no points that may run at once depend, and nothing be read before it was written for good, as isl tells.

    A loop overwrites its state, which its steps have read. ``whole`` as for :func:`assert_same_meaning`.
    """
    leaves = stores(program).leaves
    loops = any(not unordered and end > start for leaf in leaves for start, end, unordered in leaf.parallel)
    checks = {races: True, undefined_reads: whole, premature_reads: not loops}
    if len(leaves) <= MOST_LEAVES:
        for faults in (check for check, applies in checks.items() if applies):
            found = _decided(partial(faults, program))
            assert not found, found


def _decided(faults: Callable[[], object]) -> object:
    """Return what isl finds, None where that takes more than a moment."""
    context = isl.DEFAULT_CONTEXT
    context.reset_operations()
    context.set_max_operations(MOST_OPERATIONS)
    try:
        return faults()
    except isl.Error:  # while it parses, isl calls it a syntax error
        return None
    finally:
        context.set_max_operations(0)


VECTOR_SUM = """
block [i:{size}]:{size} ( // {result}
  in {left}[i] fp32:I(1):(1):4 B
  in {right}[i] fp32:I(1):(1):4 B
  out {result}[i] fp32:I(1):(1):4 B
) {{
  0: $a = load({left})
  1: $b = load({right})
  2: $c = add($a, $b)
  3: {result} = store($c)
}}
"""


def vector_sums(*names: str, size: int = 64, outputs: tuple[str, ...] | None = None) -> Program:
    """Return kernels that each add two vectors, by three letters each; by default the last one makes the result."""
    kernels = [VECTOR_SUM.format(left=name[0], right=name[1], result=name[2], size=size) for name in names]
    return program_of(kernels, dict.fromkeys("".join(names), (size,)), outputs or (names[-1][-1],))


def program_of(
    kernels: Iterable[str],
    sizes: Mapping[str, Shape],
    outputs: tuple[str, ...] = ("O",),
    inputs: tuple[str, ...] | None = None,
    dtype: DType = DType.F32,
) -> Program:
    """Return a program of kernels in Stripe text over dense tensors; by default what no kernel writes is an input."""
    blocks = tuple(parse_block(f"0: {text.strip()}") for text in kernels)
    written = {r.source for block in blocks for r in block.refinements if r.direction.writes}
    given = tuple(name for name in sizes if name not in written) if inputs is None else inputs
    allocations, views = [], []
    for name, extents in sizes.items():
        shape = TensorShape.dense(dtype, extents)
        zero = (Affine(),) * len(extents)
        allocations.append(Refinement(name, Direction.NONE, "", zero, shape))
        direction = Direction.IN if name in given else Direction.OUT
        views.append(Refinement(name, direction, name, zero, shape))
    main = Block("main", refinements=tuple(views), statements=blocks)
    entry = Block("test", refinements=tuple(allocations), statements=(main,))
    return flattened(entry, given, outputs)
