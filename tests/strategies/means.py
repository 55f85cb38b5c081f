"""The means of running a Tile function, and the devices and pass pipelines to run it with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs
import numpy as np

from strategies.devices import compiler, executor
from strategies.pipelines import PIPELINES
from tileir.core.dtype import DType
from tileir.core.numbers.arithmetic import dtype_of
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.algorithms.block_sums import BlockSums
from tileir.passes.algorithms.split_reduction import SplitReduction
from tileir.passes.base import map_kernels
from tileir.passes.fusion.fuse import Fuse
from tileir.passes.fusion.inline import Inline
from tileir.passes.layouts.deinterleave import Deinterleave
from tileir.passes.layouts.transpose import Transpose
from tileir.passes.regions.split_border import SplitBorder
from tileir.passes.regions.tile import Tile
from tileir.passes.rewrites.canonicalise import Canonicalise
from tileir.passes.schedules.groups.distribute import Distribute
from tileir.passes.schedules.registers.register_tile import RegisterTile
from tileir.passes.schedules.vectors.stream_reduction import StreamReduction
from tileir.passes.schedules.vectors.thread import Thread
from tileir.passes.schedules.vectors.vectorise import Vectorise
from tileir.runtime.plans.plan import Plan
from tileir.runtime.plans.resources import Resources
from tileir.semtree.interpret.interpreter import run_program
from tileir.stripe.interpret.interpreter import interpret as interpret_stripe
from tileir.typed.ir import TensorType
from tileir_accelerators.placement.cache import Cache
from tileir_accelerators.tiling.autotile import Autotile
from tileir_accelerators.tiling.thread_inner import ThreadInner
from tileir_accelerators.tiling.unroll import Unroll
from tileir_accelerators.tiling.vectorise_inner import VectoriseInner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.driver.compiler import Stages
    from tileir.passes.base import Pass
    from tileir.stripe.ir import Block, Program
    from tileir.tile.ir import Function

    Array = np.ndarray[Any, np.dtype[Any]]


def small_work(target: Target) -> tuple[Pass, ...]:
    """Return the passes for a processor, told to split, pack and chunk what is far too small to be worth it."""
    changes: dict[type[Pass], dict[str, int]] = {
        SplitReduction: {"operations": 8, "parts": 4, "outputs": 0, "points": 1},
        BlockSums: {"terms": 2, "coarse": 3},
        StreamReduction: {"stretch_bytes": 64, "unroll": 2},
        RegisterTile: {"cache_bytes": 64},
        SplitBorder: {"points": 1, "share": 0},
        Deinterleave: {"pixels": 2},
        Vectorise: {"chunk": 32},
        Thread: {"groups": 6},
    }
    return tuple(attrs.evolve(step, **changes.get(type(step), {})) for step in PIPELINES["cpu"](target))  # type: ignore[misc]


@attrs.frozen
class _TileEach:
    """Tile every kernel, however many indices it has."""

    name: ClassVar[str] = "tile_each"

    def __call__(self, program: Program) -> Program:
        program = map_kernels(program, lambda kernel: attrs.evolve(kernel, tags=kernel.tags.add(_rank(kernel))))
        for count in {len(kernel.indices) for kernel in program.main.blocks}:
            program = Tile(sizes=(2, 3, 4, *[2] * count)[:count], reqs=(f"rank_{count}",))(program)
        return program


def _rank(kernel: Block) -> str:
    return f"rank_{len(kernel.indices)}"


def bold(target: Target) -> tuple[Pass, ...]:
    """Return passes that join all that can be joined, whether it pays or not, and cut what comes out of it."""
    changes: dict[type[Pass], dict[str, int]] = {Inline: {"max_operations": 1000}, Fuse: {"max_reductions": 8}}
    joined = tuple(attrs.evolve(step, **changes.get(type(step), {})) for step in PIPELINES["fused"](target))  # type: ignore[misc]
    return (*joined, _TileEach(), Vectorise(vector_bytes=target.vector_bytes, chunk=16), Thread(groups=4))


def pieces(target: Target) -> tuple[Pass, ...]:
    """Return passes that cut kernels into small pieces with memory of their own, for threads of groups if there are."""
    threads = min(8, target.group_threads)
    cut = (Autotile(memory_bytes=256, only_po2=True), Accumulate(), Cache(odd_size=threads > 1), Canonicalise())
    if threads > 1:
        return (*cut, ThreadInner(threads=threads, local_bytes=target.local_bytes), Distribute(threads=threads))
    return (Transpose(least_reuse=2), *cut, VectoriseInner(vector_bytes=target.vector_bytes), Unroll(most=4), Thread())


TARGETS: Final = {
    "narrow": Target("narrow", vector_bytes=16, vector_registers=8, threads=1, cache_bytes=(1024,)),
    "middle": Target("middle", vector_bytes=32, vector_registers=16, threads=2),
    "wide": Target("wide", vector_bytes=64, vector_registers=32, threads=4, shuffles=True),
    "groups": Target("groups", vector_bytes=16, threads=2, local_bytes=2048, group_threads=32, index_dtype=DType.I32),
    "scalar": Target("scalar", vector_bytes=8, vector_registers=4, threads=3),
}
"""Devices unlike each other; the host runs the kernels of all of them."""

PASSES: Final = {**PIPELINES, "small": small_work, "bold": bold, "pieces": pieces}
"""Pipelines by name."""


def stages(function: Function, inputs: Mapping[str, Array], target: str = "middle", passes: str = "cpu") -> Stages:
    """Take a function down to kernels for one of :data:`TARGETS` with one of :data:`PASSES`."""
    types = {name: TensorType(dtype_of(array), array.shape) for name, array in inputs.items()}
    chosen = TARGETS[target]
    return compile_stages(function, types, chosen, passes=PASSES[passes](chosen))


def on_device(compiled: Stages, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Compile the kernels for the host's processor, and run them."""
    plan = Plan.of(compiled.sem, compiler().build(compiled.sem.kernels), Resources(executor()))
    results = {b.name: np.empty(b.shape, b.dtype.numpy) for b in plan.outputs}
    plan.run([np.ascontiguousarray(inputs[b.name]) for b in plan.inputs], list(results.values()))
    return {name: results[name] for name in compiled.typed.outputs}


def by_kernel_interpreter(compiled: Stages, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Interpret the kernels."""
    results = run_program(compiled.sem, inputs)
    return {name: results[name] for name in compiled.typed.outputs}


def by_stripe_interpreter(compiled: Stages, inputs: Mapping[str, Array], *, scheduled: bool) -> dict[str, Array]:
    """Interpret the Stripe program before or after the passes."""
    return interpret_stripe(compiled.scheduled if scheduled else compiled.stripe, inputs)
