"""A driver of cards that has none: memory is the host's, and the interpreter runs kernels, as late as a card may.

Nothing in a stream is done before somebody waits for it, or asks whether it is, which does one thing more. So whoever
reads too early, or waits for too little, finds other numbers.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import contextmanager
from enum import IntEnum
from itertools import count
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

import tileir
from strategies.card_streams import Mark, Work, reach
from tileir.core.targets.target import Target
from tileir.runtime.discovery import Registry
from tileir.runtime.interface import Backend, DeviceInfo
from tileir.semtree.interpret.interpreter import run
from tileir_llvm.emit.spelling import symbol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tileir.semtree.ir import KernelFunction

RUN: Final = "tileir_cuda.run."

CUBIN: Final = b"machine code of "
"""Linked form of PTX."""

NODE_POINTERS: Final = 40
"""Offset of the pointer to a kernel's parameters in the driver's parameters of a node."""


class Result(IntEnum):
    """Statuses that are named."""

    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209
    CUDA_ERROR_ECC_UNCORRECTABLE = 214
    CUDA_ERROR_INVALID_PTX = 218
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222
    CUDA_ERROR_INVALID_IMAGE = 200
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701
    CUDA_ERROR_LAUNCH_TIMEOUT = 702
    CUDA_ERROR_ASSERT = 710
    CUDA_ERROR_HARDWARE_STACK_ERROR = 714
    CUDA_ERROR_ILLEGAL_INSTRUCTION = 715
    CUDA_ERROR_MISALIGNED_ADDRESS = 716
    CUDA_ERROR_INVALID_ADDRESS_SPACE = 717
    CUDA_ERROR_INVALID_PC = 718
    CUDA_ERROR_LAUNCH_FAILED = 719
    CUDA_ERROR_INVALID_CLUSTER_SIZE = 912
    CUDA_ERROR_UNKNOWN = 999


OK: Final = Result.CUDA_SUCCESS


class _Words:
    """Names of flags and attributes, of which each stands for itself."""

    def __getattr__(self, name: str) -> str:
        return name


@attrs.define(eq=False, repr=False)
class CardDriver:
    """The functions of the driver, and what it has on its card.

    Attributes:
        calls: Names of the functions that were called, those that native code calls among them.
        refusals: Statuses that functions answer next, by their names.
        clusters: So many clusters run at a time.
        lost: What everything answers after an error of the card; success before.
        captured: Streams whose work is captured to a graph.
        capture_mode: Of this thread.
        recorded: Work of streams that are captured, which is not done.
        follows: What each piece of that follows, and what the next one will.

    """

    calls: list[str] = attrs.field(factory=list)
    refusals: dict[str, list[Result]] = attrs.field(factory=dict)
    clusters: int = 2
    lost: Result = OK
    captured: set[int] = attrs.field(factory=set)
    capture_mode: object = "CU_STREAM_CAPTURE_MODE_GLOBAL"
    recorded: dict[int, list[Callable[[], None]]] = attrs.field(factory=dict)
    follows: dict[int, tuple[list[list[int]], list[int]]] = attrs.field(factory=dict)
    streams: dict[int, Work] = attrs.field(factory=lambda: {1: Work()})
    events: dict[int, Mark | None] = attrs.field(factory=dict)
    memory: dict[int, Any] = attrs.field(factory=dict)
    locked: dict[int, Any] = attrs.field(factory=dict)
    libraries: dict[bytes, Sequence[KernelFunction]] = attrs.field(factory=dict)
    functions: dict[int, KernelFunction] = attrs.field(factory=dict)
    links: dict[int, Any] = attrs.field(factory=dict)
    graphs: dict[int, list[Callable[[], None]]] = attrs.field(factory=dict)
    before: dict[int, list[list[int]]] = attrs.field(factory=dict)
    _numbers: Iterator[int] = attrs.field(factory=lambda: count(1000))
    _native: list[Any] = attrs.field(factory=list)

    def know(self, ptx: str, kernels: Sequence[KernelFunction]) -> None:
        """Note of which kernels PTX was made."""
        self.libraries[ptx.encode() + b"\0"] = kernels

    def _answer(self, name: str) -> Result:
        self.calls.append(name)
        waiting = self.refusals.get(name)
        return waiting.pop(0) if waiting else self.lost

    def module(self) -> ModuleType:
        """Return what ``cuda.bindings.driver`` is."""
        module: Any = ModuleType("cuda.bindings.driver")
        for name in dir(self):
            if name.startswith("cu"):
                setattr(module, name, getattr(self, name))
        module.CUresult = Result
        for name in (
            "CUjitInputType",
            "CUdevice_attribute",
            "CUevent_flags",
            "CUstream_flags",
            "CUfunction_attribute",
            "CUstreamCaptureMode",
        ):
            setattr(module, name, _Words())
        for kind in ("DataType", "Swizzle", "Interleave", "L2promotion", "FloatOOBfill"):
            setattr(module, f"CUtensorMap{kind}", _Words())
        module.CUstream = module.CUfunction = module.cuuint64_t = module.cuuint32_t = int
        module.CUtensorMap = _TensorMap
        module.CUDA_KERNEL_NODE_PARAMS = module.CUlaunchConfig = SimpleNamespace
        found: ModuleType = module
        return found

    # Functions of the driver, as cuda-bindings has them: a status, and what they give.

    def cuDeviceGet(self, number: int) -> tuple[Result, int]:
        return OK, number

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[Result, int]:
        return OK, 77 + device

    def cuCtxSetCurrent(self, _: int) -> tuple[Result]:
        return (OK,)

    def cuStreamCreate(self, _: object) -> tuple[Result, int]:
        number = next(self._numbers)
        self.streams[number] = Work()
        return OK, number

    def cuStreamBeginCapture(self, stream: int, mode: object) -> tuple[Result]:
        assert mode == "CU_STREAM_CAPTURE_MODE_RELAXED"
        self.captured.add(stream)
        self.recorded[stream], self.follows[stream] = [], ([], [])
        return (self._answer("cuStreamBeginCapture"),)

    def cuStreamEndCapture(self, stream: int) -> tuple[Result, int]:
        number = next(self._numbers)
        self.captured.remove(stream)
        self.graphs[number] = self.recorded.pop(stream)
        self.before[number], _ = self.follows.pop(stream)
        return self._answer("cuStreamEndCapture"), number

    def cuStreamUpdateCaptureDependencies(
        self, stream: int, nodes: list[int], data: None, number: int, flags: int
    ) -> tuple[Result]:
        assert (len(nodes), flags) == (number, 1)
        assert data is None
        self.follows[stream][1][:] = nodes
        return (self._answer("cuStreamUpdateCaptureDependencies"),)

    def cuStreamGetCaptureInfo(self, stream: int) -> tuple[Result, str, int, int, list[int], int]:
        nodes = list(self.follows[stream][1])
        return self._answer("cuStreamGetCaptureInfo"), "CU_STREAM_CAPTURE_STATUS_ACTIVE", 1, 1, nodes, len(nodes)

    def put(self, stream: int, piece: Callable[[], None]) -> None:
        """Put work into a stream, or what is recorded of it."""
        if stream in self.recorded:
            self.recorded[stream].append(piece)
            before, now = self.follows[stream]
            before.append(list(now))
            now[:] = [len(before)]
        else:
            self.streams[stream].add(piece)

    def cuStreamSynchronize(self, stream: int) -> tuple[Result]:
        assert stream not in self.recorded
        reach(self.streams[stream].mark())
        return (self._answer("cuStreamSynchronize"),)

    def cuEventCreate(self, _: object) -> tuple[Result, int]:
        number = next(self._numbers)
        self.events[number] = None
        return self._answer("cuEventCreate"), number

    def cuEventRecord(self, event: int, stream: int) -> tuple[Result]:
        assert stream not in self.recorded
        self.events[event] = self.streams[stream].mark()
        return (self._answer("cuEventRecord"),)

    def cuStreamWaitEvent(self, stream: int, event: int, _: int) -> tuple[Result]:
        mark = self.events[event]
        assert mark is not None
        self.streams[stream].add(lambda: reach(mark))
        return (self._answer("cuStreamWaitEvent"),)

    def cuEventQuery(self, event: int) -> tuple[Result]:
        mark = self.events[event]
        assert mark is not None
        if mark.stream.done < mark.pieces:
            mark.stream.step()
        status = self._answer("cuEventQuery")
        return (Result.CUDA_ERROR_NOT_READY if status is OK and mark.stream.done < mark.pieces else status,)

    def cuEventSynchronize(self, event: int) -> tuple[Result]:
        if (mark := self.events[event]) is not None:  # one that was never recorded is over
            reach(mark)
        return (self._answer("cuEventSynchronize"),)

    def cuCtxSynchronize(self) -> tuple[Result]:
        for stream in tuple(self.streams.values()):
            reach(stream.mark())
        return (self._answer("cuCtxSynchronize"),)

    def cuMemAlloc(self, size: int) -> tuple[Result, int]:
        room = (ctypes.c_uint8 * (size + 512))()
        address = -(-ctypes.addressof(room) // 512) * 512
        ctypes.memset(address, 0xA5, size)
        self.memory[address] = room
        return self._answer("cuMemAlloc"), address

    def cuMemFree(self, address: int) -> tuple[Result]:
        for stream in tuple(self.streams.values()):
            reach(stream.mark())
        del self.memory[address]
        return (self._answer("cuMemFree"),)

    def cuMemAllocHost(self, size: int) -> tuple[Result, int]:
        room = (ctypes.c_uint8 * size)()
        self.locked[ctypes.addressof(room)] = room
        return self._answer("cuMemAllocHost"), ctypes.addressof(room)

    def cuMemFreeHost(self, address: int) -> tuple[Result]:
        del self.locked[address]
        return (self._answer("cuMemFreeHost"),)

    def cuMemcpyHtoDAsync(self, to: int, source: int, size: int, stream: int) -> tuple[Result]:
        late = any(address <= source < address + len(room) for address, room in self.locked.items())
        content: Any = source if late else ctypes.string_at(source, size)
        self.put(stream, lambda: void(ctypes.memmove(to, content, size)))
        return (self._answer("cuMemcpyHtoDAsync"),)

    def cuMemcpyDtoHAsync(self, to: int, source: int, size: int, stream: int) -> tuple[Result]:
        self.put(stream, lambda: void(ctypes.memmove(to, source, size)))
        return (self._answer("cuMemcpyDtoHAsync"),)

    cuMemcpyDtoDAsync = cuMemcpyDtoHAsync  # noqa: N815

    def cuDriverGetVersion(self) -> tuple[Result, int]:
        return OK, 12_040

    def cuLinkCreate(self, *_: object) -> tuple[Result, int]:
        return self._answer("cuLinkCreate"), next(self._numbers)

    def cuLinkAddData(self, state: int, kind: str, code: bytes, size: int, *_: object) -> tuple[Result]:
        assert kind == "CU_JIT_INPUT_PTX"
        assert size == len(code)
        self.links[state] = ctypes.create_string_buffer(CUBIN + code, len(CUBIN) + size)
        return (self._answer("cuLinkAddData"),)

    def cuLinkComplete(self, state: int) -> tuple[Result, int, int]:
        return self._answer("cuLinkComplete"), ctypes.addressof(self.links[state]), len(self.links[state])

    def cuLinkDestroy(self, state: int) -> tuple[Result]:
        self.links.pop(state, None)
        return (OK,)

    def cuModuleLoadData(self, code: bytes) -> tuple[Result, bytes]:
        return self._answer("cuModuleLoadData"), code

    def cuModuleUnload(self, _: bytes) -> tuple[Result]:
        return (OK,)

    def cuModuleGetFunction(self, module: bytes, name: bytes) -> tuple[Result, int]:
        body = module.removeprefix(CUBIN).partition(b".address_size 64\n")[2].rstrip(b"\0")
        kernels = next(each for ptx, each in self.libraries.items() if body in ptx)
        (found,) = [kernel for number, kernel in enumerate(kernels) if symbol(number, kernel) == name.decode()]
        number = next(self._numbers)
        self.functions[number] = found
        return OK, number

    def cuFuncGetAttribute(self, _: str, function: int) -> tuple[Result, int]:
        assert function in self.functions
        return OK, 1024

    def cuFuncSetAttribute(self, *_: object) -> tuple[Result]:
        return (OK,)

    def cuOccupancyMaxActiveClusters(self, function: int, config: Any) -> tuple[Result, int]:
        assert self.functions[function].cluster > 1
        assert (config.gridDimX, config.blockDimX) == (
            self.functions[function].grid[0],
            self.functions[function].group[0],
        )
        return self._answer("cuOccupancyMaxActiveClusters"), self.clusters

    def cuTensorMapEncodeTiled(self, *told: Any) -> tuple[Result, Any]:
        made = _TensorMap()
        made.words[:2] = [told[2], told[1]]
        return OK, made

    def cuTensorMapReplaceAddress(self, made: Any, address: int) -> tuple[Result]:
        assert made.getPtr() % 64 == 0  # as the driver asks for
        made.words[0] = address
        return (OK,)

    def cuLaunchKernel(self, function: int, *rest: int) -> tuple[Result]:
        stream, pointers = rest[7], rest[8]
        status = self._answer("cuLaunchKernel")
        if status is OK:
            self.put(stream, self._run_of(function, pointers))
        return (status,)

    def cuGraphCreate(self, _: int) -> tuple[Result, int]:
        number = next(self._numbers)
        self.graphs[number], self.before[number] = [], []
        return self._answer("cuGraphCreate"), number

    def cuGraphAddKernelNode(self, graph: int, before: list[int], number: int, node: Any) -> tuple[Result, int]:
        assert all(1 <= each <= len(self.graphs[graph]) for each in before)  # nodes are counted from 1 on
        assert number == len(before)
        assert node.gridDimX > 0
        self.before[graph].append(before)
        self.graphs[graph].append(self._run_of(node.func, node.kernelParams))
        return self._answer("cuGraphAddKernelNode"), len(self.graphs[graph])

    def cuGraphInstantiate(self, graph: int, _: int) -> tuple[Result, int]:
        number = next(self._numbers)
        self.graphs[number], self.before[number] = list(self.graphs[graph]), self.before[graph]
        return self._answer("cuGraphInstantiate"), number

    def cuGraphExecKernelNodeSetParams(self, graph: int, node: int, parameters: int) -> tuple[Result]:
        status = self._answer("cuGraphExecKernelNodeSetParams")
        if status is OK:
            function = ctypes.c_void_p.from_address(parameters).value or 0
            pointers = ctypes.c_void_p.from_address(parameters + NODE_POINTERS).value or 0
            self.graphs[graph][node - 1] = self._run_of(function, pointers)
        return (status,)

    def cuGraphDestroy(self, graph: int) -> tuple[Result]:
        del self.graphs[graph], self.before[graph]
        return (self._answer("cuGraphDestroy"),)

    cuGraphExecDestroy = cuGraphDestroy  # noqa: N815

    def _late_first(self, graph: int) -> Iterator[int]:
        """Yield the nodes of a graph in an order that it allows, the latest that it can have next."""
        before, left = self.before[graph], set(range(len(self.graphs[graph])))
        while left:
            left.remove(chosen := max(each for each in left if not {one - 1 for one in before[each]} & left))
            yield chosen

    def cuGraphLaunch(self, graph: int, stream: int) -> tuple[Result]:
        assert stream not in self.recorded
        for node in self._late_first(graph):
            self.streams[stream].add(self.graphs[graph][node])
        return (self._answer("cuGraphLaunch"),)

    def cuThreadExchangeStreamCaptureMode(self, mode: object) -> tuple[Result, object]:
        before, self.capture_mode = self.capture_mode, mode
        return OK, before

    def cuStreamIsCapturing(self, stream: int, state: Any = None) -> tuple[Result, ...]:
        if state is None:
            return OK, Result(stream in self.captured)
        state.contents.value = int(stream in self.captured)
        return (OK,)

    def cuGetProcAddress(self, name: bytes, _: int, __: int) -> tuple[Result, int, int]:
        """Return the same function for native code."""
        pointer, number = ctypes.c_void_p, ctypes.c_uint
        kinds = {
            b"cuCtxSetCurrent": (pointer,),
            b"cuLaunchKernel": (pointer, *[number] * 7, pointer, pointer, pointer),
            b"cuEventRecord": (pointer, pointer),
            b"cuStreamWaitEvent": (pointer, pointer, number),
            b"cuGraphLaunch": (pointer, pointer),
            b"cuGraphExecKernelNodeSetParams": (pointer, pointer, pointer),
            b"cuStreamIsCapturing": (pointer, ctypes.POINTER(ctypes.c_int)),
        }
        function = getattr(self, name.decode())
        native = ctypes.CFUNCTYPE(ctypes.c_int, *kinds[name])(lambda *given: int(function(*given)[0]))
        self._native.append(native)
        return OK, ctypes.cast(native, ctypes.c_void_p).value or 0, 0

    def _run_of(self, function: int, pointers: int) -> Callable[[], None]:
        """Return a launch; the arguments are copied now."""
        kernel = self.functions[function]
        places = ctypes.cast(pointers, ctypes.POINTER(ctypes.c_void_p))
        addresses = [ctypes.c_uint64.from_address(places[n] or 0).value for n in range(len(kernel.params))]

        def launch() -> None:
            run(kernel, [self._array(*each) for each in zip(addresses, kernel.params, strict=True)])

        return launch

    def _array(self, address: int, param: Any) -> np.ndarray[Any, Any]:
        size = param.size * param.dtype.itemsize
        room = (ctypes.c_uint8 * size).from_address(address)
        return np.frombuffer(room, param.dtype.numpy)


def aligned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy that is as aligned as memory of a card."""
    room = np.empty(array.nbytes + 512, np.uint8)
    start = -room.ctypes.data % 512
    found: np.ndarray[Any, Any] = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found


def void(_: object) -> None:
    """Return nothing."""


@contextmanager
def without_a_card(target: Target | None = None) -> Iterator[tuple[CardDriver, tileir.Context]]:
    """Give a driver, and a context whose only device is its card, ``cuda.0``."""
    kept = {name: module for name, module in sys.modules.items() if name.startswith((RUN, "cuda")) or name == RUN[:-1]}
    for name in kept:
        del sys.modules[name]
    driver = CardDriver()
    package: Any = ModuleType("cuda")
    package.bindings = ModuleType("cuda.bindings")
    package.bindings.driver = driver.module()
    parts = {"cuda": package, "cuda.bindings": package.bindings, "cuda.bindings.driver": package.bindings.driver}
    sys.modules.update(parts)
    try:
        with tileir.Context(device_id="cuda.0", registry=_registry(driver, target), disk_cache=None) as context:
            yield driver, context
    finally:
        for name in [name for name in sys.modules if name.startswith(RUN) or name in (*parts, RUN[:-1])]:
            del sys.modules[name]
        sys.modules.update(kept)


class _TensorMap:
    """Sixteen words, at a place or at one of their own: an address, and how many axes there are."""

    def __init__(self, place: int = 0) -> None:
        self.words = (ctypes.c_uint64 * 16).from_address(place) if place else (ctypes.c_uint64 * 16)()

    def getPtr(self) -> int:
        return ctypes.addressof(self.words)


def _registry(driver: CardDriver, target: Target | None) -> Registry:
    from tileir_cuda.compiler import CudaCompiler
    from tileir_cuda.devices import described
    from tileir_cuda.run.executor import CudaExecutor

    offline = described("cuda.sm_90a")
    assert offline is not None
    info = DeviceInfo("cuda.0", "card", "cuda", 1 << 30, offline.features, target or offline.target, dlpack=(2, 0))

    class Compiling(CudaCompiler):
        def build(self, kernels: Sequence[KernelFunction]) -> Any:
            library = super().build(kernels)
            driver.know(library.ptx, library.kernels)
            return library

    def compiler(device: DeviceInfo, options: tileir.Options) -> Any:
        made = CudaCompiler.of(offline, options)
        return Compiling(device, options, made.architecture)

    return Registry.of(
        Backend("cuda", lambda: (info,), compiler, lambda device, options: CudaExecutor.of(device, 0, options))
    )
