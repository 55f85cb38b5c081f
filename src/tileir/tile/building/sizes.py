"""The sizes of tensors, found on demand: from a statement back to the declarations of its operands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from tileir.core.text.span import call_site
from tileir.tile.building.indices import Dim
from tileir.tile.building.recording import Recorder
from tileir.tile.functions import SCATTER_NAMES, SIZE, builtin
from tileir.tile.ir import Call, Constant, Contraction, Expr, IntLiteral, Name, Scan, While
from tileir.tile.traversal import children, walk

Sizes: TypeAlias = tuple[Dim, ...]

_STATE_WORDS: Final = 4  # of a random state


def sizes_of(recorder: Recorder, reference: str) -> Sizes | None:
    """Return the sizes of the tensor with this reference, or None if an input was declared without.

    Each statement is visited once, and only when its sizes, or those of its users, are asked for.
    """
    known = recorder.sizes
    if reference in known:
        return known[reference]
    pending = [reference]
    opened: set[str] = set()
    while pending:
        name = pending[-1]
        if name not in known and name not in opened:
            opened.add(name)
            missing = [operand for operand in _operands(recorder, name) if operand not in known]
            if missing:
                pending.extend(missing)
                continue
        if name not in known:
            known[name] = _sizes(recorder, name)
        pending.pop()
    return known[reference]


def broadcast(shapes: Sequence[Sizes]) -> Sizes:
    """Return the sizes of an elementwise result, right-aligned; typed inference reports shapes that do not fit."""
    longest = max(shapes, key=len)
    result = list(longest)
    for shape in shapes:
        if shape is not longest:
            for axis in range(-len(shape), 0):
                result[axis] = wider(result[axis], shape[axis])
    return tuple(result)


def wider(left: Dim, right: Dim) -> Dim:
    """Return the size of two broadcast axes: ``broadcast(N, M)``, unless one of them is obviously the result."""
    if left.expr == right.expr or right.value == 1:
        return left
    if left.value == 1 or left.expr in _parts(right):
        return right
    if left.value is not None or right.expr in _parts(left):
        return left  # a known size other than 1 is that of the result, or else the shapes do not fit
    return right if right.value is not None else left.call("broadcast", right)


def _parts(dim: Dim) -> tuple[Expr, ...]:
    match dim.expr:
        case Call(function="broadcast", arguments=arguments):
            return arguments
        case _:
            return ()


def _operands(recorder: Recorder, reference: str) -> Iterator[str]:
    """Yield the tensors whose sizes determine those of a statement."""
    step = recorder.steps.get(reference)
    if step is None or isinstance(step.body, Contraction | Scan | While | Constant):
        return
    for node in walk(step.body):
        if isinstance(node, Name):
            if node.name not in recorder.dims:
                yield node.name
        elif (carry := _carry(recorder, node)) is not None:
            yield carry


def _carry(recorder: Recorder, body: Expr) -> str | None:
    """Return the initial value of a carry if an expression is its final value."""
    match body:
        case Call(function="element", arguments=(Name(name=name), IntLiteral(value=place))):
            step = recorder.steps.get(name)
            carries = step.body.carries if step is not None and isinstance(step.body, Scan | While) else ()
            return carries[place].name if place < len(carries) else None
        case _:
            return None


def _sizes(recorder: Recorder, reference: str) -> Sizes | None:
    """Return the sizes of a declared tensor, or of a statement whose operands have known sizes."""
    step = recorder.steps.get(reference)
    if step is None:
        return _dims(recorder, recorder.targets[reference].sizes)
    body = step.body
    if isinstance(body, Contraction):
        return _dims(recorder, body.sizes)
    if isinstance(body, Scan | While):
        return None  # a tuple; parts made in Python have their sizes from the beginning
    if isinstance(body, Constant):
        return tuple(_literal(recorder, size) for size in body.shape)
    return _of(recorder, body)


def _of(recorder: Recorder, expr: Expr) -> Sizes | None:
    """Return the sizes of an expression whose tensors are known: numbers and dimensions have none.

    Functions in texts nest expressions that Python records one by one, to a bounded depth.
    """
    if isinstance(expr, Name):
        return () if expr.name in recorder.dims else recorder.sizes[expr.name]
    if (carry := _carry(recorder, expr)) is not None:
        return recorder.sizes[carry]
    if isinstance(expr, Call) and expr.function in _ROWS:
        return _ROWS[expr.function](recorder, expr)
    function = builtin(expr.function) if isinstance(expr, Call) else None
    if function is not None and not function.elementwise:
        return None
    return _all([_of(recorder, operand) for operand in children(expr)])


def _all(shapes: Sequence[Sizes | None]) -> Sizes | None:
    known = [shape for shape in shapes if shape is not None]
    return broadcast([(), *known]) if len(known) == len(shapes) else None


def _dims(recorder: Recorder, sizes: Sequence[Expr]) -> Sizes:
    return tuple(Dim(size, recorder, sum(1 for _ in walk(size))) for size in sizes)


def _like_the_first(recorder: Recorder, call: Call) -> Sizes | None:
    return _of(recorder, call.arguments[0])


def _derivative(recorder: Recorder, call: Call) -> Sizes | None:
    """Return the sizes of the only tensor that a call differentiates by; None for several."""
    by = call.arguments[_MEMBERS[call.function] :]
    return _of(recorder, by[0]) if len(by) == 1 else None


def _given(recorder: Recorder, call: Call) -> Sizes | None:
    return _dims(recorder, call.arguments[1:])


def _argsort(recorder: Recorder, call: Call) -> Sizes | None:
    """Return the sizes of the sorted tensor, with the requested number of elements along the axis."""
    sizes = _of(recorder, call.arguments[0])
    match call.arguments[1:]:
        case (IntLiteral(value=axis), _, count) if sizes is not None:
            kept = _dims(recorder, (count,))
            return (*sizes[:axis], *kept, *sizes[axis + 1 :])
        case (_, _, _):
            return None
        case _:
            return sizes


def _shape(recorder: Recorder, call: Call) -> Sizes | None:
    sizes = _of(recorder, call.arguments[0])
    return None if sizes is None else (_literal(recorder, len(sizes)),)


def _gather(recorder: Recorder, call: Call) -> Sizes | None:
    data, indices = (_of(recorder, argument) for argument in call.arguments)
    return None if data is None or indices is None else indices + data[1:]


def _scatter(recorder: Recorder, call: Call) -> Sizes | None:
    updates, indices, like = (_of(recorder, argument) for argument in call.arguments)
    return None if updates is None or indices is None or not like else like[:1] + updates[len(indices) :]


def _state(recorder: Recorder, _: Call) -> Sizes | None:
    return (_literal(recorder, _STATE_WORDS),)


def _element(recorder: Recorder, call: Call) -> Sizes | None:
    """Return the sizes of a part of a tuple that was made in this function."""
    group, position = call.arguments
    if (reduced := _reduced(recorder, group)) is not None:
        return reduced
    parts = members(recorder, group)
    known = isinstance(position, IntLiteral) and position.value < len(parts)
    return _of(recorder, parts[position.value]) if known and isinstance(position, IntLiteral) else None


def _reduced(recorder: Recorder, group: Expr) -> Sizes | None:
    """Return the sizes of a component of a state, which lacks the reduced axes."""
    if isinstance(group, Name) and group.name in recorder.steps:
        body = recorder.steps[group.name].body
        group = body if isinstance(body, Call) else group
    if not isinstance(group, Call) or not group.function.startswith("reduce_"):
        return None
    sizes = _of(recorder, group.arguments[0])
    axes = [axis.value for axis in group.arguments[1:] if isinstance(axis, IntLiteral)]
    known = sizes is not None and 0 < len(axes) == len(group.arguments) - 1
    return tuple(size for axis, size in enumerate(sizes) if axis not in axes) if known and sizes is not None else None


def members(recorder: Recorder, group: Expr) -> tuple[Expr, ...]:
    """Return values with the sizes, and except for f8 the dtypes, of the parts of a tuple; none if unknown."""
    while True:
        step = recorder.steps.get(group.name) if isinstance(group, Name) else None
        body = group if step is None else step.body
        if not isinstance(body, Call):
            break
        if body.function in _MEMBERS:
            return body.arguments[_MEMBERS[body.function] :]
        if body.function != "jvp":
            break
        group = body.arguments[0]  # the differentiated value has the structure of its result
    return ()


def _literal(recorder: Recorder, size: int) -> Dim:
    return Dim(IntLiteral(size, span=call_site()), recorder)


_MEMBERS: Final[Mapping[str, int]] = MappingProxyType({"tuple": 0, "gradient": 1, "vjp": 2})
"""First argument of functions whose tuple has parts like their arguments."""

_ROWS: Final[Mapping[str, Callable[[Recorder, Call], Sizes | None]]] = MappingProxyType(
    {
        "argsort": _argsort,
        "as_like": _like_the_first,
        "builtin_softmax": _like_the_first,
        "builtin_logsoftmax": _like_the_first,
        "override_gradient": _like_the_first,
        "index": _like_the_first,
        "jvp": _like_the_first,
        "gradient": _derivative,
        "vjp": _derivative,
        "shape": _shape,
        SIZE: lambda _, __: (),
        "reshape": _given,
        "expect_sizes": _given,
        "simple_reduce": _given,
        "gather": _gather,
        **dict.fromkeys(SCATTER_NAMES, _scatter),
        "prng_step": _given,
        "prng_value": _like_the_first,
        "prng_state": _state,
        "element": _element,
    }
)
