"""Places of the shared arrays of a kernel: in variables of the module or, beyond these, in memory of the launch."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tileir.core.nodes import attrs
from tileir.semtree.ir import DeclareArray, KernelFunction, MatrixMultiply, Region
from tileir.semtree.rewrite import statements
from tileir_cuda.architectures import STATIC_SHARED_BYTES
from tileir_cuda.emit.boxes import operands_of_boxes
from tileir_cuda.emit.warpgroups import ALIGNMENT, OF_WARPGROUPS
from tileir_llvm.emit.spelling import memory_element

_LEAST: Final = 16
"""Bytes to which shared arrays are aligned: those of the widest access of a thread."""


@attrs.frozen(eq=False)
class SharedMemory:
    """The shared arrays of one kernel; equal declarations share their place, as they never live at the same time.

    Attributes:
        alignments: The bytes to which each array is aligned.
        offsets: Where each one begins.
        nbytes: What all of them take.

    """

    alignments: Mapping[DeclareArray, int]
    offsets: Mapping[DeclareArray, int]
    nbytes: int
    _name: str

    @classmethod
    def of(cls, kernel: KernelFunction, name: str = "") -> SharedMemory:
        """Place the arrays of a kernel; ``name`` is that of its function."""
        found = tuple(statements(kernel.body))
        operands = {
            operand.start.array
            for stmt in found
            if isinstance(stmt, MatrixMultiply) and stmt.fragment in OF_WARPGROUPS
            for operand in (stmt.left, stmt.right)
        } | operands_of_boxes(kernel)
        arrays = dict.fromkeys(s for s in found if isinstance(s, DeclareArray) and s.region is not Region.PRIVATE)
        alignments = {array: ALIGNMENT if array.name in operands else _LEAST for array in arrays}
        offsets, end = {}, 0
        for array in sorted(arrays, key=lambda each: -alignments[each]):
            offsets[array] = -(-end // alignments[array]) * alignments[array]
            end = offsets[array] + array.size * array.dtype.itemsize
        return cls(MappingProxyType(alignments), MappingProxyType(offsets), -(-end // _LEAST) * _LEAST, name)

    @property
    def launch_bytes(self) -> int:
        """Bytes that the launch has to ask for; 0 where the module has all of them."""
        return self.nbytes if self.nbytes > STATIC_SHARED_BYTES else 0

    @property
    def pointers(self) -> Mapping[DeclareArray, str]:
        """The constant that points to each array."""
        if not self.launch_bytes:
            return {array: f"@{self._name}_shared{number}" for number, array in enumerate(self.offsets)}
        whole = f"@{self._name}_shared"
        return {
            array: f"getelementptr (i8, ptr addrspace(3) {whole}, i32 {offset})"
            for array, offset in self.offsets.items()
        }

    def definitions(self) -> tuple[str, ...]:
        """Return the variables of the module."""
        if self.launch_bytes:
            return (f"@{self._name}_shared = external addrspace(3) global [0 x i8], align {ALIGNMENT}",)
        return tuple(
            f"{pointer} = internal addrspace(3) global [{array.size} x {memory_element(array.dtype)}] poison,"
            f" align {self.alignments[array]}"
            for array, pointer in self.pointers.items()
        )
