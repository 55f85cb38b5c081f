"""Programs made from the tables of dtypes, operations, aggregations and combinations: every row, none by hand.

Programs whose results the typed interpreter gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

import numpy as np

from tileir import evaluate
from tileir.core import OPS, DType, Op, TileError, arithmetic_type, attrs
from tileir.tile.ir import Function
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir_testing.values import Array, bound, check_close, small, special, to_cast


@attrs.frozen(eq=False)
class Evaluated:
    """A program and its arguments.

    Attributes:
        name: Its name in reports.
        text: A Tile function.
        inputs: The arguments.
        ulps: Allowed error of results in ulps, by name; 0 for the others.
    """

    name: str
    text: str
    inputs: dict[str, Array] = attrs.field(repr=False)
    ulps: Mapping[str, float] = attrs.field(factory=lambda: MappingProxyType({}), repr=False)

    def check(self, actual: dict[str, Array]) -> None:
        """Compare results with the interpreter's."""
        names = [output.name for output in parse(self.text).outputs]
        results = evaluate(self.text, self.inputs)
        expected = dict(zip(names, results if isinstance(results, tuple) else (results,), strict=True))
        for name, result in expected.items():
            check_close(f"{name} of {self.text}\n", actual[name], np.asarray(result), self.ulps.get(name, 0.0))


LONG: Final = 77
"""Elements of vectors: more than any vector register holds, and no multiple of one."""

_UNARY: Final = (
    *(f"{op.value}(A)" for op, info in OPS.items() if info.arity == 1),
    "recip(A)", "relu(A)", "sign(A)", "logical_not(A)", "quantize(A)", "widen(A)", "reverse_grad(A, 1)",
    "gradient(A * A, A)", "vjp(A + A, A, A)", "jvp(A * A, A, A)",
    "stop_gradient(A)", "checkpoint(A)", "A + size(A, 0)",
    *(f"bits_as_{dtype.value}(A)" for dtype in DType if not dtype.is_bool),
    *(f"as_float(A, {bits})" for bits in (16, 32, 64)),
    *(f"as_{kind}(A, {bits})" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
)  # fmt: skip
_BINARY: Final = (
    *(f"{op.value}(A, B)" for op, info in OPS.items() if info.arity == 2),
    "logical_and(A, B)", "logical_or(A, B)", "where(A, B, A)", "cond(A < B, A, B)",
    "as_like(A, B)",
)  # fmt: skip
_AGGREGATIONS: Final = {"S": "+", "P": "*", "X": ">", "N": "<"}
_COMBINATIONS: Final = {
    "none": "A[i, k]",
    "add": "A[i, k] + B[k, j]",
    "mul": "A[i, k] * B[k, j]",
    "eq": "A[i, k] == B[k, j]",
    "cond": "A[i, k] == B[k, j] ? C[i, j]",
}


def transfers() -> Iterator[Evaluated]:
    """Yield, for each dtype, programs that pass values in and out, some with no element and some with no axis.

    One result is declared, and thus checked.
    """
    for dtype in DType:
        values = np.resize(special(dtype), LONG)
        inputs = {"A": values, "B": values[:0], "C": np.asarray(values[-1])}
        checked = f"expect_sizes(expect_{dtype.value}(A), {LONG})"
        text = f"function (A, B, C) -> (R, S, T, U) {{ R = A; S = B; T = C; U = {checked}; }}"
        yield Evaluated(f"transfers_{dtype.value}", text, inputs)


def casts() -> Iterator[Evaluated]:
    """Yield, for each dtype, a program that casts it to all dtypes."""
    for dtype in DType:
        expressions = {f"R{other.value.upper()}": f"as_{other.value}(A)" for other in DType}
        yield _program(f"casts_{dtype.value}", expressions, {"A": np.resize(to_cast(dtype), LONG)})


def promotions() -> Iterator[Evaluated]:
    """Yield, for each dtype, a program that adds it to, compares it with, and selects between it and all dtypes."""
    for dtype in DType:
        inputs = {"A": small(dtype, LONG, seed=1), "C": small(DType.I32, LONG, seed=3)}
        partners = [other for other in DType if _meet(dtype, other)]
        inputs.update({f"B{other.value.upper()}": small(other, LONG, seed=2) for other in partners})
        expressions = {}
        for other in partners:
            name = other.value.upper()
            expressions[f"S{name}"] = f"A + B{name}"
            expressions[f"L{name}"] = f"A <= B{name}"
            expressions[f"W{name}"] = f"C > 0 ? A : B{name}"
        yield _program(f"promotions_{dtype.value}", expressions, inputs)


def lanes() -> Iterator[Evaluated]:
    """Yield, for each narrow dtype, a program in which it is the only one, in a kernel of many lanes.

    Vectors differ in length, since operations of one shape may become one kernel, in which the widest dtype decides.
    """
    narrow = [dtype for dtype in DType if dtype.bits <= 16]
    for dtype in narrow:
        inputs, expressions = {}, {}
        for number, other in enumerate(other for other in narrow if _meet(dtype, other)):
            inputs[f"A{number}"] = small(dtype, LONG + number, seed=number)
            inputs[f"B{number}"] = small(other, LONG + number, seed=number + 20)
            expressions[f"S{number}"] = f"A{number} + B{number}"
            expressions[f"D{number}"] = f"A{number} != B{number}"
            expressions[f"W{number}"] = f"A{number} < 1 ? B{number} : A{number}"
        yield _program(f"lanes_{dtype.value}", expressions, inputs)


def functions() -> Iterator[Evaluated]:
    """Yield, for each dtype, all functions of one argument at special values, and of two at all pairs of them."""
    for dtype in DType:
        values = special(dtype)
        for kind, texts, inputs in (
            ("unary", _UNARY, {"A": np.resize(values, LONG)}),
            ("binary", _BINARY, {"A": values[:, None], "B": values[None, :]}),
        ):
            expressions = {f"R{number}": text for number, text in enumerate(texts) if _is_legal(text, inputs)}
            ulps = {name: _bound(text, dtype) for name, text in expressions.items()}
            yield _program(f"{kind}_{dtype.value}", expressions, inputs, ulps)


def contractions() -> Iterator[Evaluated]:
    """Yield, for each dtype, contractions; for i32 and f32 every aggregation with every combination."""
    for dtype in DType:
        inputs = {"A": small(dtype, 4, 5, seed=1), "B": small(dtype, 5, 37, seed=2), "C": small(dtype, 4, 37, seed=3)}
        every = dtype in (DType.I32, DType.F32)
        body, outputs = [], []
        for combination, text in _COMBINATIONS.items():
            for name, symbol in _AGGREGATIONS.items():
                if every or (combination, name) in (("mul", "S"), ("none", "P"), ("add", "X"), ("cond", "N")):
                    indices, sizes = ("i", "4") if combination == "none" else ("i, j", "4, 37")
                    outputs.append(f"{name}{combination.upper()}")
                    body.append(f"{outputs[-1]}[{indices} : {sizes}] = {symbol}({text});")
        outputs.append("T")
        body.append("T[j, i : 37, 4] = =(C[i, j]);")
        text = f"function ({', '.join(inputs)}) -> ({', '.join(outputs)}) {{ {' '.join(body)} }}"
        yield Evaluated(f"contractions_{dtype.value}", text, inputs)


def _meet(left: DType, right: DType) -> bool:
    """Return whether operands of two dtypes need no cast."""
    return left is right or not (left.is_storage and right.is_storage)


def _program(
    name: str, expressions: Mapping[str, str], inputs: dict[str, Array], ulps: Mapping[str, float] | None = None
) -> Evaluated:
    body = " ".join(f"{output} = {text};" for output, text in expressions.items())
    text = f"function ({', '.join(inputs)}) -> ({', '.join(expressions)}) {{ {body} }}"
    return Evaluated(name, text, inputs, ulps or {})


def _is_legal(expression: str, inputs: Mapping[str, Array]) -> bool:
    """Return whether inference takes an expression; shifts of bool, for one, it does not."""
    types = {name: TensorType(_dtype(array), array.shape) for name, array in inputs.items()}
    try:
        infer(_parsed(f"function ({', '.join(inputs)}) -> (R) {{ R = {expression}; }}"), types)
    except TileError:
        return False
    return True


@cache
def _parsed(text: str) -> Function:
    """Parse a text once for all dtypes: these tables are made in each process of the kit."""
    return parse(text)


def _dtype(array: Array) -> DType:
    return next(dtype for dtype in DType if dtype.numpy == array.dtype)


def _bound(expression: str, dtype: DType) -> float:
    """Return the bound of an expression that is one operation; integers compute in f32, or f64 where they are wide."""
    name = expression.partition("(")[0]
    operation = next((op for op in Op if op.value == name), None)
    if operation is None:
        return 0.0
    if dtype.is_float:
        return bound(operation, arithmetic_type(dtype))
    return bound(operation, DType.F64 if dtype.bits == 64 else DType.F32)


DTYPE_PROGRAMS: Final = (*transfers(), *casts(), *promotions(), *lanes())
FUNCTION_PROGRAMS: Final = tuple(functions())
CONTRACTION_PROGRAMS: Final = tuple(contractions())
