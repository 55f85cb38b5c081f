"""Nodes of a typed function: one flat tuple of operations, each defining one value by name.

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
    Op,
    ShownProgram,
    Span,
    attrs,
    call_of,
    counted,
    schema,
    span_field,
)
from tileir.core.nodes.rules import Rule
from tileir.poly.affine import Affine
from tileir.typed.node import Node, Whole
from tileir.typed.number_steps import NumberStep
from tileir.typed.sharding.splits import CollectiveKind, Split
from tileir.typed.tensor_type import Shape as Shape, TensorType as TensorType

if TYPE_CHECKING:
    import networkx as nx


def counting(size: int) -> DType:
    """Return the dtype of places on an axis of a size."""
    return DType.I32 if size <= DType.I32.maximum else DType.I64


def _keeps(operation: Operation, source: Value | Operation, *_: object) -> bool:
    return operation.dtype is source.dtype and operation.shape == source.shape


_ITSELF: Final = Rule(_keeps, lambda _, source, *__: f"is {source.name!r} itself, but has another dtype or shape")


@attrs.frozen(cache_hash=True, repr=False)
class Definition(Node):
    """The definition of a value: a form stands behind the name, by which operations read it, and the type.

    Attributes:
        rules: What holds for all nodes of the class and for the definitions of what they read.
        name: By which operations read it.

    """

    rules: ClassVar[tuple[Rule, ...]] = ()
    head: ClassVar[str] = r"{name}: {dtype}\[{shape}\] = "
    name: str = attrs.field(metadata=INTRODUCES)


@attrs.frozen(cache_hash=True, repr=False)
class Value(Definition):
    """A parameter of the function.

    Attributes:
        name: What operations call it.
        dtype: Its element type.
        shape: Its sizes.
        number: None for an array that is passed; else the argument or step of :attr:`Function.numbers` that each call
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
    """An array known when compiling. It stands outside of loops, to which it is passed."""

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
    """The i32 vector ``dims``: the shape of some tensor, known when compiling."""

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
    """Positions of the elements of ``input`` along ``axis`` when they are sorted: the first ``shape[axis]`` of them.

    The order is that of :func:`tileir.core.numbers.arithmetic.order`: stable, with NaN as the greatest element. Its
    dtype is that of a :class:`Coordinate`. What is sorted by it, keys and payload alike, follows by a :class:`Gather`.
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
    aggregation. ``ASSIGN`` replaces rows of ``into``: with ``ordered`` by the last of their updates. Without, it
    promises that no row has two: of several any counts.
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
    """``tensor[indices…]`` with rational affine indices: a point counts only where they are integral."""

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

    ``output`` holds one polynomial for each axis of ``shape``. Inputs are cast to ``operand_dtype``
    before they are combined (for ``COND`` that holds for the two that are compared), the combined
    value to ``accumulator`` before it is aggregated, and the aggregate to ``dtype``. Elements that no valid
    point writes are those of ``default``, a tensor of the same dtype and shape, or 0.
    ``reduce`` is false under ``no_defract``: the index variables are then used as written. Under ``finite`` the
    result counts only where no operand, nor a sum of it, is infinite or NaN: terms with a factor of 0 may be left out.
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
    """Component ``result`` of the state of all elements along ``axes``, which the shape lacks.

    ``axes`` are in order, and elements have their positions in row-major order of these. The dtype is that of the rule,
    whose elements are what ``input`` holds. Operations that differ in ``name``, ``result`` and dtype run once.
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
    """Part of a loop that a :class:`ScanResult` is."""

    FINAL = "final"
    HISTORY = "history"
    OUTPUT = "output"

    __hash__ = object.__hash__


@attrs.frozen(cache_hash=True, repr=False)
class ScanResult(Node):
    """One result of a loop.

    FINAL is what carry ``number`` is after the last step, HISTORY its values before each step, stacked at the index
    of the step, and OUTPUT the output ``number`` of the steps, from 0 after the new carries, stacked in the same way.
    """

    form: ClassVar[str] = "{part} {number}"
    part: ScanPart
    number: int


@attrs.frozen(cache_hash=True, repr=False)
class Scan(Definition):
    """``result`` of a loop over ``count`` steps, which is not unrolled: the meaning is that of ``lax.scan`` in JAX.

    Without a ``count`` there are as many steps as find carry 0 true, which is one bool then: the meaning is that of
    ``lax.while_loop``. Such a loop has no sequences, and its steps put out nothing but the new carries.

    The inputs of ``body`` are the carries, one slice for each of ``sequences``, and the constants; its outputs are the
    new carries, with the dtypes and shapes of the carries, and then what the step puts out. Step t reads element t of
    axis 0 of the sequences, and writes it in stacked results; ``reverse`` runs from t = count - 1 down to 0.
    Operations that differ in ``name``, ``result`` and the type that follows from it are one loop and run once.
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
    """``input`` itself, through which no gradient passes: each pair (X, G) says that X gets G instead.

    ``upstream`` is the :class:`Upstream` by which the gradients refer to what arrives here, or None where none does.
    A gradient has the dtype of its X and a shape that broadcasts to that of X.
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
    """A placeholder for what arrives at an :class:`Override`: values made of it are a template, which never runs."""

    form: ClassVar[str] = "upstream()"
    dtype: DType
    shape: Shape
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Checkpoint(Definition):
    """``input`` itself, which is kept for the backward pass; forward values without this mark are computed again."""

    form: ClassVar[str] = "checkpoint({input})"
    rules: ClassVar = (_ITSELF,)
    input: str = attrs.field(metadata=USES)
    dtype: DType
    shape: Shape
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Recall(Definition):
    """``input`` itself, computed again from what is kept, for the backward pass number ``sweep``."""

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

    To one device it is no more than its operand. On a mesh each rank has its part of ``source`` before, and that of
    ``target`` behind. Where the kind merges, ranks along the axes hold parts of an aggregate, which are merged in the
    order of ranks: by ``aggregation``, or by the merge of ``combine``, of whose state the inputs are the components.
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
        """The operand that it is to one device."""
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
"""Operations for differentiation or a mesh alone; :func:`tileir.typed.simplify.preparation.prepared` removes them."""

Operation: TypeAlias = Computation | Marker


@attrs.frozen(cache_hash=True, repr=False)
class Function(ShownProgram, Whole):
    """Parameters, operations in an order that defines before it uses, and the names of the results.

    Every output is defined by an operation, and no name occurs twice among the outputs.
    ``labels`` names operations that a ``[[pid(label)]]`` attribute marked, as (value, label) pairs. ``numbers`` are
    computed by each call from the numbers that are passed; :mod:`tileir.typed.numbers` does so.
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
        """Return inputs, outputs, and how many operations there are."""
        names = call_of("", [each.name for each in self.inputs], self.outputs)
        return f"{names}: {counted(len(self.operations), 'operation')}"


def operands(operation: Operation) -> tuple[str, ...]:
    """Return the names that ``operation`` reads, in order; a name may occur twice."""
    return schema.used(operation)
