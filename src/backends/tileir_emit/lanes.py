"""Splitting of vectors with unsupported widths.

A vector with an unsupported number of lanes, or more than the device should use, becomes chunks: a variable ``x`` of 32
lanes becomes ``x_0`` and ``x_1`` of 16. Lanes stay in order, so that scatters keep their meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial, reduce
from typing import Final, assert_never

from tileir.core import DType, NameScope, Op, attrs, grouped, rewritten, schema
from tileir.semtree.dots import plain_dot
from tileir.semtree.ir import (
    Apply,
    Assign,
    Bitcast,
    Broadcast,
    Cast,
    Const,
    Declare,
    Dot,
    Expr,
    For,
    GridIndex,
    If,
    KernelFunction,
    Ramp,
    Reduce,
    Shuffle,
    Stmt,
    Subscript,
    Type,
    Var,
)
from tileir.semtree.rewrite import (
    kernel_names,
    map_bodies,
    map_expr,
    mentions,
    statements,
    walk,
    with_body,
)

WIDTHS: Final = (16, 8, 4, 3, 2, 1)
"""Vector widths of OpenCL C, and of most GPU languages."""


def register_bits(dtype: DType) -> int:
    """Return the bits of one lane of a variable, in which narrow floats are held as f32."""
    return 32 if dtype.is_narrow else dtype.itemsize * 8


@attrs.frozen
class Chunk:
    """``lanes`` lanes of a vector, from number ``first`` on."""

    first: int
    lanes: int


def split_lanes(kernel: KernelFunction, most_lanes: int, most_bytes: int) -> KernelFunction:
    """Replace unsupported vectors; return the kernel itself if there are none.

    Args:
        kernel: The kernel, with expanded dot products.
        most_lanes: Maximum lanes of a vector, one of :data:`WIDTHS`.
        most_bytes: Maximum bytes of a vector.
    """
    kinds = {node.type: None for root in _roots(kernel.body) for node in walk(root) if node.type.lanes > 1}
    chunks = {}
    for lanes in dict.fromkeys(kind.lanes for kind in kinds):
        dtypes = tuple(kind.dtype for kind in kinds if kind.lanes == lanes)
        found = tuple(_chunks(lanes, dtypes, most_lanes, most_bytes))
        if len(found) > 1:
            chunks[lanes] = found
    if not chunks:
        return kernel
    overlap = any(not param.no_alias for param in kernel.params)
    splitter = _Splitter(chunks, NameScope.of(kernel_names(kernel)), overlap)
    return with_body(kernel, splitter.body(kernel.body))


def _roots(stmts: tuple[Stmt, ...]) -> Iterator[Expr]:
    for stmt in statements(stmts):
        yield from mentions(stmt)


def _chunks(lanes: int, dtypes: tuple[DType, ...], most_lanes: int, most_bytes: int) -> Iterator[Chunk]:
    widest = max(register_bits(dtype) // 8 for dtype in dtypes)
    most = max(1, min(most_lanes, most_bytes // widest))
    first = 0
    while first < lanes:
        width = next(width for width in WIDTHS if width <= min(most, lanes - first))
        yield Chunk(first, width)
        first += width


@attrs.define(eq=False, repr=False)
class _Splitter:
    """Splitter of vectors whose number of lanes is in ``chunks``."""

    chunks: Mapping[int, tuple[Chunk, ...]]
    names: NameScope
    overlap: bool
    variables: dict[tuple[str, int], str] = attrs.field(factory=dict)

    def body(self, stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return rewritten(stmts, self._split)

    def _split(self, stmt: Stmt) -> tuple[Stmt, ...]:
        declared: list[Stmt] = []
        if isinstance(stmt, Declare | Assign):
            stmt = schema.map_operands(partial(map_expr, partial(self._named, declared)), stmt)
        return (*declared, *self._parts(stmt))

    def _named(self, declared: list[Stmt], node: Expr) -> Expr:
        """Name scalars that all chunks of a vector share."""
        if not isinstance(node, Broadcast) or node.lanes not in self.chunks:
            return node
        if isinstance(node.operand, Var | Const | GridIndex):
            return node
        scalar = Var(self.names.fresh("scalar"), node.operand.type)
        declared.append(Declare(scalar, self.whole(node.operand)))
        return Broadcast(scalar, node.lanes)

    def _parts(self, stmt: Stmt) -> tuple[Stmt, ...]:
        match stmt:
            case Declare(variable=variable, value=value) if variable.type.lanes in self.chunks:
                return tuple(
                    Declare(self._variable(variable, chunk), self.part(value, chunk))
                    for chunk in self.chunks[variable.type.lanes]
                )
            case Assign(target=target) if target.type.lanes in self.chunks:
                return tuple(self._assigned(stmt))
            case For() | If():
                stmt = map_bodies(self.body, stmt)
        return (schema.map_operands(self.whole, stmt),)

    def _assigned(self, stmt: Assign) -> Iterator[Stmt]:
        """Compute all chunks before the first write, if the value may depend on the target."""
        target, chunks = stmt.target, self.chunks[stmt.target.type.lanes]
        values = [self.part(stmt.value, chunk) for chunk in chunks]
        if not self._lane_by_lane(stmt):
            variables = [Var(self.names.fresh("chunk"), value.type) for value in values]
            yield from map(Declare, variables, values)
            values = list(variables)
        for chunk, value in zip(chunks, values, strict=True):
            place = self.part(target, chunk)
            if isinstance(place, Var | Subscript):
                yield Assign(place, value)

    def _lane_by_lane(self, stmt: Assign) -> bool:
        """Return whether each lane of the value depends on no other lane of the target."""
        nodes = tuple(walk(stmt.value))
        if any(isinstance(node, Reduce | Shuffle) for node in nodes):
            return False
        if isinstance(stmt.target, Var):
            return True
        loads = [node for node in nodes if isinstance(node, Subscript) and node != stmt.target]
        scalar = stmt.target.offset.type.lanes == 1
        return scalar and not (loads and self.overlap) and all(node.array != stmt.target.array for node in loads)

    def whole(self, expr: Expr) -> Expr:
        """Return a scalar or supported vector, with split parts merged."""

        def merged(node: Expr) -> Expr:
            if isinstance(node, Shuffle) and node.operands[0].type.lanes in self.chunks:
                return node if node.type.lanes in self.chunks else self._picked(node, node.lanes)
            if not isinstance(node, Reduce) or node.operand.type.lanes not in self.chunks:
                return node
            merge = partial(_merged, node.op)
            chunks = self.chunks[node.operand.type.lanes]
            by_lanes = grouped((chunk.lanes, self.part(node.operand, chunk)) for chunk in chunks)
            vectors = [reduce(merge, parts) for parts in by_lanes.values()]
            return reduce(merge, [part if part.type.lanes == 1 else Reduce(node.op, part) for part in vectors])

        return map_expr(merged, expr)

    def part(self, expr: Expr, chunk: Chunk) -> Expr:
        """Return a chunk of a vector expression; the chunk is one of its width."""
        match expr:
            case Const(value=value, type=kind):
                return Const(value, _narrow(kind, chunk))
            case Var():
                return self._variable(expr, chunk)
            case Apply(op=op, args=args):
                return Apply(op, tuple(self.part(arg, chunk) for arg in args))
            case Cast(operand=operand, type=kind):
                return Cast(self.part(operand, chunk), _narrow(kind, chunk))
            case Bitcast(operand=operand, type=kind):
                return Bitcast(self.part(operand, chunk), _narrow(kind, chunk))
            case Broadcast(operand=operand):
                scalar = self.whole(operand)
                return scalar if chunk.lanes == 1 else Broadcast(scalar, chunk.lanes)
            case Ramp(base=base, stride=stride):
                start = _moved(self.whole(base), stride * chunk.first)
                return start if chunk.lanes == 1 else Ramp(start, stride, chunk.lanes)
            case Subscript(array=array, offset=offset, type=kind):
                run = offset.type.lanes == 1
                place = _moved(self.whole(offset), chunk.first) if run else self.part(offset, chunk)
                return Subscript(array, place, _narrow(kind, chunk))
            case Shuffle():
                return self._picked(expr, expr.lanes[chunk.first : chunk.first + chunk.lanes])
            case Dot():
                return self.part(plain_dot(expr), chunk)
            case Reduce() | GridIndex():
                return self.whole(expr)
            case _:
                assert_never(expr)

    def _picked(self, shuffle: Shuffle, lanes: tuple[int, ...]) -> Expr:
        """Return ``lanes`` of the operands of a shuffle, which may themselves be split."""
        count = shuffle.operands[0].type.lanes
        chunks = self.chunks.get(count, (Chunk(0, count),))
        places = []  # of each lane: the operand, the chunk, and the lane in it
        for lane in lanes:
            operand, rest = divmod(lane, count)
            number = next(n for n, chunk in enumerate(chunks) if rest < chunk.first + chunk.lanes)
            places.append((operand, number, rest - chunks[number].first))
        used = list(dict.fromkeys((operand, number) for operand, number, _ in places))
        split = count in self.chunks
        parts = {
            (operand, number): self.part(shuffle.operands[operand], chunks[number])
            if split
            else self.whole(shuffle.operands[operand])
            for operand, number in used
        }
        width = parts[used[0]].type.lanes
        if all(part.type.lanes == width for part in parts.values()):
            order = {key: width * position for position, key in enumerate(used)}
            return Shuffle(tuple(parts.values()), tuple(order[o, n] + lane for o, n, lane in places))
        single = [(parts[operand, number], lane) for operand, number, lane in places]
        scalars = tuple(part if part.type.lanes == 1 else Shuffle((part,), (lane,)) for part, lane in single)
        return scalars[0] if len(scalars) == 1 else Shuffle(scalars, tuple(range(len(scalars))))

    def _variable(self, variable: Var, chunk: Chunk) -> Var:
        key = (variable.name, chunk.first)
        if key not in self.variables:
            self.variables[key] = self.names.fresh(f"{variable.name}_{chunk.first}")
        return Var(self.variables[key], _narrow(variable.type, chunk))


def _merged(op: Op, left: Expr, right: Expr) -> Expr:
    return Apply(op, (left, right))


def _narrow(kind: Type, chunk: Chunk) -> Type:
    return Type(kind.dtype, chunk.lanes)


def _moved(expr: Expr, distance: int) -> Expr:
    return Apply(Op.ADD, (expr, Const.of(distance, expr.type))) if distance else expr
