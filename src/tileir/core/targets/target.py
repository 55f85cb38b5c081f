"""Targets: facts of a device for passes and lowerings, as a value."""

from __future__ import annotations

from tileir.core.dtype import DType
from tileir.core.nodes import attrs
from tileir.core.process.tracebacks import made_at_the_call
from tileir.core.targets.hardware import HardwareModel


@made_at_the_call
@attrs.frozen
class Target:
    """Facts of one device. Passes and lowerings read these, and never ask a back end.

    Attributes:
        name: Its name in messages and cache keys.
        vector_bytes: Width of a vector register; at least one element of every dtype.
        vector_registers: Number of vector registers.
        threads: The number of groups of a grid that run at the same time.
        cache_bytes: Data cache sizes, innermost first; empty if unknown.
        local_bytes: Memory shared by the threads of a group; 0 if groups have one thread.
        group_threads: Greatest number of threads of a group; 1 if groups have one thread.
        group_width: The number of neighbouring threads that run in lock-step with coalesced memory accesses.
        max_lanes: Greatest number of lanes of a vector; 0 if only ``vector_bytes`` bounds them.
        alignment: Bytes to which the memory of every argument is aligned, beyond that of its elements.
        scratch: Whether kernels may ask for a per-group scratch array larger than registers.
        index_dtype: Integer type of offsets and loop variables.
        shuffles: Whether lanes of vectors can be moved in registers; otherwise they go through memory.
        doubles: Whether f64 is available, for example to keep the precision of intermediate results.
        async_copies: Whether copies to local memory overlap with computation.
        bulk_copies: Whether one thread can have a box of a tensor copied to local memory, swizzled for matrix
            instructions, with zeros outside of the tensor.
        update_bytes: The widest elements that threads of all groups update atomically; 0 for none.
        fragments: Names of the rows of :mod:`tileir.core.fragments` that schedules may use: instructions by which
            neighbouring threads multiply matrices, or lanes of vectors neighbours; earlier ones are preferred.
        approximate: Whether results may be approximate, and fragments that round their operands may be used.
        native: Operations, by name, that the back end computes itself at least as accurately as the
            expansions of :mod:`tileir.semtree.transform.expansions`.
        pipeline: The passes for programs: the name of a target
            (:func:`tileir.core.targets.target_names.names_of_targets`), the text of a target file, or a pipeline's text
            or JSON.
        parameters: Values for parameters of that target, by name; the others have their defaults.
        hardware: The hardware model, if the back end knows it;
            :func:`tileir.core.targets.target_file.hardware_of` returns one for every target.
    """

    name: str = "generic-cpu"
    vector_bytes: int = 32
    vector_registers: int = 16
    threads: int = 1
    cache_bytes: tuple[int, ...] = (32 * 1024, 512 * 1024)
    local_bytes: int = 0
    group_threads: int = 1
    group_width: int = 1
    max_lanes: int = 0
    alignment: int = 1
    scratch: bool = True
    index_dtype: DType = DType.I64
    shuffles: bool = False
    doubles: bool = True
    async_copies: bool = False
    bulk_copies: bool = False
    update_bytes: int = 0
    fragments: tuple[str, ...] = ()
    approximate: bool = False
    native: tuple[str, ...] = ()
    pipeline: str = "cpu"
    parameters: tuple[tuple[str, bool | int | float | str], ...] = ()
    hardware: HardwareModel | None = None

    def with_approximations(self) -> Target:
        """Return the target for programs whose results may be approximate."""
        return attrs.evolve(self, approximate=True)

    def lanes(self, dtype: DType) -> int:
        """Return the number of elements of ``dtype`` in a vector register; at least 1."""
        lanes = max(1, self.vector_bytes // dtype.itemsize)
        return min(lanes, self.max_lanes) if self.max_lanes else lanes
