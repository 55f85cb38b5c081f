"""Several kernels in one native call, so that a further kernel of a plan costs next to no Python."""

from __future__ import annotations

import ctypes
from functools import cache
from operator import itemgetter
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

import attrs

from tileir.runtime.arrays import address_of
from tileir_llvm.buffers import HostBuffer
from tileir_llvm.compiler import object_code
from tileir_llvm.loader import Code, load_code

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from tileir_llvm.executor import LLVMExecutor, LLVMKernel

_POINTER: Final = ctypes.c_void_p
_NUMBER: Final = ctypes.c_int64
_POINTER_BYTES: Final = ctypes.sizeof(_POINTER)

_CODE: Final = """\
%entry = type { ptr, i64, i64 }  ; function, offset of its arguments, groups

define void @run(ptr %entries, i64 %count, ptr %arguments, ptr %scratch) nounwind {
entry:
  br label %next
next:
  %number = phi i64 [ 0, %entry ], [ %following, %next ]
  %function_place = getelementptr %entry, ptr %entries, i64 %number, i32 0
  %function = load ptr, ptr %function_place
  %offset_place = getelementptr %entry, ptr %entries, i64 %number, i32 1
  %offset = load i64, ptr %offset_place
  %groups_place = getelementptr %entry, ptr %entries, i64 %number, i32 2
  %groups = load i64, ptr %groups_place
  %own = getelementptr i8, ptr %arguments, i64 %offset
  call void %function(ptr %own, ptr %scratch, i64 0, i64 %groups)
  %following = add i64 %number, 1
  %more = icmp ult i64 %following, %count
  br i1 %more, label %next, label %done
done:
  ret void
}
"""
"""Runs ``count`` kernels, from 1 on, one after the other."""


@attrs.frozen(eq=False)
class _Stretch:
    """Neighbouring kernels that run on the calling thread, or one that is shared out to the pool.

    Attributes:
        entries: Address of the first entry.
        count: How many there are.
        pooled: The kernel that is shared out, if it is one.
        offset: Where the arguments of that kernel start.

    """

    entries: int
    count: int
    pooled: LLVMKernel | None
    offset: int


@attrs.frozen(eq=False)
class LLVMSequence:
    """Kernels with their buffers, of which some are given at each launch. Several threads may launch it.

    It fulfils :class:`tileir.runtime.interface.KernelSequence`. ``_order`` puts addresses in the order of arguments
    where all of these are given.
    """

    _executor: LLVMExecutor
    _stretches: tuple[_Stretch, ...]
    _scratch_bytes: int
    _template: list[int]
    _slots: tuple[tuple[int, int], ...]
    _order: Callable[[list[int]], tuple[int, ...]] | None
    _masks: tuple[int, ...]
    _pack: Callable[..., bytes]
    _run: Callable[[int, int, bytes, int], None]
    _held: object

    @classmethod
    def of(
        cls, executor: LLVMExecutor, launches: Sequence[tuple[LLVMKernel, Sequence[HostBuffer | int]]]
    ) -> LLVMSequence:
        """Ready ``launches``, each a kernel and its arguments: buffers, or numbers of arrays that come later."""
        template: list[int] = []
        slots: list[tuple[int, int]] = []
        alignments: dict[int, int] = {}
        records: list[int] = []
        for kernel, arguments in launches:
            records += [kernel.address, len(template) * _POINTER_BYTES, kernel.groups]
            for param, argument in zip(kernel.kernel.params, arguments, strict=True):
                if isinstance(argument, int):
                    slots.append((len(template), argument))
                    needed = max(param.alignment, param.dtype.itemsize)
                    alignments[argument] = max(alignments.get(argument, 1), needed)
                template.append(0 if isinstance(argument, int) else argument.address)
        entries = (ctypes.c_uint64 * len(records))(*records)
        run = _native(executor.device.features)
        return cls(
            executor,
            tuple(_stretches([kernel for kernel, _ in launches], records, ctypes.addressof(entries))),
            max((kernel.scratch_bytes for kernel, _ in launches), default=0),
            template,
            tuple(slots),
            itemgetter(*(number for _, number in slots)) if len(slots) == len(template) > 1 else None,
            tuple(alignments.get(number, 1) - 1 for number in range(max(alignments, default=-1) + 1)),
            Struct(f"{len(template)}P").pack,
            run.function,
            (entries, run, tuple(launches)),
        )

    def launch(self, arrays: Sequence[np.ndarray[Any, Any]]) -> bool:
        """Run all kernels, and return when the outputs are written.

        Returns:
            False, with nothing done, where an array is not aligned as a kernel asks.

        Raises:
            BackendError: TIL807, the executor was closed.

        """
        addresses = [address_of(array) for array in arrays]
        for address, mask in zip(addresses, self._masks, strict=False):
            if address & mask:
                return False
        executor = self._executor
        if executor.closed:
            executor.check_open()
        if self._order is not None:
            arguments = self._pack(*self._order(addresses))
        else:
            places = self._template.copy()
            for position, number in self._slots:
                places[position] = addresses[number]
            arguments = self._pack(*places)
        if not self._scratch_bytes:
            self._start(arguments, 0)
            return True
        scratch = executor.take_scratch(self._scratch_bytes)
        self._start(arguments, scratch.address)
        executor.give_scratch(scratch)
        return True

    def _start(self, arguments: bytes, scratch: int) -> None:
        for stretch in self._stretches:
            kernel = stretch.pooled
            if kernel is None or not kernel.share_out(arguments[stretch.offset :]):
                self._run(stretch.entries, stretch.count, arguments, scratch)


def _stretches(kernels: Sequence[LLVMKernel], records: Sequence[int], address: int) -> list[_Stretch]:
    size = 3 * ctypes.sizeof(ctypes.c_uint64)
    stretches: list[_Stretch] = []
    for number, kernel in enumerate(kernels):
        pooled = kernel if kernel.splits else None
        if pooled is None and stretches and stretches[-1].pooled is None:
            stretches[-1] = attrs.evolve(stretches[-1], count=stretches[-1].count + 1)
        else:
            stretches.append(_Stretch(address + number * size, 1, pooled, records[3 * number + 1]))
    return stretches


@attrs.frozen(eq=False)
class _Native:
    code: Code
    function: Callable[[int, int, bytes, int], None]


@cache
def _native(features: tuple[str, ...]) -> _Native:
    code = load_code(object_code(_CODE, features, optimise=False), ("run",), features)
    kind = ctypes.CFUNCTYPE(None, _POINTER, _NUMBER, _POINTER, _POINTER)
    return _Native(code, kind(code.addresses[0]))


"""One loaded function for all sequences of a process."""
