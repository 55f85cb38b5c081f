"""The hardware model of a processor with figures that are measured: peaks, bandwidths, and the cost of a launch.

Kernels in semtree text do nothing but multiply and add in registers, or read memory of a size that fits a level. They
are compiled and run like any others, on all threads of the device.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import numpy as np

from tileir.core import BackendError, Bus, DType, ExecutionUnit, HardwareModel, attrs
from tileir.core.targets.hardware_verifier import verify
from tileir.core.targets.target_file import hardware_of
from tileir.runtime import Context, DeviceInfo
from tileir.semtree.text.parser import parse_kernel

CHAINS: Final = 12
"""Independent chains of operations: ample for latencies of four cycles on two pipes."""

STEPS: Final = 20_000
READ_BYTES: Final = 1 << 28
"""What a measurement reads, again and again from caches."""

SECONDS: Final = 0.1
"""How long each measurement is repeated; the least time counts."""

OUTERMOST_BYTES: Final = 1 << 28
DIGITS: Final = 3

_MEASURED: Final = {
    DType.F32: tuple(dtype for dtype in DType if dtype.is_narrow and not dtype.is_storage),
    DType.F64: (),
    DType.I32: (DType.I8, DType.I16, DType.U8),
}
"""What is measured, and the dtypes whose rates are taken to be off by as much."""


def measured_hardware(context: Context, device: DeviceInfo) -> HardwareModel:
    """Return the hardware model of a processor with measured rates, bandwidths and launch overhead.

    The clock of the model stays; rates per cycle are scaled so that rates per second are the measured ones.

    Raises:
        BackendError: TIL804, the groups of the device have many threads; or it refuses a kernel.
    """
    if device.target.group_width > 1:
        message = (
            f"only processors can be measured; `tileir targets cpu --json --device {device.id}` tells what is known"
        )
        raise BackendError.of("TIL804", message)
    probe = _Probe(context, device)
    model = hardware_of(device.target)
    hertz = model.clock_mhz * 1e6
    launch = probe.launch_seconds()
    factors: dict[DType | None, float] = {}
    for dtype, similar in _MEASURED.items():
        factor = probe.operations(dtype) / model.peak(dtype)
        factors |= dict.fromkeys((dtype, *similar), factor)
    buses = list(model.buses)
    levels = [memory for memory in model.levels() if memory.is_cache or memory is model.levels()[0]]
    caches = sum(memory.size_bytes * memory.count for memory in levels[1:])
    for memory in levels:
        size = memory.size_bytes * memory.count // 2 if memory.is_cache else max(OUTERMOST_BYTES, 4 * caches)
        width = probe.reading(size) / hertz
        buses = [_scaled(bus, memory.name, width) for bus in buses]
    units = tuple(_with_rates(unit, factors) for unit in model.execution_units)
    found = attrs.evolve(model, execution_units=units, buses=tuple(buses), launch_us=_rounded(launch * 1e6))
    return verify(found)


def _with_rates(unit: ExecutionUnit, factors: dict[DType | None, float]) -> ExecutionUnit:
    rates = tuple((dtype, _rounded(rate * factors.get(dtype, 1))) for dtype, rate in unit.ops_per_cycle)
    return attrs.evolve(unit, ops_per_cycle=rates)


def _scaled(bus: Bus, memory: str, width: float) -> Bus:
    """Return a bus that reads from ``memory``, as wide as its share of ``width`` among equal buses."""
    if bus.sources != (memory,):
        return bus
    return attrs.evolve(bus, bytes_per_cycle=_rounded(width / bus.count))


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


@attrs.frozen(repr=False)
class _Probe:
    """Kernels on one device."""

    context: Context
    device: DeviceInfo

    def launch_seconds(self) -> float:
        """Return the time of a launch that does next to nothing."""
        threads, lanes = self._sizes(DType.F32)
        return self._least(_chain_text(DType.F32, lanes, threads, 1), np.ones(lanes * threads, np.float32))

    def operations(self, dtype: DType) -> float:
        """Return multiplications and additions on ``dtype`` in a second, in registers, on all threads."""
        threads, lanes = self._sizes(dtype)
        array = np.full(lanes * threads, 1, dtype.numpy)
        seconds = self._least(_chain_text(dtype, lanes, threads, STEPS), array)
        return 2.0 * lanes * CHAINS * STEPS * threads / seconds

    def reading(self, size: int) -> float:
        """Return the bytes in a second that all threads read from arrays of ``size`` bytes, each its own part."""
        threads, lanes = self._sizes(DType.F32)
        block = CHAINS * lanes
        share = max(block, size // 4 // threads // block * block)
        rounds = max(1, READ_BYTES // (4 * share * threads))
        source = np.ones(share * threads, np.float32)
        text = _reading_text(lanes, threads, share, rounds)
        seconds = self._least(text, source, np.zeros(lanes * threads, np.float32))
        return 4.0 * share * threads * rounds / seconds

    def _sizes(self, dtype: DType) -> tuple[int, int]:
        return max(1, self.device.target.threads), self.device.target.lanes(dtype)

    def _least(self, text: str, *arrays: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> float:
        library = self.context.compiler(self.device).build((parse_kernel(text),))
        executor = self.context.executor(self.device)
        kernel = executor.prepare(library, 0)
        buffers = []
        for array in arrays:
            buffer = executor.allocate(array.nbytes)
            with buffer.map_discard() as content:
                content[: array.nbytes] = array.view(np.uint8)
            buffers.append(buffer)
        return _least_time(lambda: kernel.launch(buffers))


def _least_time(call: Callable[[], object]) -> float:
    call()
    times: list[float] = []
    stop = time.perf_counter() + SECONDS
    while not times or time.perf_counter() < stop:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def _chain_text(dtype: DType, lanes: int, threads: int, steps: int) -> str:
    """Return a kernel with :data:`CHAINS` independent chains of multiply-adds in registers for each group."""
    vector = f"{dtype.value}x{lanes}" if lanes > 1 else dtype.value
    chains = range(CHAINS)
    step = "fma(a{0}, m, c)" if dtype.is_float else "a{0} * m + c"
    declared = "".join(f"  {vector} a{i} = {vector}({1 + i}{'.0' if dtype.is_float else ''});\n" for i in chains)
    body = "".join(f"    a{i} = {step.format(i)};\n" for i in chains)
    total = " + ".join(f"a{i}" for i in chains)
    place = f"X[g * {lanes} : {lanes}]" if lanes > 1 else "X[g]"
    return (
        f"kernel peak(inout {dtype.value} X[{lanes * threads}]) grid({threads}) operations(1000000000) {{\n"
        f"  i64 g = group_id(0);\n  {vector} m = {place};\n  {vector} c = m;\n{declared}"
        f"  for (i64 k = 0; k < {steps}; k += 1) {{\n{body}  }}\n  {place} = {total};\n}}\n"
    )


def _reading_text(lanes: int, threads: int, share: int, rounds: int) -> str:
    """Return a kernel whose groups read ``share`` elements of f32 each, as many times as ``rounds``."""
    vector = f"f32x{lanes}" if lanes > 1 else "f32"
    chains = range(CHAINS)
    declared = "".join(f"  {vector} a{i} = {vector}(0.0);\n" for i in chains)
    slices = f" : {lanes}" if lanes > 1 else ""
    body = "".join(f"      a{i} = a{i} + X[k + g * {share} + {i * lanes}{slices}];\n" for i in chains)
    total = " + ".join(f"a{i}" for i in chains)
    return (
        f"kernel reading(in f32 X[{share * threads}], out f32 Y[{lanes * threads}]) grid({threads}) "
        f"operations(1000000000) {{\n  i64 g = group_id(0);\n{declared}"
        f"  for (i64 r = 0; r < {rounds}; r += 1) {{\n"
        f"    for (i64 k = 0; k < {share}; k += {CHAINS * lanes}) {{\n{body}    }}\n  }}\n"
        f"  Y[g * {lanes}{slices}] = {total};\n}}\n"
    )
