"""Random Stripe programs that are valid and free of races, with arrays to run them on; and random block texts.

Values are small whole numbers, so that sums are exact in any order.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from hypothesis import strategies as st

from tileir.core.dtype import DType
from tileir.core.ops import Aggregation, Op
from tileir.poly.affine import Affine
from tileir.stripe.bindings import WORDS
from tileir.stripe.dtypes import intrinsic_dtype
from tileir.stripe.flattening import flattened
from tileir.stripe.ir import (
    Binding,
    Block,
    Constant,
    Convert,
    Device,
    Dim,
    Direction,
    Index,
    Intrinsic,
    Load,
    LoadIndex,
    Program,
    Refinement,
    Special,
    Store,
    Tags,
    TensorShape,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tileir.stripe.ir import Statement

    Draw = Callable[[st.SearchStrategy[Any]], Any]
    Array = np.ndarray[Any, Any]

DTYPES = (DType.F32, DType.I32, DType.U8, DType.F16, DType.BOOL)
MERGING = (Aggregation.SUM, Aggregation.PROD, Aggregation.MAX, Aggregation.MIN)
ZERO = Affine()


@attrs.define
class Draft:
    """A program in the making: the tensors that have content, and the kernels that gave it to them."""

    draw: Draw
    tensors: dict[str, TensorShape] = attrs.field(factory=dict)
    kernels: list[Block] = attrs.field(factory=list)

    def pick(self, accept: Callable[[TensorShape], bool] = lambda _: True) -> str | None:
        """Return the name of a tensor that ``accept`` accepts."""
        names = [name for name, shape in self.tensors.items() if accept(shape)]
        return self.draw(st.sampled_from(names)) if names else None

    def fresh(self, dtype: DType, sizes: Sequence[int]) -> str:
        """Return the name of a new tensor."""
        name = f"T{len(self.tensors)}"
        self.tensors[name] = TensorShape.dense(dtype, sizes)
        return name

    def view(
        self,
        tensor: str,
        direction: Direction,
        access: Sequence[Affine],
        aggregation: Aggregation | None = None,
        name: str = "",
        column: bool = False,
    ) -> Refinement:
        """Return a view of one element of a tensor, or of all along axis 0."""
        shape = self.tensors[tensor]
        dims = tuple(Dim(d.size if column and axis == 0 else 1, d.stride) for axis, d in enumerate(shape.dims))
        interior = TensorShape(shape.dtype, dims)
        return Refinement(name or tensor, direction, tensor, tuple(access), interior, aggregation)

    def add(
        self, indices: Mapping[str, int], views: Sequence[Refinement], body: Sequence[Statement], *limits: Affine
    ) -> None:
        """Add a kernel, perhaps split into tiles."""
        named = tuple(Index(name, extent) for name, extent in indices.items())
        block = Block("", named, limits, tuple(views), tuple(body))
        sizes = {name: self.draw(st.integers(1, extent)) for name, extent in indices.items()}
        if self.draw(st.booleans()):
            block = tiled(block, sizes)
        number = len(self.kernels)
        self.kernels.append(attrs.evolve(block, name=f"kernel_{number}"))

    def fill(self, tensor: str) -> None:
        """Add a kernel that sets a tensor to 1, by statements or by a special."""
        shape = self.tensors[tensor]
        if self.draw(st.booleans()):
            view = Refinement(tensor, Direction.OUT, tensor, (ZERO,) * len(shape.dims), shape)
            self.add({}, [view], [Special("fill", (), (tensor,), (("value", 1),))])
            return
        body: list[Statement] = [Constant("c", shape.dtype, 1), Store("c", tensor)]
        self.add(_ranges(shape), [self.view(tensor, Direction.OUT, _identity(shape))], body)

    def program(self, inputs: Sequence[str]) -> Program:
        """Return the program whose results are some of the tensors that are not inputs."""
        made = [name for name in self.tensors if name not in inputs]
        outputs = tuple(name for name in made if name == made[-1] or self.draw(st.booleans()))
        allocations, views = [], []
        for name, shape in self.tensors.items():
            whole = (ZERO,) * len(shape.dims)
            allocations.append(Refinement(name, Direction.NONE, "", whole, shape))
            direction = Direction.IN if name in inputs else Direction.OUT
            views.append(Refinement(name, direction, name, whole, shape))
        main = Block("main", (), (), tuple(views), tuple(self.kernels))
        entry = Block("program", (), (), tuple(allocations), (main,))
        return flattened(entry, inputs, outputs)


def tiled(block: Block, sizes: Mapping[str, int]) -> Block:
    """Split a flat block whose accesses have no negative coefficients into tiles of ``sizes``."""
    outer, inner, limits, whole = [], [], [], {}
    for index in block.indices:
        tile = sizes[index.name]
        passed = f"{index.name}_o"
        outer.append(Index(index.name, -(-index.range // tile)))
        inner += [Index(index.name, tile), Index(passed, 1, Affine.index(index.name))]
        whole[index.name] = Affine.index(index.name) + Affine.index(passed) * tile
        if index.range % tile:
            limits.append(index.range - 1 - whole[index.name])
    limits += [constraint.substitute(whole) for constraint in block.constraints]
    body = tuple(
        attrs.evolve(s, affine=s.affine.substitute(whole)) if isinstance(s, LoadIndex) else s for s in block.statements
    )
    outside, inside = [], []
    for view in block.refinements:
        dims = tuple(
            Dim(dim.size + sum(int(c) * (sizes[i] - 1) for i, c in affine.terms), dim.stride)
            for dim, affine in zip(view.shape.dims, view.access, strict=True)
        )
        far = tuple(a.substitute({i: Affine.index(i) * sizes[i] for i in a.indices}) for a in view.access)
        outside.append(attrs.evolve(view, access=far, shape=TensorShape(view.shape.dtype, dims)))
        near = tuple(affine - affine.offset for affine in view.access)
        inside.append(attrs.evolve(view, access=near, source=view.name))
    leaf = Block("inner", tuple(inner), tuple(limits), tuple(inside), body)
    return attrs.evolve(block, indices=tuple(outer), constraints=(), refinements=tuple(outside), statements=(leaf,))


def _ranges(shape: TensorShape) -> dict[str, int]:
    return {f"i{axis}": size for axis, size in enumerate(shape.sizes)}


def _identity(shape: TensorShape) -> tuple[Affine, ...]:
    return tuple(Affine.index(f"i{axis}") for axis in range(len(shape.dims)))


def _broadcast(shape: TensorShape, target: TensorShape) -> tuple[Affine, ...]:
    first = len(target.dims) - len(shape.dims)
    return tuple(ZERO if d.size == 1 else Affine.index(f"i{first + a}") for a, d in enumerate(shape.dims))


def _fits(shape: TensorShape, target: TensorShape) -> bool:
    missing = len(target.dims) - len(shape.dims)
    tail = target.sizes[missing:] if missing >= 0 else ()
    return missing >= 0 and all(a in (1, b) for a, b in zip(shape.sizes, tail, strict=True))


def _operations(dtype: DType) -> list[Op]:
    exact = [Op.MAX, Op.MIN, Op.CMP_LT, Op.CMP_EQ, Op.CMP_GE]
    return [*exact, Op.BIT_AND, Op.BIT_XOR] if dtype.is_bool else [*exact, Op.ADD, Op.SUB]


def elementwise(draft: Draft) -> None:
    """Combine a tensor with another that is broadcast to it, with a constant, or with its coordinates."""
    name = draft.pick()
    assert name is not None
    shape = draft.tensors[name]
    views = [draft.view(name, Direction.IN, _identity(shape))]
    body: list[Statement] = [Load(name, "a")]
    other = draft.pick(lambda s: s.dtype is shape.dtype and _fits(s, shape))
    kind = draft.draw(st.sampled_from(["tensor", "constant", "coordinate"]))
    if kind == "tensor" and other is not None:
        second = "other" if other == name else other
        views.append(draft.view(other, Direction.IN, _broadcast(draft.tensors[other], shape), name=second))
        body.append(Load(second, "b"))
    elif kind == "coordinate" and shape.dims:
        body += [LoadIndex(Affine.index("i0") * 2 + 1, "x", DType.I32), Convert("x", "b", shape.dtype)]
    else:
        body.append(Constant("b", shape.dtype, 1))
    op = draft.draw(st.sampled_from(_operations(shape.dtype)))
    dtype = intrinsic_dtype(op, [shape.dtype, shape.dtype])
    assert dtype is not None
    body.append(Intrinsic(op, ("a", "b"), "c", dtype))
    out = draft.fresh(dtype, shape.sizes)
    views.append(draft.view(out, Direction.OUT, _identity(shape)))
    draft.add(_ranges(shape), views, [*body, Store("c", out)])


def fused(draft: Draft) -> None:
    """Compute a tensor in two inner blocks with local memory between them."""
    name = draft.pick(lambda s: not s.dtype.is_bool)
    if name is None:
        return
    shape = draft.tensors[name]
    out = draft.fresh(shape.dtype, shape.sizes)
    one = TensorShape(shape.dtype, (Dim(1, 1),))
    local = Refinement("local", Direction.NONE, "", (ZERO,), one)
    views = [draft.view(name, Direction.IN, _identity(shape)), draft.view(out, Direction.OUT, _identity(shape)), local]
    zeros = (ZERO,) * len(shape.dims)
    first = Block(
        "first",
        refinements=(
            attrs.evolve(views[0], name="s", source=name, access=zeros),
            Refinement("t", Direction.OUT, "local", (ZERO,), one),
        ),
        statements=(Load("s", "a"), Intrinsic(Op.ADD, ("a", "a"), "b", shape.dtype), Store("b", "t")),
    )
    second = Block(
        "second",
        refinements=(
            Refinement("t", Direction.IN, "local", (ZERO,), one),
            attrs.evolve(views[1], name="r", source=out, access=zeros),
        ),
        statements=(Load("t", "a"), Store("a", "r")),
        deps=(0,),
    )
    block = Block("", tuple(Index(i, n) for i, n in _ranges(shape).items()), (), tuple(views), (first, second))
    draft.kernels.append(attrs.evolve(block, name=f"kernel_{len(draft.kernels)}"))


def reduction(draft: Draft) -> None:
    """Aggregate a tensor, or its product with itself in another place, over some of its axes."""
    name = draft.pick(lambda s: len(s.dims) > 0)
    if name is None:
        return
    shape = draft.tensors[name]
    ranges = _ranges(shape)
    kept = [i for i in ranges if draft.draw(st.booleans())]
    how = [a for a in MERGING if not shape.dtype.is_bool or a.op in (Op.MAX, Op.MIN)]
    how = [a for a in how if a is not Aggregation.PROD or shape.dtype is not DType.F16]
    aggregation = draft.draw(st.sampled_from(how))
    views = [draft.view(name, Direction.IN, _identity(shape))]
    body: list[Statement] = [Load(name, "a")]
    value = "a"
    access = [Affine.index(i) for i in kept]
    if len(shape.dims) == 2 and not shape.dtype.is_bool and aggregation is Aggregation.SUM and len(kept) == 1:
        ranges["j"] = ranges[kept[0]]
        other = tuple(Affine.index("j") if i == kept[0] else Affine.index(i) for i in _ranges(shape))
        views.append(draft.view(name, Direction.IN, other, name="other"))
        body += [Load("other", "b"), Intrinsic(Op.MUL, ("a", "b"), "c", shape.dtype)]
        value = "c"
        access.append(Affine.index("j"))
    spare = draft.draw(st.integers(0, 1))
    sizes = [ranges[affine.indices[0]] + spare for affine in access]
    out = draft.fresh(shape.dtype, sizes)
    if spare or draft.draw(st.booleans()):
        draft.fill(out)
    views.append(draft.view(out, Direction.OUT, [affine + spare for affine in access], aggregation))
    draft.add(ranges, views, [*body, Store(value, out)])


def stencil(draft: Draft) -> None:
    """Sum neighbours along the first axis, where constraints keep the accesses inside."""
    name = draft.pick(lambda s: len(s.dims) > 0 and not s.dtype.is_bool)
    if name is None:
        return
    shape = draft.tensors[name]
    out = draft.fresh(shape.dtype, shape.sizes)
    near = Affine.index("i0") + Affine.index("k") - 1
    views = [
        draft.view(name, Direction.IN, (near, *_identity(shape)[1:])),
        draft.view(out, Direction.OUT, _identity(shape), Aggregation.SUM),
    ]
    body: list[Statement] = [Load(name, "a"), Store("a", out)]
    draft.add({**_ranges(shape), "k": 3}, views, body, near, shape.sizes[0] - 1 - near)


def indirect(draft: Draft) -> None:
    """Gather elements of a vector in an order that its coordinates give, or scatter them so."""
    name = draft.pick(lambda s: len(s.dims) == 1 and not s.dtype.is_bool)
    if name is None:
        return
    shape = draft.tensors[name]
    factor, offset = draft.draw(st.integers(-2, 2)), draft.draw(st.integers(-1, 3))
    index = LoadIndex(Affine.of({"i0": factor}, offset), "x", DType.I32)
    out = draft.fresh(shape.dtype, shape.sizes)
    if draft.draw(st.booleans()):
        views = [draft.view(name, Direction.IN, (ZERO,), column=True), draft.view(out, Direction.OUT, _identity(shape))]
        draft.add(_ranges(shape), views, [index, Load(name, "a", "x"), Store("a", out)])
        return
    draft.fill(out)
    views = [
        draft.view(name, Direction.IN, _identity(shape)),
        draft.view(out, Direction.INOUT, (ZERO,), Aggregation.SUM, column=True),
    ]
    draft.add(_ranges(shape), views, [Load(name, "a"), index, Store("a", out, "x")])


@st.composite
def programs(draw: Draw, max_kernels: int = 4) -> Program:
    """Return a valid program without races, of at most about ``max_kernels`` kernels and small tensors."""
    draft = Draft(draw)
    for _ in range(draw(st.integers(1, 2))):
        rank = draw(st.integers(0, 3))
        draft.fresh(draw(st.sampled_from(DTYPES)), [draw(st.integers(1, 4)) for _ in range(rank)])
    inputs = list(draft.tensors)
    elementwise(draft)
    for _ in range(draw(st.integers(0, max_kernels - 1))):
        draw(st.sampled_from([elementwise, fused, reduction, stencil, indirect]))(draft)
    return draft.program(inputs)


def arrays(program: Program, seed: int) -> dict[str, Array]:
    """Return an array of small whole numbers for each parameter."""
    rng = np.random.default_rng(seed)
    found = {}
    for name in program.inputs:
        shape = program.entry.refinement(name).shape
        low = -2 if shape.dtype.is_signed else 0
        values = rng.integers(low, 1 if shape.dtype.is_bool else 3, prod(shape.sizes), endpoint=True)
        found[name] = values.reshape(shape.sizes).astype(shape.dtype.numpy)
    return found


@st.composite
def cases(draw: Draw, max_kernels: int = 4) -> tuple[Program, dict[str, Array]]:
    """Return a program with arrays for its parameters."""
    program = draw(programs(max_kernels))
    return program, arrays(program, draw(st.integers(0, 2**32 - 1)))


_WORDS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.']{0,6}", fullmatch=True)
_NUMBERS = st.integers(-(10**6), 10**6)
_LINES = st.from_regex(r"([!-~]([ -~]{0,12}[!-~])?)?", fullmatch=True)
_FLOATS = st.floats(allow_nan=False)
_VALUES = st.one_of(st.none(), st.booleans(), _NUMBERS, _FLOATS, st.text(max_size=6))
_TAGS = st.dictionaries(_WORDS, _VALUES, max_size=3).map(lambda items: Tags.of(**items))
_AFFINES = st.builds(Affine.of, st.dictionaries(_WORDS, _NUMBERS, max_size=3), _NUMBERS)
_DEVICES = st.builds(Device, _WORDS, st.lists(_AFFINES, max_size=2).map(tuple))
_LOCATIONS = st.lists(_DEVICES, max_size=2).map(tuple)
_FREE_TAGS = _TAGS.filter(lambda tags: tags.remove(*WORDS) is tags)
_BOUND = st.sampled_from((None, *Binding))
_INDICES = st.builds(Index, _WORDS, _NUMBERS, st.none() | _AFFINES, _BOUND, st.booleans(), _FREE_TAGS)


@st.composite
def _refinements(draw: Draw) -> Refinement:
    direction = draw(st.sampled_from(Direction))
    rank = draw(st.integers(0, 3))
    dims = tuple(Dim(draw(st.integers(0, 9)), draw(_NUMBERS)) for _ in range(rank))
    return Refinement(
        draw(_WORDS),
        direction,
        "" if direction is Direction.NONE else draw(_WORDS),
        tuple(draw(_AFFINES) for _ in range(rank)),
        TensorShape(draw(st.sampled_from(DType)), dims),
        draw(st.none() | st.sampled_from(Aggregation)),
        draw(_LOCATIONS),
        draw(st.none() | st.integers(0, 2**40)),
        draw(st.none() | st.integers(0, rank - 1)) if rank else None,
        draw(st.none() | _AFFINES),
        draw(st.booleans()),
        draw(_TAGS),
    )


_DTYPES = st.sampled_from(DType)
_LISTS = st.lists(_WORDS, max_size=3).map(tuple)
_STATEMENTS = st.one_of(
    st.builds(Load, _WORDS, _WORDS, st.none() | _WORDS),
    st.builds(Store, _WORDS, _WORDS, st.none() | _WORDS),
    st.builds(LoadIndex, _AFFINES, _WORDS, _DTYPES),
    st.builds(Constant, _WORDS, _DTYPES, st.booleans() | _NUMBERS | _FLOATS),
    st.builds(Intrinsic, st.sampled_from(Op), _LISTS, _WORDS, _DTYPES),
    st.builds(Convert, _WORDS, _WORDS, _DTYPES),
    st.builds(Special, _WORDS, _LISTS, _LISTS, st.lists(st.tuples(_WORDS, _VALUES), max_size=2).map(tuple)),
)


@st.composite
def blocks(draw: Draw, depth: int = 2) -> Block:
    """Return a block that can be spelt, but follows no other rule."""
    statements = st.lists(_STATEMENTS | blocks(depth - 1) if depth else _STATEMENTS, max_size=3)
    dependencies = st.lists(st.integers(0, 99), max_size=2).map(tuple)
    return Block(
        draw(_LINES),
        tuple(draw(st.lists(_INDICES, max_size=3))),
        tuple(draw(st.lists(_AFFINES, max_size=2))),
        tuple(draw(st.lists(_refinements(), max_size=3))),
        tuple(attrs.evolve(s, tags=draw(_TAGS), deps=draw(dependencies)) for s in draw(statements)),
        tuple(draw(st.lists(_LINES, max_size=2))),
        draw(_LOCATIONS),
        draw(_TAGS),
        draw(dependencies),
    )
