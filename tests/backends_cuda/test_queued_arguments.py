"""Calls that are handed over to a card do what all others do, whatever they are given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.card_driver import aligned, without_a_card
from strategies.exchanging import exchanging
from tileir.runtime.plans.queued import QueuedRuns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strategies.card_driver import CardDriver

ADD = "function (A, B) -> (C) { C = A + B; }"
CUDA = (2, 0)


class Card:
    """Set-up of all tests; it is short where an example is shown."""

    def __init__(self, driver: CardDriver, context: tileir.Context) -> None:
        self.driver, self.context = driver, context


@pytest.fixture(scope="module")
def card() -> Iterator[Card]:
    with without_a_card() as found:
        yield Card(*found)


SHAPES = [(12,), (3, 4), (1, 1), (), (0,), (2, 0)]
KINDS = (
    "own",
    "host",
    "lent",
    "strided",
    "turned",
    "flat",
    "long",
    "exchanged",
    "offset",
    "gaps",
    "read",
    "freed",
    "twice",
)


def value_of(kind: str, shape: tuple[int, ...], context: tileir.Context) -> Any:
    """Return an argument of some kind."""
    array = (np.arange(np.prod(shape), dtype=np.float32) + 1).reshape(shape)
    apart = np.zeros((*shape, 2), np.float32)[..., 0]
    match kind:
        case "host":
            return array
        case "strided":
            apart[...] = array
            return apart
        case "turned":
            return array[::-1] if shape else array
        case "flat":
            return np.broadcast_to(np.float32(3), shape)
        case "long":
            return tileir.to_device(array.astype(np.float64), context=context)
        case "exchanged":
            return exchanging(stream=1)(aligned(array), CUDA)
        case "offset":
            return exchanging(stream=1)(
                aligned(np.append(array.ravel(), array.ravel()))[1 : array.size + 1].reshape(shape), CUDA
            )
        case "gaps":
            apart[...] = array
            return exchanging(stream=1)(apart, CUDA)
        case "read":
            found = aligned(array)
            found.flags.writeable = False
            return exchanging(stream=1)(found, CUDA)
        case _:
            made = tileir.to_device(array, context=context)
            if kind == "lent" and made.size:
                made.__dlpack__(stream=1, max_version=(1, 0))
            if kind == "freed":
                made.free()
            return made


def content(value: Any) -> Any:
    if isinstance(value, tileir.DeviceArray):
        return value.numpy().tolist()
    return value.array.tolist() if hasattr(value, "array") else np.asarray(value).tolist()


def outcome(program: Any, kinds: tuple[str, ...], shape: tuple[int, ...], card: Card) -> Any:
    """Return what becomes of a call: the kind, values and place of the results, or the codes of the error."""
    driver, context = card.driver, card.context
    arrays = [value_of(kind, shape, context) for kind in kinds]
    arrays = [arrays[0] if kind == "twice" else array for kind, array in zip(kinds, arrays, strict=True)]
    *inputs, out = arrays
    try:
        found = program(*inputs) if kinds[-1] == "host" and kinds[0] != "host" else program(*inputs, out=out)
    except tileir.TileError as error:
        return sorted(each.message for each in error.diagnostics)
    while driver.streams[1].pieces:  # as the library does before it reads
        driver.streams[1].step()
    return type(found).__name__, content(found), found is out, [content(each) for each in inputs if each is not out]


@given(kinds=st.tuples(*[st.sampled_from(KINDS)] * 3), shape=st.sampled_from(SHAPES), turns=st.just(2))
def test_queued_calls_do_what_all_others_do(
    card: Card, kinds: tuple[str, ...], shape: tuple[int, ...], turns: int
) -> None:
    context = card.context
    spec = tileir.TensorType(tileir.DType.F32, shape)
    queued = tileir.compile(ADD, [spec, spec], context=context)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QueuedRuns, "of", lambda *_: None)
        general = tileir.compile(ADD, [spec, spec], context=context)
    for _ in range(turns):
        assert outcome(queued, kinds, shape, card) == outcome(general, kinds, shape, card)
