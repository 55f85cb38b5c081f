"""The dtypes of tensors, found on demand, as far as those of inputs are declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from tileir.core import (
    SHIFTS,
    ArrayValue,
    Domain,
    DType,
    Op,
    TileError,
    accumulator,
    arithmetic_type,
    contraction_types,
    float_for,
    promote_all,
)
from tileir.tile.building.recording import Recorder
from tileir.tile.building.sizes import members, sizes_of
from tileir.tile.functions import SCATTER_NAMES, builtin
from tileir.tile.ir import (
    Binary,
    BinaryOperator,
    Call,
    Conditional,
    Constant,
    Contraction,
    Expr,
    FloatLiteral,
    IntLiteral,
    Name,
    Scan,
    Unary,
    UnaryOperator,
    While,
)
from tileir.tile.traversal import walk

Kind: TypeAlias = DType | Literal["integer", "float"] | None
"""A dtype; the kind of a number, which adapts to other operands; or None if it is unknown."""

_FIRST = frozenset(
    (
        "builtin_softmax",
        "builtin_logsoftmax",
        "gather",
        "override_gradient",
        "reshape",
        "simple_reduce",
        *SCATTER_NAMES,
        "expect_sizes",
    )
)
"""Functions whose result has the dtype of their first argument; functions without a row are unknown."""


_FIXED: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        **dict.fromkeys(("as_bool", "logical_and", "logical_or", "logical_not"), DType.BOOL),
        "quantize": DType.I8,
        "prng_value": DType.F32,
        "prng_state": DType.U32,
        "size": "integer",
    }
)
"""Functions whose result always has one dtype."""


def dtype_of(recorder: Recorder, reference: str) -> DType | None:
    """Return the dtype of the tensor with this reference, or None if it depends on an input without one.

    Expressions of literals alone have their natural dtype as a result. Each statement is visited once.
    """
    return _strong(_kind_of(recorder, reference))


def fixed_dtype_of(recorder: Recorder, reference: str) -> DType | None:
    """Return the dtype of a tensor unless it is unknown, or that of numbers, which adapt to other operands."""
    kind = _kind_of(recorder, reference)
    return kind if isinstance(kind, DType) else None


def _kind_of(recorder: Recorder, reference: str) -> Kind:
    known = recorder.dtypes
    if reference in known:
        return known[reference]
    pending = [reference]
    opened: set[str] = set()
    while pending:
        name = pending[-1]
        step = recorder.steps.get(name)
        if step is not None and name not in known and name not in opened:
            opened.add(name)
            missing = [each for each in _operands(step.body) if each in recorder.steps and each not in known]
            if missing:
                pending.extend(missing)
                continue
        if step is not None and name not in known:
            known[name] = _of(recorder, step.body)
        pending.pop()
    return known.get(reference)


def _operands(body: Expr | Contraction | Scan | While | Constant) -> list[str]:
    match body:
        case Contraction(inputs=inputs):
            return [access.tensor for access in inputs]
        case Scan(operands=operands) | While(operands=operands):
            return [operand.name for operand in operands]
        case Constant():
            return []
        case _:
            return [node.name for node in walk(body) if isinstance(node, Name)]


def _of(recorder: Recorder, body: Expr | Contraction | Scan | While | Constant) -> Kind:
    match body:
        case Contraction():
            return _contracted(recorder, body)
        case Constant(value=ArrayValue(dtype=dtype)):
            return dtype
        case Constant(value=value):
            return DType.BOOL if isinstance(value, bool) else "float" if isinstance(value, float) else "integer"
        case Scan() | While():
            carries = body.carries  # a scan with several results is a tuple, whose parts are looked up separately
            return recorder.dtypes.get(carries[0].name) if len(carries) == len(body.step.outputs) == 1 else None
        case IntLiteral():
            return "integer"
        case FloatLiteral():
            return "float"
        case Name(name=name):
            return "integer" if name in recorder.dims else recorder.dtypes.get(name)
        case Unary(operator=operator, operand=operand):
            return _applied(Op[operator.name], [_of(recorder, operand)])
        case Binary(operator=BinaryOperator() as operator, lhs=lhs, rhs=rhs):
            return _applied(Op[operator.name], [_of(recorder, lhs), _of(recorder, rhs)])
        case Conditional(then=then, otherwise=otherwise):
            return _applied(Op.COND, [DType.BOOL, _of(recorder, then), _of(recorder, otherwise)])
        case Call():
            return _called(recorder, body)
        case _:
            return None


def _contracted(recorder: Recorder, body: Contraction) -> Kind:
    kinds = [_strong(recorder.dtypes.get(access.tensor)) for access in body.inputs]
    if any(kind is None for kind in kinds):
        return None
    try:
        return contraction_types(body.aggregation, body.combination, [k for k in kinds if k is not None]).result
    except TileError:
        return None  # the verifier reports it


def _called(recorder: Recorder, call: Call) -> Kind:
    name, arguments = call.function, call.arguments
    function = builtin(name)
    kinds = [_of(recorder, argument) for argument in arguments]
    if function is not None and function.op is not None:
        return _applied(function.op, kinds)
    if name in _FIXED:
        return _FIXED[name]
    match name:
        case "as_like":
            return kinds[1] if isinstance(kinds[1], DType) else None
        case "as_float" | "as_int" | "as_uint":
            width = arguments[1]
            letter = {"as_float": "f", "as_int": "i", "as_uint": "u"}[name]
            return DType(f"{letter}{width.value}") if isinstance(width, IntLiteral) else None
        case "widen":
            return accumulator(kinds[0]) if isinstance(kinds[0], DType) else kinds[0]
        case "relu" | "sign" | "recip" | "stop_gradient" | "checkpoint" | "reverse_grad" | "upstream":
            return _applied(Op.ADD if name != "recip" else Op.DIV, kinds[:1]) if kinds[0] is not DType.BOOL else None
        case "element":
            return _element(recorder, call)
        case "gradient" | "vjp":
            return None if len(others := members(recorder, call)) != 1 else _derivative(_of(recorder, others[0]))
        case "jvp":
            return _derivative(kinds[0])
        case "index" | "argsort":
            return _counted(recorder, call)
        case _ if name in _FIRST:
            return kinds[0]
        case _ if name.startswith(("as_", "expect_", "bits_as_")):
            return DType(name.rsplit("_", 1)[1])
        case _:
            return None


def _element(recorder: Recorder, call: Call) -> Kind:
    """Return the dtype of a part of a tuple, if that is a carry of a loop, or a derivative."""
    match call.arguments:
        case (Name(name=name) as group, IntLiteral(value=place)):
            step = recorder.steps.get(name)
            body = None if step is None else step.body
            if isinstance(body, Scan | While):
                return recorder.dtypes.get(body.carries[place].name) if place < len(body.carries) else None
            parts = members(recorder, group)
            kind = _of(recorder, parts[place]) if place < len(parts) else None
            derives = isinstance(body, Call) and body.function in ("gradient", "vjp", "jvp")
            return _derivative(kind) if derives else kind
        case _:
            return None


def _counted(recorder: Recorder, call: Call) -> Kind:
    """Return the dtype of coordinates if the size and reach of their axis are numbers."""
    match call.arguments:
        case (Name(name=name), axis, *others):
            place, more = _integer(axis), [_integer(each) for each in others if call.function == "index"]
            sizes = sizes_of(recorder, name) if name in recorder.steps else recorder.sizes.get(name)
            size = None if sizes is None or place is None or place >= len(sizes) else sizes[place].value
            if size is None or None in more:
                return None
            greatest = max(size, *(abs(each or 0) for each in more), 0)
            return DType.I32 if greatest <= DType.I32.maximum else DType.I64
        case _:
            return None


def _integer(expr: Expr) -> int | None:
    match expr:
        case IntLiteral(value=value):
            return value
        case Unary(UnaryOperator.NEG, IntLiteral(value=value)):
            return -value
        case _:
            return None


def _derivative(kind: Kind) -> Kind:
    """Return the dtype of derivatives by a tensor, or of its tangents: f32 if its own has 8 bits."""
    return DType.F32 if isinstance(kind, DType) and kind.is_float and kind.bits == 8 else kind


def _applied(op: Op, kinds: Sequence[Kind]) -> Kind:
    """Return the inferred dtype of an operation on operands of these kinds, or None if inference refuses it."""
    if op.info.compares:
        return DType.BOOL
    operands = kinds[1:] if op is Op.COND else kinds
    if any(kind is None for kind in operands):
        return None
    strong = [kind for kind in operands if isinstance(kind, DType)]
    floating = "float" in operands or op.info.domain is Domain.FLOAT
    if not strong:
        return "float" if floating else "integer"
    dtype = promote_all(strong)
    if dtype.is_float or floating:
        return float_for(dtype)
    if op.info.domain is Domain.STORED:
        return DType.I32 if dtype.is_bool and len(strong) < len(operands) else dtype
    counted = dtype.is_bool and (len(strong) < len(operands) or op.info.domain is Domain.NUMBER or op in SHIFTS)
    return DType.I32 if counted else arithmetic_type(dtype)


def _strong(kind: Kind) -> DType | None:
    return kind if isinstance(kind, DType) else {"integer": DType.I32, "float": DType.F32}.get(kind or "")
