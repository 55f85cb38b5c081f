"""Models: read once, compiled for the sizes and dtypes of what they are called with."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from attrs import define, field, frozen

import tileir
from tileir import ArgumentError, Diagnostic, Function, TileError
from tileir_onnx.graph import Array, Graph, Port
from tileir_onnx.importing import Imported, NeededError, imported
from tileir_onnx.reading import Reader

_KEPT: Final = 32
"""Signatures of a model that are kept compiled."""


@frozen(eq=False)
class _Prepared:
    """A model for one signature."""

    imported: Imported
    run: Any


@define(eq=False)
class Model:
    """A model of ONNX. Calls are safe from several threads.

    Attributes:
        path: Its file; None for one that was made of bytes.
        graph: The graph that was read.
        compiler: Makes a function of arrays out of a function of Tile; :func:`tileir.jit` by default.

    """

    path: Path | None
    graph: Graph = field(repr=False)
    compiler: Callable[[Function], Callable[..., Any]] = field(default=tileir.jit, repr=False)
    _prepared: OrderedDict[Hashable, _Prepared] = field(factory=OrderedDict, init=False, repr=False)
    _by_value: set[str] = field(factory=set, init=False, repr=False)
    _lock: threading.RLock = field(factory=threading.RLock, init=False, repr=False)

    @property
    def inputs(self) -> tuple[Port, ...]:
        """What it is called with, in order."""
        return self.graph.inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        """Its results, in order."""
        return self.graph.outputs

    @property
    def constants(self) -> Mapping[str, Array]:
        """Its weights by name, read-only, in the memory of its file where they are long."""
        return MappingProxyType(self.graph.weights)

    @cached_property
    def function(self) -> Function:
        """The function for the sizes that the model declares, with names for those that it leaves open.

        Raises:
            TileError: TIL606, sizes follow from the value of an input: :meth:`specialised` takes it; TIL605, the model
                asks for what tileir does not have.

        """
        return self.specialised()

    def specialised(
        self, sizes: Mapping[str, int] | None = None, values: Mapping[str, Array] | None = None
    ) -> Function:
        """Return the function for sizes and values.

        Args:
            sizes: The value of dimensions that the model names.
            values: Inputs that are known when compiling, such as those that sizes follow from.

        Raises:
            TileError: As :attr:`function`; TIL707, there is no such dimension or input.

        """
        sizes, values = dict(sizes or {}), dict(values or {})
        known = {dim for port in self.inputs for dim in port.dims or () if isinstance(dim, str)}
        faults = [f"the model has no dimension {name!r}" for name in sizes.keys() - known]
        faults += [f"the model has no input {name!r}" for name in values.keys() - {port.name for port in self.inputs}]
        if faults:
            raise ArgumentError(Diagnostic("TIL707", fault) for fault in faults)
        inputs: dict[str, Port | Array] = {}
        for port in self.inputs:
            if port.name in values:
                inputs[port.name] = np.asarray(values[port.name])
                continue
            dims = self._tensor(port)
            named = tuple(sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in dims)
            inputs[port.name] = Port(port.name, port.kind, named)
        function = imported(self.graph, inputs).function
        if function is None:
            raise TileError.of("TIL605", "the model computes nothing: its results are constants")
        return function

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """Return the results for arrays.

        Args:
            arrays: The inputs in order.
            named: Inputs by name.

        Returns:
            The result, or a tuple of the results where there are several.

        Raises:
            ArgumentError: An input is missing, unknown, or does not fit its type.
            TileError: As :attr:`function`.

        """
        given = {port.name: each for port, each in zip(self.inputs, arrays, strict=False)}
        if len(arrays) > len(self.inputs):
            raise ArgumentError.of("TIL705", f"the model has {len(self.inputs)} inputs, and {len(arrays)} were passed")
        results = self.run({**given, **named})
        return results[0] if len(results) == 1 else results

    def run(self, feeds: Mapping[str, Any]) -> tuple[Array, ...]:
        """Return all results for inputs by name, in order; errors as those of a call."""
        arrays = self._checked(feeds)
        prepared = self._for(arrays)
        found = prepared.run(*(arrays[name] for name in prepared.imported.inputs)) if prepared.run else ()
        results = iter(found if isinstance(found, tuple) else (found,))
        known = prepared.imported.known
        return tuple(known[port.name] if port.name in known else next(results) for port in self.outputs)

    def _checked(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        faults, arrays = [], {}
        known = [port.name for port in self.inputs]
        faults += [Diagnostic("TIL705", f"the model has no input {name!r}") for name in feeds if name not in known]
        for port in self.inputs:
            if port.name not in feeds:
                faults.append(Diagnostic("TIL705", f"input {port.name!r} ({port.word}) is missing"))
                continue
            array = feeds[port.name]
            arrays[port.name] = array = array if hasattr(array, "__dlpack__") else np.asarray(array, port.dtype)
            if isinstance(array, np.ndarray) and array.dtype != port.dtype:
                message = f"input {port.name!r} is {port.word} in the model, and {array.dtype} was passed: convert it"
                faults.append(Diagnostic("TIL701", message))
            elif port.dims is not None and array.ndim != len(port.dims):
                message = f"input {port.name!r} is {port.word} in the model, and has {array.ndim} axes: {array.shape}"
                faults.append(Diagnostic("TIL701", message))
        if faults:
            raise ArgumentError(faults)
        return arrays

    def _for(self, arrays: Mapping[str, Any]) -> _Prepared:
        """Return the model compiled for arrays."""
        while True:
            with self._lock:
                by_value = frozenset(self._by_value)
            values = {name: np.asarray(each) for name, each in arrays.items() if name in by_value}
            key = tuple(
                (*each.shape, values[name].tobytes() if name in values else None) for name, each in arrays.items()
            )
            with self._lock:
                if key in self._prepared:
                    self._prepared.move_to_end(key)
                    return self._prepared[key]
                try:
                    self._prepared[key] = self._prepare(arrays, values)
                except NeededError as error:
                    self._by_value.update(error.names)
                    continue
                while len(self._prepared) > _KEPT:
                    self._prepared.popitem(last=False)
                return self._prepared[key]

    def _prepare(self, arrays: Mapping[str, Any], values: Mapping[str, Array]) -> _Prepared:
        inputs: dict[str, Port | Array] = {
            port.name: values.get(port.name, Port(port.name, port.kind, tuple(map(int, arrays[port.name].shape))))
            for port in self.inputs
        }
        made = imported(self.graph, inputs)
        return _Prepared(made, None if made.function is None else self.compiler(made.function))

    def _tensor(self, port: Port) -> tuple[int | str | None, ...]:
        """Return the dimensions of an input.

        Raises:
            TileError: TIL605, it is no tensor, or nobody knows how many axes it has.

        """
        if port.dtype is None:
            raise TileError.of("TIL605", f"input {port.name!r} is {port.word}, which tileir has not")
        if port.dims is None:
            message = f"the model does not say how many axes input {port.name!r} has: call it with arrays"
            raise TileError.of("TIL605", f"{message}")
        return port.dims


def load(source: str | Path | bytes, device: str | None = None) -> Model:
    """Return the model of a file.

    Args:
        source: The file, or its content. Weights that it keeps in other files are read from its folder only.
        device: Where to run; by default what :func:`tileir.jit` chooses.

    Raises:
        TileError: TIL901, the file cannot be read; TIL604, it is no model, or weights are not where it says.

    """
    reader = Reader(source if isinstance(source, bytes) else Path(source))
    return Model(reader.path, reader.graph(), partial(tileir.jit, device=device))
