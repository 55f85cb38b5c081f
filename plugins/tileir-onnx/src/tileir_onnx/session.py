"""Sessions with the names of onnxruntime's, so that a script changes one import.

>>> import tileir_onnx as onnxruntime
>>> session = onnxruntime.InferenceSession("model.onnx")
>>> logits, = session.run(None, {"image": image})
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter_ns
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from attrs import define, field, frozen

import tileir
from tileir import ArgumentError, BackendError, Diagnostic, TileError
from tileir_onnx import narrow
from tileir_onnx.feeds import KINDS
from tileir_onnx.graph import DTYPES, Array, Port
from tileir_onnx.kinds import Kind
from tileir_onnx.model import Model, load
from tileir_onnx.options import RunOptions, SessionOptions
from tileir_onnx.profile import Profile

PROVIDERS: Final[Mapping[str, str]] = MappingProxyType(
    {"CUDAExecutionProvider": "cuda", "OpenCLExecutionProvider": "opencl", "CPUExecutionProvider": "llvm"}
)
"""Back ends of tileir by the names of onnxruntime's providers."""


def get_available_providers() -> list[str]:
    """Return the providers whose back ends have a device here."""
    here = {device.id.partition(".")[0] for device in tileir.devices()}
    return [name for name, backend in PROVIDERS.items() if backend in here]


@frozen
class NodeArg:
    """Input or output of a model.

    Attributes:
        name: Name.
        type: Type, as in ``tensor(float)``.
        shape: A number for each axis, or its name, or None for an unknown size.
    """

    name: str
    type: str
    shape: list[int | str | None]

    @classmethod
    def of(cls, port: Port, sizes: Mapping[str, int]) -> NodeArg:
        """Return the description of a port, with the sizes of names that have one."""
        kind = port.kind if isinstance(port.kind, str) else f"tensor({_word(port.kind)})"
        return cls(port.name, kind, [sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in port.dims or ()])


@frozen
class ModelMetadata:
    """Metadata of a model."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]


@define(eq=False)
class OrtValue:
    """Array on the host or on a device."""

    _held: Any

    @classmethod
    def ortvalue_from_numpy(cls, array: Array, device_type: str = "cpu", device_id: int = 0) -> OrtValue:
        """Return the value of an array, copied to a device unless that is the host."""
        return cls(array if device_type == "cpu" else tileir.to_device(array, f"{device_type}.{device_id}"))

    @classmethod
    def from_dlpack(cls, array: Any) -> OrtValue:
        """Return the value of an array of another library, sharing its memory."""
        return cls(np.from_dlpack(array) if array.__dlpack_device__()[0] == 1 else array)

    @classmethod
    def ortvalue_from_shape_and_type(
        cls, shape: Sequence[int], element_type: Any, device_type: str = "cpu", device_id: int = 0
    ) -> OrtValue:
        """Return a value of zeros, of a NumPy type or a number in ``onnx.TensorProto.DataType``.

        Raises:
            ArgumentError: TIL701, tileir has no such type.
        """
        dtype = _dtype(element_type)
        if dtype is None:
            raise ArgumentError.of("TIL701", f"tileir has no elements of type {element_type}")
        return cls.ortvalue_from_numpy(np.zeros(tuple(shape), dtype), device_type, device_id)

    def numpy(self) -> Array:
        """Return its elements on the host."""
        return np.asarray(self._held)

    def update_inplace(self, np_arr: Array) -> None:
        """Write the elements of an array of equal sizes and type; the value must be on the host.

        Raises:
            ArgumentError: TIL701, the array does not match, or the value is on a device.
        """
        held, given = self._held, np.asarray(np_arr)
        if not isinstance(held, np.ndarray):
            raise ArgumentError.of("TIL701", f"a value on {self.device_name()!r} is not written in place: make another")
        if (given.dtype, given.shape) != (held.dtype, held.shape):
            told = f"{held.dtype}{list(held.shape)}, and {given.dtype}{list(given.shape)} was passed"
            raise ArgumentError.of("TIL701", f"the value is {told}")
        np.copyto(held, given)

    def data_ptr(self) -> int:
        """Return the address of its elements on the host.

        Raises:
            ArgumentError: TIL701, it is on a device.

        """
        if not isinstance(self._held, np.ndarray):
            raise ArgumentError.of("TIL701", f"a value on {self.device_name()!r} has no address on the host")
        return int(self._held.ctypes.data)

    def tensor_size_in_bytes(self) -> int:
        """Return the size of its elements in bytes."""
        return int(np.prod(self._held.shape, dtype=np.int64)) * int(np.dtype(self._held.dtype).itemsize)

    def is_tensor(self) -> bool:
        """Return True: every value is a tensor."""
        return True

    def has_value(self) -> bool:
        """Return True: every value has elements."""
        return True

    def shape(self) -> list[int]:
        """Return its sizes."""
        return list(self._held.shape)

    def data_type(self) -> str:
        """Return its type, as in ``tensor(float)``."""
        return f"tensor({_word(_number(np.dtype(self._held.dtype)))})"

    def element_type(self) -> int:
        """Return its number in ``onnx.TensorProto.DataType``."""
        return _number(np.dtype(self._held.dtype))

    def device_name(self) -> str:
        """Return its kind of device: ``cpu``, ``cuda``, ``opencl``."""
        return "cpu" if isinstance(self._held, np.ndarray) else str(self._held.home.device.id).partition(".")[0]

    @property
    def array(self) -> Any:
        """The array itself, of NumPy or of a device."""
        return self._held


@define(eq=False)
class InferenceSession:
    """Model ready to run. Calls are thread safe.

    Args:
        path_or_bytes: File of a model, or its bytes.
        sess_options: Options.
        providers: Providers, of which the first available one is used: names of :data:`PROVIDERS`, or pairs of one and
            its options, of which ``device_id`` has a meaning.
        provider_options: Options for each of the providers.

    Raises:
        TileError: TIL901, the file cannot be read; TIL604, it is not a model; TIL605, it uses unsupported features,
            with all nodes that do.
        BackendError: TIL801, no provider has a device.
    """

    _path_or_bytes: str | bytes | os.PathLike[str]
    _options: SessionOptions | None = field(default=None, alias="sess_options")
    _providers: Sequence[Any] | None = field(default=None, alias="providers")
    _provider_options: Sequence[Mapping[str, Any]] | None = field(default=None, alias="provider_options")
    _model: Model = field(init=False)
    _provider: str = field(init=False)
    _profile: Profile | None = field(init=False, default=None)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        """Read the model, and choose a device."""
        options = self._options or SessionOptions()
        begin = perf_counter_ns()
        self.set_providers(self._providers, self._provider_options)
        if options.enable_profiling:
            self._profile = Profile(options.profile_file_prefix)
            self._profile.add("model_loading", "Session", begin, perf_counter_ns())

    def set_providers(
        self, providers: Sequence[Any] | None = None, provider_options: Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        """Read the model for other providers; arguments and errors are those of the session."""
        options = self._options or SessionOptions()
        provider, device = _chosen(providers, provider_options)
        given = self._path_or_bytes
        threads = options.intra_op_num_threads or None
        compiling = None if threads is None else tileir.Options(threads=threads)
        model = load(given if isinstance(given, bytes) else Path(given), device, compiling, sizes=options.sizes)
        model.check()
        self._model, self._provider = model, provider

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: RunOptions | None = None
    ) -> list[Any]:
        """Return outputs for inputs.

        Args:
            output_names: The requested outputs, in the order of the results; None or empty for all.
            input_feed: An array for each input by name.
            run_options: Accepted without effect.

        Raises:
            ArgumentError: TIL705, an input is missing, or there is no such input or output; TIL701, an array does not
                fit its input, which the message names.
        """
        del run_options
        names = [port.name for port in self._model.outputs]
        wanted = list(output_names or names)
        unknown = [name for name in wanted if name not in names]
        if unknown:
            raise ArgumentError(Diagnostic("TIL705", f"the model has no output {name!r}") for name in unknown)
        begin, feeds = perf_counter_ns(), _arrays(input_feed)
        results = self._model.run(feeds, None if set(wanted) == set(names) else tuple(wanted))
        if self._profile is not None:
            with self._lock:
                self._profile.add("model_run", "Session", begin, perf_counter_ns())
                self._profile.note(self._model, feeds)
        order = [name for name in names if name in wanted]
        return [results[order.index(name)] for name in wanted]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], Any],
        user_data: Any = None,
        run_options: RunOptions | None = None,
    ) -> None:
        """Run in a thread, which calls ``callback`` with the results, ``user_data``, and an error as text or ``""``."""

        def work() -> None:
            try:
                results, error = self.run(output_names, input_feed, run_options), ""
            except TileError as fault:
                results, error = [], str(fault)
            callback(results, user_data, error)

        threading.Thread(target=work, name="tileir-onnx").start()

    def run_with_ort_values(
        self, output_names: Sequence[str] | None, input_dict_ort_values: Mapping[str, OrtValue], run_options: Any = None
    ) -> list[OrtValue]:
        """Return outputs as values, like :meth:`run`."""
        feeds = {name: each.array for name, each in input_dict_ort_values.items()}
        return [OrtValue(each) for each in self.run(output_names, feeds, run_options)]

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Run on the bound arrays, and store the results in the binding."""
        iobinding.results = dict(
            zip(iobinding.names, self.run(iobinding.names, iobinding.inputs, run_options), strict=True)
        )
        iobinding.deliver()

    def io_binding(self) -> IOBinding:
        """Return a binding of arrays to the inputs and outputs."""
        return IOBinding(self)

    def get_inputs(self) -> list[NodeArg]:
        """Return the inputs."""
        return [NodeArg.of(port, self._model.sizes) for port in self._model.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """Return the outputs."""
        return [NodeArg.of(port, self._model.sizes) for port in self._model.outputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return the inputs with default values, which a call may replace."""
        return [NodeArg.of(port, self._model.sizes) for port in self._model.outline.defaults]

    def get_modelmeta(self) -> ModelMetadata:
        """Return the metadata of the model."""
        told = self._model.about
        return ModelMetadata(
            told.producer_name,
            self._model.outline.name,
            told.domain,
            told.description,
            told.graph_description,
            told.version,
            dict(told.properties),
        )

    def get_providers(self) -> list[str]:
        """Return the provider that runs the model."""
        return [self._provider]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Return the options of the provider that runs the model: ``device_id``."""
        return {self._provider: {"device_id": (self._model.device or "llvm.0").partition(".")[2]}}

    def disable_fallback(self) -> None:
        """Do nothing: a session stays with its provider."""

    def enable_fallback(self) -> None:
        """Do nothing: a session stays with its provider."""

    def get_session_options(self) -> SessionOptions:
        """Return the options."""
        return self._options or SessionOptions()

    def end_profiling(self) -> str:
        """Write the times of calls and of each of their kernels, as a trace for Chrome and Perfetto.

        Kernels are run once more for that, one after the other.

        Returns:
            The name of the file; empty if profiling was not requested.
        """
        return "" if self._profile is None else self._profile.write()


@define(eq=False)
class IOBinding:
    """Arrays for the inputs and outputs of a session, on the host or on a device.

    Binding methods raise :class:`tileir.ArgumentError` TIL705 if the model has no input or output of that name.
    """

    _session: InferenceSession
    inputs: dict[str, Any] = field(factory=dict, init=False)
    names: list[str] = field(factory=list, init=False)
    results: dict[str, Any] = field(factory=dict, init=False)
    _targets: dict[str, Any] = field(factory=dict, init=False)

    def bind_cpu_input(self, name: str, arr_on_cpu: Array) -> None:
        """Bind a NumPy array to an input."""
        self._bind(name, arr_on_cpu)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Bind a value to an input."""
        self._bind(name, ortvalue.array)

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Bind memory by its address to an input."""
        del device_id
        self._bind(name, _at(device_type, element_type, shape, buffer_ptr))

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Request an output: on the host or a device, or in memory by its address."""
        self._want(name)
        if buffer_ptr is not None and shape is not None:
            self._targets[name] = _at(device_type, element_type, shape, buffer_ptr)
        else:
            self._targets[name] = None if device_type == "cpu" else f"{device_type}.{device_id}"

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Request an output in the memory of a value."""
        self._want(name)
        self._targets[name] = ortvalue.array

    def deliver(self) -> None:
        """Move results to their requested places."""
        for name, target in self._targets.items():
            found = self.results[name]
            if isinstance(target, str):
                self.results[name] = found if hasattr(found, "home") else tileir.to_device(found, target)
            elif target is None:
                self.results[name] = np.asarray(found)
            else:
                np.copyto(np.asarray(target), np.asarray(found))
                self.results[name] = target

    def get_outputs(self) -> list[OrtValue]:
        """Return the results as values."""
        return [OrtValue(self.results[name]) for name in self.names]

    def copy_outputs_to_cpu(self) -> list[Array]:
        """Return the results as NumPy arrays."""
        return [np.asarray(self.results[name]) for name in self.names]

    def synchronize_inputs(self) -> None:
        """Do nothing: a call waits for its inputs."""

    def synchronize_outputs(self) -> None:
        """Do nothing: a call returns when its results are complete."""

    def clear_binding_inputs(self) -> None:
        """Remove the bindings of inputs."""
        self.inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Remove the bindings of outputs."""
        self.names.clear()
        self._targets.clear()
        self.results.clear()

    def _bind(self, name: str, array: Any) -> None:
        session = self._session
        if name not in {each.name for each in (*session.get_inputs(), *session.get_overridable_initializers())}:
            raise ArgumentError.of("TIL705", f"the model has no input {name!r}")
        self.inputs[name] = array

    def _want(self, name: str) -> None:
        if name not in {each.name for each in self._session.get_outputs()}:
            raise ArgumentError.of("TIL705", f"the model has no output {name!r}")
        if name not in self.names:
            self.names.append(name)


def _chosen(providers: Sequence[Any] | None, options: Sequence[Mapping[str, Any]] | None) -> tuple[str, str | None]:
    """Return the first available provider, and its device.

    Providers of onnxruntime without equivalent, ``…ExecutionProvider``, are skipped with a warning.

    Raises:
        ArgumentError: TIL707, there is no provider of that name.
        BackendError: TIL801, none has a device.
    """
    if not providers:
        return "CPUExecutionProvider", None
    devices = {device.id for device in tileir.devices()}
    for position, given in enumerate(providers):
        name, told = given if isinstance(given, tuple) else (given, options[position] if options else {})
        if name not in PROVIDERS:
            message = f"there is no provider {name!r:.80}: {', '.join(PROVIDERS)}"
            if not str(name).endswith("ExecutionProvider"):
                raise ArgumentError.of("TIL707", message)
            warnings.warn(message, stacklevel=2)
            continue
        device = f"{PROVIDERS[name]}.{told.get('device_id', 0)}"
        if device in devices:
            return name, device
    raise BackendError.of("TIL801", f"no device for {', '.join(map(str, providers))}; `tileir devices` lists them")


def _arrays(feeds: Mapping[str, Any]) -> dict[str, Any]:
    return {name: each.array if isinstance(each, OrtValue) else each for name, each in feeds.items()}


def _number(dtype: np.dtype[Any]) -> int:
    """Return ONNX's number of an element type; raise TIL701 if tileir has no such type."""
    found = narrow.KINDS.get(dtype, KINDS.get(dtype))
    if found is None:
        raise ArgumentError.of("TIL701", f"tileir has no elements of {dtype}")
    return found


def _dtype(element_type: Any) -> np.dtype[Any] | None:
    """Return the type of ONNX's number, None if tileir has no such type, or of NumPy's name."""
    return DTYPES.get(element_type) if isinstance(element_type, int) else np.dtype(element_type)


def _word(kind: int) -> str:
    return Kind(kind).name.lower()


def _at(device_type: str, element_type: Any, shape: Sequence[int], address: int) -> Any:
    """Return an array over memory by its address."""
    dtype = _dtype(element_type)
    if dtype is None or dtype in narrow.KINDS:
        raise ArgumentError.of("TIL701", f"memory with elements of type {element_type} cannot be bound by its address")
    if device_type != "cpu":
        return _Card(dtype, tuple(shape), address)
    return np.asarray(_Memory(dtype, tuple(shape), address))


class _Memory:
    """Host memory of another owner."""

    def __init__(self, dtype: np.dtype[Any], shape: tuple[int, ...], address: int) -> None:
        self.__array_interface__ = {"version": 3, "typestr": dtype.str, "shape": shape, "data": (address, False)}


class _Card:
    """Card memory of another owner."""

    def __init__(self, dtype: np.dtype[Any], shape: tuple[int, ...], address: int) -> None:
        self.__cuda_array_interface__ = {"version": 3, "typestr": dtype.str, "shape": shape, "data": (address, False)}
