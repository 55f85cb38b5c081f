"""Statements of kernels as LLVM basic blocks.

Unrolled loops are interleaved if possible: written operation by operation for all iterations.

An exponential is a chain of twenty dependent operations. A processor overlaps iterations only as far as its schedulers
reach, two or three chains; and if constants do not fit the registers beside accumulators, each iteration reloads them.
Interleaved, neighbours in the text are independent, and share a constant while it is in a register. LLVM mostly keeps
the order of the text.

Pairs of neighbours at data-dependent places, as for interpolation weights, are gathered at once.

A processor gathers vectors lane by lane, and takes as long for a lane of eight bytes as for one of four. Reading both
elements of a pair as one halves that. Places outside of the array are clamped, each of the two by itself, so that not
all lanes have two neighbours there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from contextlib import contextmanager
from typing import Final

from tileir.core import DType, Op, attrs
from tileir.semtree.analysis.effects import introduces, reads, writes
from tileir.semtree.ir import (
    Apply,
    Assign,
    AssignLanes,
    Cast,
    Const,
    Declare,
    DeclareArray,
    Expr,
    For,
    If,
    KernelFunction,
    LoopKind,
    Prefetch,
    Region,
    Stmt,
    Subscript,
    Type,
    Update,
    Var,
)
from tileir.semtree.rewrite import expressions, statements, variables_of, walk
from tileir.semtree.transform.layout import ALIGNMENT, Layout, padded_bytes
from tileir_llvm.emit.conversions import cast, integer
from tileir_llvm.emit.expressions import Cell, Environment, evaluate, offset_of
from tileir_llvm.emit.integers import apply_integer, select
from tileir_llvm.emit.memory import (
    Offset,
    Place,
    broadcast,
    load,
    pointer_to,
    prefetch,
    ramp,
    read_lanes,
    store,
    write_lanes,
)
from tileir_llvm.emit.spelling import memory_element, register
from tileir_llvm.emit.text import FunctionText, Value

_BITS: Final = {DType.F32: ("i32", 0x7FC00000, -0x400000), DType.F64: ("i64", 0x7FF8 << 48, -(0x8 << 48))}
"""Integer types with the bits of floats, and their maximal and minimal NaN."""


def update(env: Environment, stmt: Update, scope: str = "") -> None:
    """Write an atomic update; ``scope`` restricts the concurrent updaters.

    The bits of non-negative floats are ordered like integers, those of negative floats in reverse, after all others as
    unsigned. So an extremum of floats is one of integers.
    """
    out, kind = env.out, stmt.target.type
    value = evaluate(env, stmt.value)
    offset = offset_of(env, stmt.target.offset)
    assert isinstance(offset, Offset)  # an update is of one element
    pointer, _ = pointer_to(out, env.arrays[stmt.target.array], offset)

    def step(word: str, spelt: str, text: str) -> None:
        out.effect(f"atomicrmw {word} ptr {pointer}, {spelt} {text} {scope}monotonic, align {kind.dtype.itemsize}")

    name = stmt.op.value
    if kind.dtype.is_float:
        spelt, greatest, least = _BITS[kind.dtype]
        floats = register(kind)
        bits = out.pure(f"bitcast {floats} {value.text} to {spelt}")
        is_nan = out.pure(f"fcmp uno {floats} {value.text}, {value.text}")
        bits = out.pure(f"select i1 {is_nan}, {spelt} {greatest if stmt.op is Op.MAX else least}, {spelt} {bits}")
        negative, positive = out.pure(f"icmp slt {spelt} {bits}, 0"), out.pure(f"icmp sge {spelt} {bits}, 0")
        with out.where(negative, "negative", "behind"):
            step("umin" if stmt.op is Op.MAX else "umax", spelt, bits)
        with out.where(positive, "positive", "behind"):
            step(name, spelt, bits)
    else:
        signed = stmt.op is Op.ADD or kind.dtype.is_signed
        step(name if signed else f"u{name}", register(kind), value.text)


_BYTES: Final = 4
"""Bytes of an element, of which processors gather pairs in one step."""

_WRAPS: Final = (1 << 31) - 1
"""Place whose successor wraps around."""

_LEAST: Final = 3
"""Minimum number of statements: a pair takes two elements and the place of one; unrolled bodies often have fewer."""


@attrs.frozen
class Pair:
    """Variables with the elements of an array at the lanes of a place, and at those of the next.

    Attributes:
        one: Variable of the former.
        other: Variable of the latter.
        array: The array.
        place: The place, a variable of i32 lanes.
        last: Last valid place.
    """

    one: Var
    other: Var
    array: str
    place: Var
    last: int


def pairs_of(stmts: Sequence[Stmt], arrays: Mapping[str, Place]) -> dict[str, Pair | None]:
    """Return the pairs that statements gather from read-only arrays.

    A pair is keyed by its first variable; its other variable maps to None.
    """
    if len(stmts) < _LEAST:
        return {}
    found: dict[tuple[str, str, int], Var] = {}
    before: dict[str, Var] = {}
    for stmt in stmts:
        if not isinstance(stmt, Declare) or stmt.variable.type.lanes == 1:
            continue
        match stmt.value:
            case Apply(op=Op.ADD, args=(Var() as place, Const(value=1, type=Type(dtype=DType.I32)))):
                before[stmt.variable.name] = place
            case Subscript(array=array, offset=offset, type=kind) if (chosen := _clamped(offset)) is not None:
                place, last = chosen
                if kind.dtype.itemsize == _BYTES and last > 0 and array in arrays and arrays[array].constant:
                    found.setdefault((array, place.name, last), stmt.variable)
    pairs: dict[str, Pair | None] = {}
    order = {variable.name: number for number, variable in enumerate(found.values())}
    for (array, name, last), other in found.items():
        previous = before.get(name)
        one = None if previous is None else found.get((array, previous.name, last))
        if previous is None or one is None or one.name in pairs or other.name in pairs:
            continue
        first, second = sorted((one.name, other.name), key=order.__getitem__)
        pairs[first], pairs[second] = Pair(one, other, array, previous, last), None
    return pairs


def _clamped(offset: Expr) -> tuple[Var, int] | None:
    """Return the variable of i32 lanes of a clamped place, and the last place; None for others."""
    match offset:
        case Apply(
            op=Op.MIN,
            args=(
                Apply(op=Op.MAX, args=(Cast(operand=Var(type=Type(dtype=DType.I32)) as place), Const(value=0))),
                Const(value=last),
            ),
        ):
            return place, int(last)
        case _:
            return None


def read_pair(out: FunctionText, place: Place, chosen: Value, last: int) -> tuple[Value, Value]:
    """Read the elements at the lanes of an i32 place, and at those of the next, both clamped."""
    lanes, bounds = chosen.type.lanes, Type(DType.I32, chosen.type.lanes)
    kind, wide = Type(place.dtype, lanes), f"<{lanes} x i64>"

    def test(op: Op, bound: int) -> Value:
        return apply_integer(out, op, (chosen, integer(bound, bounds)), index=False)

    first = apply_integer(out, Op.MIN, (test(Op.MAX, 0), integer(last - 1, bounds)), index=False)
    index = cast(out, first, DType.I64)
    element, bits = memory_element(place.dtype), f"<{lanes} x i1>"
    pointers = out.pure(f"getelementptr inbounds {element}, ptr {place.pointer}, {register(index.type)} {index.text}")
    name = f"llvm.masked.gather.v{lanes}i64.v{lanes}p0"
    out.module.declarations[f"declare {wide} @{name}(<{lanes} x ptr>, i32, {bits}, {wide})"] = None
    operands = f"<{lanes} x ptr> {pointers}, i32 {_BYTES}, {bits} splat (i1 true), {wide} poison"
    both = f"<{2 * lanes} x {element}>"
    text = out.pure(f"bitcast {wide} {out.result(f'call {wide} @{name}({operands})')} to {both}")
    low, high = (
        Value(out.pure(f"shufflevector {both} {text}, {both} poison, <{lanes} x i32> <{every}>"), kind)
        for every in (", ".join(f"i32 {2 * lane + number}" for lane in range(lanes)) for number in (0, 1))
    )
    start = broadcast(out, load(out, place, Offset(None, None), Type(place.dtype)), lanes)
    one = select(out, test(Op.CMP_GE, last), high, low)
    other = select(out, test(Op.CMP_LT, 0), low, high)
    return one, select(out, test(Op.CMP_EQ, _WRAPS), start, other)


LEAST_OPERATIONS: Final = 12
"""Minimum number of operations for interleaving: shorter iterations overlap by themselves, with fewer registers."""


def runs_abreast(loop: For, assigned: AbstractSet[str], shared: AbstractSet[str]) -> bool:
    """Return whether the iterations of an unrolled loop are long, and can be interleaved.

    Args:
        loop: A loop with any body.
        assigned: Names of the variables that are reassigned in the kernel.
        shared: Names of the arrays that may alias.
    """
    body = loop.body
    if not all(_is_own(stmt, assigned) for stmt in body) or sum(map(_operations, body)) < LEAST_OPERATIONS:
        return False
    written = {place.array for stmt in body for place in writes(stmt)}
    if written & shared:
        return False
    places: dict[str, set[tuple[Expr, Type]]] = {name: set() for name in written}
    for stmt in body:
        for place in (*reads(stmt), *writes(stmt)):
            if place.array in written:
                places[place.array].add((place.offset, place.type))
    names = {name for stmt in body for name in introduces(stmt)}
    return all(len(found) == 1 and _are_apart(*next(iter(found)), loop, names) for found in places.values())


def _is_own(stmt: Stmt, assigned: AbstractSet[str]) -> bool:
    """Return whether a statement only sets variables local to an iteration, or elements of arrays."""
    if isinstance(stmt, Declare):
        return stmt.variable.name not in assigned
    return isinstance(stmt, Assign) and isinstance(stmt.target, Subscript)


def _operations(stmt: Stmt) -> int:
    """Return the number of a statement's vector operations; offsets are computed in single integers."""
    nodes = (node for root in expressions(stmt) for node in walk(root))
    return sum(isinstance(node, Apply) and node.type.lanes > 1 for node in nodes)


def _are_apart(offset: Expr, kind: Type, loop: For, names: AbstractSet[str]) -> bool:
    """Return whether neighbours from an offset are distinct elements in each iteration."""
    factor = _factor(offset, loop.counter)
    return factor is not None and abs(factor * loop.step) >= kind.lanes and names.isdisjoint(variables_of(offset))


def _factor(expr: Expr, counter: Var) -> int | None:
    """Return the stride of an offset in the counter of a loop; None if it varies."""
    if expr == counter:
        return 1
    match expr:
        case Apply(op=Op.ADD | Op.SUB as op, args=(left, right)):
            one, other = _factor(left, counter), _factor(right, counter)
            if one is None or other is None:
                return None
            return one + other if op is Op.ADD else one - other
        case Apply(op=Op.MUL, args=(factor, Const(value=value))):
            inner = _factor(factor, counter)
            return None if inner is None else inner * int(value)
    return None if expr.type.lanes > 1 or counter.name in variables_of(expr) else 0


_WHOLE: Final = 16
"""Bytes of the shortest vector registers."""


@attrs.define(eq=False, repr=False)
class Statements:
    """Writer of the statements of one kernel.

    Attributes:
        env: Environment of the code.
        layout: Places of arrays.
        assigned: Names of the variables that are reassigned in the kernel.
        by_hand: Whether the kernel is vectorised explicitly. LLVM then leaves its other loops alone: those that fill
            packed panels cost it a second, without gain. It then does not unroll outer loops either, which made
            convolutions three times as much code.
        shared: Names of the arrays that may alias.
    """

    env: Environment
    layout: Layout
    assigned: frozenset[str]
    by_hand: bool = False
    shared: frozenset[str] = frozenset()
    _cells: dict[Var, Cell] = attrs.field(factory=dict, init=False)
    _places: dict[DeclareArray, Place] = attrs.field(factory=dict, init=False)
    _decided: dict[int, tuple[For, bool]] = attrs.field(factory=dict, init=False)

    def write(self, stmts: tuple[Stmt, ...]) -> None:
        """Write statements in order; pairs are gathered at their first element."""
        env = self.env
        pairs = pairs_of(stmts, env.arrays) if env.ranges is None else {}
        for stmt in stmts:
            name = stmt.variable.name if pairs and isinstance(stmt, Declare) else ""
            if name not in pairs:
                self._write(stmt)
            elif (pair := pairs[name]) is not None:
                values = read_pair(env.out, env.arrays[pair.array], evaluate(env, pair.place), pair.last)
                for variable, value in zip((pair.one, pair.other), values, strict=True):
                    self._hold(variable, value)

    def _write(self, stmt: Stmt) -> None:
        match stmt:
            case Declare(variable=variable, value=value):
                if self.env.ranges is not None:
                    self.env.ranges.enter(stmt)
                self._declare(variable, value)
            case DeclareArray():
                self.env.arrays[stmt.name] = self.place(stmt)
            case Assign():
                self._assign(stmt)
            case AssignLanes():
                self._assign_lanes(stmt)
            case For():
                self._loop(stmt)
            case If():
                self._branch(stmt)
            case Update():
                self.update(stmt)
            case Prefetch(target=place):
                prefetch(self.env.out, self.env.arrays[place.array], evaluate(self.env, place.offset, index=True))
            case _:
                self.instruction(stmt)

    def instruction(self, stmt: Stmt) -> None:
        """Write a statement that processors lack: all are lowered before, or dropped."""
        raise TypeError(f"processors have no {type(stmt).__name__}")

    def update(self, stmt: Update) -> None:
        """Write an update as one step."""
        update(self.env, stmt)

    def _declare(self, variable: Var, expr: Expr) -> None:
        self._hold(variable, evaluate(self.env, expr))

    def _hold(self, variable: Var, value: Value) -> None:
        if variable.name not in self.assigned:
            self.env.variables[variable.name] = value
            return
        cell = self._cells.get(variable)
        if cell is None:
            cell = Cell(self.env.out.alloca(register(variable.type), ALIGNMENT), variable.type)
            self._cells[variable] = cell
        self.env.variables[variable.name] = cell
        self._set(cell, value)

    def _set(self, cell: Cell, value: Value) -> None:
        self.env.out.effect(f"store {register(value.type)} {value.text}, ptr {cell.pointer}")

    def place(self, array: DeclareArray) -> Place:
        """Return the place of an array: on the stack, or in the scratch memory of the thread."""
        place = self._places.get(array)
        if place is not None:
            return place
        out = self.env.out
        if array in self.layout.offsets:
            offset = self.layout.offsets[array]
            pointer = out.pure(f"getelementptr inbounds i8, ptr %scratch, i64 {offset}") if offset else "%scratch"
            return Place(pointer, array.dtype, ALIGNMENT)
        alignment = max(array.dtype.itemsize, min(array.alignment, ALIGNMENT))
        elements = padded_bytes(array.size * array.dtype.itemsize) // array.dtype.itemsize
        kind = f"[{elements} x {memory_element(array.dtype)}]"
        place = Place(out.alloca(kind, alignment), array.dtype, alignment, elements=array.size)
        self._places[array] = place
        return place

    def _assign(self, stmt: Assign) -> None:
        target = stmt.target
        value = evaluate(self.env, stmt.value)
        if not isinstance(target, Var):
            store(self.env.out, self.env.arrays[target.array], offset_of(self.env, target.offset), value)
            return
        cell = self.env.variables[target.name]
        if isinstance(cell, Cell):
            self._set(cell, value)

    def _assign_lanes(self, stmt: AssignLanes) -> None:
        """Set some lanes; vectors of arrays on the stack as a whole, so that these stay in registers."""
        env, out, target, kind = self.env, self.env.out, stmt.target, stmt.target.type
        mask = _mask(env, stmt)
        if isinstance(stmt.value, Subscript):
            place, offset = env.arrays[stmt.value.array], offset_of(env, stmt.value.offset)
            whole = _is_inside(place, offset, kind.lanes)
            value = load(out, place, offset, kind) if whole else read_lanes(out, place, offset, kind, mask.text)
        else:
            value = evaluate(env, stmt.value)
        if isinstance(target, Var):
            cell = env.variables[target.name]
            assert isinstance(cell, Cell)
            self._set(cell, select(out, mask, value, evaluate(env, target)))
            return
        place, offset = env.arrays[target.array], offset_of(env, target.offset)
        if _is_inside(place, offset, kind.lanes):
            store(out, place, offset, select(out, mask, value, load(out, place, offset, kind)))
        else:
            write_lanes(out, place, offset, value, _mask(env, stmt, known=False).text)

    def _loop(self, loop: For) -> None:
        if self.env.ranges is not None:
            self.env.ranges.enter(loop)
        begin = evaluate(self.env, loop.begin, index=True)
        end = evaluate(self.env, loop.end, index=True)
        if begin.known is not None and end.known is not None:
            values = range(begin.known, end.known, loop.step)
            if len(values) <= 1 or loop.kind is LoopKind.UNROLL:
                if len(values) > 1 and self.is_abreast(loop):
                    self._abreast(loop, values)
                    return
                for value in values:
                    if self.env.ranges is not None:
                        self.env.ranges.fix(loop.counter, value)
                    self.env.variables[loop.counter.name] = integer(value, loop.counter.type)
                    self.write(loop.body)
                return
        self._counted_loop(loop, begin, end)

    def is_abreast(self, loop: For) -> bool:
        """Return whether to interleave a loop; asked again in each iteration of enclosing unrolled loops."""
        known = self._decided.get(id(loop))
        if known is None:
            known = self._decided[id(loop)] = loop, runs_abreast(loop, self.assigned, self.shared)
        return known[1]

    def _abreast(self, loop: For, values: range) -> None:
        """Write each statement for all iterations of an unrolled loop before the next statement."""
        env, around = self.env, self.env.variables
        own = [{**around, loop.counter.name: integer(value, loop.counter.type)} for value in values]
        try:
            for stmt in loop.body:
                for env.variables in own:  # ranges are those of all iterations: a declared variable is found by name
                    self._write(stmt)
        finally:
            env.variables = around

    def _counted_loop(self, loop: For, begin: Value, end: Value) -> None:
        """Write a bottom-tested loop, after a test whether it runs at all."""
        out, kind = self.env.out, register(begin.type)
        body, done = out.fresh_label("loop"), out.fresh_label("done")
        signed = "s" if begin.type.dtype.is_signed else "u"
        if begin.known is not None and end.known is not None:
            self._iterations(loop, begin, end, body, done)
        else:
            enter = out.fresh_label("enter")
            out.branch_if(out.pure(f"icmp {signed}lt {kind} {begin.text}, {end.text}"), enter, done)
            out.start(enter)
            with out.scope():
                self._iterations(loop, begin, end, body, done)
        out.start(done)

    def _iterations(self, loop: For, begin: Value, end: Value, body: str, done: str) -> None:
        """Write the blocks from ``body`` to the jump to ``done`` of a loop that runs at least once."""
        out, kind = self.env.out, register(begin.type)
        signed = "s" if begin.type.dtype.is_signed else "u"
        entered_from, turns = out.block, None
        if begin.known is not None and end.known is not None:
            turns = len(range(begin.known, end.known, loop.step))
        with out.loop(body), self._kept(loop):
            counter, following = out.register(), out.register()
            position = len(out.lines)
            self.env.variables[loop.counter.name] = Value(counter, loop.counter.type)
            self.write(loop.body)
            out.lines.append(f"  {following} = add {'nsw' if signed == 's' else 'nuw'} {kind} {counter}, {loop.step}")
            again = out.pure(f"icmp {signed}lt {kind} {following}, {end.text}")
            leave = False if self.by_hand else None
            out.loop_back(
                again,
                body,
                done,
                vectorise=True if loop.kind is LoopKind.VECTOR else leave,
                unroll=self.repeats(loop, begin, end),
                turns=turns,
            )
            phi = f"  {counter} = phi {kind} [ {begin.text}, %{entered_from} ], [ {following}, %{out.block} ]"
            out.lines.insert(position, phi)

    def repeats(self, loop: For, _begin: Value, _end: Value) -> bool | int:
        """Return whether LLVM may unroll the loop, or its unroll factor."""
        return not self.by_hand or not any(isinstance(inner, For) for inner in statements(loop.body))

    @contextmanager
    def _kept(self, loop: For) -> Iterator[None]:
        """Load scratch memory that a loop does not write once in each iteration.

        LLVM shares loads within a basic block only, while a scheduled module is compiled. Rows of a register tile with
        separate tests, as at the edges of images, are different blocks that read common weights.
        """
        before = self.env.arrays
        own = {array.name for array in self.layout.offsets}
        places = {name: place for name, place in before.items() if name in own and not place.kept}
        if not self.env.out.module.scheduled or not places:
            yield
            return
        written = {place.array for stmt in statements(loop.body) for place in writes(stmt)}
        kept = {name: attrs.evolve(place, kept=True) for name, place in places.items() if name not in written}
        self.env.arrays = {**before, **kept}
        try:
            yield
        finally:
            self.env.arrays = before

    def _branch(self, stmt: If) -> None:
        condition = evaluate(self.env, stmt.condition)
        if condition.known is not None:
            self.write(stmt.then if condition.known else stmt.otherwise)
            return
        out = self.env.out
        then, done = out.fresh_label("then"), out.fresh_label("endif")
        otherwise = out.fresh_label("else") if stmt.otherwise else done
        out.branch_if(condition.text, then, otherwise)
        out.start(then)
        with out.scope():
            self.write(stmt.then)
        out.branch(done)
        if stmt.otherwise:
            out.start(otherwise)
            with out.scope():
                self.write(stmt.otherwise)
            out.branch(done)
        out.start(done)


def _mask(env: Environment, stmt: AssignLanes, *, known: bool = True) -> Value:
    """Return the mask of set lanes, from 32-bit numbers; LLVM may know these only if they are ``known``.

    For a narrowed vector with a mask known to have one lane, LLVM 22 stores that lane in its original width, over its
    neighbours, with AVX-512.
    """
    out, numbers = env.out, Type(DType.I32)
    lanes, index = stmt.target.type.lanes, stmt.begin.type
    places = ramp(out, integer(0, numbers), 1, lanes)
    tests = []
    for op, bound in ((Op.CMP_GE, stmt.begin), (Op.CMP_LT, stmt.end)):
        inside = Apply(Op.MIN, (Apply(Op.MAX, (bound, Const(0, index))), Const(lanes, index)))
        number = evaluate(env, Cast(inside, numbers))
        if not known and op is Op.CMP_LT:
            number = Value(out.pure(f'call i32 asm "", "=r,0"(i32 {number.text})'), numbers)
        tests.append(apply_integer(out, op, (places, broadcast(out, number, lanes)), index=False))
    return apply_integer(out, Op.BIT_AND, tuple(tests), index=False)


def _is_inside(place: Place, offset: Offset | Value, lanes: int) -> bool:
    """Return whether neighbours are known to be inside of an array on the stack."""
    if isinstance(offset, Value) or offset.outside is not None or offset.inside is not None or place.elements is None:
        return False
    return offset.lanes == 1 and 0 <= offset.distance <= place.elements - lanes


def is_scheduled(kernel: KernelFunction) -> bool:
    """Return whether a kernel is vectorised explicitly, and leaves nothing of that to LLVM.

    A kernel that only vectorises the channels of single pixels spends its time on coordinates, for several at a time:
    LLVM vectorises these. A kernel without vectors that adds to registers in unrolled loops, like the border of a
    product, specifies its parallelism by these: LLVM would gather its factors into vectors, which takes ten times as
    long to compile, and a fifth longer to run.
    """
    loops = [stmt for stmt in statements(kernel.body) if isinstance(stmt, For)]
    if any(loop.kind is LoopKind.VECTOR for loop in loops):
        return False
    vectors = any(kind.lanes * kind.dtype.itemsize >= _WHOLE for kind in _types(kernel))
    return vectors or _works_on_registers(kernel, loops)


def _works_on_registers(kernel: KernelFunction, loops: Sequence[For]) -> bool:
    """Return whether innermost rolled loops, if any, only write registers, in unrolled loops."""
    arrays = (stmt for stmt in statements(kernel.body) if isinstance(stmt, DeclareArray))
    registers = {array.name for array in arrays if array.region is Region.PRIVATE}
    staying = [loop for loop in loops if loop.kind is not LoopKind.UNROLL]
    inside = [[each for each in statements(loop.body) if isinstance(each, For)] for loop in staying]
    innermost = [unrolled for unrolled in inside if all(each.kind is LoopKind.UNROLL for each in unrolled)]
    written = [
        [target.array for loop in unrolled for stmt in statements(loop.body) for target in writes(stmt)]
        for unrolled in innermost
    ]
    return bool(written) and all(names and registers.issuperset(names) for names in written)


def has_vectors(kernel: KernelFunction) -> bool:
    """Return whether some expression of the kernel has several lanes."""
    return any(kind.lanes > 1 for kind in _types(kernel))


def _types(kernel: KernelFunction) -> Iterator[Type]:
    roots = (root for stmt in statements(kernel.body) for root in expressions(stmt))
    return (node.type for root in roots for node in walk(root))
