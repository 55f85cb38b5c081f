"""Models: read once, compiled for the sizes and dtypes of their arguments."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from functools import cache, cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from attrs import define, field, frozen

import tileir
from tileir import ArgumentError, Diagnostic, Function, Options, TileError, frontends
from tileir.core import collection_paused
from tileir_onnx.feeds import checked, described, key_of, pairs
from tileir_onnx.graph import Array, Given, Graph, NeededError, Port
from tileir_onnx.narrow import NARROW, held
from tileir_onnx.outline import About, Outline
from tileir_onnx.pruning import pruned

if TYPE_CHECKING:
    from tileir_onnx.importing import Imported

_KEPT: Final = 32
"""Number of a model's signatures that are kept compiled."""


@frozen(eq=False)
class _Prepared:
    """Model for one signature.

    Attributes:
        inputs: Its inputs, in order.
        run: Computes its results; None if all are known.
        make: Makes the function of its graph, or returns it.
        is_plain: Whether results are those of the function.
    """

    inputs: tuple[str, ...]
    run: Any
    make: Callable[[], Imported]
    is_plain: bool


@define(eq=False)
class Model:
    """ONNX model. Calls are thread safe.

    Attributes:
        path: Its file; None for a model from bytes.
        outline: Its inputs, outputs and metadata.
        compiler: Makes a function of arrays from a Tile function; :func:`tileir.jit` by default, which also takes known
            functions.
        device: Its device; None for that of the arrays or the context.
        sizes: Values of named dimensions.
    """

    path: Path | None
    outline: Outline = field(repr=False)
    _read: Callable[[], Graph] = field(repr=False)
    compiler: Callable[[Any], Callable[..., Any]] = field(default=tileir.jit, repr=False)
    device: str | None = None
    sizes: Mapping[str, int] = field(factory=dict)
    _files: frontends.Files = field(factory=dict, repr=False)
    _prepared: OrderedDict[Hashable, _Prepared] = field(factory=OrderedDict, init=False, repr=False)
    _plain: OrderedDict[tuple[Any, ...], _Prepared] = field(factory=OrderedDict, init=False, repr=False)
    _by_value: set[str] = field(factory=set, init=False, repr=False)
    _lock: threading.RLock = field(factory=threading.RLock, init=False, repr=False)

    @property
    def inputs(self) -> tuple[Port, ...]:
        """Its inputs, in order."""
        return self.outline.inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        """Its results, in order."""
        return self.outline.outputs

    @property
    def about(self) -> About:
        """Its metadata."""
        return self.outline.about

    @cached_property
    def graph(self) -> Graph:
        """Its graph, which is read on access if the cache on disk has the rest.

        Raises:
            TileError: TIL901, a file with weights has changed since the model was loaded.
        """
        return self._read()

    @property
    def constants(self) -> Mapping[str, Array]:
        """Its weights by name, read-only, in the memory of its file if they are long."""
        return MappingProxyType(self.graph.weights)

    @cached_property
    def function(self) -> Function:
        """Function for the declared sizes, with names for unknown sizes.

        Raises:
            TileError: TIL606, sizes depend on the value of an input: :meth:`specialised` takes it; TIL605, the model
                uses unsupported features.
        """
        return self.specialised()

    def specialised(
        self, sizes: Mapping[str, int] | None = None, values: Mapping[str, Array] | None = None
    ) -> Function:
        """Return the function for sizes and values.

        Args:
            sizes: Values of named dimensions.
            values: Inputs known when compiling, such as those that determine sizes.

        Raises:
            TileError: As :attr:`function`; TIL707, there is no such dimension or input.
        """
        sizes, values = {**self.sizes, **(sizes or {})}, dict(values or {})
        known = {dim for port in self.inputs for dim in port.dims or () if isinstance(dim, str)}
        faults = [f"the model has no dimension {name!r}" for name in sizes.keys() - known]
        faults += [f"the model has no input {name!r}" for name in values.keys() - {port.name for port in self.inputs}]
        if faults:
            raise ArgumentError(Diagnostic("TIL707", fault) for fault in faults)
        inputs: dict[str, Given] = {}
        for port in self.inputs:
            if port.name in values:
                inputs[port.name] = np.asarray(values[port.name])
                continue
            dims = self._tensor(port)
            named = tuple(sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in dims)
            inputs[port.name] = Port(port.name, port.kind, named)
        from tileir_onnx.importing import imported  # it loads onnx, which calls of known models do not need

        return _function_of(imported(self.graph, inputs))

    def known(self) -> Function | frontends.KnownFunction:
        """Return the cached known function for :attr:`function`, or that itself; raises the errors of it.

        Callers of known functions need none of its statements, for which nodes would be read.
        """
        asked = repr(tuple(sorted(self.sizes.items())))
        known = frontends.recalled(self._files, __package__, asked, lambda: self.function)
        return frontends.kept(self._files, __package__, asked, self.function) if known is None else known

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """Return the results for arrays.

        Args:
            arrays: Inputs in order.
            named: Inputs by name.

        Returns:
            The result, or a tuple of several results.

        Raises:
            ArgumentError: An input is missing, unknown, or does not fit its type.
            TileError: As :attr:`function`.
        """
        given = {port.name: each for port, each in zip(self.inputs, arrays, strict=False)}
        if len(arrays) > len(self.inputs):
            raise ArgumentError.of("TIL705", f"the model has {len(self.inputs)} inputs, and {len(arrays)} were passed")
        results = self.run({**given, **named})
        return results[0] if len(results) == 1 else results

    def check(self) -> None:
        """Check that tileir supports all operators of the model.

        Raises:
            TileError: TIL605, it does not; one diagnostic for each node.
        """
        from tileir_onnx.importing import check  # it loads onnx

        check(self.graph)

    def run(self, feeds: Mapping[str, Any], outputs: tuple[str, ...] | None = None) -> tuple[Any, ...]:
        """Return results for inputs by name; raises the errors of a call.

        Args:
            feeds: Arrays by input names; lists of arrays for sequences; None for an empty optional input. Weights that
                the model lists among its inputs may be passed as well.
            outputs: Names of the requested results, which are returned in model order; None for all.
        """
        prepared, arrays = (self._found(feeds) if outputs is None else None) or self._for(feeds, outputs)
        found = prepared.run(*arrays) if prepared.run is not None else ()
        results = found if isinstance(found, tuple) else (found,)
        return results if prepared.is_plain else tuple(prepared.make().results_of(iter(results)))

    def prepared(self, feeds: Mapping[str, Any]) -> tuple[Function | None, dict[str, Any]]:
        """Return the function that a call with these inputs runs, None if all results are known, and its inputs."""
        prepared, arrays = self._for(feeds, None)
        return prepared.make().function, dict(zip(prepared.inputs, arrays, strict=True))

    def _found(self, feeds: Mapping[str, Any]) -> tuple[_Prepared, list[Any]] | None:
        """Return the compiled model for feeds that are arrays as declared, or None if it is not compiled yet."""
        arrays: list[Any] = []
        key: list[Any] = []
        for name, dtype in self._types:
            array = feeds.get(name)
            if type(array) is not np.ndarray or array.dtype is not dtype:
                return None
            arrays.append(array)
            key.append(array.shape)
        shapes = tuple(key)
        prepared = self._plain.get(shapes)
        if prepared is None or len(feeds) != len(arrays):
            return None
        try:
            self._plain.move_to_end(shapes)
        except KeyError:  # another thread has dropped it meanwhile
            return None
        return prepared, arrays

    def _for(self, feeds: Mapping[str, Any], outputs: tuple[str, ...] | None) -> tuple[_Prepared, list[Any]]:
        """Return the model compiled for feeds, and its arguments."""
        given = checked(self.inputs, feeds, self.sizes, self.outline.defaults)
        with self._lock:
            prepared = self._compiled(given, outputs)
        arrays = {name: array for port, each in given.items() for name, array in pairs(port, each)}
        return prepared, [held(arrays[name]) for name in prepared.inputs]

    def _compiled(self, given: Mapping[str, Any], outputs: tuple[str, ...] | None) -> _Prepared:
        while True:
            told = {name: described(self._ports[name], each, self._by_value) for name, each in given.items()}
            key = (outputs, tuple((name, key_of(each)) for name, each in told.items()))
            if key not in self._prepared:
                try:
                    self._prepared[key] = self._prepare(told, outputs)
                except NeededError as error:
                    self._by_value.update(error.names)
                    self._plain.clear()
                    continue
            prepared = self._prepared[key]
            self._prepared.move_to_end(key)
            if (
                outputs is None
                and len(given) == len(self.inputs)
                and all(isinstance(each, Port) and each.kind not in NARROW for each in told.values())
            ):
                self._plain[tuple(tuple(each.shape) for each in given.values())] = prepared
            for held_by in (self._prepared, self._plain):
                while len(held_by) > _KEPT:
                    held_by.popitem(last=False)
            return prepared

    def _prepare(self, told: Mapping[str, Given], outputs: tuple[str, ...] | None) -> _Prepared:
        make = cache(partial(self._import, told, outputs))
        files = self._files if all(isinstance(each, Port) for each in told.values()) and self._is_jitted() else {}
        asked = repr((tuple(told.values()), outputs))
        known = frontends.recalled(files, __package__, asked, lambda: _function_of(make())) if files else None
        if known is not None:
            return _Prepared(tuple(told), self.compiler(known), make, is_plain=True)
        from tileir.tile.builder import Tensor  # it loads onnx

        made = make()
        is_plain = all(isinstance(each, Tensor) for each in made.results) and not made.kinds
        if made.function is None:
            return _Prepared(made.inputs, None, make, is_plain)
        is_known = files and is_plain and made.inputs == tuple(told)
        function = frontends.kept(files, __package__, asked, made.function) if is_known else made.function
        return _Prepared(made.inputs, self.compiler(function), make, is_plain)

    def _import(self, told: Mapping[str, Given], outputs: tuple[str, ...] | None) -> Imported:
        from tileir_onnx.importing import imported  # it loads onnx

        with collection_paused():
            return imported(self.graph if outputs is None else pruned(self.graph, outputs), told)

    def _is_jitted(self) -> bool:
        """Return whether :func:`tileir.jit` compiles it for the default context, with a cache on disk."""
        made = self.compiler if isinstance(self.compiler, partial) else partial(self.compiler)
        options = made.keywords.get("options")
        quick = (tileir.default_context().options if options is None else options).quick
        return made.func is tileir.jit and made.keywords.get("context") is None and not quick

    @cached_property
    def _ports(self) -> Mapping[str, Port]:
        return {port.name: port for port in (*self.inputs, *self.outline.defaults)}

    @cached_property
    def _types(self) -> tuple[tuple[str, Any], ...]:
        return tuple((port.name, port.dtype) for port in self.inputs)

    def _tensor(self, port: Port) -> tuple[int | str | None, ...]:
        """Return the dimensions of an input.

        Raises:
            TileError: TIL605, it is not a tensor, or its rank is unknown.
        """
        if port.dtype is None:
            raise TileError.of("TIL605", f"input {port.name!r} is {port.word}, which tileir has not")
        if port.dims is None:
            message = f"the model does not say how many axes input {port.name!r} has: call it with arrays"
            raise TileError.of("TIL605", f"{message}")
        return port.dims


def _function_of(made: Imported) -> Function:
    """Return the function of a graph that was already a function."""
    if made.function is None:
        raise TileError.of("TIL605", "the model computes nothing: its results are constants")
    return made.function


def load(
    source: str | Path | bytes,
    device: str | None = None,
    options: Options | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
) -> Model:
    """Return the model of a file.

    Args:
        source: The file, or its content. Weights in other files are only read from its folder.
        device: The device; by default that of :func:`tileir.jit`.
        options: Options for compiling; by default those of the context.
        sizes: Values of named dimensions; calls must have them.

    Raises:
        TileError: TIL901, the file cannot be read; TIL604, it is not a model, or weights are missing.
    """
    compiler = partial(tileir.jit, device=device, options=options)
    origin = source if isinstance(source, bytes) else Path(source)
    path = None if isinstance(origin, bytes) else origin
    outline, files, read = (None if path is None else _known(path)) or _read(origin)
    return Model(path, outline, read, compiler, device, dict(sizes or {}), files)


_OUTLINE: Final = "outline"

_Contents: TypeAlias = tuple[Outline, frontends.Files, Callable[[], Graph]]


def _read(source: Path | bytes) -> _Contents:
    """Read a model, and store its outline in the cache on disk."""
    from tileir_onnx.reading import Reader  # it loads onnx

    reader = Reader(source)
    graph = reader.graph()
    outline = Outline.of(graph, reader.model)
    main = dict(list(reader.files.items())[:1])
    frontends.keep_note(main, __package__, _OUTLINE, json.dumps([outline.to_json(), list(reader.files.items())]))
    return outline, reader.files, lambda: graph


def _known(path: Path) -> _Contents | None:
    """Return the cached outline of a model; None if there is none, or one of its files has changed.

    The file is mapped as it is now, for later reading of nodes.
    """
    try:
        note = frontends.recalled_note({str(path.resolve()): frontends.settled(path)}, __package__, _OUTLINE)
        if note is None:
            return None
        told, rows = json.loads(note)
        files = {str(name): tuple(status) for name, status in rows}
        if any(frontends.settled(name) != status for name, status in files.items()):
            return None
        outline, opened = Outline.from_json(told), np.memmap(path, np.uint8, "r")
    except (OSError, ValueError, TypeError):  # reading all of it gives the error
        return None

    def read() -> Graph:
        from tileir_onnx.reading import Reader  # it loads onnx

        return Reader(path, opened, files).graph()

    return outline, files, read
