"""The meaning of Stripe programs: nested blocks over flat NumPy memory.

Points of a block with only scalars are vectorised if that is equivalent to sequential execution; everything else runs
point by point. Undefined memory holds NaN or extreme integers, so that reads of it are noticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import assert_never

import numpy as np

from tileir.core import Aggregation, ArgumentError, Diagnostic, DType, Op, TileError, attrs, checkpoint, fail
from tileir.core.numbers.number_system import REAL, NumberSystem
from tileir.stripe.attention import ATTEND, ATTEND_BACK, AttentionParameters
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.lanes import Lanes, interfere
from tileir.stripe.interpret.memory import Array, Elements, Hidden, Memory, ScopeKey, View, check_axis, check_offsets
from tileir.stripe.interpret.plan import Grid, Plan, ViewPlan, plan_block
from tileir.stripe.ir import (
    Block,
    Branch,
    Direction,
    Launch,
    Loop,
    Program,
    Refinement,
    Special,
    While,
    Work,
    views_read,
    views_written,
)
from tileir.stripe.lower.kernel_table import launched
from tileir.stripe.segments import ADD_SEGMENTS, SegmentParameters
from tileir.stripe.sorting import ORDER, SortParameters
from tileir.stripe.works import local_memory

_WIDE = DType.F32


def attend(special: Special, views: Mapping[str, View]) -> None:
    """Execute a special whose views are matrices, by their axes with several elements."""
    given = [views[name].loaded(name) for name in special.inputs]
    inputs = [array.reshape([size for size in array.shape if size > 1]) for array in given]
    numbers, dtype = views[special.outputs[0]].memory.numbers, views[special.inputs[0]].shape.dtype
    found = (_attended if special.name == ATTEND else _attended_back)(numbers, special, dtype, *inputs)
    for name, result in zip(special.outputs, found, strict=False):
        shape = views[name].shape
        views[name].fill(name, numbers.cast(result, shape.dtype).reshape(shape.sizes))


def _attended(
    numbers: NumberSystem, special: Special, dtype: DType, queries: Array, keys: Array, values: Array
) -> tuple[Array, Array]:
    """Return [S, E] for queries [S, D], keys [T, D] and values [T, E] of ``dtype``, and [S] logarithms; or of parts."""
    plan = AttentionParameters.of(special)
    if plan.parts is not None:
        share, whole = plan.share(len(keys)), attrs.evolve(plan, parts=None)
        starts = range(0, len(keys), share)
        pairs = [
            _sums(numbers, whole, dtype, queries, keys[start : start + share], values[start : start + share], part=True)
            for start in starts
        ]
        return np.stack([result for result, _ in pairs]), np.stack([logs for _, logs in pairs])
    return _sums(numbers, plan, dtype, queries, keys, values)


def _sums(
    numbers: NumberSystem,
    plan: AttentionParameters,
    dtype: DType,
    queries: Array,
    keys: Array,
    values: Array,
    *,
    part: bool = False,
) -> tuple[Array, Array]:
    """Return results and logarithms; for queries without visible keys in a ``part``, these are 0 and minus infinity."""

    def constant(value: float) -> Array:
        return np.asarray(numbers.constant(value, _WIDE))

    scores = _scores(numbers, plan, queries, keys)
    top = scores.max(1, keepdims=True)
    top = np.where(numbers.apply(Op.CMP_EQ, DType.BOOL, top, constant(-np.inf)), constant(0.0), top)
    powers = numbers.apply(Op.EXP, _WIDE, numbers.apply(Op.SUB, _WIDE, scores, top))
    weights = numbers.cast(powers, dtype)
    total = numbers.cast(weights, _WIDE).sum(1, keepdims=True)
    logs = numbers.apply(Op.ADD, _WIDE, numbers.apply(Op.LOG, _WIDE, total), top)
    logs = numbers.apply(Op.MUL, _WIDE, logs, constant(1.0 / np.log(2.0)))
    if plan.zeros or part:
        blind = numbers.apply(Op.CMP_EQ, DType.BOOL, total, constant(0.0))
        total, logs = np.where(blind, constant(1.0), total), logs if part else np.where(blind, constant(np.inf), logs)
    return numbers.apply(Op.DIV, _WIDE, numbers.product(weights, values, _WIDE), total), logs


def _attended_back(
    numbers: NumberSystem,
    special: Special,
    dtype: DType,
    rows: Array,
    beside: Array,
    columns: Array,
    others: Array,
    logs: Array,
    dots: Array,
) -> list[Array]:
    """Return [R, D] for rows [R, D] and [R, E], columns [..., C, D] and [..., C, E]; and perhaps [R, E]."""
    plan, two = AttentionParameters.of(special), len(special.outputs) == 2
    sums: list[Array] = []
    heads = range(columns.shape[0]) if columns.ndim > 2 else [()]
    for head in heads:
        # Numbers of rows are a column beside scores, those of columns a row.
        log, dot = (numbers_of[head][None, :] if two else numbers_of[:, None] for numbers_of in (logs, dots))
        least = numbers.apply(Op.MUL, _WIDE, log, np.asarray(numbers.constant(np.log(2.0), _WIDE)))
        exponents = numbers.apply(Op.SUB, _WIDE, _scores(numbers, plan, rows, columns[head]), least)
        weights = numbers.apply(Op.EXP, _WIDE, exponents)
        change = numbers.apply(Op.SUB, _WIDE, numbers.product(beside, others[head].T, _WIDE), dot)
        changes = numbers.cast(numbers.apply(Op.MUL, _WIDE, weights, change), dtype)
        scale = np.asarray(numbers.constant(plan.scale, _WIDE))
        made = [numbers.apply(Op.MUL, _WIDE, numbers.product(changes, columns[head], _WIDE), scale)]
        if two:
            made.append(numbers.product(numbers.cast(weights, dtype), others[head], _WIDE))
        sums = [numbers.apply(Op.ADD, _WIDE, a, b) for a, b in zip(sums, made, strict=True)] if sums else made
    return sums


def _scores(numbers: NumberSystem, plan: AttentionParameters, rows: Array, columns: Array) -> Array:
    """Return scaled products of rows and columns, masked for hidden columns."""
    row, column = np.ogrid[: len(rows), : len(columns)]
    seen = np.ones((len(rows), len(columns)), np.bool_)
    if plan.before is not None:
        seen &= column >= row - plan.before
    if plan.after is not None:
        seen &= column <= row + plan.after
    hidden = -np.inf if plan.hidden is None else plan.hidden
    scale, more = (np.asarray(numbers.constant(value, _WIDE)) for value in (plan.scale, hidden))
    scores = numbers.apply(Op.MUL, _WIDE, numbers.product(rows, columns.T, _WIDE), scale)
    return np.where(seen, scores, more if plan.hidden is None else numbers.apply(Op.ADD, _WIDE, scores, more))


def sort_rows(special: Special, views: Mapping[str, View]) -> None:
    """Execute a special whose views are rows: stable, with NaN as the greatest element."""
    plan, rows = SortParameters.of(special), [views[name].loaded(name).ravel() for name in special.inputs]
    keys, payload = rows[0], rows[1] if len(rows) > 1 else np.arange(len(rows[0]))
    numbers, found = views[special.inputs[0]].memory.numbers, []
    for start, end in plan.stretches(len(keys)):
        places = numbers.order(keys[start:end], 0, descending=plan.descending)
        found.append(start + places[: plan.keep or None])
    chosen = np.concatenate(found)
    for name, row in zip(special.outputs, (payload, keys), strict=False):
        shape = views[name].shape
        views[name].fill(name, row[chosen][: shape.elements].reshape(shape.sizes))


def add_segments(special: Special, views: Mapping[str, View]) -> None:
    """Execute a special that adds updates with equal keys, in order."""
    plan = SegmentParameters.of(special)
    inputs, outputs = ([views[name] for name in names] for names in (special.inputs, special.outputs))
    for name, view in zip((*special.inputs, *special.outputs), (*inputs, *outputs), strict=True):
        check_offsets(name, view.offsets(), view.memory)
    keys, updates, *places = (view.memory.data[view.offsets()] for view in inputs)
    rows, size = outputs[0].shape.dims[0].size, keys.size
    keys, updates = np.clip(keys.ravel(), 0, rows - 1), updates.reshape(size, -1)
    if places:
        updates = updates[places[0].ravel()]
    numbers, dtype = outputs[0].memory.numbers, outputs[0].shape.dtype
    updates = numbers.cast(updates, dtype)
    table, carried = outputs[0].offsets().reshape(rows, -1), [view.offsets().reshape(-1) for view in outputs[1:]]
    for part, start in enumerate(range(0, size, plan.part or size)):
        own = keys[start : start + (plan.part or size)]
        edges = np.concatenate(([0], np.flatnonzero(np.diff(own)) + 1))
        sums = np.zeros((len(edges), updates.shape[1]), updates.dtype)
        numbers.merge_at(
            Aggregation.SUM,
            dtype,
            sums,
            np.searchsorted(edges, np.arange(len(own)), "right") - 1,
            updates[start:][: len(own)],
        )
        inner = slice(None)
        if plan.part:
            inner = slice(1, len(edges) - 1)
            last = sums[-1] if len(edges) > 1 else np.zeros_like(sums[0])
            both = np.stack([own[0], own[-1]]), np.stack([sums[0], last])
            for view, offsets, values in zip(outputs[1:], carried, both, strict=True):
                there = offsets.reshape(-1, values.size)[part]
                _put(view, there, values.reshape(-1))
        _put(outputs[0], table[own[edges[inner]]], sums[inner])


def _put(view: View, offsets: Array, values: Array) -> None:
    if view.memory.written is not None:
        view.memory.written[offsets] = True
    view.memory.data[offsets] = values


def interpret(
    program: Program, inputs: Mapping[str, Array], *, seed: int | None = None, numbers: NumberSystem = REAL
) -> dict[str, Array]:
    """Run ``program`` and return its results by name, in declared order.

    Args:
        program: The program; it is verified first.
        inputs: One array for each parameter, of its shape, as ``numbers`` stores its dtype.
        seed: Run the points of each block in an order shuffled with this seed, rather than in row-major order, unless
            the block asks for that: a program whose result depends on it is wrong.
        numbers: The number system.

    Raises:
        VerifyError: The program breaks a rule.
        ArgumentError: The arrays do not fit the parameters.
        TileError: An access is out of bounds, or a special has no meaning.
    """
    contents = contents_after(program, inputs, seed=seed, numbers=numbers)
    return {name: contents[name] for name in program.outputs}


def contents_after(
    program: Program, inputs: Mapping[str, Array], *, seed: int | None = None, numbers: NumberSystem = REAL
) -> dict[str, Array]:
    """Run ``program``, as :func:`interpret`, and return the final content of all memory of its entry block."""
    verify(program)
    _check_inputs(program, inputs, numbers)
    content = {name: np.asarray(array) for name, array in inputs.items()}
    memory = {each.name: each for each in program.memory}
    for buffer in program.buffers:
        shape = memory[buffer.name].shape
        constant = np.frombuffer(buffer.data, shape.dtype.numpy).reshape(shape.sizes)
        content[buffer.name] = numbers.encoded(constant)
    views: dict[str, View] = {}
    for each in program.memory:
        view = views[each.name] = _allocate(each, numbers)
        if each.name in content:
            view.memory.data[view.offsets()] = content[each.name]
    machine = _Machine(None if seed is None else np.random.default_rng(seed), numbers)
    _Works(program, machine, views, memory, local_memory(program)).run(program.works)
    return {name: np.asarray(view.memory.data[view.offsets()]) for name, view in views.items()}


@attrs.define(eq=False, repr=False)
class _Works:
    """State of the works of a running program.

    Attributes:
        program: The program.
        machine: The executor of blocks.
        views: The memory, by name.
        memory: The allocations, by name.
        local: The memory used by each loop alone, by the :func:`id` of the loop.
    """

    program: Program
    machine: _Machine
    views: dict[str, View]
    memory: Mapping[str, Refinement]
    local: Mapping[int, frozenset[str]]
    _plans: dict[int, Plan] = attrs.field(factory=dict, init=False)
    _numbers: Iterator[int] = attrs.field(factory=count, init=False)

    def run(self, works: Iterable[Work]) -> None:
        """Run works in order; nesting is bounded, so recursion is."""
        for work in works:
            match work:
                case Launch():
                    self._launch(work)
                case Loop():
                    self._loop(work)
                case Branch():
                    self.run(work.then if self._holds(work.condition) else work.otherwise)
                case _:
                    assert_never(work)

    def _launch(self, launch: Launch) -> None:
        block = launched(self.program.kernels[launch.kernel], launch)
        plan = self._plans.get(id(block))
        if plan is None:
            around = Block(refinements=tuple(self.memory[name] for name in launch.arguments))
            plan = self._plans[id(block)] = plan_block(block, around, self._numbers)
        self.machine.run(plan, {}, self.views)

    def _loop(self, loop: Loop) -> None:
        steps = range(loop.times) if isinstance(loop.times, int) else count()
        for _ in steps:
            if isinstance(loop.times, While) and not self._holds(loop.times.memory):
                return
            checkpoint()
            for name in self.local.get(id(loop), ()):
                self.views[name] = _allocate(self.memory[name], self.machine.numbers)
            self.run(loop.works)
            for carry in loop.carries:
                _copy(self.views[carry.made], self.views[carry.kept])

    def _holds(self, condition: str) -> bool:
        view = self.views[condition]
        return bool(view.memory.data[view.offsets()].item())


def _check_inputs(program: Program, inputs: Mapping[str, Array], numbers: NumberSystem) -> None:
    """Raise unless there is an array for each parameter, of its dtype and shape."""
    faults = [f"there is no parameter {name!r}" for name in inputs if name not in program.inputs]
    shapes = {each.name: each.shape for each in program.memory}
    for name in program.inputs:
        shape = shapes[name]
        if name not in inputs:
            faults.append(f"the parameter {name!r} needs an array")
            continue
        array = np.asarray(inputs[name])
        if array.shape != shape.sizes or array.dtype != numbers.storage(shape.dtype):
            faults.append(f"{name!r} needs {shape.dtype.value} {shape.sizes}, not {array.dtype.name} {array.shape}")
    if faults:
        raise ArgumentError(Diagnostic("TIL701", fault) for fault in faults)


def _allocate(refinement: Refinement, numbers: NumberSystem) -> View:
    shape = refinement.shape
    return View(Memory.undefined(shape, numbers), 0, shape, shape.sizes, (0,) * len(shape.dims))


@attrs.define(eq=False, repr=False)
class _Machine:
    """One run of a program: the source of shuffled orders, and a number for each execution of a block."""

    rng: np.random.Generator | None
    numbers: NumberSystem
    executions: Iterator[int] = attrs.field(factory=count, init=False)

    def run(self, plan: Plan, outer: Mapping[str, int], sources: Mapping[str, View]) -> None:
        """Run all points of a block; ``outer`` and ``sources`` are the enclosing indices and views."""
        execution = next(self.executions)
        bases = [0 if affine is None else int(affine.evaluate(outer)) for affine in plan.indices]
        if plan.joined is not None:
            if self._run_joined(plan.joined, bases, sources, execution):
                return
            plan.joined = None
        for grid, order in plan.grids(self.rng):
            chosen = _choose(grid, order, plan, bases)
            together = plan.is_leaf and not plan.block.is_serial
            if together and self._run_together(plan, grid, chosen, bases, sources, execution):
                continue
            for column in range(grid.coordinates.shape[1]) if chosen is None else chosen.tolist():
                values = [base + int(k) for base, k in zip(bases, grid.coordinates[:, column], strict=True)]
                self._run_point(plan, values, sources, execution)

    def _run_joined(self, plan: Plan, bases: Sequence[int], sources: Mapping[str, View], execution: int) -> bool:
        """Run the points of nested blocks vectorised; return False, with nothing done, if they must run one by one.

        That is the case if they might interfere, or if one is out of bounds, so that the first of these is reported.
        """
        bases = [*bases, *[0] * (len(plan.ranges) - len(bases))]
        ((grid, order),) = plan.grids(self.rng)
        try:
            return self._run_together(plan, grid, _choose(grid, order, plan, bases), bases, sources, execution)
        except TileError:
            return False

    def _run_point(self, plan: Plan, values: Sequence[int], sources: Mapping[str, View], execution: int) -> None:
        views = {name: self._view_at(view, values, sources, execution) for name, view in plan.views.items()}
        named = dict(zip((index.name for index in plan.block.indices), values, strict=True))
        hidden = _hidden(plan, views)
        self._run_statements(plan, values, named, views)
        for content in reversed(hidden):
            content.reveal()

    def _run_statements(
        self, plan: Plan, values: Sequence[int], named: Mapping[str, int], views: Mapping[str, View]
    ) -> None:
        lanes = Lanes(1, self.numbers)
        for number, statement in enumerate(plan.block.statements):
            if isinstance(statement, Block):
                self.run(plan.inner[number], named, views)
            elif isinstance(statement, Special):
                _run_special(statement, views)
            else:
                for name in (*views_read(statement), *views_written(statement)):
                    lanes.elements[name] = _element(name, views[name])
                linear = plan.load_indices.get(number)
                lanes.execute(statement, None if linear is None else np.array([linear.at(values)]))

    def _run_together(
        self,
        plan: Plan,
        grid: Grid,
        chosen: Array | None,
        bases: Sequence[int],
        sources: Mapping[str, View],
        execution: int,
    ) -> bool:
        """Compute the chosen points vectorised; return False, with nothing done, if they might interfere."""
        lanes = Lanes(grid.coordinates.shape[1] if chosen is None else chosen.size, self.numbers)
        if lanes.points == 0:
            return True
        for name, view in plan.views.items():
            lanes.elements[name] = _elements(view, grid, chosen, bases, sources[view.source], execution)
        if interfere(plan.pairs, lanes.elements):
            return False
        for number, statement in enumerate(plan.block.statements):
            if isinstance(statement, Block | Special):  # a leaf has none
                continue
            linear = plan.load_indices.get(number)
            index = None if linear is None else _picked(linear.over(grid.coordinates), chosen) + linear.shift(bases)
            lanes.execute(statement, index)
        return True

    def _view_at(self, view: ViewPlan, values: Sequence[int], sources: Mapping[str, View], execution: int) -> View:
        """Return a view at one point; allocations are fresh."""
        refinement = view.refinement
        if refinement.direction is Direction.NONE:
            return _allocate(refinement, self.numbers)
        outer = sources[refinement.source]
        limits = outer.limits if view.aligned else None
        corner = (
            ()
            if limits is None
            else tuple(c + axis.at(values) for c, axis in zip(outer.corner, view.axes, strict=True))
        )
        return View(
            outer.memory,
            outer.offset + view.flat.at(values),
            refinement.shape,
            limits,
            corner,
            refinement.aggregation,
            _scope(view, outer, execution),
        )


def _hidden(plan: Plan, views: Mapping[str, View]) -> list[Hidden]:
    """Hide earlier content of views that a point reads after it has written them.

    Nothing is hidden if other views show the same memory with its content.
    """
    if not plan.private:
        return []
    outside = [r for r in plan.block.refinements if r.direction not in (Direction.NONE, Direction.OUT)]
    seen = {id(views[r.name].memory) for r in outside}
    chosen = (views[name] for name in plan.private)
    return [view.memory.hidden(view) for view in chosen if id(view.memory) not in seen]


def _choose(grid: Grid, order: Array | None, plan: Plan, bases: Sequence[int]) -> Array | None:
    """Return the points that satisfy all constraints, in order; None for all points in the order of the grid."""
    valid: Array | None = None
    for linear, values in zip(plan.constraints, grid.constraints, strict=True):
        holds = values >= -linear.shift(bases)
        valid = holds if valid is None else valid & holds
    if valid is None or valid.all():
        return order
    return np.flatnonzero(valid) if order is None else np.asarray(order[valid[order]])


def _picked(values: Array, chosen: Array | None) -> Array:
    return values if chosen is None else np.asarray(values[chosen])


def _scope(view: ViewPlan, outer: View, execution: int) -> tuple[ScopeKey, int] | None:
    """Return the aggregation scope of a view: that of its source, or a new one for this execution of the block."""
    if view.opens is None:
        return None
    return (view.opens, execution) if outer.scope is None else outer.scope


def _element(name: str, view: View) -> Elements:
    """Return the first element of a view at one point, checked to be in bounds."""
    offsets = np.array([view.offset])
    if view.limits is None:
        check_offsets(name, offsets, view.memory)
    else:
        for axis, (position, limit) in enumerate(zip(view.corner, view.limits, strict=True)):
            check_axis(name, axis, np.array([position]), limit)
    return Elements(view, name, offsets)


def _elements(
    view: ViewPlan, grid: Grid, chosen: Array | None, bases: Sequence[int], outer: View, execution: int
) -> Elements:
    """Return the first elements of a view at the chosen points, checked to be in bounds."""
    refinement = view.refinement
    base = outer.offset + view.flat.shift(bases)
    offsets = _picked(grid.offsets[refinement.name], chosen) + base
    limits = outer.limits if view.aligned else None
    if limits is None:
        if base + view.flat_bounds[0] < 0 or base + view.flat_bounds[1] >= outer.memory.data.size:
            check_offsets(refinement.name, offsets, outer.memory)
    else:
        for axis, (linear, limit) in enumerate(zip(view.axes, limits, strict=True)):
            corner = outer.corner[axis] + linear.shift(bases)
            low, high = view.axis_bounds[axis]
            if corner + low < 0 or corner + high >= limit:  # only constraints can keep the points inside
                positions = _picked(linear.over(grid.coordinates), chosen) + corner
                check_axis(refinement.name, axis, positions, limit)
    scope = _scope(view, outer, execution)
    at_all = View(outer.memory, 0, refinement.shape, None, (), refinement.aggregation, scope)
    return Elements(at_all, refinement.name, offsets)


def _run_special(special: Special, views: Mapping[str, View]) -> None:
    """Execute a known special.

    Raises:
        TileError: The special is unknown.
    """
    if special.name == "prefetch":
        return
    if special.name not in ("copy", "fill", ORDER, ADD_SEGMENTS, "zero", "transpose", ATTEND, ATTEND_BACK):
        message = f"the special {special.name!r} has no meaning outside a back end: lower it before interpretation"
        raise fail("TIL512", message)
    if special.name in (ATTEND, ATTEND_BACK):
        attend(special, views)
        return
    if special.name in (ORDER, ADD_SEGMENTS):
        (sort_rows if special.name == ORDER else add_segments)(special, views)
        return
    target = views[special.outputs[0]]
    offsets = target.offsets()
    check_offsets(special.outputs[0], offsets, target.memory)
    if target.memory.written is not None:
        target.memory.written[offsets] = True
    if special.inputs:
        content = views[special.inputs[0]].loaded(special.inputs[0])
        target.memory.data[offsets] = content.T if special.name == "transpose" else content
        return
    value = special.parameters[0][1] if special.name == "fill" else 0
    target.memory.data[offsets] = target.memory.numbers.constant(
        0 if value is None or isinstance(value, str) else value, target.shape.dtype
    )


def _copy(source: View, target: View) -> None:
    """Copy the elements of one whole allocation to another."""
    offsets = target.offsets()
    if target.memory.written is not None:
        target.memory.written[offsets] = True
    target.memory.data[offsets] = source.memory.data[source.offsets()].reshape(offsets.shape)
