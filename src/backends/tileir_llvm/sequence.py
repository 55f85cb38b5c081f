"""Several kernels in one native call, so that a further kernel of a plan costs next to no Python."""

from __future__ import annotations

import ctypes
from functools import cache
from operator import itemgetter
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard

import attrs

from tileir.runtime.arrays import address_of
from tileir.runtime.interface import Repetition
from tileir_llvm.buffers import HostBuffer
from tileir_llvm.loader import Code, load_code
from tileir_llvm.modules import object_code

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from tileir_llvm.executor import LLVMExecutor, LLVMKernel

    Launch: TypeAlias = tuple[LLVMKernel, Sequence[HostBuffer | int]]

_POINTER: Final = ctypes.c_void_p
_NUMBER: Final = ctypes.c_int64
_POINTER_BYTES: Final = ctypes.sizeof(_POINTER)
_WORDS: Final = 3
_ENTRY_BYTES: Final = _WORDS * ctypes.sizeof(ctypes.c_uint64)

REPEATED_OPERATIONS: Final = 2_000_000
"""Kernels that are repeated run on the calling thread alone below so many operations: to share one out takes Python,
which a loop does without. A step of a recurrent cell of 1,067,008 operations took 6 µs alone and 10 on two threads."""

_CODE: Final = """\
%entry = type { ptr, i64, i64 }  ; function, offset of its arguments, groups; or null, repetitions, entries

define void @run(ptr %entries, i64 %count, ptr %arguments, ptr %scratch) nounwind {
entry:
  br label %next
next:
  %number = phi i64 [ 0, %entry ], [ %after_launch, %launch ], [ %after_loop, %again ]
  %function_place = getelementptr %entry, ptr %entries, i64 %number, i32 0
  %function = load ptr, ptr %function_place
  %offset_place = getelementptr %entry, ptr %entries, i64 %number, i32 1
  %offset = load i64, ptr %offset_place
  %groups_place = getelementptr %entry, ptr %entries, i64 %number, i32 2
  %groups = load i64, ptr %groups_place
  %following = add i64 %number, 1
  %repeated = icmp eq ptr %function, null
  br i1 %repeated, label %loop, label %launch
launch:
  %own = getelementptr i8, ptr %arguments, i64 %offset
  call void %function(ptr %own, ptr %scratch, i64 0, i64 %groups)
  %after_launch = add i64 %number, 1
  %more = icmp ult i64 %after_launch, %count
  br i1 %more, label %next, label %done
loop:
  %body = getelementptr %entry, ptr %entries, i64 %following
  br label %turn
turn:
  %turns = phi i64 [ 0, %loop ], [ %turned, %turn ]
  call void @run(ptr %body, i64 %groups, ptr %arguments, ptr %scratch)
  %turned = add i64 %turns, 1
  %on = icmp ult i64 %turned, %offset
  br i1 %on, label %turn, label %again
again:
  %after_loop = add i64 %following, %groups
  %rest = icmp ult i64 %after_loop, %count
  br i1 %rest, label %next, label %done
done:
  ret void
}
"""
"""Runs ``count`` entries, from 1 on, one after the other: kernels, and where the function is null, so many entries
after this one as its third number says, as often as its second one says."""


@attrs.frozen(eq=False)
class _Stretch:
    """Neighbouring entries that run on the calling thread, or a kernel that is shared out to the pool.

    Attributes:
        first: Number of the first entry.
        count: How many there are.
        pooled: The kernel that is shared out, if it is one.
        offset: Where the arguments of that kernel start.

    """

    first: int
    count: int
    pooled: LLVMKernel | None = None
    offset: int = 0


@attrs.frozen(eq=False)
class _Turns:
    """Stretches that are repeated, some of which are shared out."""

    count: int
    stretches: tuple[_Stretch | _Turns, ...]


@attrs.define
class _Records:
    """What is collected of launches: entries, three numbers each, and arguments.

    Attributes:
        entries: What :data:`_CODE` reads.
        template: Addresses of all arguments, 0 for those that come later.
        slots: Where those go that come later: position and number.
        alignments: What these must be aligned to, by number.
        scratch_bytes: The most that a kernel needs.

    """

    entries: list[int] = attrs.field(factory=list, init=False)
    template: list[int] = attrs.field(factory=list, init=False)
    slots: list[tuple[int, int]] = attrs.field(factory=list, init=False)
    alignments: dict[int, int] = attrs.field(factory=dict, init=False)
    scratch_bytes: int = attrs.field(default=0, init=False)

    def stretches(
        self, launches: Sequence[Launch | Repetition], *, repeated: bool = False
    ) -> tuple[_Stretch | _Turns, ...]:
        """Add launches, and return how they run."""
        found: list[_Stretch | _Turns] = []
        for launch in launches:
            stretch = self._repeated(launch) if isinstance(launch, Repetition) else self._launched(*launch, repeated)
            last = found[-1] if found else None
            if _is_plain(last) and _is_plain(stretch):
                found[-1] = attrs.evolve(last, count=last.count + stretch.count)
            else:
                found.append(stretch)
        return tuple(found)

    def _repeated(self, repetition: Repetition) -> _Stretch | _Turns:
        first = len(self.entries) // _WORDS
        self.entries += [0, repetition.count, 0]
        inside = self.stretches(repetition.launches, repeated=True)
        count = len(self.entries) // _WORDS - first
        self.entries[first * _WORDS + 2] = count - 1
        return _Stretch(first, count) if all(map(_is_plain, inside)) else _Turns(repetition.count, inside)

    def _launched(self, kernel: LLVMKernel, arguments: Sequence[HostBuffer | int], repeated: bool) -> _Stretch:
        offset = len(self.template) * _POINTER_BYTES
        self.entries += [kernel.address, offset, kernel.groups]
        self.scratch_bytes = max(self.scratch_bytes, kernel.scratch_bytes)
        for param, argument in zip(kernel.kernel.params, arguments, strict=True):
            if isinstance(argument, int):
                self.slots.append((len(self.template), argument))
                needed = max(param.alignment, param.dtype.itemsize)
                self.alignments[argument] = max(self.alignments.get(argument, 1), needed)
            self.template.append(0 if isinstance(argument, int) else argument.address)
        pooled = kernel.splits and (not repeated or kernel.kernel.operations >= REPEATED_OPERATIONS)
        return _Stretch(len(self.entries) // _WORDS - 1, 1, kernel if pooled else None, offset)


def _is_plain(stretch: _Stretch | _Turns | None) -> TypeGuard[_Stretch]:
    """Return whether all of it runs on the calling thread."""
    return isinstance(stretch, _Stretch) and stretch.pooled is None


@attrs.frozen(eq=False)
class LLVMSequence:
    """Kernels with their buffers, of which some are given at each launch. Several threads may launch it.

    It fulfils :class:`tileir.runtime.interface.KernelSequence`. ``_order`` puts addresses in the order of arguments
    where all of these are given.
    """

    _executor: LLVMExecutor
    _stretches: tuple[_Stretch | _Turns, ...]
    _entries: int
    _scratch_bytes: int
    _template: list[int]
    _slots: tuple[tuple[int, int], ...]
    _order: Callable[[list[int]], tuple[int, ...]] | None
    _masks: tuple[int, ...]
    _pack: Callable[..., bytes]
    _run: Callable[[int, int, bytes, int], None]
    _held: object

    @classmethod
    def of(cls, executor: LLVMExecutor, launches: Sequence[Launch | Repetition]) -> LLVMSequence:
        """Ready ``launches``, each a kernel and its arguments: buffers, or numbers of arrays that come later.

        What is repeated takes no Python between its kernels, unless some of them are shared out.
        """
        records = _Records()
        stretches = records.stretches(launches)
        slots, template, alignments = records.slots, records.template, records.alignments
        entries = (ctypes.c_uint64 * len(records.entries))(*records.entries)
        run = _native(executor.device.features)
        return cls(
            executor,
            stretches,
            ctypes.addressof(entries),
            records.scratch_bytes,
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
            self._run_all(self._stretches, arguments, 0)
            return True
        scratch = executor.take_scratch(self._scratch_bytes)
        self._run_all(self._stretches, arguments, scratch.address)
        executor.give_scratch(scratch)
        return True

    def _run_all(self, stretches: Sequence[_Stretch | _Turns], arguments: bytes, scratch: int) -> None:
        for stretch in stretches:
            if isinstance(stretch, _Turns):
                for _ in range(stretch.count):
                    self._run_all(stretch.stretches, arguments, scratch)
                continue
            kernel = stretch.pooled
            if kernel is None or not kernel.share_out(arguments[stretch.offset :]):
                self._run(self._entries + stretch.first * _ENTRY_BYTES, stretch.count, arguments, scratch)


@attrs.frozen(eq=False)
class _Native:
    code: Code
    function: Callable[[int, int, bytes, int], None]


@cache
def _native(features: tuple[str, ...]) -> _Native:
    code = load_code((object_code(_CODE, features, optimise=False),), ("run",), features)
    kind = ctypes.CFUNCTYPE(None, _POINTER, _NUMBER, _POINTER, _POINTER)
    return _Native(code, kind(code.addresses[0]))


"""One loaded function for all sequences of a process."""
