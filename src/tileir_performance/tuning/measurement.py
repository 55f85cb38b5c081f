"""Timing of kernels on a device, each one alone."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from tileir.core.dtype import DType
from tileir.driver.calls.arguments import passed_values
from tileir.driver.compilation import Compilation, Request, ready
from tileir.runtime import Context, DeviceInfo, Event, Kernel, Library, Options
from tileir.runtime.plans.workspace import holds
from tileir.semtree.ir import Buffer, BufferRole
from tileir.semtree.launches import executed
from tileir.typed.ir import TensorType

Array = np.ndarray[Any, np.dtype[Any]]

RUNS: Final = 25
"""Most runs of which a median is taken."""

SECONDS: Final = 0.5
"""How long a program is run, but for the first two times."""


def random_array(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Return values of moderate size: standard normal floats, integers below 16, bools."""
    if dtype.is_float:
        return np.asarray(rng.standard_normal(shape, dtype=np.float32), dtype.numpy)
    return np.asarray(rng.integers(0, 2 if dtype is DType.BOOL else 16, shape), dtype.numpy)


def random_inputs(types: Mapping[str, TensorType], seed: int = 0) -> dict[str, Any]:
    """Return an array or number for each input; equal seeds give equal inputs."""
    rng = np.random.default_rng(seed)
    arrays = {name: random_array(tensor.dtype, tensor.shape, rng) for name, tensor in types.items()}
    drawn = {name: array.item() if types[name].weak else array for name, array in arrays.items()}
    return drawn | {name: kind.value for name, kind in types.items() if kind.value is not None}


def kernel_seconds(request: Request, context: Context, device: DeviceInfo) -> tuple[float, ...]:
    """Return the median time of each launch of a program, in order, over repeated runs of the whole program.

    Inputs are random. Devices with clocks of their own report busy times; elsewhere the time includes waiting for a
    launch.

    Raises:
        BackendError: The device refused a kernel.
    """
    options = Options(profile=True)
    disk = context.disk_cache
    executor = context.executor(device, options)

    def prepare(compilation: Compilation, library: Library) -> list[Kernel]:
        return [executor.prepare(library, index) for index in range(len(compilation.sem.kernels))]

    compilation, _, kernels = ready(request, context.compiler(device, options), device, disk, prepare)
    inputs = iter(_passed(compilation, random_inputs(request.types)))
    memory = {
        buffer.name: executor.allocate(buffer.elements * buffer.dtype.itemsize) for buffer in compilation.sem.buffers
    }
    for buffer in compilation.sem.buffers:
        content = _content(buffer, inputs)
        if content is not None and content.size:
            executor.copy(content, memory[buffer.name]).wait()

    def run() -> Iterator[Callable[[], Event]]:
        for launch in executed(compilation.sem.works, lambda name: holds(executor, memory[name])):
            yield partial(kernels[launch.kernel].run, [memory[name] for name in launch.arguments])

    return _medians(run)


def _passed(compilation: Compilation, inputs: Mapping[str, Any]) -> Sequence[Any]:
    """Return the contents of input buffers, in order: arrays, and numbers as arrays."""
    function = compilation.arguments
    if function is None:
        return tuple(inputs.values())
    return passed_values(function, compilation.request.types, inputs)


def _content(buffer: Buffer, inputs: Iterator[Array]) -> Array | None:
    """Return the elements of a constant, or those of the next input: names of buffers need not be those of inputs."""
    if buffer.role is BufferRole.INPUT:
        return next(inputs)
    if buffer.role is BufferRole.CONSTANT:
        return np.frombuffer(buffer.data, buffer.dtype.numpy)
    return None


def _medians(run: Callable[[], Iterator[Callable[[], Event]]]) -> tuple[float, ...]:
    """Return the median time of each launch; all run in order, so that caches hold what a call leaves there."""
    _timed(run())
    once = sum(_timed(run()))
    rounds = max(3, min(RUNS, int(SECONDS / max(once, 1e-9))))
    return tuple(map(statistics.median, zip(*(_timed(run()) for _ in range(rounds)), strict=True)))


def _timed(launches: Iterable[Callable[[], Event]]) -> list[float]:
    """Return the time of each launch in one run of all, by the device's clock where it has one."""
    seconds = []
    for launch in launches:
        start = time.perf_counter()
        event = launch()
        event.wait()
        passed = time.perf_counter() - start
        duration = event.duration
        seconds.append(passed if duration is None else duration)
    return seconds
