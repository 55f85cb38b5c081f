"""Calls on arrays of devices: results live where inputs live, and nothing crosses a bus unasked."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tileir
from strategies.dlpack import Library
from strategies.kernels import PROGRAMS, inputs, typed_program
from strategies.shared_device import Interfaced, SharedDevice, with_card
from tileir.core.dtype import DType
from tileir.core.errors import ArgumentError
from tileir.runtime.devices.dlpack import knows_versions
from tileir.runtime.events import PendingEvent
from tileir.typed.interpreter import interpret

if TYPE_CHECKING:
    from collections.abc import Iterator

TWO = "function (A, B) -> (S, D) { D = A - B; S = A + B; }"
ADD = "function (A, B) -> (S) { S = A + B; }"
COUNT = "function (W, X) -> (W2, O) { W2 = W + X; O = W * 2; }"
DEVICES = [each.id for each in tileir.devices() if each.backend in ("llvm", "opencl")] + ["shared.0"]
CARDS = [each for each in DEVICES if each != "llvm.0"]
A = np.arange(8, dtype=np.float32)
B = np.full(8, 2, np.float32)


@pytest.fixture
def card() -> SharedDevice:
    return SharedDevice()


@pytest.fixture
def context(card: SharedDevice) -> Iterator[tileir.Context]:
    with tileir.Context(device_id="llvm", registry=with_card(card)) as made:
        yield made


def codes(error: pytest.ExceptionInfo[tileir.TileError]) -> list[str]:
    return [diagnostic.code for diagnostic in error.value.diagnostics]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_devices_agree_with_the_definition(context: tileir.Context, device: str, name: str) -> None:
    values = inputs(name)
    expected = interpret(typed_program(name), values)
    there = {key: tileir.to_device(value, device, context=context) for key, value in values.items()}
    function = tileir.jit(PROGRAMS[name][0], context=context)
    found = function(**there)
    results = found if isinstance(found, tuple) else (found,)
    for result, output in zip(results, typed_program(name).outputs, strict=True):
        assert isinstance(result, tileir.DeviceArray) == bool(values)
        if values:
            assert result.device.id == device
            result = result.numpy()
        np.testing.assert_array_equal(result, expected[output])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", DType, ids=lambda dtype: dtype.value)
def test_elements_of_every_dtype_stay_there(context: tileir.Context, device: str, dtype: DType) -> None:
    a = (np.arange(6) % 3).reshape(2, 3).astype(dtype.numpy)
    found = tileir.jit("function (A[M, N]) -> (O) { O[j, i : N, M] = =(A[i, j]); }", context=context)(
        tileir.to_device(a, device, context=context)
    )
    assert (found.device.id, found.shape) == (device, (3, 2))
    assert found.dtype == dtype.numpy
    assert found.numpy().astype(np.float32).tolist() == a.T.astype(np.float32).tolist()


def there(array: Any, device: str, context: tileir.Context) -> tileir.DeviceArray:
    return tileir.to_device(array, device, context=context, copy=True)


@pytest.mark.sampled(2)
def test_results_live_where_inputs_live(context: tileir.Context, device: str) -> None:
    executable = tileir.compile(TWO, [(8,), (8,)], device=device, context=context)
    for arrays in ((A, B), (A, 2.0 + B)):
        assert all(type(result) is np.ndarray for result in executable(*arrays))
    a = there(A, device, context)
    given: list[tuple[Any, Any]] = [(a, B), (a, a), (there(B, device, context), A)]
    for arrays in given:
        results = executable(*arrays)
        assert [result.device.id for result in results] == [device, device]
        host = [np.array(each, copy=True) for each in arrays]
        np.testing.assert_array_equal(results[0].numpy(), host[0] + host[1])
    np.testing.assert_array_equal(executable(A, B)[1], A - B)  # and again on the host


@settings(max_examples=20, deadline=None)
@given(
    where=st.lists(st.booleans(), min_size=2, max_size=2),
    out=st.none() | st.lists(st.booleans(), min_size=2, max_size=2),
    device=st.sampled_from(DEVICES),
    form=st.sampled_from(["sequence", "mapping"]),
)
def test_out_is_of_either_kind(where: list[bool], out: list[bool] | None, device: str, form: str) -> None:
    with tileir.Context(device_id="llvm", registry=with_card(SharedDevice())) as context:
        arrays = [there(each, device, context) if far else each for each, far in zip((A, B), where, strict=True)]
        fresh = [np.zeros(8, np.float32) for _ in range(2)]
        into: Any = None
        if out is not None:
            into = [there(each, device, context) if far else each for each, far in zip(fresh, out, strict=True)]
        passed = dict(zip("SD", into, strict=True)) if into and form == "mapping" else into
        results = tileir.jit(TWO, device, context=context)(*arrays, out=passed)
        far = [isinstance(result, tileir.DeviceArray) for result in results]
        assert far == ([any(where)] * 2 if out is None else out)
        if into is not None:
            assert all(result is each for result, each in zip(results, into, strict=True))
        for result, expected in zip(results, (A + B, A - B), strict=True):
            found = result.numpy() if isinstance(result, tileir.DeviceArray) else result
            np.testing.assert_array_equal(found, expected)


@pytest.mark.sampled(2)
def test_out_may_be_an_input(context: tileir.Context, device: str) -> None:
    a = there(A, device, context)
    reverse = tileir.jit("function (A[N]) -> (O) { O[i : N] = =(A[7 - i]); }", device, context=context)
    assert reverse(a, out=a) is a
    np.testing.assert_array_equal(a.numpy(), A[::-1])
    assert reverse.specialise(a).submit(a, out=a).result() is a
    np.testing.assert_array_equal(a.numpy(), A)


def test_arrays_without_elements_and_axes(context: tileir.Context, device: str) -> None:
    empty = there(np.zeros((0, 3), np.float32), device, context)
    found = tileir.jit(ADD, context=context)(empty, empty)
    assert (found.shape, found.device.id) == ((0, 3), device)
    scalar = there(np.float32(3), device, context)
    assert tileir.jit(ADD, context=context)(scalar, 2.0).numpy() == 5


@pytest.mark.sampled(2)
def test_numbers_and_sizes_go_with_arrays_of_devices(context: tileir.Context, device: str) -> None:
    a = there(A, device, context)
    np.testing.assert_array_equal(tileir.jit(ADD, context=context)(a, 0.5).numpy(), A + np.float32(0.5))
    resize = tileir.jit("function (X[N], K) -> (O) { O[i : K] = +(X[i + j]), j < 2; }", context=context)
    n = there(np.int32(3), device, context)
    np.testing.assert_array_equal(resize(a, 3).numpy(), [1, 3, 5])
    np.testing.assert_array_equal(resize(a, n).numpy(), [1, 3, 5])


@pytest.mark.parametrize("versions", [True, False])
def test_libraries_on_the_host_get_arrays_of_the_host(context: tileir.Context, versions: bool) -> None:
    add = tileir.jit(ADD, context=context)
    for dtype in (DType.BF16, DType.F32, DType.I8):
        a, b = A.astype(dtype.numpy), np.zeros(8, dtype.numpy)
        out = Library(b, versions=versions)
        assert type(add(Library(a, versions=versions), a)) is np.ndarray
        assert add(Library(a, versions=versions), a, out=out) is out
        np.testing.assert_array_equal(b.astype(np.float32), (a + a).astype(np.float32))
    for room in (np.zeros(8, np.float32).data, np.zeros(8, np.float32)):
        assert add(A, B, out=room) is room
        np.testing.assert_array_equal(np.asarray(room), A + B)


@pytest.mark.skipif(not knows_versions(), reason="this NumPy knows no versions")
def test_read_only_memory_is_no_output(context: tileir.Context) -> None:
    frozen = A.copy()
    frozen.flags.writeable = False
    for out in (
        Library(frozen),
        tileir.to_device(Library(frozen, place=(2, 0)), context=context),
        memoryview(bytes(32)).cast("f"),
    ):
        device = out.device.id if isinstance(out, tileir.DeviceArray) else "llvm"
        with pytest.raises(ArgumentError, match="read-only") as error:
            tileir.compile(ADD, [(8,), (8,)], device=device, context=context)(A, B, out=out)
        assert "TIL703" in codes(error)


@pytest.mark.parametrize("out", ["text", 3.0, None.__class__, Library(A, place=(9, 0))])
def test_what_shares_no_memory_is_no_output(context: tileir.Context, out: Any) -> None:
    with pytest.raises(ArgumentError) as error:
        tileir.jit(ADD, context=context)(A, B, out=out)
    assert codes(error) in (["TIL703"], ["TIL714"])


def test_libraries_on_a_device_decide_where_it_runs(context: tileir.Context, card: SharedDevice) -> None:
    add = tileir.jit(ADD, context=context)
    for value in (Library(A, place=(2, 0)), Interfaced(A)):
        found = add(value, B)
        assert found.device.id == "shared.0"
        np.testing.assert_array_equal(found.numpy(), A + B)
        assert add.specialise(value, B).device.id == "shared.0"
        executable = tileir.compile(ADD, [value, B], device="shared", context=context)
        np.testing.assert_array_equal(executable(value, value).numpy(), A + A)
    room = np.zeros(8, np.float32)
    out = Library(room, place=(2, 0))
    assert add(there(A, "shared.0", context), B, out=out) is out
    np.testing.assert_array_equal(room, A + B)
    np.testing.assert_array_equal(add(A, B), A + B)  # arrays of the host are for the context's device
    assert len(card.submitted) == 5


def test_less_aligned_memory_is_copied_on_the_device(context: tileir.Context) -> None:
    whole = np.arange(65, dtype=np.float32)
    a, room = Library(whole[1:], place=(2, 0)), np.zeros(65, np.float32)
    found = tileir.jit(ADD, context=context)(a, a, out=Library(room[1:], place=(2, 0)))
    assert isinstance(found, Library)
    np.testing.assert_array_equal(room[1:], whole[1:] * 2)


def test_arrays_of_other_devices_are_refused(context: tileir.Context, device: str) -> None:
    other = "shared.0" if device != "shared.0" else "llvm.0"
    executable = tileir.compile(ADD, [(8,), (8,)], device=device, context=context)
    a = there(A, device, context)
    with pytest.raises(ArgumentError, match=rf"tileir.to_device\(A, '{device}'\)") as error:
        executable(there(A, other, context), a)
    assert codes(error) == ["TIL714"]
    with pytest.raises(ArgumentError) as error:
        executable(a, a, out=there(A, other, context))
    assert codes(error) == ["TIL714"]
    with pytest.raises(ArgumentError, match=r"which .* does not share") as error:
        executable(Library(A, place=(9, 3)), a)
    assert codes(error) == ["TIL714"]


def test_all_faults_are_told_at_once(context: tileir.Context, device: str) -> None:
    executable = tileir.compile(TWO, [(8,), (8,)], device=device, context=context)
    wrong = there(np.zeros((2, 4), np.int8), device, context)
    with pytest.raises(ArgumentError, match="convert it before it is sent") as error:
        executable(wrong, "text", out=(there(A, device, context), wrong))
    assert codes(error) == ["TIL701", "TIL701", "TIL702", "TIL701", "TIL701"]
    a = there(A, device, context)
    with pytest.raises(ArgumentError) as error:
        executable(a, a, out=(a, a))
    assert codes(error) == ["TIL704"]
    with pytest.raises(ArgumentError) as error:
        executable(a, a, out=(a,))
    assert codes(error) == ["TIL705"]
    a.free()
    with pytest.raises(ArgumentError) as error:
        executable(a, B)
    assert codes(error) == ["TIL715"]


def test_submitted_calls_keep_their_order(context: tileir.Context, device: str) -> None:
    add = tileir.compile(ADD, [(8,), (8,)], device=device, context=context)
    gate = PendingEvent()
    a = there(A, device, context)
    first = add.submit(a, B, after=[gate])
    second = add.submit(first.pending_results, a)
    assert not second.done
    gate.complete()
    assert isinstance(second.result(), tileir.DeviceArray)
    np.testing.assert_array_equal(second.pending_results.numpy(), A + B + A)
    np.testing.assert_array_equal(first.pending_results.numpy(), A + B)  # which waits


def test_failures_reach_whoever_reads(context: tileir.Context, device: str) -> None:
    add = tileir.compile(ADD, [(8,), (8,)], device=device, context=context)
    gate = PendingEvent()
    a = there(A, device, context)
    found = add.submit(a, a, after=[gate]).pending_results
    gate.fail(ValueError("the data did not arrive"))
    for read in (found.numpy, lambda: add(found, a), lambda: add.submit(found, a).result()):
        with pytest.raises(ValueError, match="the data did not arrive"):
            read()
    assert add(a, a, out=found) is found
    np.testing.assert_array_equal(found.numpy(), A + A)


def test_arrays_that_are_freed_meanwhile_are_used_to_the_end(context: tileir.Context, device: str) -> None:
    add = tileir.compile(ADD, [(8,), (8,)], device=device, context=context)
    gate = PendingEvent()
    a = there(A, device, context)
    call = add.submit(a, a, after=[gate])
    a.free()
    gc.collect()
    gate.complete()
    np.testing.assert_array_equal(call.result().numpy(), A + A)


def test_evaluation_returns_arrays_of_devices(device: str) -> None:
    context = tileir.default_context()
    if device not in [each.id for each in context.devices()]:
        pytest.skip("it is of another context")
    found = tileir.evaluate(TWO, [tileir.to_device(A, device), B])
    assert [each.device.id for each in found] == [device, device]
    np.testing.assert_array_equal(found[0].numpy(), A + B)
    lone = tileir.evaluate("function (A) -> (O) { O = A + 1; }", tileir.to_device(A, device))
    np.testing.assert_array_equal(lone.numpy(), A + 1)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("resident", [False, True])
def test_state_stays_on_the_device(context: tileir.Context, card: SharedDevice, device: str, resident: bool) -> None:
    start = there(A, device, context) if resident else A
    step = tileir.stepper(COUNT, {"W": "W2"}, {"W": start}, device, context=context)
    kinds = []
    for turn in range(3):
        found = step(B)
        kinds.append(type(found))
        host = found.numpy() if resident else found
        np.testing.assert_array_equal(host, (A + turn * 2) * 2)
    assert kinds == [tileir.DeviceArray if resident else np.ndarray] * 3
    assert isinstance(step(there(B, device, context)), tileir.DeviceArray)
    state = step.state["W"]
    assert isinstance(state, tileir.DeviceArray) == resident
    np.testing.assert_array_equal(state.numpy() if resident else state, A + 8)
    step.load({"W": there(B, device, context) if resident else B})
    np.testing.assert_array_equal(np.array(step.state["W"], copy=True), B)
    np.testing.assert_array_equal(np.array(start, copy=True), A)
    step.load(step.state)
    assert len(card.submitted) == (4 if device == "shared.0" else 0)


def test_state_decides_where_steps_run(context: tileir.Context, device: str) -> None:
    step = tileir.stepper(COUNT, {"W": "W2"}, {"W": there(A, device, context)}, context=context)
    assert step(B).device.id == device
    found = tileir.stepper(COUNT, {"W": "W2"}, {"W": Library(A, place=(2, 0))}, context=context)(B)
    assert found.device.id == "shared.0"


@pytest.mark.parametrize("device", CARDS)
def test_cards_read_what_was_given_and_write_what_is_returned(context: tileir.Context, device: str) -> None:
    a = there(A, device, context)
    memory = a.memory()
    square = tileir.jit("function (A) -> (O) { O = A * A; }", context=context)
    for _ in range(3):
        square(a, out=a)
    assert a.memory() is memory
    np.testing.assert_array_equal(a.numpy(), A**8)
