"""Compiled graphs in PyTorch's caches: on disk for later processes, or as portable bytes.

Tracing and differentiating a function takes longer than compiling the result, whose kernels are in tileir's own cache.
The caches have the graph of ATen operations; kernels are those of the running machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._dynamo.aot_compile_types import BundledAOTAutogradSerializableCallable
from torch._functorch import config as autograd_config
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache
from torch._guards import detect_fake_mode
from torch._inductor.output_code import OutputCode
from torch.fx import GraphModule
from torch.fx._graph_pickler import GraphPickler, Options

import tileir
from tileir.runtime.caches.source_digest import source_digest
from tileir_torch.custom import PROGRAMS


class KeptGraph(OutputCode):
    """Graph with its compiled form; only the graph is stored in files.

    Args:
        module: The graph, with fake tensors.
        make: Compiles it; picklable.
    """

    def __init__(self, module: GraphModule, make: Callable[[GraphModule], Callable[..., Any]]) -> None:
        super().__init__()
        self._boxed_call = True
        self._make = make
        self._module: GraphModule | None = module
        self._content = b""
        self._run: Callable[..., Any] | None = make(module)

    def __call__(self, inputs: Sequence[Any]) -> Any:
        """Return the outputs; the list of inputs is emptied, so that their memory can be released."""
        assert self._run is not None
        values = list(inputs)
        if isinstance(inputs, list):
            inputs.clear()
        return self._run(*values)

    def prepare_for_serialization(self) -> None:
        """Keep only storable parts.

        Raises:
            BypassAOTAutogradCache: The graph has effects, whose order PyTorch does not restore when it reads one.
        """
        if self._module is not None:
            if any("with_effects" in str(node.target) for node in self._module.graph.nodes):
                raise BypassAOTAutogradCache("it has effects")
            self._content = GraphPickler.dumps(self._module, Options(ops_filter=None))
        self._module = self._run = None

    def post_compile(self, example_inputs: Sequence[Any], constants: Any, graph_kwargs: Any) -> None:  # noqa: ARG002
        """Compile a loaded graph; the fake tensors of the inputs tell which symbols its sizes have."""
        if self._run is None:
            module = GraphPickler.loads(self._content, detect_fake_mode(example_inputs))
            assert isinstance(module, GraphModule)
            module.recompile()
            self._module, self._run = module, self._make(module)

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """Ignore kernels of Triton: there are none."""


def is_asked() -> bool:
    """Return whether PyTorch is configured to store graphs of all back ends, as by ``aot_compile``."""
    return bool(autograd_config.force_autograd_cache or autograd_config.bundled_autograd_cache)


def as_artifact(made: Callable[..., Any]) -> Callable[..., Any]:
    """Return the result of ``aot_autograd``, in a form that ``aot_compile`` can store if it is the caller."""
    return BundledAOTAutogradSerializableCallable(made) if autograd_config.bypass_autograd_cache_key else made


@contextmanager
def kept(settings: str) -> Iterator[None]:
    """Let PyTorch store graphs compiled meanwhile, separate from those of other back ends and versions.

    Args:
        settings: Other settings that their compiled form depends on.
    """
    digest = hashlib.sha256(settings.encode())
    for package in ("tileir", "tileir_torch"):
        found = source_digest(package)
        if found is None:  # sources change while they run
            yield
            return
        digest.update(found.encode())
    for operation, program in sorted(PROGRAMS.items(), key=str):
        digest.update(f"{operation} {tileir.content_hash(program)}".encode())
    tag = f"{torch.compiler.config.cache_key_tag} tileir {digest.hexdigest()}"
    lasting = {"bundled_autograd_cache": True, "force_non_lazy_backward_lowering": True}
    with torch.compiler.config.patch(cache_key_tag=tag), autograd_config.patch(lasting):
        yield
