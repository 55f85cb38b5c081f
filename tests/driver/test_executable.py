from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tileir
from strategies.asynchronous import DistantDevice, distant_backend
from strategies.kernels import PROGRAMS, inputs, typed_program
from tileir.runtime.discovery import Registry
from tileir.runtime.events import PendingEvent
from tileir.typed.interpreter import interpret

MATMUL = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
TWO = "function (A, B) -> (S, D) { D = A - B; S = A + B; }"


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_device_agrees_with_the_definition(name: str) -> None:
    values = inputs(name)
    expected = interpret(typed_program(name), values)
    found = tileir.jit(PROGRAMS[name][0])(**values)
    results = found if isinstance(found, tuple) else (found,)
    for result, output in zip(results, typed_program(name).outputs, strict=True):
        np.testing.assert_array_equal(result, expected[output])


def test_results_come_in_declared_order() -> None:
    a, b = np.arange(4.0, dtype=np.float32), np.ones(4, np.float32)
    total, difference = tileir.jit(TWO)(a, B=b)
    np.testing.assert_array_equal(total, a + b)
    np.testing.assert_array_equal(difference, a - b)


@pytest.mark.parametrize("form", ["sequence", "mapping"])
def test_results_are_written_to_out(form: str) -> None:
    a, b = np.arange(4.0, dtype=np.float32), np.ones(4, np.float32)
    total, difference = np.zeros(4, np.float32), np.zeros(4, np.float32)
    out = [total, difference] if form == "sequence" else {"D": difference, "S": total}
    results = tileir.jit(TWO)(a, b, out=out)
    assert results[0] is total
    assert results[1] is difference
    np.testing.assert_array_equal(total, a + b)
    np.testing.assert_array_equal(difference, a - b)


def test_later_calls_write_to_lists_of_arrays_as_the_first_does() -> None:
    a, b = np.arange(4.0, dtype=np.float32), np.ones(4, np.float32)
    function = tileir.compile(TWO, (a, b))
    for _ in range(3):
        total, difference = np.zeros(4, np.float32), np.zeros(4, np.float32)
        results = function(a, b, out=[total, difference])
        assert results[0] is total
        assert results[1] is difference
        np.testing.assert_array_equal(total, a + b)
        np.testing.assert_array_equal(difference, a - b)
    with pytest.raises(tileir.ArgumentError):
        function(a, b, out=[total])
    with pytest.raises(tileir.ArgumentError):
        function(a, b, out=[total, total[:]])
    shared = a.copy()
    function(shared, b, out=[shared, difference])
    np.testing.assert_array_equal(shared, a + b)
    np.testing.assert_array_equal(difference, a - b)


def test_out_may_be_an_input() -> None:
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    expected = a.T.copy().reshape(3, 4)
    transpose = tileir.jit("function (A[M, N]) -> (O) { O[j, i : N, M] = =(A[i, j]); }")
    transpose(a, out=a.reshape(4, 3))
    np.testing.assert_array_equal(a, expected)


@pytest.mark.parametrize(
    ("out", "code"),
    [
        (np.zeros(3, np.float32), "TIL701"),
        (np.zeros(4, np.float64), "TIL701"),
        (np.zeros(8, np.float32)[::2], "TIL703"),
        (np.broadcast_to(np.float32(0), (4,)), "TIL703"),
        ([0.0] * 4, "TIL705"),
        ({"S": np.zeros(4, np.float32)}, "TIL705"),
        ({"O": np.zeros(4, np.float32), "P": 1}, "TIL705"),
    ],
    ids=["shape", "dtype", "gaps", "read-only", "list", "wrong name", "too many"],
)
def test_a_wrong_out_is_refused_before_anything_is_written(out: object, code: str) -> None:
    add = tileir.jit("function (A) -> (O) { O = A + 1.0; }")
    with pytest.raises(tileir.ArgumentError) as caught:
        add(np.zeros(4, np.float32), out=out)
    assert {d.code for d in caught.value.diagnostics} == {code}


def test_one_array_for_two_results_is_refused() -> None:
    a = np.zeros(4, np.float32)
    out = np.zeros(4, np.float32)
    with pytest.raises(tileir.ArgumentError) as caught:
        tileir.jit(TWO)(a, a, out=(out, out))
    assert caught.value.diagnostics[0].code == "TIL704"


def test_an_executable_keeps_its_signature() -> None:
    product = tileir.compile(MATMUL, {"A": (3, 4), "B": (4, 5)})
    assert product.inputs == ("A", "B")
    assert product.outputs == ("C",)
    with pytest.raises(tileir.ArgumentError) as caught:
        product(np.zeros((3, 4), np.float32), np.zeros((4, 6), np.float32))
    assert [d.code for d in caught.value.diagnostics] == ["TIL701"]
    with pytest.raises(tileir.ArgumentError) as caught:
        product(np.zeros((3, 4)), np.zeros((4, 5), complex))
    assert [d.code for d in caught.value.diagnostics] == ["TIL701", "TIL702"]


def test_every_stage_can_be_looked_at() -> None:
    product = tileir.compile(MATMUL, [(8, 8), (8, 32)])
    assert product.tile == tileir.parse(MATMUL)
    assert [operation.name for operation in product.typed.operations] == ["C"]
    assert product.stripe != product.scheduled
    assert len(product.sem.kernels) == len(product.scheduled.main.statements)
    assert product.listings == ("llvm", "asm")
    assert "define" in product.listing()
    assert product.listing("llvm") == product.listing()
    assert product.listing("asm").strip()
    with pytest.raises(tileir.BackendError, match="'llvm' lists 'llvm' or 'asm', not 'cuda'") as caught:
        product.listing("cuda")
    assert caught.value.diagnostics[0].code == "TIL806"
    with pytest.raises(tileir.BackendError, match="not 'lvm'; did you mean 'llvm'"):
        product.listing("lvm")
    with pytest.raises(tileir.ArgumentError, match="there is no result 'c'; did you mean C"):
        product(np.ones((8, 8), np.float32), np.ones((8, 32), np.float32), out={"c": np.ones((8, 32), np.float32)})


def test_a_signature_is_compiled_once_and_shared() -> None:
    with tileir.Context() as context:
        product = tileir.jit(MATMUL, context=context)
        a, b = np.ones((3, 4), np.float32), np.ones((4, 5), np.float32)
        first = product.specialise(a, b)
        assert product.specialise(B=b, A=a) is first
        assert tileir.jit(MATMUL, context=context).specialise(a, b) is first
        assert product.specialise(a, np.ones((4, 6), np.float32)) is not first
        assert product.specialise(a.astype(np.float64), b.astype(np.float64)) is not first


def test_inputs_may_have_gaps_other_byte_order_or_be_numbers() -> None:
    scale = tileir.jit("function (A, S) -> (O) { O = A * S; }")
    a = np.arange(16, dtype=np.float32).reshape(4, 4)
    np.testing.assert_array_equal(scale(a[::2, 1:], 2.0), a[::2, 1:] * 2)
    np.testing.assert_array_equal(scale(a.astype(">f4"), 0.5), a * 0.5)
    np.testing.assert_array_equal(scale(a, np.float32(3)), a * 3)


def test_zero_sized_tensors_work() -> None:
    product = tileir.jit(MATMUL)
    assert product(np.ones((0, 3), np.float32), np.ones((3, 4), np.float32)).shape == (0, 4)
    empty_sum = product(np.ones((2, 0), np.float32), np.ones((0, 4), np.float32))
    np.testing.assert_array_equal(empty_sum, np.zeros((2, 4), np.float32))
    assert tileir.jit("function (A) -> (O) { O = A + 1.0; }")(np.ones((0,), np.float32)).shape == (0,)


def test_threads_share_an_executable() -> None:
    chain = tileir.jit("function (A[M, N]) -> (O) { S[m : M] = +(A[m, n]); T = S * 2.0; O = T + 1.0; }")
    start = threading.Barrier(4)

    def work(number: int) -> bool:
        a = np.full((64, 128), number, np.float32)
        start.wait()
        return all(bool((chain(a) == 256 * number + 1).all()) for _ in range(50))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))


def test_evaluate_needs_no_device() -> None:
    a, b = np.arange(6.0, dtype=np.float32).reshape(2, 3), np.ones((3, 2), np.float32)
    np.testing.assert_array_equal(tileir.evaluate(MATMUL, {"A": a, "B": b}), a @ b)
    np.testing.assert_array_equal(tileir.evaluate(MATMUL, (a, b)), a @ b)
    total, difference = tileir.evaluate(TWO, A=a, B=a)
    np.testing.assert_array_equal(total, a + a)
    np.testing.assert_array_equal(difference, a - a)


def test_an_unknown_device_is_named() -> None:
    with pytest.raises(tileir.BackendError) as caught:
        tileir.jit(MATMUL, device="abacus.0")(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32))
    assert caught.value.diagnostics[0].code == "TIL801"
    assert "llvm.0" in caught.value.diagnostics[0].notes[0]


def test_a_result_larger_than_memory_is_an_error() -> None:
    text = "function (A[N]) -> (O) { O[i, j : N, 1125899906842624] = +(A[i]), j < 1125899906842624; }"
    with pytest.raises(tileir.ArgumentError) as caught:
        tileir.jit(text)(np.ones(4, np.float32))
    assert caught.value.diagnostics[0].code == "TIL708"


CHAIN = "\n".join(f"T{layer + 1}[i, j : N, N] = +(T{layer}[i, k] * W[k, j]);" for layer in range(50))
LAYERS = f"function (T0[N, N], W[N, N]) -> (T50) {{ {CHAIN} }}"


def chain_of(weights: np.ndarray[Any, Any], layers: int = 50) -> np.ndarray[Any, Any]:
    return np.asarray(np.linalg.matrix_power(weights, layers + 1))


def test_a_long_chain_holds_few_temporaries_at_a_time() -> None:
    """Each kernel reads columns, and so what it has written, if it wrote in place."""
    executable = tileir.compile(LAYERS.replace("[i, k]", "[k, i]"), [(64, 64), (64, 64)])
    one = 4 * 64 * 64
    assert executable.memory.temporaries == 49 * one
    assert executable.memory.peak <= 3 * one
    assert (executable.memory.inputs, executable.memory.outputs, executable.memory.constants) == (2 * one, one, 0)
    mirror = np.eye(64, dtype=np.float32)[::-1].copy()
    np.testing.assert_array_equal(executable(mirror, mirror), chain_of(mirror))


def test_a_chain_of_small_layers_has_one_temporary() -> None:
    """Each kernel reads a row before it writes the same row of its result."""
    executable = tileir.compile(LAYERS, [(8, 8), (8, 8)])
    assert executable.memory.temporaries == 4 * 8 * 8
    shift = np.roll(np.eye(8, dtype=np.float32), 1, axis=0)
    np.testing.assert_array_equal(executable(shift, shift), chain_of(shift))


@pytest.mark.parametrize("distant", [False, True])
def test_a_submitted_call_gives_the_same(distant: bool) -> None:
    device = DistantDevice()
    context = tileir.Context(registry=Registry.of(distant_backend(device))) if distant else tileir.Context()
    executable = tileir.compile(LAYERS, [(8, 8), (8, 8)], context=context)
    shift = np.roll(np.eye(8, dtype=np.float32), 1, axis=0)
    pending = executable.submit(shift, W=shift)
    np.testing.assert_array_equal(pending.result(), chain_of(shift))
    assert pending.done
    context.close()


@pytest.mark.parametrize("distant", [False, True])
def test_calls_on_the_same_arrays_run_in_order(distant: bool) -> None:
    gate = PendingEvent()
    device = DistantDevice(gates=[gate] if distant else [])
    context = tileir.Context(registry=Registry.of(distant_backend(device))) if distant else tileir.Context()
    a = np.ones(4, np.float32)
    add = tileir.compile("function (A, B) -> (S) { S = A + B; }", [(4,), (4,)], context=context)
    first = add.submit(a, a, after=[gate])
    second = add.submit(first.pending_results, a)
    third = add.submit(second.pending_results, second.pending_results[::1])
    last = add.submit(a, a, out=second.pending_results)
    other = add.submit(np.ones(4, np.float32), np.ones(4, np.float32))
    if not distant:
        np.testing.assert_array_equal(other.result(), [2] * 4)
    assert not any(call.done for call in (first, second, third, last))
    gate.complete()
    np.testing.assert_array_equal(third.result(), [6] * 4)
    np.testing.assert_array_equal(last.result(), [2] * 4)
    context.close()


def test_a_plain_call_waits_for_submitted_ones_on_its_arrays() -> None:
    gate, context = PendingEvent(), tileir.Context()
    a = np.ones(4, np.float32)
    add = tileir.compile("function (A, B) -> (S) { S = A + B; }", [(4,), (4,)], context=context)
    pending = add.submit(a, a, after=[gate])
    threading.Timer(0.02, gate.complete).start()
    np.testing.assert_array_equal(add(pending.pending_results, a), [3] * 4)
    gate = PendingEvent()
    pending = add.submit(a, a, after=[gate])
    threading.Timer(0.02, gate.complete).start()
    np.testing.assert_array_equal(add(pending.pending_results[::-1], a), [3] * 4)
    context.close()


def test_what_has_to_be_copied_is_copied_when_it_is_final() -> None:
    gate, context = PendingEvent(), tileir.Context()
    a = np.ones(4, np.float32)
    add = tileir.compile("function (A, B) -> (S) { S = A + B; }", [(4,), (4,)], context=context)
    pending = add.submit(a, a, after=[gate])
    threading.Timer(0.02, gate.complete).start()
    np.testing.assert_array_equal(add.submit(pending.pending_results[::-1], a).result(), [3] * 4)
    context.close()


def test_a_submitted_call_fails_with_what_it_waits_for() -> None:
    gate, error, context = PendingEvent(), ValueError("broken"), tileir.Context()
    a = np.ones(4, np.float32)
    add = tileir.compile("function (A, B) -> (S) { S = A + B; }", [(4,), (4,)], context=context)
    first = add.submit(a, a, after=[gate])
    second = add.submit(first.pending_results, a)
    third = add.submit(a, a, after=[second])
    gate.fail(error)
    for call in (first, second, third):
        with pytest.raises(ValueError, match="broken") as caught:
            call.result()
        assert caught.value is error
    np.testing.assert_array_equal(add(a, a), [2] * 4)
    context.close()


def test_a_submitted_call_is_checked_at_once() -> None:
    add = tileir.compile("function (A, B) -> (S) { S = A + B; }", [(4,), (4,)])
    with pytest.raises(tileir.ArgumentError) as caught:
        add.submit(np.ones(3, np.float32), np.ones(4, np.float64))
    assert [fault.code for fault in caught.value.diagnostics] == ["TIL701", "TIL701"]


def test_two_executables_run_at_the_same_time() -> None:
    context = tileir.Context(options=tileir.Options(threads=2))
    if (os.cpu_count() or 1) < 2:
        pytest.skip("one processor runs one call at a time")
    started, gate = threading.Barrier(3), PendingEvent()
    a = np.ones(4, np.float32)
    calls = [
        tileir.compile(f"function (A, B) -> (S) {{ S = A {op} B; }}", [(4,), (4,)], context=context) for op in "+*"
    ]
    resources = [call._plan.resources for call in calls]
    assert resources[0] is resources[1]
    meeting = [resources[0].scheduler.submit(lambda: started.wait(60)) for _ in calls]
    started.wait(60)
    gate.complete()
    for call, event in zip(calls, meeting, strict=True):
        call.submit(a, np.ones(4, np.float32), after=[event, gate]).wait()
    context.close()


@pytest.mark.sampled(0)
def test_many_shapes_take_bounded_memory() -> None:
    device = DistantDevice()
    context = tileir.Context(registry=Registry.of(distant_backend(device)))
    layers = tileir.jit(
        "function (A[M, N], B[N, N]) -> (C) { T[i, j : M, N] = +(A[i, k] * B[k, j]); "
        "C[i, j : M, N] = +(T[i, k] * B[k, j]); }",
        context=context,
    )
    resources = context.resources(context.device())
    resources.spare_bytes = 5_000
    for rows in range(1, 61):
        layers(np.ones((rows, 2), np.float32), np.ones((2, 2), np.float32))
        assert resources.kept_bytes <= 5_000
    assert resources.kept_bytes > 0
    context.close()
    assert resources.kept_bytes == 0


@pytest.mark.parametrize("distant", [False, True])
def test_submitted_calls_do_what_calls_one_after_the_other_do(distant: bool) -> None:
    context = tileir.Context(registry=Registry.of(distant_backend(DistantDevice()))) if distant else tileir.Context()
    source = "function (A, B) -> (S) { S = mod(A * 5 + B, 1009); }"
    calls = {size: tileir.compile(source, [("i32", (size,))] * 2, context=context) for size in (4, 8)}
    random = np.random.default_rng(3)
    room = random.integers(0, 1000, 64).astype(np.int32)
    expected = room.copy()
    pending: list[tileir.PendingCall[Any]] = []
    for _ in range(200):
        size = int(random.choice(list(calls)))
        a, b, out = (slice(start, start + size) for start in random.integers(0, 64 - size, 3))
        expected[out] = (expected[a] * 5 + expected[b]) % 1009
        pending.append(calls[size].submit(room[a], room[b], out=room[out]))
    for call in pending:
        call.wait()
    np.testing.assert_array_equal(room, expected)
    context.close()


def test_temporaries_of_many_times_the_inputs_and_outputs_are_warned_of() -> None:
    text = """
    function (X[N, D], Z[M, D]) -> (O) {
        E[i, j, d : N, M, D] = +(X[i, d] + Z[j, d]);
        S = scan(E; ) 2 times function (A) -> (B) { B = sin(A); };
        O[i, j : N, M] = +(S[i, j, d]);
    }
    """
    (warning,) = tileir.compile(text, [(100, 64), (100, 64)], device="llvm").warnings
    assert (warning.code, warning.underlined) == ("TIL721", "S")
    assert "the largest is [100, 100, 64] of f32, for 'S'" in warning.message
    assert tileir.compile(text, [(3, 64), (3, 64)], device="llvm").warnings == ()
    silenced = text.replace("S = scan", "[[allow(TIL721)]] S = scan")
    assert tileir.compile(silenced, [(100, 64), (100, 64)], device="llvm").warnings == ()


def test_warnings_of_what_was_compiled_are_those_for_its_types() -> None:
    executable = tileir.compile("function (A[M, N]) -> (C) { C[i : M] = =(A[i, 7]); }", [(5, 3)], device="llvm")
    assert [warning.code for warning in executable.warnings] == ["TIL411"]
    assert tileir.compile(executable.stripe, device="llvm").warnings == ()


def test_memory_is_taken_by_its_addresses() -> None:
    a, b = np.arange(4.0, dtype=np.float32), np.ones(4, np.float32)
    total, difference = np.zeros(4, np.float32), np.zeros(4, np.float32)
    executable: Any = tileir.compile(TWO, [a, b])
    for _ in range(2):
        assert executable.run_at([array.ctypes.data for array in (a, b, total, difference)])
        np.testing.assert_array_equal(total, a + b)
        np.testing.assert_array_equal(difference, a - b)
        a += 1


@pytest.mark.parametrize("argument", [[np.ones(4, np.float32), 1.5], ["f32[4]", "f32[4]"]])
def test_numbers_and_devices_with_memory_of_their_own_take_no_addresses(argument: list[Any]) -> None:
    of_device = argument[1] == "f32[4]"
    context = tileir.Context(registry=Registry.of(distant_backend(DistantDevice()))) if of_device else None
    with context or tileir.Context() as used:
        executable: Any = tileir.compile(TWO, argument, context=used)
        assert executable.run_at([0, 0, 0, 0]) is False
