"""Cases of random numbers: against the same formulas in NumPy, so that all devices give the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from strategies.operations import Array, Case, sample
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable

STATE: Final = np.array([11, 7, 0xFFFFFFFE, 3], np.uint32)


def words(state: Array, count: int) -> Array:
    """Return the first word of so many blocks of Philox4x32-10, written after its authors' paper."""
    mask = (1 << 32) - 1
    found = []
    for number in range(count):
        counter = (int(state[2]) | int(state[3]) << 32) + number & (1 << 64) - 1
        c, k = [counter & mask, counter >> 32, 0, 0], [int(state[0]), int(state[1])]
        for _ in range(10):
            a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
            c = [(b >> 32) ^ c[1] ^ k[0], b & mask, (a >> 32) ^ c[3] ^ k[1], a & mask]
            k = [k[0] + 0x9E3779B9 & mask, k[1] + 0xBB67AE85 & mask]
        found.append(c[0])
    return np.array(found, np.int64)


def draw(state: Array, *sizes: int) -> tuple[Array, Array]:
    """Return 24 random bits for each element, and the next state."""
    count = int(np.prod(sizes))
    counter = (int(state[2]) | int(state[3]) << 32) + count & (1 << 64) - 1
    after = np.array([state[0], state[1], counter & 0xFFFFFFFF, counter >> 32], np.uint32)
    return (words(state, count) >> 8).reshape(sizes), after


def _case(name: str, build: Callable[..., Any], expected: Callable[..., Any], **inputs: Array) -> Case:
    return Case(name, build, {"S": STATE, **inputs}, expected, wrt=(), dtypes=("f32",))


def _uniform(state: Array) -> tuple[Array, Array]:
    bits, after = draw(state, 3, 4)
    return -1 + 3.5 * (bits / 2.0**24), after


def _exponential(state: Array) -> tuple[Array, Array]:
    bits, after = draw(state, 5)
    return -np.log1p(-bits / 2.0**24) / 2, after


def _gumbel(state: Array) -> tuple[Array, Array]:
    bits, after = draw(state, 5)
    return -np.log(-np.log1p(-bits / 2.0**24)), after


def _few(state: Array) -> tuple[Array, Array]:
    bits, after = draw(state, 20)
    return (bits * 200 >> 24) - 100, after


def _many(state: Array) -> tuple[Array, Array]:
    upper, between = draw(state, 6)
    lower, after = draw(between, 6)
    return np.array([(int(a) << 24 | int(b)) * 3_000_000_000 >> 48 for a, b in zip(upper, lower, strict=True)]), after


def _bernoulli(state: Array, p: Array) -> tuple[Array, Array]:
    bits, after = draw(state, len(p))
    return bits / 2.0**24 < p, after


def _permutation(state: Array) -> tuple[Array, Array]:
    upper, between = draw(state, 9)
    lower, after = draw(between, 9)
    return np.argsort(upper << 24 | lower), after


def _dropout(x: Array, state: Array) -> tuple[Array, Array]:
    bits, after = draw(state, 3, 1, 5)
    return np.where(bits < 0.75 * 2**24, x / 0.75, 0), after


def _categorical(state: Array, logits: Array) -> tuple[Array, Array]:
    bits, after = draw(state, 6, 2, 4)
    return np.argmax(logits - np.log(-np.log1p(-bits / 2.0**24)), -1), after


# Every second case is tested on the device that compiles slowly.
CASES: Final = (
    _case("uniform", lambda s: ops.uniform(s, (3, 4), low=-1, high=2.5), _uniform),
    _case("permutation", lambda s: ops.permutation(s, 9), _permutation),
    _case("exponential", lambda s: ops.exponential(s, (5,), rate=2), _exponential),
    _case("gumbel", lambda s: ops.gumbel(s, (5,)), _gumbel),
    _case("randint", lambda s: ops.randint(s, (20,), -100, 100, dtype="i8"), _few),
    _case("randint_of_many", lambda s: ops.randint(s, (6,), 0, 3_000_000_000, dtype="i64"), _many),
    _case("bernoulli", ops.bernoulli, _bernoulli, P=np.array([0.25, 0.5, 0.75, 1.0])),
    _case(
        "shuffle",
        lambda s, x: ops.shuffle(s, x, axis=1),
        lambda s, x: (x[:, _permutation(s)[0]], _permutation(s)[1]),
        X=sample(2, 9),
    ),
    _case("dropout_of_all", lambda s, x: ops.dropout(x, s, 1)[0], lambda _, x: 0 * x, X=sample(3)),
    Case("dropout", lambda x, s: ops.dropout(x, s, 0.25, axes=(0, 2)), {"X": sample(3, 4, 5), "S": STATE}, _dropout),
    Case(
        "no_dropout",
        lambda x, s: ops.dropout(x, s, training=False),
        {"X": sample(3), "S": STATE},
        lambda x, s: (x, s),
        dtypes=("f32",),
    ),
    _case("categorical", lambda s, x: ops.categorical(s, x, samples=6), _categorical, X=sample(2, 4)),
)
