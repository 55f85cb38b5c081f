"""Compiled graphs as PyTorch's caches keep them: on disk for later processes, or as bytes to be carried elsewhere.

Tracing and differentiating a function takes longer than compiling what comes of it, whose kernels tileir's own cache
has. What is kept is the graph of ATen operations; kernels are those of the machine that runs it.
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
    """A graph and what it is compiled to; of that, files have the graph alone.

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
        """Return the outputs; the list of inputs is emptied, so that their memory can be given back."""
        assert self._run is not None
        values = list(inputs)
        if isinstance(inputs, list):
            inputs.clear()
        return self._run(*values)

    def prepare_for_serialization(self) -> None:
        """Keep what can be written alone.

        Raises:
            BypassAOTAutogradCache: The graph has effects, whose order PyTorch does not restore when it reads one.

        """
        if self._module is not None:
            if any("with_effects" in str(node.target) for node in self._module.graph.nodes):
                raise BypassAOTAutogradCache("it has effects")
            self._content = GraphPickler.dumps(self._module, Options(ops_filter=None))
        self._module = self._run = None

    def post_compile(self, example_inputs: Sequence[Any], constants: Any, graph_kwargs: Any) -> None:  # noqa: ARG002
        """Compile what was read; the fake tensors of the inputs tell which symbols its sizes have."""
        if self._run is None:
            module = GraphPickler.loads(self._content, detect_fake_mode(example_inputs))
            assert isinstance(module, GraphModule)
            module.recompile()
            self._module, self._run = module, self._make(module)

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """There are no kernels of Triton."""


def is_asked() -> bool:
    """Return whether PyTorch was told to keep graphs of all back ends, as ``aot_compile`` tells it."""
    return bool(autograd_config.force_autograd_cache or autograd_config.bundled_autograd_cache)


def as_artifact(made: Callable[..., Any]) -> Callable[..., Any]:
    """Return what ``aot_autograd`` made, as what ``aot_compile`` can write to a file where it is that which asks."""
    return BundledAOTAutogradSerializableCallable(made) if autograd_config.bypass_autograd_cache_key else made


@contextmanager
def kept(settings: str) -> Iterator[None]:
    """Let graphs that are compiled meanwhile be kept by PyTorch, apart from those of other back ends and versions.

    Args:
        settings: What else decides what they are compiled to.

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
