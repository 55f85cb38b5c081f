"""Tensor maps of kernels for memory at given addresses, as the driver encodes them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from ctypes import addressof, c_uint64, create_string_buffer, memmove, string_at
from typing import Any, Final

import attrs
from cuda.bindings import driver

from tileir.core.process.forking import Renewable
from tileir.semtree.ir import KernelFunction
from tileir_cuda.emit.boxes import MAP_ALIGNMENT, MAP_BYTES, TensorMap, rounding_maps, tensor_maps
from tileir_cuda.run.driver import checked

KEPT: Final = 1024
"""Maximum number of maps kept for a kernel: layers share kernels, and buffers come back to earlier addresses."""

_KINDS: Final = driver.CUtensorMapDataType
_TYPES: Final = {
    1: _KINDS.CU_TENSOR_MAP_DATA_TYPE_UINT8,
    2: _KINDS.CU_TENSOR_MAP_DATA_TYPE_UINT16,
    4: _KINDS.CU_TENSOR_MAP_DATA_TYPE_UINT32,
    8: _KINDS.CU_TENSOR_MAP_DATA_TYPE_UINT64,
}
"""Element types of tensor maps, by bytes: copies do no arithmetic, and zero is all-zero bits in all dtypes.

Only factors of products in TF32 are rounded by copies, as instructions would truncate them.
"""

_SWIZZLE: Final = driver.CUtensorMapSwizzle
_SWIZZLES: Final = {
    0: _SWIZZLE.CU_TENSOR_MAP_SWIZZLE_NONE,
    32: _SWIZZLE.CU_TENSOR_MAP_SWIZZLE_32B,
    64: _SWIZZLE.CU_TENSOR_MAP_SWIZZLE_64B,
    128: _SWIZZLE.CU_TENSOR_MAP_SWIZZLE_128B,
}


@attrs.define(eq=False)
class Maps(Renewable):
    """Tensor maps of one kernel; several threads may use it."""

    kernel: KernelFunction
    wanted: tuple[TensorMap, ...]
    _rounding: frozenset[TensorMap] = attrs.field(init=False, repr=False)
    _places: dict[str, int] = attrs.field(init=False)
    _made: dict[tuple[int, int], Any] = attrs.field(factory=dict, init=False)
    _encoded: dict[int, Any] = attrs.field(factory=dict, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._rounding = rounding_maps(self.kernel)
        self._places = {param.name: number for number, param in enumerate(self.kernel.params)}
        super().__attrs_post_init__()

    @classmethod
    def of(cls, kernel: KernelFunction) -> Maps:
        """Return the maps of a kernel that takes some."""
        return cls(kernel, tensor_maps(kernel))

    def renew(self) -> None:
        """Start with a fresh lock; a thread of the parent may hold the old one."""
        self._lock = threading.Lock()

    def at(self, addresses: Sequence[int]) -> tuple[Any, ...]:
        """Return the memory of each map, for parameters at these addresses.

        Raises:
            BackendError: TIL808, the driver refuses.
        """
        return tuple(
            self._map(number, addresses[self._places[wanted.array]]) for number, wanted in enumerate(self.wanted)
        )

    def _map(self, number: int, address: int) -> Any:
        key = number, address
        with self._lock:
            found = self._made.get(key)
            if found is None:
                if len(self._made) >= KEPT:
                    self._made.pop(next(iter(self._made)))
                found = self._made[key] = self._placed(number, address)
            return found

    def _placed(self, number: int, address: int) -> Any:
        """Return a map for an address: the first one is encoded, and others only differ in the address."""
        wanted, room = self.wanted[number], self._encoded.get(number)
        address += wanted.first * wanted.itemsize
        if room is None:
            what = f"a tensor map for {wanted.array} of kernel {self.kernel.name}"
            made = checked(what, self._made_of(wanted, address))
            room = self._encoded[number] = create_string_buffer(MAP_BYTES + MAP_ALIGNMENT)
            memmove(_place(room), made.getPtr(), MAP_BYTES)
        else:
            replaced = driver.cuTensorMapReplaceAddress(driver.CUtensorMap(_place(room)), address)
            checked(f"the address of {wanted.array} of kernel {self.kernel.name}", replaced)
        return (c_uint64 * (MAP_BYTES // 8)).from_buffer_copy(string_at(_place(room), MAP_BYTES))

    def _made_of(self, wanted: TensorMap, address: int) -> Any:
        wide, narrow = driver.cuuint64_t, driver.cuuint32_t
        return driver.cuTensorMapEncodeTiled(
            _KINDS.CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 if wanted in self._rounding else _TYPES[wanted.itemsize],
            len(wanted.extents),
            address,
            [wide(extent) for extent in wanted.extents],
            [wide(stride) for stride in wanted.strides],
            [narrow(side) for side in wanted.box],
            [narrow(step) for step in wanted.steps],
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            _SWIZZLES[wanted.swizzle],
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )


def _place(room: Any) -> int:
    """Return the aligned place of a map in a buffer."""
    return -(-addressof(room) // MAP_ALIGNMENT) * MAP_ALIGNMENT
