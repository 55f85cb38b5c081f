"""Calls of functions for several examples: functions with shape rules of their own, and derivatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tileir.core import Aggregation, Combine, attrs
from tileir.tile.batches.layout import Group, Part, Stream, Value
from tileir.tile.building.indices import Dim
from tileir.tile.building.scans import scan
from tileir.tile.building.tensors import Tensor, call as computed
from tileir.tile.functions import SCATTER_LAST, SCATTERS, SIZE
from tileir.tile.ir import Binary, BinaryOperator, Call, Expr, IndexName, IntLiteral, Name, Unary, UnaryOperator

if TYPE_CHECKING:
    from tileir.tile.batches.body import Body

_ELEMENT: Final = "element"


def _recorded(body: Body, call: Call, axis: int | None, *arguments: Expr) -> Part:
    return Part(body.recorded(attrs.evolve(call, arguments=arguments)), axis)


def _constants(body: Body, call: Call, first: int) -> tuple[Expr, ...]:
    return tuple(map(body.constant, call.arguments[first:]))


def _shifted(axis: Expr, rank: int) -> Expr:
    match axis:
        case IntLiteral(value=value):
            return attrs.evolve(axis, value=value + 1)
        case Unary(operator=UnaryOperator.NEG, operand=IntLiteral(value=value)):
            return IntLiteral(rank + 1 - value, span=axis.span) if 0 < value <= rank else axis
        case _:
            behind = Call("cond", (Binary(BinaryOperator.CMP_LT, axis, IntLiteral(0)), IntLiteral(0), IntLiteral(1)))
            return Binary(BinaryOperator.ADD, axis, behind, span=axis.span)


def _along_axis(body: Body, call: Call) -> Value:
    """Record ``index`` or ``argsort``, whose second argument is an axis."""
    part, (axis, *rest) = body.layout.front(body.part(call.arguments[0])), _constants(body, call, 1)
    if part.axis is not None:
        axis = _shifted(axis, body.layout.rank(part))
    return _recorded(body, call, part.axis, part.name, axis, *rest)


def _shape(body: Body, call: Call) -> Value:
    part = body.layout.front(body.part(call.arguments[0]))
    whole = _recorded(body, call, None, part.name)
    if part.axis is None:
        return whole
    place = IndexName("i")
    behind = Binary(BinaryOperator.ADD, place, IntLiteral(1))
    rank = IntLiteral(body.layout.rank(part))
    return body.layout.contracted(Aggregation.ASSIGN, [place], [rank], whole, [behind], None)


def _size(body: Body, call: Call) -> Value:
    part, (axis,) = body.layout.front(body.part(call.arguments[0])), _constants(body, call, 1)
    if part.axis is not None:
        axis = _shifted(axis, body.layout.rank(part))
    return _recorded(body, call, None, part.name, axis)


def _reshape(body: Body, call: Call) -> Value:
    part, sizes = body.layout.front(body.part(call.arguments[0])), _constants(body, call, 1)
    if part.axis is not None:
        sizes = (body.layout.size, *sizes)
    return _recorded(body, call, part.axis, part.name, *sizes)


def _as_like(body: Body, call: Call) -> Value:
    value, like = map(body.part, call.arguments)
    return _recorded(body, call, value.axis, value.name, like.name)


def _softmax(body: Body, call: Call) -> Value:
    part, sizes = body.layout.front(body.part(call.arguments[0])), _constants(body, call, 1)
    if part.axis is not None and sizes and body.layout.rank(part) == 1:
        sizes = (body.layout.size, sizes[0])
    return _recorded(body, call, part.axis, part.name, *sizes)


def _simple_reduce(body: Body, call: Call) -> Value:
    part, sizes = body.layout.front(body.part(call.arguments[0])), _constants(body, call, 1)
    if part.axis is None:
        return _recorded(body, call, None, part.name, *sizes)
    ones = (IntLiteral(1),) * max(body.layout.rank(part) - len(sizes), 0)
    made = _recorded(body, call, 0, part.name, body.layout.size, *ones, *sizes)
    return body.layout.helper(Call("reshape", (made.name, body.layout.size, *sizes))) if ones else made


def _reduce(combine: Combine, body: Body, call: Call) -> Value:
    """Record a tuple reduction with explicit axes, counted without that of the examples."""
    layout = body.layout
    part, axes = layout.front(body.part(call.arguments[0])), _constants(body, call, 1)
    if part.axis is None:
        return _grouped(body, attrs.evolve(call, arguments=(part.name, *axes)), [None] * combine.components)
    rank = layout.rank(part)
    if rank == 0:  # reduce a scalar along an axis of size 1
        part, rank = layout.padded(part, 1), 1
    axes = axes or tuple(map(IntLiteral, range(rank)))
    axes = tuple(_shifted(axis, rank) for axis in axes)
    return _grouped(body, attrs.evolve(call, arguments=(part.name, *axes)), [0] * combine.components)


def _grouped(body: Body, call: Call, axes: Sequence[int | None]) -> Value:
    """Record a call that returns a tuple with a part for each of ``axes``; a single part is returned itself."""
    made = body.recorded(call)
    if len(axes) == 1:
        return Part(made, axes[0])
    elements = (Call(_ELEMENT, (Name(made.reference), IntLiteral(place))) for place in range(len(axes)))
    return Group(tuple(map(Part, map(body.recorded, elements), axes)), made.reference)


def _tuple(body: Body, call: Call) -> Value:
    return Group(tuple(map(body.value, call.arguments)))


def _of_tuple(body: Body, call: Call) -> Value:
    group, place = body.value(call.arguments[0]), call.arguments[1]
    if not isinstance(group, Group):
        raise body.layout.fault("TIL309", "this is not a tuple, so it has no elements", call.arguments[0].span)
    if not isinstance(place, IntLiteral):
        raise body.layout.refused("for several examples, the position in a tuple is written as a number", place.span)
    if place.value >= len(group.items):
        message = f"the position is {place.value}, but the tuple has {len(group.items)} parts"
        raise body.layout.fault("TIL314", message, place.span)
    return group.items[place.value]


def _gather(body: Body, call: Call) -> Value:
    layout = body.layout
    data, indices = map(body.part, call.arguments)
    if indices.axis is None:
        data = layout.moved(data, 1)
        axis = None if data.axis is None else layout.rank(indices)
        return _recorded(body, call, axis, data.name, indices.name)
    indices = layout.front(indices)
    if data.axis is None:
        return _recorded(body, call, 0, data.name, indices.name)
    data = layout.front(data)
    rows, *rest = (dim.expr for dim in layout.dims(data))
    return _recorded(body, call, 0, _joined(body, data, rows, rest), _rows_of_all(body, indices, rows))


def _joined(body: Body, part: Part, rows: Expr, rest: Sequence[Expr]) -> Expr:
    return Call("reshape", (part.name, Binary(BinaryOperator.MUL, body.layout.size, rows), *rest))


def _rows_of_all(body: Body, indices: Part, rows: Expr) -> Expr:
    """Return indices into the rows of all examples; those outside of an example are clamped to its rows."""
    last = Dim(rows, body.recorder) - 1
    wide = computed("as_i64", indices.tensor)
    kept = computed("max", computed("min", wide, last), 0)
    example = computed("as_i64", computed("index", indices.tensor, 0))
    return Name((example * Dim(rows, body.recorder) + kept).reference)


def _scatter(how: Aggregation, body: Body, call: Call) -> Value:
    """Record a scatter; ``like`` has the rows to update if updates are assigned, otherwise only their number."""
    layout = body.layout
    updates, indices, like = map(body.part, call.arguments)
    overwritten = how is Aggregation.ASSIGN
    batched = overwritten and like.axis is not None
    if indices.axis is None and updates.axis is None and not batched:
        return _recorded(body, call, None, updates.name, indices.name, layout.moved(like, 1).name)
    updates = layout.spread(updates)
    if indices.axis is None:
        updates = layout.moved(updates, layout.rank(indices))
        like = layout.moved(layout.spread(like) if overwritten else like, 1)
        return _recorded(body, call, 1, updates.name, indices.name, like.name)
    indices, updates, like = layout.front(indices), layout.front(updates), layout.front(layout.spread(like))
    rows, *own = (dim.expr for dim in layout.dims(like))
    rest = [dim.expr for dim in layout.dims(updates)[layout.rank(indices) :]]
    places = _rows_of_all(body, indices, rows)
    made = _recorded(body, call, 0, updates.name, places, _joined(body, like, rows, own))
    return layout.helper(Call("reshape", (made.name, layout.size, rows, *rest)))


def _prng_step(body: Body, call: Call) -> Value:
    """Record a step of random numbers; states of examples are stepped one after the other, as if each were alone."""
    state, sizes = body.layout.front(body.part(call.arguments[0])), _constants(body, call, 1)
    if state.axis is None:
        return _recorded(body, call, None, state.name, *sizes)
    known = [Dim(size, body.recorder) for size in sizes]

    def step(State: Tensor, *passed: Tensor) -> tuple[Tensor, Tensor]:  # noqa: N803  its name is that of an input
        names = iter(passed)
        own = [Name(next(names).reference) if dim.value is None else dim.expr for dim in known]
        made = State.recorder.record(attrs.evolve(call, arguments=(Name(State.reference), *own)))
        stream = Tensor(State.recorder, made)
        return computed("prng_value", stream), computed("prng_state", stream)

    value, after = scan(step, [], [state.tensor], [dim for dim in known if dim.value is None])
    body.recorder.sizes[value.reference] = (Dim(body.layout.size, body.recorder), *known)
    body.recorder.ranks[value.reference] = 1 + len(known)
    return Stream(Part(value, 0), Part(after, 0))


def _prng_read(body: Body, call: Call) -> Value:
    stream = body.value(call.arguments[0])
    if isinstance(stream, Stream):
        return stream.value if call.function == "prng_value" else stream.state
    return _recorded(body, call, None, *(part.name for part in body.flat(stream, call.span)))


def _upstream(body: Body, call: Call) -> Value:
    part = body.part(call.arguments[0])
    return _recorded(body, call, part.axis, part.name)


def _reverse_grad(body: Body, call: Call) -> Value:
    part, scale = map(body.part, call.arguments)
    if scale.axis is not None:
        part = body.layout.front(body.layout.spread(part))
    return _recorded(body, call, part.axis, part.name, body.layout.like(scale, part).name)


def _binary_crossentropy(body: Body, call: Call) -> Value:
    layout = body.layout
    p, t, scale = map(body.part, call.arguments)
    if p.axis is None and t.axis is None and scale.axis is not None:
        p = layout.spread(p)
    if p.axis is None and t.axis is None:
        return _recorded(body, call, None, p.name, t.name, scale.name)
    rank = max(layout.rank(p), layout.rank(t))
    return _recorded(body, call, 0, *(layout.padded(part, rank).name for part in (p, t, scale)))


def _override_gradient(body: Body, call: Call) -> Value:
    """Record an override; the gradient of a tensor that all examples share is the sum of their gradients."""
    layout = body.layout
    value, *others = map(body.part, call.arguments)
    if len(others) % 2:
        message = "after the first tensor come pairs of a tensor and its gradient; this one has no gradient"
        raise layout.fault("TIL328", message, call.span)
    if value.axis is None and any(part.axis is not None for part in others):
        body.force(call.arguments[0])
        value = layout.spread(value)
    pairs: list[Expr] = []
    for x, g in zip(others[::2], others[1::2], strict=True):
        if x.axis is not None:
            pairs += (x.name, layout.like(g, x).name)
        elif g.axis is not None:
            pairs += (x.name, layout.summed(g).name)
        elif value.axis is not None:
            pairs += (x.name, Binary(BinaryOperator.MUL, g.name, layout.size))
        else:
            pairs += (x.name, g.name)
    return _recorded(body, call, value.axis, value.name, *pairs)


def _forced(body: Body, expr: Expr, parts: Sequence[Part]) -> list[Part]:
    """Return the tensors of an expression; shared ones are repeated for all examples at their definition."""
    if any(part.axis is None for part in parts):
        body.force(expr)
    return [body.layout.spread(part) for part in parts]


def _packed(parts: Sequence[Part]) -> Expr:
    """Return the expression of one tensor, or of a tuple of several."""
    names = tuple(part.name for part in parts)
    return names[0] if len(names) == 1 else Call("tuple", names)


def _gradient(body: Body, call: Call) -> Value:
    """Record a gradient: those of examples are independent if each has its own tensor to differentiate by."""
    results = body.parts(call.arguments[0])
    differ = any(part.axis is not None for part in results)
    wanted = _wanted(body, call.arguments[1:], differ=differ)
    arguments = (_packed(results), *(part.name for part in wanted))
    return _grouped(body, attrs.evolve(call, arguments=arguments), [part.axis for part in wanted])


def _wanted(body: Body, exprs: Sequence[Expr], *, differ: bool) -> list[Part]:
    """Return the tensors to differentiate by: if derivatives ``differ`` among examples, one for each example."""
    found = [(expr, body.parts(expr)) for expr in exprs]
    return [part for expr, parts in found for part in (_forced(body, expr, parts) if differ else parts)]


def _vjp(body: Body, call: Call) -> Value:
    layout = body.layout
    results, cotangents = map(body.parts, call.arguments[:2])
    _check_pairs(body, call, results, cotangents, "cotangents")
    differ = any(part.axis is not None for part in (*results, *cotangents))
    wanted = _wanted(body, call.arguments[2:], differ=differ)
    for place, (result, cotangent) in enumerate(zip(results, cotangents, strict=True)):
        if cotangent.axis is not None:
            results[place] = result = layout.spread(result)
        cotangents[place] = layout.like(cotangent, result)
    arguments = (_packed(results), _packed(cotangents), *(part.name for part in wanted))
    return _grouped(body, attrs.evolve(call, arguments=arguments), [part.axis for part in wanted])


def _jvp(body: Body, call: Call) -> Value:
    layout = body.layout
    form = body.value(call.arguments[0])
    results = list(body.flat(form, call.span))
    moving, tangents = map(body.parts, call.arguments[1:])
    _check_pairs(body, call, moving, tangents, "tangents")
    if any(x.axis is None and dx.axis is not None for x, dx in zip(moving, tangents, strict=True)):
        moving = _forced(body, call.arguments[1], moving)
    tangents = [layout.like(dx, x) for x, dx in zip(moving, tangents, strict=True)]
    call = attrs.evolve(call, arguments=(_packed(results), _packed(moving), _packed(tangents)))
    made = _grouped(body, call, [result.axis for result in results])
    return _like(form, body.flat(made, call.span), made.reference if isinstance(made, Group) else None)


def _like(form: Value, parts: Iterator[Part], reference: str | None = None) -> Value:
    """Return ``parts`` in tuples nested like ``form``."""
    if not isinstance(form, Group):
        return next(parts)
    return Group(tuple(_like(item, parts) for item in form.items), reference)


def _check_pairs(body: Body, call: Call, values: Sequence[Part], given: Sequence[Part], kind: str) -> None:
    if len(values) != len(given):
        raise body.layout.fault("TIL322", f"there are {len(values)} parts, but {len(given)} {kind}", call.span)


CALLS: Final[Mapping[str, Callable[[Body, Call], Value]]] = MappingProxyType(
    {
        "as_like": _as_like,
        "upstream": _upstream,
        "reverse_grad": _reverse_grad,
        "builtin_binary_crossentropy": _binary_crossentropy,
        "override_gradient": _override_gradient,
        "builtin_softmax": _softmax,
        "builtin_logsoftmax": _softmax,
        "index": _along_axis,
        "argsort": _along_axis,
        "shape": _shape,
        SIZE: _size,
        "reshape": _reshape,
        "expect_sizes": _reshape,
        "gather": _gather,
        **{name: partial(_scatter, how) for name, how in SCATTERS.items()},
        SCATTER_LAST: partial(_scatter, Aggregation.ASSIGN),
        "simple_reduce": _simple_reduce,
        **{f"reduce_{combine.value}": partial(_reduce, combine) for combine in Combine},
        "prng_step": _prng_step,
        "prng_state": _prng_read,
        "prng_value": _prng_read,
        "tuple": _tuple,
        "element": _of_tuple,
        "gradient": _gradient,
        "vjp": _vjp,
        "jvp": _jvp,
    }
)
"""Batched forms of functions that are not elementwise, by name."""
