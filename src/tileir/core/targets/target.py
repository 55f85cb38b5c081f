"""Targets: plain facts that a device offers to passes and lowerings, as a value."""

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
        name: What to call it in messages and cache keys.
        vector_bytes: Width of a vector register; at least one element of every dtype.
        vector_registers: Number of vector registers.
        threads: How many groups of a grid run at the same time.
        cache_bytes: Data cache sizes, innermost first; empty where unknown.
        local_bytes: Memory shared by the threads of a group; 0 where groups have one thread.
        group_threads: Most threads that a group may have; 1 where groups have one thread.
        group_width: How many neighbouring threads run in lock-step and have their accesses to memory joined.
        max_lanes: Most lanes of a vector; 0 where only ``vector_bytes`` bounds them.
        alignment: Bytes to which the memory of every argument is aligned, beyond that of its elements.
        scratch: Whether kernels may ask for a per-group scratch array larger than registers.
        index_dtype: Integer type of offsets and loop variables.
        shuffles: Whether lanes of vectors can be moved in registers; otherwise they go through memory.
        doubles: Whether f64 is computed, so that what is lost in narrower floats may be kept there for a while.
        async_copies: Whether copies to local memory go on beside computation.
        bulk_copies: Whether one thread can have a box of a tensor copied to local memory, swizzled as matrix
            instructions want it, with zeros for what is outside of the tensor.
        update_bytes: The widest elements that threads of all groups update at the same time, as one step; 0 for none.
        fragments: Names of the rows of :mod:`tileir.core.fragments` that schedules may use: instructions by which
            neighbouring threads multiply matrices, or lanes of vectors neighbours; those that come first are preferred.
        approximate: Whether results may be approximated, and fragments be used that round their operands.
        native: Operations, by name, that the back end computes itself at least as accurately as the
            expansions of :mod:`tileir.semtree.transform.expansions`.
        pipeline: The passes that programs get: the name of a target
            (:func:`tileir.core.targets.target_names.names_of_targets`), the text of a target file, or a pipeline's text
            or JSON.
        parameters: Values for parameters of that target, by name; the others have their defaults.
        hardware: What the device is made of, where its back end knows. Whoever needs to know calls
            :func:`tileir.core.targets.target_file.hardware_of`, which has an answer for every target.

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
        """Return the target for programs whose results may be approximated."""
        return attrs.evolve(self, approximate=True)

    def lanes(self, dtype: DType) -> int:
        """Return how many elements of ``dtype`` fill a vector register; at least 1."""
        lanes = max(1, self.vector_bytes // dtype.itemsize)
        return min(lanes, self.max_lanes) if self.max_lanes else lanes
