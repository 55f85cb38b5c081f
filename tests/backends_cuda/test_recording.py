"""Work that is recorded and handed over again, on a driver that does everything as late as it may."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest

import tileir
from strategies.card_driver import Result, without_a_card
from tileir.core import BackendError
from tileir.runtime.devices.array import DeviceArray
from tileir.runtime.transports import Threads, Transport
from tileir.typed.sharding.borders import HaloFunction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from strategies.card_driver import CardDriver

STEP = "function (U[N], F[N]) -> (V, E) { V = 0.5 * U + F; E[:] = +(V[i] * V[i]); }"
ALIKE = "function (A[N]) -> (B, A2) { B = A + 1; A2 = A; }"
U, F = np.arange(8, dtype=np.float32), np.linspace(0, 1, 8, dtype=np.float32)


class Alone(Transport):
    """A rank that is alone on its card, and exchanges nothing."""

    records = True
    rank, size, device = 0, 1, "cuda.0"

    def __init__(self) -> None:
        self.handed, self.failed = 0, False

    def check(self) -> None:
        if self.failed:
            raise BackendError.of("TIL814", "rank 1 failed")

    def exchange(self, sent: Sequence[Any], received: Sequence[Any]) -> None:
        assert not sent
        assert not received

    def abort(self, error: BaseException) -> None:
        raise error

    def hand_over_again(self) -> None:
        self.handed += 1


@attrs.define
class Engine:
    name: str = "alone"
    end: Alone = attrs.field(factory=Alone)

    def launch(self, size: int, work: Callable[[Transport], Any]) -> dict[int, Any]:
        assert size == 1
        return {0: work(self.end)}


@pytest.fixture
def card() -> Iterator[tuple[CardDriver, tileir.Context]]:
    with without_a_card() as found:
        yield found


def distributed(
    text: str, context: tileir.Context, arrays: Sequence[np.ndarray[Any, Any]], options: tileir.Options | None = None
) -> Any:
    function = tileir.parse(text)
    whole = {value.name: (None,) for value in function.inputs}
    results = {value.name: (None,) for value in function.outputs if value.name != "E"}
    program = tileir.partition(function, {"x": 1}, whole, outputs=results, arguments=arrays)
    return tileir.distribute(program, Engine(), context=context, options=options)


def there(array: np.ndarray[Any, Any], run: Any, context: tileir.Context) -> Any:
    """Return a distributed array for the last input of a program."""
    program = run.program
    parts: dict[int, Any] = {0: tileir.to_device(array, context=context)}
    layout = program.layout(program.function.inputs[-1].name)
    return tileir.distributed.from_parts(parts, program.mesh, layout, run.engine)


def test_steps_of_a_loop_become_one_call_each(card: tuple[CardDriver, tileir.Context]) -> None:
    driver, context = card
    run = distributed(STEP, context, (U, F))
    step, force = run.stepper({"U": "V"}, {"U": U}), there(F, run, context)
    right, kept = U, []
    for number in range(24):
        driver.calls.clear()
        energy = step(force)
        right = (np.float32(0.5) * right + F).astype(np.float32)
        if number in (0, 1, 4, 7, 10):
            kept.append((step.state["U"], energy, right))
        assert energy.numpy() == pytest.approx(float((right * right).sum()), rel=1e-5)
    for state, energy, expected in kept:
        np.testing.assert_array_equal(state.numpy(), expected)
        assert energy.numpy() == pytest.approx(float((expected * expected).sum()), rel=1e-5)
    assert driver.calls.count("cuGraphLaunch") == 1
    assert "cuLaunchKernel" not in driver.calls


def test_results_that_somebody_keeps_are_not_written_again(card: tuple[CardDriver, tileir.Context]) -> None:
    driver, context = card
    run = distributed(ALIKE, context, (U,))
    given = there(U, run, context)
    kept = [run(given) for _ in range(5)]
    driver.calls.clear()
    for _ in range(4):
        found = run(given)
    assert driver.calls.count("cuGraphLaunch") == 4
    given.parts[0].fill(2 * U)
    found = run(given)
    for each, right in (*((one, U) for one in kept), (found, 2 * U)):
        np.testing.assert_array_equal(each[0].numpy(), right + 1)
        np.testing.assert_array_equal(each[1].numpy(), right)


@pytest.mark.parametrize("fast_math", [False, True])
def test_arrays_of_other_options_are_told_of_once(
    card: tuple[CardDriver, tileir.Context], caplog: pytest.LogCaptureFixture, *, fast_math: bool
) -> None:
    driver, context = card
    run = distributed(STEP, context, (U, F), tileir.Options(fast_math=fast_math))
    step, force, right = run.stepper({"U": "V"}, {"U": U}), there(F, run, context), U
    for _ in range(8):
        step(force)
        right = np.float32(0.5) * right + F
    np.testing.assert_allclose(step.state["U"].numpy(), right, rtol=1e-6)
    assert [record.message.partition(":")[2] for record in caplog.records] == fast_math * [
        " F was made with other options than the program; give tileir.distribute the options of the context, or of the"
        " program that makes it"
    ]
    assert ("cuGraphLaunch" in driver.calls) is not fast_math


def test_what_ranks_made_is_checked_when_it_is_read(card: tuple[CardDriver, tileir.Context]) -> None:
    run = distributed(ALIKE, card[1], (U,))
    given = there(U, run, card[1])
    found = [run(given)[0] for _ in range(3)]
    run.engine.end.failed = True
    for each in found:
        with pytest.raises(BackendError, match=r"TIL814.*rank 1 failed"):
            each.numpy()


def test_what_cannot_be_recorded_is_done(card: tuple[CardDriver, tileir.Context]) -> None:
    driver, context = card
    driver.refusals["cuGraphInstantiate"] = [Result.CUDA_ERROR_UNKNOWN] * 3
    run = distributed(ALIKE, context, (U,))
    given = there(U, run, context)
    for _ in range(6):
        np.testing.assert_array_equal(run(given)[0].numpy(), U + 1)
    assert not driver.refusals["cuGraphInstantiate"]
    assert driver.calls.count("cuStreamBeginCapture") == 3


def test_work_that_waits_or_keeps_memory_is_refused(card: tuple[CardDriver, tileir.Context]) -> None:
    _, context = card
    given = tileir.to_device(U, context=context)
    executor: Any = given.home.executor
    add, kept = tileir.jit("function (A) -> (B) { B = A + 1; }", context=context), []

    def waits() -> Any:
        return [tileir.to_device(add(given).numpy(), context=context).memory()]

    def keeps() -> Any:
        kept.append(add(given))
        return [add(given).memory()]

    add(given)
    for work in (waits, keeps):
        recorder = executor.recorder()
        for _ in range(5):
            assert recorder.run([given.memory()], work) is None
    np.testing.assert_array_equal(add(given).numpy(), U + 1)


def test_work_is_recorded_behind_what_used_its_memory(card: tuple[CardDriver, tileir.Context]) -> None:
    """Messages stay in order, and go on beside kernels on other memory."""
    driver, context = card
    given = tileir.to_device(U, context=context)
    executor: Any = given.home.executor
    add = tileir.jit("function (A) -> (B) { B = A + 1; }", context=context)

    def message(read: DeviceArray, written: DeviceArray) -> None:
        with executor.recorded_beside([read.memory()], [written.memory()]):
            to, source = (executor.address(each.memory()) for each in (written, read))
            driver.cuMemcpyDtoDAsync(to, source, read.nbytes, executor.dlpack_stream)

    def work() -> list[Any]:
        first, second = add(given), add(given)
        message(first, second)
        third = add(other := add(given))
        message(first, third)
        return [(add(second), other)[0].memory()]

    recorder = executor.recorder()
    found = [recorder.run([given.memory()], work) for _ in range(3)][-1]
    assert found is not None
    assert [[], [], [1, 2], [], [4], [3, 5], [3]] in driver.before.values()
    (buffer,), event = found
    event.wait()
    content = np.empty_like(U)
    executor.copy(buffer, content).wait()
    np.testing.assert_array_equal(content, U + 2)


def test_memory_that_comes_back_meanwhile_is_not_recorded(card: tuple[CardDriver, tileir.Context]) -> None:
    given = tileir.to_device(U, context=card[1])
    executor: Any = given.home.executor
    add = tileir.jit("function (A) -> (B) { B = A + 1; }", context=card[1])
    others = [add(given) for _ in range(8)]

    def work() -> list[Any]:
        if others:
            others.pop()  # as the collector of Python may do at any time
        return [add(given).memory()]

    recorder = executor.recorder()
    assert recorder.run([given.memory()], work) is None
    for _ in range(4):
        assert recorder.run([given.memory()], work) is not None


def test_temporaries_of_programs_live_as_long_as_recordings(card: tuple[CardDriver, tileir.Context]) -> None:
    """Memory that programs keep for their next runs is freed when others need it, and on request."""
    driver, context = card
    text = "function (U[N, N]) -> (V) { W[i, j : N, N] = +(U[i, k] * U[k, j]); V[i, j : N, N] = +(W[i, k] * W[k, j]); }"
    turned, whole = np.eye(4, dtype=np.float32)[[1, 2, 3, 0]], (None, None)
    program = tileir.partition(text, {"x": 1}, {"U": whole}, outputs={"V": whole}, arguments=[turned])
    run = tileir.distribute(program, Engine(), context=context)
    step = run.stepper({"U": "V"}, {"U": turned})
    for _ in range(8):
        step()
    assert context.trim()
    taken = [tileir.to_device(np.full((4, 4), np.nan, np.float32), context=context) for _ in range(8)]
    driver.calls.clear()
    step()
    assert "cuLaunchKernel" not in driver.calls
    np.testing.assert_array_equal(step.state["U"].numpy(), np.linalg.matrix_power(turned, 4**9 % 4))
    assert all(np.isnan(each.numpy()).all() for each in taken)


def test_memory_of_recordings_goes_back(card: tuple[CardDriver, tileir.Context]) -> None:
    driver, context = card
    run = distributed(ALIKE, context, (U,))
    given = there(U, run, context)
    for _ in range(8):
        found = run(given)
    assert isinstance(found[0].parts[0], DeviceArray)
    graphs = len(driver.graphs)
    assert graphs
    del run
    gc.collect()
    assert len(driver.graphs) < graphs
    np.testing.assert_array_equal(found[0].numpy(), U + 1)
    held = len(driver.memory)
    del found, given
    gc.collect()
    context.close()
    assert len(driver.memory) < held


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("shape", "ways"), [((11, 64), {True}), ((12, 64), {True}), ((13, 5), {False, True}), ((4, 6, 64), {False, True})]
)
def test_borders_are_put_into_results(
    card: tuple[CardDriver, tileir.Context], shape: tuple[int, ...], ways: set[bool]
) -> None:
    """Whole rows in their places where copies may begin there; elsewhere a part is put together with its halo."""
    _, context = card
    rest = ", ".join("xyz"[: len(shape) - 1])
    sizes = ", ".join("KLM"[: len(shape) - 1])
    text = f"""function (U[N, {sizes}]) -> (V, W) {{
        S[i, {rest} : N, {sizes}] = +(U[i + 2 * j - 1, {rest}]), j < 2;
        V = U + 0.25 * S;
        W[i, {rest} : N, {sizes}] = +(U[i + j, {rest}]), j < 3;
    }}"""
    array = np.random.default_rng(0).integers(0, 9, shape).astype(np.float32)
    cut = ("x", *[None] * (len(shape) - 1))
    program = tileir.partition(text, {"x": 2}, {"U": cut}, outputs={"V": cut, "W": cut}, arguments=[array])
    run = tileir.distribute(program, Threads(("cuda.0", "cuda.0")), context=context)
    for found, right in zip(run(array), tileir.evaluate(text, [array]), strict=True):
        np.testing.assert_array_equal(found, right)
    assert {any(isinstance(step, HaloFunction) for step, _ in plan.steps) for plan in run._plans.values()} == ways
