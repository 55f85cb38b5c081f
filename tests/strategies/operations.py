"""Cases of the operation library, and what runs them: values, gradients, and the same against PyTorch."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import numpy as np

from strategies import operation_cases
from tileir import TileError, evaluate
from tileir.tile.builder import FunctionBuilder
from tileir.tile.builder_functions import jvp, vjp

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tileir.tile.builder import Tensor
    from tileir.tile.ir import Function

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

TOLERANCES: Final[Mapping[str, float]] = MappingProxyType({"f32": 2e-5, "f64": 1e-12})
DTYPES: Final[Mapping[str, type[np.floating[Any]]]] = MappingProxyType({"f32": np.float32, "f64": np.float64})


@attrs.frozen(eq=False)
class Case:
    """One operation with one set of options, and what it has to give.

    Attributes:
        name: Unique in its family.
        build: Makes the results from one builder tensor for each of ``inputs``, in order.
        inputs: Arrays by name. Those of f64 take the float dtype that is tested, others stay as they are.
        numpy: The results from arrays of the inputs; floats come, and are computed, in f64.
        torch: The results from the module torch and its tensors, where it has the operation.
        wrt: The inputs whose gradients are tested; by default all of floats. Empty for none.
        dims: Names of the dimensions of an input, blank-separated, where an operation asks that two be
            the same; by default each axis of each input has a dimension of its own.
        tolerance: Factor on what a value may be off by.
        dtypes: The float dtypes to test.

    """

    name: str
    build: Callable[..., Tensor | tuple[Tensor, ...]]
    inputs: Mapping[str, Array]
    numpy: Callable[..., Any]
    torch: Callable[..., Any] | None = None
    wrt: tuple[str, ...] | None = None
    dims: Mapping[str, str] = attrs.field(factory=dict)
    tolerance: float = 1.0
    dtypes: tuple[str, ...] = ("f32", "f64")

    @property
    def differentiated(self) -> tuple[str, ...]:
        """The inputs whose gradients are tested."""
        if self.wrt is not None:
            return self.wrt
        return tuple(name for name, array in self.inputs.items() if array.dtype == np.float64)

    def function(self) -> Function:
        """Return the Tile function; its outputs are ``O0``, ``O1`` and so on."""
        f = FunctionBuilder()
        results = self._results(f)[1]
        return f.build(**{f"O{position}": result for position, result in enumerate(results)})

    def backward(self) -> Function:
        """Return the function of the inputs and of ``W0``, ``W1`` …, what arrives at each float result.

        Its outputs are ``d<name>`` for each input in ``differentiated``.
        """
        f = FunctionBuilder()
        tensors, results = self._results(f)
        floats = self.floats
        arriving = [
            f.input(f"W{place}", *(f"W{place}_{axis}" for axis in range(results[place].rank)))
            if results[place].rank
            else f.scalar(f"W{place}")
            for place in floats
        ]
        reached = [results[place] for place in floats]
        first, *others = (tensors[name] for name in self.differentiated)
        gradients = vjp(reached, arriving, first, *others) if others else (vjp(reached, arriving, first),)
        return f.build(**{f"d{name}": d for name, d in zip(self.differentiated, gradients, strict=True)})

    def forward(self) -> Function:
        """Return the function of the inputs, and of ``V<name>``, how each in ``differentiated`` moves.

        Its outputs are ``t0``, ``t1`` and so on: how the float results move.
        """
        f = FunctionBuilder()
        tensors, results = self._results(f)
        wrt = [tensors[name] for name in self.differentiated]
        tangents = [self._input(f, "V", name, self.inputs[name]) for name in self.differentiated]
        found = jvp([results[place] for place in self.floats], wrt, tangents)
        return f.build(**{f"t{place}": moved for place, moved in zip(self.floats, found, strict=True)})

    @property
    def floats(self) -> tuple[int, ...]:
        """The positions of the results that are floats."""
        return tuple(int(name[1:]) for name in self.arriving("f64"))

    def _results(self, f: FunctionBuilder) -> tuple[dict[str, Tensor], tuple[Tensor, ...]]:
        return self.added_to(f, "")

    def added_to(self, f: FunctionBuilder, prefix: str) -> tuple[dict[str, Tensor], tuple[Tensor, ...]]:
        """Return the inputs and results of this case in a function of several, with a prefix for names."""
        tensors = {name: self._input(f, prefix, name, array) for name, array in self.inputs.items()}
        results = self.build(*tensors.values())
        return tensors, results if isinstance(results, tuple) else (results,)

    def arriving(self, dtype: str) -> dict[str, Array]:
        """Return something that arrives backward at each float result: no two elements of it are alike."""
        wanted = self.expected(self.arrays("f64"))
        weights = {f"W{p}": sample(*w.shape, low=-1, seed=9) for p, w in enumerate(wanted) if w.dtype.kind == "f"}
        return {name: array.astype(DTYPES[dtype]) for name, array in weights.items()}

    def arrays(self, dtype: str) -> dict[str, Array]:
        """Return the inputs with floats of ``dtype``."""
        float_type = DTYPES[dtype]
        return {n: a.astype(float_type) if a.dtype == np.float64 else a for n, a in self.inputs.items()}

    def expected(self, arrays: Mapping[str, Array]) -> tuple[Array, ...]:
        """Return what NumPy gives for these inputs, computed in f64."""
        wide = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays.values()]
        with np.errstate(all="ignore"):
            results = self.numpy(*wide)
        return tuple(np.asarray(result) for result in (results if isinstance(results, tuple) else (results,)))

    def check(self, actual: Any, expected: tuple[Array, ...], dtype: str) -> None:
        """Compare results with what they have to be: shapes, kinds of dtype, and values.

        A float has to be within the tolerance of its dtype times the greatest value of its tensor, or its own;
        an integer has to be equal.
        """
        results = actual if isinstance(actual, tuple) else (actual,)
        assert len(results) == len(expected)
        for result, wanted in zip(results, expected, strict=True):
            assert result.shape == wanted.shape
            if wanted.dtype.kind == "f":
                assert result.dtype == DTYPES[dtype]
                finite = np.abs(wanted[np.isfinite(wanted)])
                bound = self.tolerance * TOLERANCES[dtype]
                np.testing.assert_allclose(result, wanted, rtol=bound, atol=bound * float(finite.max(initial=1.0)))
            else:
                assert result.dtype.kind in ("b" if wanted.dtype.kind == "b" else "iu")
                np.testing.assert_array_equal(result, wanted)

    def _input(self, f: FunctionBuilder, prefix: str, name: str, array: Array) -> Tensor:
        if array.ndim == 0:
            return f.scalar(prefix + name)
        names = self.dims.get(name)
        split = names.split() if names is not None else [f"{name}_{axis}" for axis in range(array.ndim)]
        return f.input(prefix + name, *(prefix + dim for dim in split))


def together(cases: Sequence[Case], dtype: str) -> tuple[Function, dict[str, Array], list[tuple[Case, int]]]:
    """Return one function of many cases, its arrays, and each case with the number of its results.

    So a device that compiles slowly compiles once.
    """
    f = FunctionBuilder()
    arrays: dict[str, Array] = {}
    outputs: dict[str, Tensor] = {}
    counts: list[tuple[Case, int]] = []
    for number, case in enumerate(cases):
        prefix = f"C{number}_"
        _, results = case.added_to(f, prefix)
        arrays |= {prefix + name: array for name, array in case.arrays(dtype).items()}
        outputs |= {f"{prefix}O{position}": result for position, result in enumerate(results)}
        counts.append((case, len(results)))
    return f.build(**outputs), arrays, counts


def sample(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> Array:
    """Return numbers in [low, high), in f64, all of them different: the same at each call."""
    count = int(np.prod(shape))
    generator = np.random.default_rng((seed, count))
    steps = (generator.permutation(count) + generator.uniform(0.2, 0.8, count)) / max(count, 1)
    return (low + (high - low) * steps).reshape(shape)


def integers(*shape: int, low: int = -4, high: int = 5, seed: int = 0) -> Array:
    """Return i32 numbers from low to high - 1, the same at each call."""
    return np.random.default_rng((seed, low + 1000, high + 1000)).integers(low, high, shape, np.int32)


def run(build: Callable[..., Any], *arrays: Array) -> Any:
    """Return what an operation gives for the arrays, by interpretation; each axis has a dimension of its own."""
    names = [f"X{position}" for position in range(len(arrays))]
    inputs = dict(zip(names, arrays, strict=True))
    return evaluate(Case("", build, inputs, build).function(), inputs)


def fault_of(attempt: Callable[[], object], file: str) -> tuple[str, str]:
    """Return code and message of the one fault, which has to be at a line of ``file``."""
    try:
        attempt()
    except TileError as error:
        diagnostic = error.diagnostics[0]
        assert diagnostic.span is not None
        assert diagnostic.span.source.name == file
        return diagnostic.code, diagnostic.message
    raise AssertionError("this went well")


@cache
def families() -> Mapping[str, tuple[Case, ...]]:
    """Return the cases of each file of ``strategies.operation_cases``, by its name."""
    names = sorted(module.name for module in pkgutil.iter_modules(operation_cases.__path__))
    return {name: importlib.import_module(f"strategies.operation_cases.{name}").CASES for name in names}


def all_cases() -> dict[str, Case]:
    """Return the cases of all families by ``family-name``, which identifies each in the tests."""
    return {f"{family}-{case.name}": case for family, cases in families().items() for case in cases}
