"""Derivatives of typed functions beside finite differences, and contractions to differentiate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np
from hypothesis import assume, strategies as st

from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.core.ops import Op
from tileir.tile.text.parser import parse
from tileir.typed.derivatives.forward import forward
from tileir.typed.derivatives.reverse import reverse
from tileir.typed.inference.emission import Emission
from tileir.typed.inference.inference import infer
from tileir.typed.inference.values import Tensor
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Elementwise, Function, TensorType, Value
from tileir.typed.simplify.simplifier import simplify
from tileir.typed.verifier import verify

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]


def types_of(arrays: Arrays) -> dict[str, TensorType]:
    """Return the type of each array."""
    types = {}
    for name, array in arrays.items():
        dtype = DType.of(array.dtype)
        assert dtype is not None
        types[name] = TensorType(dtype, array.shape)
    return types


def pulled(
    function: Function, wrt: Sequence[str], cotangents: Mapping[str, TensorType], *, even_ties: bool = False
) -> Function:
    """Return the function of the inputs, and of cotangents named after outputs, to the derivative by each of ``wrt``.

    Cotangents have the names ``w_O``, derivatives the names ``d_X``.
    """
    emission = Emission.resuming(function)
    parameters = tuple(Value(f"w_{name}", t.dtype, t.shape) for name, t in cotangents.items())
    emission.parameters(parameters)
    found = reverse(
        emission,
        [tensor(emission, name) for name in cotangents],
        [Tensor(p.name, p.dtype, p.shape) for p in parameters],
        [tensor(emission, name) for name in wrt],
        even_ties=even_ties,
    )
    for name, value in zip(wrt, found, strict=True):
        emission.add(Elementwise(f"d_{name}", Op.IDENT, (value.name,), value.dtype, value.shape))
    outputs = tuple(f"d_{name}" for name in wrt)
    result = Function((*function.inputs, *parameters), outputs, tuple(emission.operations))
    verify(result)
    return simplify(result)


def pushed(
    function: Function, of: Sequence[str], tangents: Mapping[str, TensorType], *, even_ties: bool = False
) -> Function:
    """Return the function of the inputs, and of tangents named after inputs, to how each of ``of`` moves.

    Tangents have the names ``v_X``, results the names ``d_O``.
    """
    emission = Emission.resuming(function)
    parameters = tuple(Value(f"v_{name}", t.dtype, t.shape) for name, t in tangents.items())
    emission.parameters(parameters)
    found = forward(
        emission,
        [tensor(emission, name) for name in of],
        [tensor(emission, name) for name in tangents],
        [Tensor(p.name, p.dtype, p.shape) for p in parameters],
        even_ties=even_ties,
    )
    for name, value in zip(of, found, strict=True):
        emission.add(Elementwise(f"d_{name}", Op.IDENT, (value.name,), value.dtype, value.shape))
    outputs = tuple(f"d_{name}" for name in of)
    result = Function((*function.inputs, *parameters), outputs, tuple(emission.operations))
    verify(result)
    return simplify(result)


def tensor(emission: Emission, name: str) -> Tensor:
    """Return a value that is defined."""
    definition = emission.definitions[name]
    return Tensor(name, definition.dtype, definition.shape)


def gradients(
    text: str,
    inputs: Arrays,
    wrt: Sequence[str],
    cotangents: Arrays | None = None,
    *,
    even_ties: bool = False,
) -> dict[str, NDArray[Any]]:
    """Return the derivative by each of ``wrt`` of the outputs times ``cotangents``, by default of their sums."""
    function = infer(parse(text), types_of(inputs))
    if cotangents is None:
        made = {operation.name: operation.dtype for operation in function.operations}
        cotangents = {name: np.ones((), made[name].numpy) for name in function.outputs if made[name].is_float}
    backward = pulled(function, wrt, types_of(cotangents), even_ties=even_ties)
    results = interpret(backward, {**inputs, **{f"w_{name}": array for name, array in cotangents.items()}})
    return {name: results[f"d_{name}"] for name in wrt}


def assert_gradients(
    text: str, inputs: Arrays, wrt: Sequence[str], cotangents: Arrays, *, step: float = 1e-5, places: float = 1e-6
) -> None:
    """Compare what reverse mode finds with central differences along random directions."""
    function = infer(parse(text), types_of(inputs))
    found = gradients(text, inputs, wrt, cotangents)
    random = np.random.default_rng(0)

    def total(moved: Arrays) -> float:
        results = interpret(function, dict(moved))
        return float(sum(np.sum(np.broadcast_to(w, results[n].shape) * results[n]) for n, w in cotangents.items()))

    for name in wrt:
        assert found[name].shape == inputs[name].shape
        for _ in range(2):
            way = random.uniform(0.5, 1.5, inputs[name].shape) * random.choice([-1, 1], inputs[name].shape)
            forward, back = ({**inputs, name: inputs[name] + sign * step * way} for sign in (1, -1))
            slope = (total(forward) - total(back)) / (2 * step)
            scale = 1 + float(np.sum(np.abs(found[name] * way)))
            assert abs(slope - float(np.sum(found[name] * way))) <= places * scale, (name, found[name])


@attrs.frozen
class Problem:
    """A function with one contraction, arguments in f64, and which of them are to be differentiated by."""

    text: str
    inputs: Arrays
    wrt: tuple[str, ...]
    cotangents: Arrays


SIZES = st.sampled_from((1, 2, 3, 4, 4, 3, 2, 0))
INDICES = ("i", "j", "k")
COMBINATIONS = {
    "none": ("{0}",),
    "add": ("{0} + {1}",),
    "mul": ("{0} * {1}",),
    "cond": ("{0} == {1} ? {2}",),
}


@st.composite
def polynomials(draw: st.DrawFn, names: Sequence[str]) -> str:
    """Draw an index polynomial, most often a bare index."""
    kind = draw(st.integers(0, 9))
    first = draw(st.sampled_from(names))
    if kind < 6:
        return first
    second = draw(st.sampled_from(names))
    scale, offset = draw(st.sampled_from(("2*", "3*", "-"))), draw(st.integers(-2, 2))
    forms = (f"{scale}{first}", f"{first} + {second}", f"2*{first} + {second} + {offset}", f"({first} + {second})/2")
    return draw(st.sampled_from(forms)) + f" + {draw(st.integers(0, 2))}"


def accept(problem: Problem) -> None:
    """Go on with contractions that have a meaning only."""
    try:
        infer(parse(problem.text), types_of(problem.inputs))
    except TileError as error:
        if {d.code[:4] for d in error.diagnostics} != {"TIL4"}:
            raise
        assume(condition=False)


@st.composite
def problems(
    draw: st.DrawFn, aggregations: str = "+=><*", combinations: Sequence[str] = tuple(COMBINATIONS)
) -> Problem:
    """Draw a contraction that may be refused: mixed indices, fractions, constraints, defaults, empty domains."""
    names = INDICES[: draw(st.integers(1, 3))]
    how, combination = draw(st.sampled_from(aggregations)), draw(st.sampled_from(combinations))
    count = {"none": 1, "cond": 3}.get(combination, 2)
    accesses = [draw(st.lists(polynomials(names), max_size=3)) for _ in range(count + 1)]
    sizes = [[draw(SIZES) for _ in access] for access in accesses]
    tensors = "ABC"[:count]
    combined = COMBINATIONS[combination][0].format(
        *(f"{name}[{', '.join(access)}]" for name, access in zip(tensors, accesses[1:], strict=True))
    )
    limited = draw(st.lists(st.sampled_from(names), max_size=2))
    limits = [f"{draw(polynomials(names))} < {draw(st.integers(1, 4))}" for _ in range(draw(st.integers(0, 1)))]
    limits += [f"{name} < {draw(st.integers(1, 4))}" for name in limited]
    default = draw(st.booleans())
    output, shape = ", ".join(accesses[0]), ", ".join(map(str, sizes[0]))
    where = f"O[{output} : {shape}]" if accesses[0] else "O[]"
    extra = "".join(f", {limit}" for limit in limits) + (" no_defract" if draw(st.booleans()) else "")
    extra += " default Z" if default else ""
    parameters = [*tensors, *(["Z"] if default else [])]
    text = f"function ({', '.join(parameters)}) -> (O) {{ {where} = {how}({combined}){extra}; }}"
    shapes = dict(zip(parameters, [*sizes[1:], sizes[0]], strict=False))
    inputs = {name: values(draw, tuple(shape)) for name, shape in shapes.items()}
    wrt = list(parameters)
    if combination == "cond":
        for name in "AB":
            inputs[name] = np.round(inputs[name])
        wrt = parameters[2:]
    return Problem(text, inputs, tuple(wrt), {"O": cotangent(draw, tuple(sizes[0]))})


def values(draw: st.DrawFn, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return distinct values far enough from each other, of which products and sums differ too."""
    random = np.random.default_rng(draw(st.integers(0, 99)))
    return np.asarray(random.uniform(0.5, 2.0, shape) * random.choice([-1, 1], shape))


def cotangent(draw: st.DrawFn, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return a cotangent that may lack axes, or have fewer elements along them."""
    random = np.random.default_rng(draw(st.integers(0, 99)))
    kept = tuple(size if draw(st.booleans()) else 1 for size in shape)
    kept = kept[draw(st.integers(0, len(kept))) :] if draw(st.booleans()) else kept
    return np.asarray(random.uniform(0.5, 2.0, kept))
