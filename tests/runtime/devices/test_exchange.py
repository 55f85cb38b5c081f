"""Arrays whose libraries have C functions for them: streams, lives, and what is left to ``__dlpack__``."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir
from strategies.exchanging import exchanging
from tileir.runtime.devices.exchange import Exchange

if TYPE_CHECKING:
    from strategies.dlpack import Library
    from strategies.shared_device import SharedDevice

DOUBLED = "function (A) -> (B) { B = A + A; }"
CUDA = (2, 0)


def sample() -> np.ndarray[Any, Any]:
    return np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize(("stream", "followed"), [(5, 5), (None, 1), (1, 1)])
def test_the_stream_of_the_library_is_followed(
    context: tileir.Context, card: SharedDevice, stream: int | None, followed: int
) -> None:
    value: Library = exchanging(stream=stream)(sample(), CUDA)
    double = tileir.jit(DOUBLED, "shared", context=context)
    np.testing.assert_array_equal(double(value).numpy(), sample() * 2)
    assert card.followed == [followed]
    assert value.asked == [{"max_version": (1, 3)}]  # by the function; nobody asked the method


def test_results_are_written_in_place(context: tileir.Context, card: SharedDevice) -> None:
    kind = exchanging()
    value, room = kind(sample(), CUDA), kind(np.zeros((3, 4), np.float32), CUDA)
    double = tileir.jit(DOUBLED, "shared", context=context)
    assert double(value, out=room) is room
    np.testing.assert_array_equal(room.array, sample() * 2)
    assert card.followed == [5, 5]


def test_memory_is_given_back_once(context: tileir.Context) -> None:
    value = exchanging()(sample(), CUDA, counted=True)
    double = tileir.jit(DOUBLED, "shared", context=context)
    for turn in range(3):
        double(value)
        gc.collect()
        assert value.released == turn + 1


@pytest.mark.parametrize("changes", [{"code": 5}, {"lanes": 2}, {"major": 9}], ids=["complex", "lanes", "version"])
def test_what_is_refused_is_given_back(context: tileir.Context, changes: dict[str, Any]) -> None:
    value = exchanging()(sample(), CUDA, counted=True, **changes)
    with pytest.raises(tileir.ArgumentError) as error:
        tileir.to_device(value, context=context)
    assert error.value.diagnostics[0].code == "TIL714"
    gc.collect()
    assert value.released == (0 if "major" in changes else 1)  # what nobody can read is nobody's to release


@pytest.mark.parametrize(
    "options",
    [
        {"fails": ("owned",)},
        {"fails": ("missing",)},
        {"fails": ("lent", "owned")},
        {"major": 2},
        {"name": b"another"},
    ],
    ids=["owned", "missing", "lent", "version", "name"],
)
def test_the_method_serves_where_functions_do_not(
    context: tileir.Context, card: SharedDevice, options: dict[str, Any]
) -> None:
    value = exchanging(**options)(sample(), CUDA)
    found = tileir.to_device(value, context=context)
    np.testing.assert_array_equal(found.numpy(), sample())
    assert value.asked[-1]["stream"] == card.dlpack_stream
    assert card.followed == []


def test_a_stream_that_is_not_told_is_an_error(context: tileir.Context) -> None:
    value = exchanging(fails=("stream",))(sample(), CUDA)
    with pytest.raises(tileir.ArgumentError, match="the stream of device"):
        tileir.to_device(value, context=context)


def test_tensors_that_mean_more_than_their_memory_speak_for_themselves(
    context: tileir.Context, card: SharedDevice
) -> None:
    for name, meaning in (("requires_grad", True), ("is_neg", lambda _: True)):
        kind = type("Meaningful", (exchanging(),), {name: meaning, "__dlpack_c_exchange_api__": None})
        assert Exchange.of(kind(sample())) is None
        plain = exchanging()
        setattr(plain, name, meaning)
        value = plain(sample(), CUDA)
        np.testing.assert_array_equal(tileir.to_device(value, context=context).numpy(), sample())
        assert value.asked[-1]["stream"] == card.dlpack_stream


def test_parameters_are_read_as_their_values_and_not_written(context: tileir.Context) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise BufferError("use tensor.detach()")

    said = {"requires_grad": True, "is_leaf": True, "__dlpack__": refuse, "detach": lambda self: self.values}
    value = type("Parameter", (exchanging(),), {**said, "__dlpack_c_exchange_api__": None})(sample(), CUDA)
    value.values = exchanging()(sample(), CUDA)
    np.testing.assert_array_equal(tileir.to_device(value, context=context).numpy(), sample())
    same = tileir.jit("function (A) -> (B) { B = A; }", context=context)
    np.testing.assert_array_equal(np.asarray(same(value).numpy()), sample())
    with pytest.raises(tileir.ArgumentError, match=r"TIL714.*use tensor\.detach"):
        same(value, out=value)


def test_subclasses_and_others_have_no_functions() -> None:
    kind = exchanging()
    assert Exchange.of(kind(sample())) is not None
    assert Exchange.of(type("Sub", (kind,), {})(sample())) is None
    assert Exchange.of(sample()) is None
