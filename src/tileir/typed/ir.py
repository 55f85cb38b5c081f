"""Nodes of a typed function: one flat tuple of operations, each of which defines one value by name.

Casts and broadcasts of dtype are explicit (all operands of an operation have the dtype that its table row asks for);
broadcasts of shape are implicit in :class:`Elementwise`, right-aligned as in NumPy. No operation changes a value.
"""

from __future__ import annotations

import enum
import math
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from tileir.core import (
    BODY,
    INTRODUCES,
    USES,
    Aggregation,
    ArrayValue,
    Combination,
    Combine,
    DType,
    NotebookProgram,
    Op,
    Span,
    attrs,
    call_of,
    counted,
    schema,
    span_field,
)
from tileir.core.nodes.rules import Rule
from tileir.poly.affine import Affine
from tileir.typed.node import Node, TopLevelNode
from tileir.typed.sharding.mesh import CollectiveKind, Split
from tileir.typed.tensor_type import Shape as Shape, TensorType as TensorType

if TYPE_CHECKING:
    import networkx as nx


@attrs.frozen(cache_hash=True, repr=False)
class NumberNode(Node):
    """Base of steps."""

    head: ClassVar[str] = "{name}: number[({dtype})] = "
    name: str


@attrs.frozen(cache_hash=True, repr=False)
class NumberLiteral(NumberNode):
    """A number of the program; without a dtype it is exact and adapts to its operands."""

    form: ClassVar[str] = "{value}"
    value: bool | int | float = attrs.field(eq=repr)
    dtype: DType | None
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class NumberCast(NumberNode):
    """A number converted to ``dtype`` by a cast of the program."""

    form: ClassVar[str] = "cast({input})"
    input: str
    dtype: DType
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class NumberArithmetic(NumberNode):
    """``op`` on numbers, computed as on literals: exactly or in f64 without a dtype, else in ``dtype``."""

    form: ClassVar[str] = "{op}({inputs})"
    op: Op
    inputs: tuple[str, ...]
    dtype: DType | None
    span: Span | None = span_field()


NumberStep: TypeAlias = NumberLiteral | NumberCast | NumberArithmetic
"""A number that each call computes from numbers among its arguments and earlier steps before anything runs."""


def step_inputs(step: NumberStep) -> tuple[str, ...]:
    """Return the names that a step reads."""
    match step:
        case NumberArithmetic(inputs=inputs):
            return inputs
        case NumberCast(input=source):
            return (source,)
        case NumberLiteral():
            return ()


def counting(size: int) -> DType:
    """Return the dtype of positions on an axis of this size."""
    return DType.I32 if size <= DType.I32.maximum else DType.I64


def _keeps(operation: Operation, source: Value | Operation, *_: object) -> bool:
    return operation.dtype is source.dtype and operation.shape == source.shape


_ITSELF: Final = Rule(_keeps, lambda _, source, *__: f"is {source.name!r} itself, but has another dtype or shape")


@attrs.frozen(cache_hash=True, repr=False)
class Definition(Node):
    """Base of definitions of values.

    Attributes:
        rules: The invariants of all nodes of the class, given the definitions of their operands.
        name: The name by which operations read the value.
    """

    rules: ClassVar[tuple[Rule, ...]] = ()
    head: ClassVar[str] = r"{name}: {dtype}\[{shape}\] = "
    name: str = attrs.field(metadata=INTRODUCES)


@attrs.frozen(cache_hash=True, repr=False)
class Value(Definition):
    """A parameter of the function.

    Attributes:
        name: The name by which operations read it.
        dtype: Its element type.
        shape: Its sizes.
        number: None for an array argument; else the argument or step of :attr:`Function.numbers` that each call
            converts to ``dtype``, which must hold it.
    """

    head: ClassVar[str] = ""
    form: ClassVar[str] = r"{name}: {dtype}\[{shape}\][ = {number}]"
    dtype: DType
    shape: Shape
    number: str | None = None
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Constant(Definition):
    """A scalar known when compiling; ``value`` is representable in ``dtype``. Its shape is ()."""

    form: ClassVar[str] = "constant({value})"
    dtype: DType
    value: bool | int | float = attrs.field(eq=repr)  # 0.0 and -0.0 differ, NaN equals itself
    span: Span | None = span_field()

    @property
    def shape(self) -> Shape:
        """The shape of a scalar."""
        return ()


@attrs.frozen(cache_hash=True, repr=False)
class ArrayConstant(Definition):
    """An array known when compiling. It is defined outside of loops and passed to them."""

    form: ClassVar[str] = "array({value})"
    value: ArrayValue
    span: Span | None = span_field()

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.value.dtype

    @property
    def shape(self) -> Shape:
        """One size for each axis."""
        return self.value.shape


@attrs.frozen(cache_hash=True, repr=False)
class Elementwise(Definition):
    """``op`` at every element; ``shape`` is the broadcast of the inputs' shapes."""

    form: ClassVar[str] = "{op}({inputs})"
    op: Op
    inputs: tuple[str, ...] = attrs.field(metadata=USES)
    dtype: DType
    shape: Shape
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Cast(Definition):
    """Convert every element to ``dtype`` by the rules of :func:`tileir.core.numbers.arithmetic.cast`."""

    form: ClassVar[str] = "cast({input})"
    rules: ClassVar = (Rule(lambda cast, source: source.shape == cast.shape, "is a cast, which keeps the shape"),)
    input: str = attrs.field(metadata=USES)
    dtype: DType
    shape: Shape
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Coordinate(Definition):
    """The coordinate of each element along ``axis``; its dtype is i32 (i64 from 2**31 elements on an axis)."""

    form: ClassVar[str] = "coordinate({axis})"
    rules: ClassVar = (
        Rule(
            lambda it: 0 <= it.axis < len(it.shape),
            lambda it: f"is the coordinate on axis {it.axis} of a tensor of rank {len(it.shape)}",
        ),
        Rule(
            lambda it: not 0 <= it.axis < len(it.shape) or it.dtype is counting(it.shape[it.axis]),
            "counts in {dtype.value}",
        ),
    )
    axis: int
    dtype: DType
    shape: Shape
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class ShapeOf(Definition):
    """The i32 vector ``dims``: the shape of a tensor, known when compiling."""

    form: ClassVar[str] = "shape({dims})"
    rules: ClassVar = (
        Rule(
            lambda it: it.shape == (len(it.dims),) and it.dtype is counting(max(it.dims, default=0)),
            lambda it: f"does not have the type of a shape with {len(it.dims)} axes",
        ),
    )
    dims: tuple[int, ...]
    dtype: DType
    shape: Shape
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Reshape(Definition):
    """The same elements in row-major order under another shape."""

    form: ClassVar[str] = "reshape({input})"
    rules: ClassVar = (
        Rule(
            lambda it, source: it.dtype is source.dtype and math.prod(it.shape) == math.prod(source.shape),
            "is a reshape, which keeps dtype and number of elements",
        ),
    )
    input: str = attrs.field(metadata=USES)
    dtype: DType
    shape: Shape
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Argsort(Definition):
    """Positions of the elements of ``input`` in sorted order along ``axis``: the first ``shape[axis]`` of them.

    The order is that of :func:`tileir.core.numbers.arithmetic.order`: stable, with NaN as the greatest element. The
    dtype is that of a :class:`Coordinate`. A :class:`Gather` then sorts keys and payload.
    """

    form: ClassVar[str] = "argsort({input}, {axis})[ {descending}]"
    input: str = attrs.field(metadata=USES)
    axis: int
    descending: bool
    dtype: DType
    shape: Shape
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Gather(Definition):
    """``out[i…, r…] = data[clamp(indices[i…], 0, data.shape[0] - 1), r…]``; indices are i32 or i64."""

    form: ClassVar[str] = "gather({data}, {indices})"
    rules: ClassVar = (
        Rule(
            lambda _, __, indices: indices.dtype in (DType.I32, DType.I64),
            lambda _, __, indices: f"has indices of {indices.dtype.value}",
        ),
        Rule(
            lambda it, data, indices: data.shape and it.shape == indices.shape + data.shape[1:],
            "does not have the shape of the indices followed by the rest of the data's",
        ),
        Rule(
            lambda it, data, _: not data.shape or data.shape[0] > 0 or math.prod(it.shape) == 0,
            "gathers from an empty axis",
        ),
        Rule(
            lambda it, data, _: it.dtype is data.dtype,
            lambda it, data, _: f"has dtype {it.dtype.value}, not that of its data, {data.dtype.value}",
        ),
    )
    data: str = attrs.field(metadata=USES)
    indices: str = attrs.field(metadata=USES)
    dtype: DType
    shape: Shape
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Scatter(Definition):
    """``out[clamp(indices[i…], 0, shape[0] - 1), r…] += updates[i…, r…]`` into zeros, or another aggregation.

    ``accumulator`` is the dtype in which duplicates are aggregated. A row without updates holds the identity of the
    aggregation. ``ASSIGN`` replaces rows of ``into``: if ``ordered``, by the last of their updates; otherwise the
    program promises that no row has two updates, and any of several may win.
    """

    form: ClassVar[str] = "{aggregation:scatter}({updates}, {indices}[, {into}]) in {accumulator}[ {ordered}]"
    updates: str = attrs.field(metadata=USES)
    indices: str = attrs.field(metadata=USES)
    accumulator: DType
    dtype: DType
    shape: Shape
    aggregation: Aggregation = Aggregation.SUM
    into: str | None = attrs.field(default=None, metadata=USES)
    ordered: bool = False
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Access(Node):
    """``tensor[indices…]`` with rational affine indices; only points at which these are integral count."""

    form: ClassVar[str] = r"{tensor}\[{indices}\]"
    tensor: str = attrs.field(metadata=USES)
    indices: tuple[Affine, ...]


@attrs.frozen(cache_hash=True, repr=False)
class Constraint(Node):
    """``0 <= polynomial < bound``."""

    form: ClassVar[str] = "{polynomial} < {bound:integer}"
    polynomial: Affine
    bound: int


@attrs.frozen(cache_hash=True, repr=False)
class Contraction(Definition):
    """Aggregate a combination of the inputs over all valid index points.

    ``output`` holds one polynomial for each axis of ``shape``. Inputs are cast to ``operand_dtype`` before they are
    combined (for ``COND``, only the two that are compared), the combined value to ``accumulator`` before it is
    aggregated, and the aggregate to ``dtype``. Elements that no valid point writes are those of ``default``, a tensor
    of equal dtype and shape, or 0. ``reduce`` is false under ``no_defract``: the index variables are then used as
    written. ``finite`` promises that operands and their sums are finite, so that terms with a factor of 0 may be left
    out.
    """

    form: ClassVar[str] = (
        r"\[{output}\] {aggregation:sign}({inputs:combined})[, {constraints}]"
        r"[ combine {operand_dtype=dtype} aggregate {accumulator=dtype}]"
        r"[ {reduce:no_defract}][ {finite}][ default {default}]"
    )
    output: tuple[Affine, ...]
    inputs: tuple[Access, ...] = attrs.field(metadata=USES)
    aggregation: Aggregation
    combination: Combination
    operand_dtype: DType
    accumulator: DType
    dtype: DType
    shape: Shape
    constraints: tuple[Constraint, ...] = ()
    default: str | None = attrs.field(default=None, metadata=USES)
    reduce: bool = True
    finite: bool = False
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Reduce(Definition):
    """Component ``result`` of the final state of a tuple reduction along ``axes``, which the shape lacks.

    ``axes`` are sorted, and the position of an element is its row-major number in these. The dtype is that of the
    component by the rule of ``combine``. Operations that differ only in ``name``, ``result`` and dtype run once.
    """

    form: ClassVar[str] = "{combine}({input}[, {axes}]): {result}"
    combine: Combine
    input: str = attrs.field(metadata=USES)
    axes: tuple[int, ...]
    result: int
    dtype: DType
    shape: Shape
    span: Span | None = span_field()


class ScanPart(enum.Enum):
    """The part of a loop that a :class:`ScanResult` belongs to."""

    FINAL = "final"
    HISTORY = "history"
    OUTPUT = "output"

    __hash__ = object.__hash__


@attrs.frozen(cache_hash=True, repr=False)
class ScanResult(Node):
    """One result of a loop.

    FINAL is the value of carry ``number`` after the last step, HISTORY its values before each step, stacked at the
    index of the step, and OUTPUT the output ``number`` of the steps, counted after the new carries, also stacked.
    """

    form: ClassVar[str] = "{part} {number}"
    part: ScanPart
    number: int


@attrs.frozen(cache_hash=True, repr=False)
class Scan(Definition):
    """``result`` of a loop over ``count`` steps, which is not unrolled: the meaning is that of ``lax.scan`` in JAX.

    Without a ``count``, the loop runs as long as carry 0, a scalar bool, is true, as ``lax.while_loop`` does. Such a
    loop has no sequences, and its steps return only the new carries.

    The inputs of ``body`` are the carries, one slice for each of ``sequences``, and the constants; its outputs are the
    new carries, with the dtypes and shapes of the carries, and then the outputs of the step. Step t reads element t of
    axis 0 of the sequences, and writes element t of stacked results; ``reverse`` runs from t = count - 1 down to 0.
    Operations that differ only in ``name``, ``result`` and the type that follows from it are one loop and run once.
    """

    form: ClassVar[str] = "scan {body:step}({carries}; {sequences}; {constants}) {count:times}[ {reverse}]: {result}"
    body: Function = attrs.field(metadata=BODY)
    count: int | None
    reverse: bool
    carries: tuple[str, ...] = attrs.field(metadata=USES)
    sequences: tuple[str, ...] = attrs.field(metadata=USES)
    constants: tuple[str, ...] = attrs.field(metadata=USES)
    result: ScanResult
    dtype: DType
    shape: Shape
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Override(Definition):
    """``input`` itself with gradients of its own: each pair (X, G) replaces the gradient of X by G.

    ``upstream`` is the :class:`Upstream` through which the gradients refer to the cotangent of the override, or None. A
    gradient has the dtype of its X and a shape that broadcasts to that of X.
    """

    form: ClassVar[str] = "override_gradient({input}[, {pairs}])[ from {upstream}]"
    rules: ClassVar = (_ITSELF,)
    input: str = attrs.field(metadata=USES)
    pairs: tuple[tuple[str, str], ...] = attrs.field(metadata=USES)
    upstream: str | None = attrs.field(metadata=USES)
    dtype: DType
    shape: Shape
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Upstream(Definition):
    """A placeholder for the cotangent of an :class:`Override`; values computed from it are a template and never run."""

    form: ClassVar[str] = "upstream()"
    dtype: DType
    shape: Shape
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Checkpoint(Definition):
    """``input`` itself, kept for the backward pass; forward values without this mark are recomputed."""

    form: ClassVar[str] = "checkpoint({input})"
    rules: ClassVar = (_ITSELF,)
    input: str = attrs.field(metadata=USES)
    dtype: DType
    shape: Shape
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Recall(Definition):
    """``input`` itself, recomputed from checkpoints for the backward pass number ``sweep``."""

    form: ClassVar[str] = "recall({input}) in sweep {sweep}"
    rules: ClassVar = (_ITSELF,)
    input: str = attrs.field(metadata=USES)
    sweep: int
    dtype: DType
    shape: Shape
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Collective(Definition):
    """``inputs[result]`` itself, after an exchange between the ranks along ``axes`` of a mesh.

    On one device it is its operand. On a mesh, each rank holds its part of ``source`` before and that of ``target``
    after it. If the kind merges, ranks along the axes hold partial aggregates, which are merged in the order of ranks:
    by ``aggregation``, or by the merge of ``combine``, the components of whose state are the inputs.
    """

    form: ClassVar[str] = (
        r"{kind}({inputs}) over {axes} from \[{source}\] to \[{target}\][ by {aggregation}][ of {combine}: {result}]"
    )
    rules: ClassVar = (
        Rule(
            lambda it, *inputs: 0 <= it.result < len(inputs),
            lambda it, *inputs: f"is component {it.result} of {len(inputs)} inputs",
        ),
        Rule(
            lambda it, *inputs: not 0 <= it.result < len(inputs) or _keeps(it, inputs[it.result]),
            "is one of its inputs itself, but has another dtype or shape",
        ),
        Rule(
            lambda it, *inputs: len(inputs) == (1 if it.combine is None else it.combine.components),
            lambda _, *inputs: f"has {len(inputs)} inputs, which are not the components of a state",
        ),
        Rule(lambda it, *inputs: all(each.shape == it.shape for each in inputs), "has inputs of several shapes"),
        Rule(
            lambda it, *_: all(len(layout) == len(it.shape) for layout in (it.source, it.target)),
            "needs a split of each of its axes",
        ),
        Rule(
            lambda it, *_: all(
                0 <= low <= high <= size
                for layout in (it.source, it.target)
                for split, size in zip(layout, it.shape, strict=False)
                for low, high in split.intervals
            ),
            "has a split with places outside of its axis",
        ),
        Rule(
            lambda it, *_: it.kind.merges is ((it.aggregation is None) is not (it.combine is None)),
            "merges by one aggregation or combine, where its kind says so",
        ),
    )
    kind: CollectiveKind
    inputs: tuple[str, ...] = attrs.field(metadata=USES)
    axes: tuple[str, ...]
    source: tuple[Split, ...]
    target: tuple[Split, ...]
    dtype: DType
    shape: Shape
    aggregation: Aggregation | None = None
    combine: Combine | None = None
    result: int = 0
    span: Span | None = span_field()

    @property
    def input(self) -> str:
        """The operand whose value it has on one device."""
        return self.inputs[self.result]


Computation: TypeAlias = (
    Constant
    | ArrayConstant
    | Elementwise
    | Cast
    | Coordinate
    | ShapeOf
    | Reshape
    | Argsort
    | Gather
    | Scatter
    | Contraction
    | Reduce
    | Scan
)

Marker: TypeAlias = Override | Upstream | Checkpoint | Recall | Collective
"""Operations for differentiation or meshes only; :func:`tileir.typed.simplify.preparation.prepared` removes them."""

Operation: TypeAlias = Computation | Marker


@attrs.frozen(cache_hash=True, repr=False)
class Function(NotebookProgram, TopLevelNode):
    """Parameters, operations in an order that defines before it uses, and the names of the results.

    Every output is defined by an operation, and the names of outputs are distinct. ``labels`` names operations that a
    ``[[pid(label)]]`` attribute marked, as (value, label) pairs. ``numbers`` are computed by each call from the numbers
    among its arguments, by :mod:`tileir.typed.numbers`.
    """

    inputs: tuple[Value, ...]
    outputs: tuple[str, ...]
    operations: tuple[Operation, ...]
    labels: tuple[tuple[str, str], ...] = ()
    numbers: tuple[NumberStep, ...] = ()

    def graph(self) -> nx.DiGraph[str]:
        """Return the frozen dataflow graph: nodes are value names in program order, edges go to users.

        Each node has the attributes ``definition``, ``position`` and ``last_use``; a value is live between the two.
        """
        from tileir.typed.dataflow import dataflow  # networkx is slow to import

        return dataflow(self)

    def summary(self) -> str:
        """Return a line with inputs, outputs and the number of operations."""
        names = call_of("", [each.name for each in self.inputs], self.outputs)
        return f"{names}: {counted(len(self.operations), 'operation')}"


def operands(operation: Operation) -> tuple[str, ...]:
    """Return the names that ``operation`` reads, in order; a name may occur twice."""
    return schema.used(operation)
