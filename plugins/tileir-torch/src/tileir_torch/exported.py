"""Modules compiled as a whole, by ``torch.export``, and run without PyTorch from saved files."""

from __future__ import annotations

import io
import warnings
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from attrs import define, field
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

import tileir
from tileir import ArgumentError, DeviceInfo, Diagnostic, TileError
from tileir_torch import decompositions
from tileir_torch.calls import Specialising, host, tensor_over
from tileir_torch.importing import Computed, array_of, imported, unsupported

_MESSAGES: Final = 50
"""Maximum number of nodes of a graph in an error."""


class StaleWeightsWarning(UserWarning):
    """A module has new weights, but its compiled form keeps the old weights."""


@define(eq=False)
class Compiled:
    """Module compiled with the weights that it had. Calls are thread safe.

    It is called with the arguments of the module, PyTorch tensors or NumPy arrays, and returns the same kind of value.
    No gradients are recorded. Later changes of the module's weights have no effect: :meth:`update` replaces weights. It
    can be copied by ``copy.deepcopy``, with separate weights, and pickled, as by ``torch.save``.

    Attributes:
        program: Result of ``torch.export`` for the module; decomposed if tileir does not support it otherwise.
    """

    program: ExportedProgram = field(repr=False)
    _run: Specialising = field(init=False, repr=False)
    _bound: list[Any] = field(init=False, repr=False)
    _places: dict[str, list[int]] = field(init=False, repr=False)
    _given: list[int] = field(init=False, repr=False)
    _written: list[tuple[int, int]] = field(init=False, repr=False)
    _returned: list[int] = field(init=False, repr=False)
    _is_flat: bool = field(init=False, repr=False)
    _spec: Any = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        program, signature = self.program, self.program.graph_signature
        constants = {**program.constants, **program.state_dict}
        self._bound, self._given, self._places = [], [], {}
        names: dict[str, int] = {}
        for at, spec in enumerate(signature.input_specs):
            names[spec.arg.name] = at
            if spec.kind is InputKind.USER_INPUT:
                self._given.append(at)
                self._bound.append(None)
                continue
            if spec.target is None or spec.target not in constants:
                raise TileError.of("TIL605", f"{spec.arg.name} is no tensor, and no argument")
            if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
                self._places.setdefault(spec.target, []).append(at)
            self._bound.append(constants[spec.target].detach().clone(memory_format=torch.preserve_format))
        self._written, self._returned = [], []
        for at, out in enumerate(signature.output_specs):
            if out.kind is OutputKind.USER_OUTPUT:
                self._returned.append(at)
            elif out.kind is OutputKind.BUFFER_MUTATION:
                self._written.append((at, self._places[out.target or ""][0]))
            elif out.kind is OutputKind.USER_INPUT_MUTATION:
                self._written.append((at, names[out.target or ""]))
            else:
                raise TileError.of("TIL605", f"the module's outputs have a {out.kind.name.lower()}")
        written = {place for _, place in self._written}
        fixed = frozenset(at for at, each in enumerate(self._bound) if each is not None and at not in written)
        self._run = Specialising(program.graph, program.graph_module, "the module", fixed)
        spec_in, self._spec = program.call_spec.in_spec, program.call_spec.out_spec
        args_spec, kwargs_spec = spec_in.children() if hasattr(spec_in, "children") else spec_in.children_specs
        self._is_flat = (
            not kwargs_spec.num_leaves
            and args_spec.num_leaves == args_spec.num_children
            and (args_spec.num_leaves == len(self._given))
        )

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Return the results of the module, and write to the inputs and buffers that it writes to.

        Args:
            arguments: Arguments of the module, with the compiled sizes; dynamic dimensions may differ.
            named: Arguments by name.

        Raises:
            ArgumentError: TIL705, arguments are missing or too many; TIL701, one does not fit.
        """
        leaves = arguments if self._is_flat and not named else self._leaves(arguments, named)
        if len(leaves) != len(self._given):
            raise ArgumentError.of("TIL705", f"the module takes {len(self._given)} tensors, and {len(leaves)} came")
        values = list(self._bound)
        of_numpy = False
        for at, leaf in zip(self._given, leaves, strict=True):
            if isinstance(leaf, np.ndarray):
                of_numpy, leaf = True, tensor_over(leaf)
            values[at] = leaf
        results = self._run(values)
        for at, place in self._written:
            target = values[place]
            target.detach().copy_(results[at]) if target.requires_grad else target.copy_(results[at])
        found = [results[at] for at in self._returned]
        if of_numpy:
            found = [array_of(each) if isinstance(each, torch.Tensor) else each for each in found]
        return found[0] if self._spec.is_leaf() else pytree.tree_unflatten(found, self._spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiled:
        """Copy the weights; the copy compiles for itself."""
        made = Compiled(self.program)
        made._bound = [each if each is None else each.clone() for each in self._bound]
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the program, as ``torch.export.save`` writes it, and weights that have changed."""
        content = io.BytesIO()
        torch.export.save(self.program, content)
        pairs = zip(self._bound, Compiled(self.program)._bound, strict=True)
        changed = {at: now for at, (now, then) in enumerate(pairs) if now is not None and not torch.equal(now, then)}
        return _restored, (content.getvalue(), changed)

    def _leaves(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Sequence[Any]:
        leaves, spec = pytree.tree_flatten((arguments, dict(named)))
        if spec != self.program.call_spec.in_spec:
            told = "the arguments have another structure than those that the module was compiled for"
            raise ArgumentError.of("TIL705", f"{told}: {spec} and {self.program.call_spec.in_spec}")
        found: list[Any] = leaves
        return found

    def update(self, state_dict: Mapping[str, torch.Tensor]) -> None:
        """Replace weights without compiling.

        Args:
            state_dict: Parameters and buffers by name, with the dtypes and sizes of the module; others are unchanged.

        Raises:
            ArgumentError: TIL711, there is no such weight; TIL701, one has another dtype or other sizes.
        """
        faults: list[Diagnostic] = []
        for name, tensor in state_dict.items():
            places = self._places.get(name)
            if places is None:
                faults.append(Diagnostic("TIL711", f"the module has no parameter or buffer {name!r}"))
                continue
            old = self._bound[places[0]]
            if old.shape != tensor.shape or old.dtype != tensor.dtype:
                told = f"{name!r} is {tensor.dtype} of sizes {tuple(tensor.shape)}"
                faults.append(Diagnostic("TIL701", f"{told}, and was {old.dtype} of {tuple(old.shape)}"))
        if faults:
            raise ArgumentError(faults)
        for name, tensor in state_dict.items():
            for place in self._places[name]:
                self._bound[place] = self._bound[place].new_empty(0).set_(tensor.detach().clone())

    def save(self, path: str | Path, *, devices: Sequence[str] | None = None) -> None:
        """Write the program, its weights and its kernels to a file, which tileir runs without PyTorch.

        ``tileir.load(path)`` calls it with NumPy arrays, and every command of tileir accepts it. Its inputs are the
        arguments of the module, flattened, and its results those of the module. Sizes are fixed. If the kernels do not
        fit, for another device or version of tileir, it is compiled again.

        Args:
            path: Path of the file, by convention with the suffix ``.tileir``.
            devices: Devices of the included kernels, such as ``cuda.0``; by default that of the weights, else the
                processor. ``()`` for none.

        Raises:
            TileError: TIL605, the module writes to inputs or buffers, draws random numbers, or has dynamic sizes;
                TIL901, the file cannot be written.
            BackendError: TIL801, there is no such device.
        """
        if self._written:
            raise TileError.of("TIL605", "the module writes to its inputs or buffers, which a saved program cannot")
        if self._run.is_dynamic:
            raise TileError.of("TIL605", "the module has dynamic sizes: a program is saved for sizes that are numbers")
        made = imported(self.program.graph, self.program.graph_module, keeps_orders=False)
        if made.function is None or not all(isinstance(made.results[at], Computed) for at in self._returned):
            raise TileError.of("TIL605", "the module returns what it is given, and a saved program what it computes")
        if made.draws:
            raise TileError.of("TIL605", "the module draws random numbers, and a saved program has no generator")
        names = [each.name for each in made.function.inputs]
        arrays = {
            name: array_of(self._bound[at])
            for name, at in zip(names, made.inputs, strict=True)
            if self._bound[at] is not None
        }
        function = tileir.bind(made.function, arrays)
        kernels = [tileir.compile(function, device=each) for each in self._devices(devices)]
        tileir.save(function, Path(path), kernels=kernels)

    def _devices(self, named: Sequence[str] | None) -> Sequence[str | DeviceInfo | None]:
        """Return devices by name, by default that of the weights."""
        if named is not None:
            return named
        cards = {each.device.index or 0 for each in self._bound if isinstance(each, torch.Tensor) and each.is_cuda}
        return [f"cuda.{card}" for card in sorted(cards)] or [host()]


def _compiled(exported: ExportedProgram) -> Compiled:
    """Return a compiled program; decomposed first if it cannot be imported otherwise, which takes longer."""
    made = Compiled(exported)
    if not made._run.runs():
        made = Compiled(exported.run_decompositions(decompositions.of_export()))
        faults = unsupported(made.program.graph_module)
        if faults:
            raise TileError([fault.diagnostic for fault in faults[:_MESSAGES]])
    return made


def _restored(content: bytes, changed: Mapping[int, torch.Tensor]) -> Compiled:
    made = _compiled(torch.export.load(io.BytesIO(content)))
    for at, tensor in changed.items():
        made._bound[at] = tensor
    return made


def compile(  # noqa: A001  it is the public verb, as tileir.compile
    module: torch.nn.Module,
    example_inputs: Sequence[Any],
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> Compiled:
    """Compile a module as a whole, with its current weights.

    ``torch.export`` makes one graph of it, so that calls only check dtypes and sizes, which :attr:`Compiled.program`
    shows. Weights are copied: later changes in the module have no effect, which a warning reports after its
    ``load_state_dict``, and :meth:`Compiled.update` replaces weights.

    Args:
        module: The module, in its mode for running: ``eval()`` for inference.
        example_inputs: Its arguments, for dtypes, sizes and strides.
        kwargs: Its arguments by name.
        dynamic_shapes: Dynamic sizes, as for ``torch.export.export``. Each size class is compiled on first use, and
            kept.

    Raises:
        TileError: TIL605, the module has unsupported operations; one diagnostic for each.
    """
    example_inputs = tuple(example_inputs)
    with decompositions.mended():
        exported = torch.export.export(
            module, example_inputs, dict(kwargs or {}), dynamic_shapes=dynamic_shapes, strict=False
        )
        made = _compiled(exported)
    _warn_when_loaded(module, made)
    return made


def _warn_when_loaded(module: torch.nn.Module, made: Compiled) -> None:
    """Make a module warn after it has loaded weights, while its compiled form is alive."""
    still = weakref.ref(made)

    def warn(*_: Any) -> None:
        if still() is not None:
            told = "what was compiled of this module keeps the weights that it had: pass update() its state_dict()"
            warnings.warn(told, StaleWeightsWarning, stacklevel=3)

    module.register_load_state_dict_post_hook(warn)
