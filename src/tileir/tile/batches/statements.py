"""Statements for several examples: contractions get a further index, scans an axis of their carries."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import assert_never

from tileir.core import Aggregation, ArrayValue, attrs
from tileir.tile.batches.body import Body, Plan
from tileir.tile.batches.layout import Group, Layout, Part, Value, inserted
from tileir.tile.building.indices import Dim
from tileir.tile.building.loops import while_loop
from tileir.tile.building.recording import Recorder
from tileir.tile.building.scans import scan
from tileir.tile.building.tensors import Tensor
from tileir.tile.functions import builtin
from tileir.tile.ir import (
    Assignment,
    Call,
    Conditional,
    Constant,
    Contraction,
    Expr,
    Function,
    IndexName,
    Input,
    IntLiteral,
    Name,
    Output,
    Scan,
    Size,
    Statement,
    While,
)
from tileir.tile.traversal import walk


def run(body: Body, function: Function, *, named: bool = True) -> None:
    """Record the statements of a function; ``named`` keeps their names."""
    recorder = body.recorder
    names = {each.name: recorder.names.fresh(each.name) for each in function.statements if named}
    for statement in function.statements:
        body.layout.span = statement.span
        with ExitStack() as marks:
            for attribute in statement.attributes:
                marks.enter_context(recorder.attributed(attribute))
            value = _value(body, statement)
        if named:
            _name(recorder, statement, names[statement.name], value)
        if statement.name in body.plan.forced:
            value = _spread(body.layout, value)
        body.values[statement.name] = value


def _value(body: Body, statement: Statement) -> Value:
    match statement:
        case Assignment(name=name, value=value):
            body.definitions[name] = value
            return body.value(value)
        case Contraction():
            return _contraction(body, statement)
        case Scan():
            return _scan(body, statement)
        case While():
            return _while(body, statement)
        case Constant():
            return _constant(body, statement)
        case _:
            assert_never(statement)


def _name(recorder: Recorder, statement: Statement, name: str, value: Value) -> None:
    """Give a recorded value the name of its statement, unless it has one, which makes the statement an alias."""
    match value:
        case Part(tensor=tensor):
            reference: str | None = tensor.reference
        case Group(reference=reference):
            pass
        case _:
            reference = None
    step = None if reference is None else recorder.steps.get(reference)
    if step is not None and step.name is None:
        step.name, step.span = name, statement.span


def _spread(layout: Layout, value: Value) -> Value:
    match value:
        case Part():
            return layout.spread(value)
        case Group(items=items):
            return Group(tuple(_spread(layout, item) for item in items), value.reference)
        case _:
            return value


def _constant(body: Body, statement: Constant) -> Part:
    recorder = body.recorder
    for dim, size in zip(statement.dims or (), statement.shape, strict=statement.dims is not None):
        if isinstance(dim, Name):
            body.sizes[dim.name] = IntLiteral(size, span=dim.span)
    reference = recorder.record(attrs.evolve(statement, name="", dims=None, attributes=()))
    recorder.ranks[reference] = len(statement.shape)
    return Part(Tensor(recorder, reference))


def _contraction(body: Body, statement: Contraction) -> Part:
    """Record a contraction: each point reads the elements of one example from operands that differ among examples."""
    layout = body.layout
    parts = [body.part(Name(access.tensor, span=access.span)) for access in statement.inputs]
    default = None if statement.default is None else body.part(statement.default)
    batched = any(part is not None and part.axis is not None for part in (*parts, default))
    polynomials = [*statement.indices, *(index for access in statement.inputs for index in access.indices)]
    polynomials += [constraint.polynomial for constraint in statement.constraints]
    example = layout.index(*polynomials)
    indices, sizes = (list(map(body.constant, exprs)) for exprs in (statement.indices, statement.sizes))
    if batched:
        indices, sizes = [example, *indices], [layout.size, *sizes]
        default = None if default is None else layout.front(layout.spread(default))
    inputs = []
    for access, part in zip(statement.inputs, parts, strict=True):
        read = list(map(body.constant, access.indices))
        if part.axis is not None:
            read = inserted(read, part.axis, example)
        inputs.append(attrs.evolve(access, tensor=part.tensor.reference, indices=tuple(read)))
    constraints = [
        attrs.evolve(each, polynomial=body.constant(each.polynomial), bound=body.constant(each.bound))
        for each in statement.constraints
    ]
    made = attrs.evolve(
        statement,
        name="",
        indices=tuple(indices),
        sizes=tuple(sizes),
        inputs=tuple(inputs),
        constraints=tuple(constraints),
        default=None if default is None else default.name,
        attributes=(),
    )
    reference = body.recorder.record(made)
    body.recorder.ranks[reference] = len(sizes)
    return Part(Tensor(body.recorder, reference), 0 if batched else None)


def _scan(body: Body, statement: Scan) -> Value:
    """Record a scan; carries that differ among examples after any step do so from the beginning."""
    groups = (statement.carries, statement.sequences, statement.constants)
    carries, sequences, constants = ([body.part(name) for name in names] for names in groups)
    sequences = [body.layout.moved(part, 1) for part in sequences]
    carries = _started(body, statement, carries, sequences, constants)
    slices = [None if part.axis is None else 0 for part in sequences]
    step = _Step(body, statement, [*(part.axis for part in carries), *slices, *(part.axis for part in constants)])
    count = None if statement.count is None else Dim(body.constant(statement.count), body.recorder)
    operands = ([part.tensor for part in parts] for parts in (carries, sequences, constants))
    results = scan(_Recorded(statement.step, step.record), *operands, count=count, reverse=statement.reverse)
    stacked = [None if axis is None else axis + 1 for axis in step.axes[len(carries) :]]
    return _results(body.recorder, results, [*(part.axis for part in carries), *stacked])


def _started(
    body: Body,
    statement: Scan | While,
    carries: Sequence[Part],
    sequences: Sequence[Part],
    constants: Sequence[Part],
) -> list[Part]:
    """Return the carries before the first step; those that will differ among examples are repeated."""
    layout, started = body.layout, list(carries)
    flags = body.plan.carries.setdefault(statement.name, [False] * len(carries))
    for place, part in enumerate(carries):
        flags[place] = flags[place] or part.axis is not None
    for place, (parameter, part) in enumerate(zip(statement.step.inputs, carries, strict=False)):
        if parameter.dtype is not None and _adapts(body.recorder, part):
            started[place] = Part(body.recorded(Call(f"as_{parameter.dtype.value}", (part.name,))))
    carries = list(started)
    repeated = [place for place, part in enumerate(carries) if flags[place] and part.axis is None]
    numbers = [place for place in repeated if _adapts(body.recorder, carries[place])]
    if numbers:
        started = _adapted(body, statement, carries, (sequences, constants), numbers)
    return [layout.front(layout.spread(part)) if flag else part for flag, part in zip(flags, started, strict=True)]


def _results(recorder: Recorder, results: Sequence[Tensor], axes: Sequence[int | None]) -> Value:
    """Return the results of a loop: one, or a tuple of parts, which are read from the statement of the loop."""
    parts = tuple(map(Part, results, axes))
    if len(parts) == 1:
        return parts[0]
    reference = None
    for result in results:
        element = recorder.steps[result.reference]
        element.attributes = ()
        if isinstance(element.body, Call) and isinstance(element.body.arguments[0], Name):
            reference = element.body.arguments[0].name
    return Group(parts, reference)


def _while(body: Body, statement: While) -> Value:
    """Record a loop that runs as long as its condition holds for any example; the others keep their carries."""
    carries, constants = ([body.part(name) for name in names] for names in (statement.carries, statement.constants))
    carries = _started(body, statement, carries, (), constants)
    loop = _While(body, statement, [*(part.axis for part in carries), *(part.axis for part in constants)])
    results = while_loop(
        _Recorded(statement.condition, loop.condition),
        _Recorded(statement.step, loop.step),
        [part.tensor for part in carries],
        [part.tensor for part in constants],
    )
    return _results(body.recorder, results, [part.axis for part in carries])


@attrs.frozen(eq=False, repr=False)
class _Recorded:
    """A function of a loop, to be recorded under the names of its inputs."""

    function: Function
    record: Callable[[Sequence[Tensor]], list[Tensor]]

    @property
    def __signature__(self) -> inspect.Signature:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature([inspect.Parameter(each.name, kind) for each in self.function.inputs])

    def __call__(self, *tensors: Tensor) -> list[Tensor]:
        return self.record(tensors)


@attrs.frozen(eq=False, repr=False)
class _While:
    """Condition and step of a loop for several examples.

    Attributes:
        body: The function around it.
        loop: The loop.
        given: The axes of the examples in the arguments of both.
    """

    body: Body
    loop: While
    given: Sequence[int | None]

    def condition(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Record the test that the condition holds for any example."""
        layout, parts = self.inside(tensors)
        asked = self.asked(layout, parts, named=True)
        if asked.axis is None:
            return [asked.tensor]
        flags = self.body.plan.carries[self.loop.name]
        if not all(flags):  # if examples stop at different steps, all their carries differ
            flags[:] = [True] * len(flags)
            self.body.plan.changed = True
        return [layout.contracted(Aggregation.MAX, [], [], asked, [layout.index()], None).tensor]

    def step(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Record a step, which keeps the carries of examples whose condition does not hold."""
        layout, parts = self.inside(tensors)
        plan, flags = self.body.plan, self.body.plan.carries[self.loop.name]
        asked = self.asked(layout, parts, named=False)
        made = _stepped(layout, plan.step(self.loop.name), self.loop.step, parts)
        for place, (new, old) in enumerate(zip(made, parts, strict=False)):
            if asked.axis is not None:
                new = layout.front(layout.spread(new))
                holds = layout.padded(asked, layout.rank(new)).name
                made[place] = layout.helper(Conditional(holds, new.name, old.name))
            elif flags[place]:
                made[place] = layout.front(layout.spread(new))
            elif new.axis is not None:
                flags[place] = plan.changed = True
        return [part.tensor for part in made]

    def inside(self, tensors: Sequence[Tensor]) -> tuple[Layout, list[Part]]:
        """Return the layout and the arguments of one of the functions."""
        parts = list(map(Part, tensors, self.given))
        return _layout(self.body.layout, tensors[0].recorder, parts), parts

    def asked(self, layout: Layout, parts: Sequence[Part], *, named: bool) -> Part:
        """Record the condition of each example."""
        plan = self.body.plan.step(f"{self.loop.name} condition")
        (part,) = _stepped(layout, plan, self.loop.condition, parts, named=named)
        return layout.front(part)


@attrs.define(eq=False, repr=False)
class _Step:
    """The step of a scan for several examples, to be recorded.

    Attributes:
        body: The function around it.
        scan: The scan.
        given: The axes of the examples in the arguments of a step.
        axes: The axes of the examples in its results, after it is recorded.
    """

    body: Body
    scan: Scan
    given: Sequence[int | None]
    axes: list[int | None] = attrs.field(factory=list, init=False)

    def record(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Record the step, and the axes of its outputs."""
        plan, name = self.body.plan, self.scan.name
        parts = list(map(Part, tensors, self.given))
        layout = _layout(self.body.layout, tensors[0].recorder, parts)
        made = _stepped(layout, plan.step(name), self.scan.step, parts)
        flags = plan.carries[name]
        for place, flag in enumerate(flags):
            if flag:
                made[place] = layout.front(layout.spread(made[place]))
            elif made[place].axis is not None:
                flags[place] = plan.changed = True
        self.axes.extend(part.axis for part in made)
        return [part.tensor for part in made]


def _layout(around: Layout, recorder: Recorder, parts: Sequence[Part]) -> Layout:
    """Return the layout inside of a step, where the number of examples is a size of its arguments."""
    sizes = (part.tensor.dims[part.axis].expr for part in parts if part.axis is not None)
    return Layout(recorder, next(sizes, around.size), around.stem)


def _stepped(layout: Layout, plan: Plan, step: Function, parts: Sequence[Part], *, named: bool = True) -> list[Part]:
    """Record a step of a scan, and return its outputs."""
    body = Body(layout, plan)
    for parameter, part in zip(step.inputs, parts, strict=True):
        if parameter.dims is not None:
            _bind(body, parameter.dims, layout.dims(part))
        part = _expected(body, part, parameter)
        body.values[parameter.name] = layout.spread(part) if parameter.name in plan.forced else part
    run(body, step, named=named)
    return [_expected(body, body.part(Name(output.name, span=output.span)), output) for output in step.outputs]


def _expected(body: Body, part: Part, declared: Input | Output) -> Part:
    """Return an input or output of a step after checks of its declared dtype and sizes."""
    if declared.dtype is not None:
        part = Part(body.recorded(Call(f"expect_{declared.dtype.value}", (part.name,), span=declared.span)), part.axis)
    dims = declared.dims or ()
    if isinstance(declared, Output) or not all(isinstance(dim, Name) for dim in dims):
        sizes = [body.constant(dim) for dim in dims]
        if declared.dims is not None and sizes != [dim.expr for dim in body.layout.dims(part)]:
            whole = sizes if part.axis is None else inserted(sizes, part.axis, body.layout.size)
            call = Call("expect_sizes", (part.name, *whole), span=declared.span)
            part = Part(body.recorded(call), part.axis)
    return part


def _bind(body: Body, dims: Iterable[Size], sizes: Iterable[Dim]) -> None:
    """Bind the dimensions of a step to sizes of its arguments; those of one name have to be equal."""
    for name, size in zip(dims, sizes, strict=True):
        if isinstance(name, IntLiteral):
            continue
        known = body.sizes.get(name.name)
        if known == size.expr:
            continue
        if known is not None:
            size = Dim(known, body.recorder).call("match", size)
        plain = size.value is not None or isinstance(size.expr, Name)
        body.sizes[name.name] = size.expr if plain else Name(body.recorder.record(size.expr))


def _adapts(recorder: Recorder, part: Part) -> bool:
    """Return whether a tensor may be a number without a dtype, which adapts to other operands."""
    pending = [part.tensor.reference]
    while pending:
        name = pending.pop()
        step = recorder.steps.get(name)
        if name in recorder.dims:
            continue
        if step is None:
            if recorder.sizes.get(name) != ():
                return False
        elif isinstance(step.body, Constant):
            if isinstance(step.body.value, ArrayValue):
                return False
        elif isinstance(step.body, Contraction | Scan | While):
            return False
        else:
            for node in walk(step.body):
                row = builtin(node.function) if isinstance(node, Call) else None
                if row is not None and not row.folds:
                    return False
                if isinstance(node, Name):
                    pending.append(node.name)
    return True


def _adapted(
    body: Body,
    statement: Scan | While,
    carries: Sequence[Part],
    operands: tuple[Sequence[Part], Sequence[Part]],
    numbers: Sequence[int],
) -> list[Part]:
    """Return carries; ``numbers`` among them get the dtype of the results of a first step.

    Nothing else is read of these steps, so they are not computed.
    """
    layout = body.layout
    sequences, constants = operands
    given = list(carries)
    for place in numbers:
        given[place] = layout.contracted(Aggregation.ASSIGN, [], [], carries[place], [], None)
    slices = [_slice(layout, part) for part in sequences]
    plan = body.plan.step(f"{statement.name} first")
    for _ in numbers:
        inner = Layout(layout.recorder, layout.size, layout.stem, statement.span)
        made = _stepped(inner, plan, statement.step, [*given, *slices, *constants], named=False)
        for place in numbers:
            like = Call("as_like", (carries[place].name, made[place].name), span=statement.span)
            given[place] = Part(body.recorded(like))
    return given


def _slice(layout: Layout, part: Part) -> Part:
    """Return the first element of a sequence, in which the axis of examples follows that of steps."""
    sizes = [dim.expr for dim in part.tensor.dims[1:]]
    rest: list[Expr] = [IndexName(f"x{axis}") for axis in range(len(sizes))]
    axis = None if part.axis is None else 0
    return layout.contracted(Aggregation.ASSIGN, rest, sizes, part, [IntLiteral(0), *rest], axis)
