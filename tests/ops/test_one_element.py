"""Random compositions of operations on tensors of one element, with any number of axes, beside NumPy."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
import pytest

import tileir
from tileir import DType, ops
from tileir.tile.builder import Tensor

Array: TypeAlias = "np.ndarray[Any, Any]"
Pair: TypeAlias = "tuple[Tensor, Array]"

SHAPES: Final = ((), (1,), (1, 1), (1, 1, 1))
MODES: Final[Mapping[str, Callable[[Array, Array], Array]]] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "set": lambda _, update: update,
}
ALONG: Final[Mapping[str, tuple[Callable[[Tensor, int], Tensor], Callable[[Array, int], Array]]]] = {
    "cumsum": (ops.cumsum, lambda x, _: x),
    "cummax": (lambda x, axis: ops.cummax(x, axis)[0], lambda x, _: x),
    "argsort": (lambda x, axis: ops.cast(ops.argsort(x, axis), DType.F32), lambda x, _: x * 0),
    "top_k": (lambda x, axis: ops.top_k(x, 1, axis)[0], lambda x, _: x),
    "flip": (ops.flip, lambda x, _: x),
    "sum": (lambda x, axis: ops.sum(x, [axis]), lambda x, axis: x.sum(axis)),
    "max": (lambda x, axis: ops.max(x, [axis]), lambda x, axis: x.max(axis)),
}


class Drawn:
    """A random function of tensors of one element, and what NumPy makes of its arguments.

    Attributes:
        builder: Where it is recorded.
        arguments: Its arguments.
        pairs: Tensors, and what they are.

    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.builder = tileir.FunctionBuilder()
        self.arguments: list[Array] = []
        half = np.array(2.5, np.float32)
        self.pairs = [self.drawn(DType.F32), self.drawn(DType.F32), (self.builder.constant(half), half)]
        for _ in range(self.random.randint(3, 8)):
            self.pairs.append(self.step())

    def drawn(self, dtype: DType) -> Pair:
        """Return a new argument, floats or places, some of which are outside."""
        shape, name = self.random.choice(SHAPES), f"x{len(self.arguments)}"
        value = np.array(self.random.choice((-1, 0, 2, 3)), dtype.numpy).reshape(shape)
        self.arguments.append(value)
        if not shape:
            return self.builder.scalar(name, dtype), value
        return self.builder.input(name, *shape, dtype=dtype), value

    def reshaped(self, pair: Pair, *shape: int) -> Pair:
        """Return a tensor with other axes."""
        return ops.reshape(pair[0], *shape), pair[1].reshape(shape)

    def with_axes(self) -> Pair:
        """Return one of the tensors, with axes."""
        return self.reshaped(self.random.choice(self.pairs), *self.random.choice(SHAPES[1:]))

    def step(self) -> Pair:
        """Return what an operation makes of one or two of the tensors."""
        (x, a), other = self.with_axes(), self.random.choice(self.pairs)
        axis = self.random.randrange(a.ndim)
        places = self.drawn(DType.I64)
        if self.random.random() < 0.3:
            places = (self.builder.constant(places[1] * 0), places[1])
        places = self.reshaped(places, *self.random.choice(SHAPES[1:]))
        rest = (1, *a.shape[1:])
        point, update = (self.reshaped(each, *shape)[0] for each, shape in ((places, (1, 1)), (other, rest)))
        spread = a.shape[:axis] + places[1].shape + a.shape[axis + 1 :]
        mode = self.random.choice(list(MODES))
        updated = MODES[mode](a, other[1].reshape(a.shape))
        match self.random.randrange(8):
            case 0:
                return self.reshaped((x, a), *self.random.choice(SHAPES))
            case 1:
                return x + other[0], a + other[1]
            case 2:
                shape = self.random.choice(SHAPES)
                zero = self.builder.constant(np.array(0, np.float32))
                return ops.full(zero, shape, 4.0, dtype=DType.F32), np.full(shape, 4, np.float32)
            case 3:
                mine, theirs = ALONG[self.random.choice(list(ALONG))]
                return mine(x, axis), np.asarray(theirs(a, axis))
            case 4:
                return ops.take(x, places[0], axis), np.take(a, places[1] * 0, axis)
            case 5:
                return ops.gather_nd(x, point), a.reshape(rest)
            case 6:
                return ops.scatter_nd(x, point, update, mode=mode), updated
            case _:
                updates = self.reshaped(other, *spread)[0]
                return ops.scatter(x, places[0], updates, axis=axis, mode=mode), updated

    def results(self) -> list[Pair]:
        """Return some of the tensors, the last one among them."""
        return [*self.random.sample(self.pairs[2:-1], 2), self.pairs[-1]]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(600))
def test_compositions(seed: int) -> None:
    drawn = Drawn(seed)
    results = drawn.results()
    function = drawn.builder.build(**{f"y{at}": tensor * 1.0 for at, (tensor, _) in enumerate(results)})
    for found, (_, wanted) in zip(tileir.jit(function)(*drawn.arguments), results, strict=True):
        assert prod(wanted.shape) == 1
        np.testing.assert_array_equal(np.asarray(found), wanted, strict=True)


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_taken_of_a_number(shape: tuple[int, ...]) -> None:
    f = tileir.FunctionBuilder()
    places = f.input("I", 3, dtype=DType.I64)
    number = ops.reshape(f.constant(np.array(2.5, np.float32)), *(shape or (1,)))
    found = tileir.jit(f.build(y=ops.take(number, places, 0)))(np.array([0, -4, 9]))
    np.testing.assert_array_equal(np.asarray(found), np.full((3, *shape[1:]), 2.5, np.float32))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", MODES)
def test_a_number_put_into_a_reshaped_scalar(mode: str) -> None:
    f = tileir.FunctionBuilder()
    x, place = f.scalar("x", DType.F32), f.scalar("i", DType.I64)
    number = ops.reshape(f.constant(np.array(2.5, np.float32)), 1)
    put = ops.scatter(ops.reshape(x, 1), ops.reshape(place, 1), number, mode=mode)
    added = ops.scatter(ops.reshape(ops.reshape(put), 1), ops.reshape(place, 1), ops.reshape(x, 1))
    found = tileir.jit(f.build(y=ops.reshape(added)))(np.float32(3), np.int64(0))
    assert float(np.asarray(found)) == MODES[mode](np.array(3.0), np.array(2.5)) + 3
