"""Several kernels in one native call, so that further kernels of a plan cost next to no Python time."""

from __future__ import annotations

import ctypes
from functools import partial
from itertools import groupby
from operator import itemgetter
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard

from tileir.core.nodes import attrs
from tileir.runtime.arrays import Format, addresses_of
from tileir.runtime.host_memory import HostBuffer
from tileir.runtime.interface import Choice, Condition, Repetition
from tileir.semtree.launches import counted_turns, turns_while
from tileir_llvm.run.array_calls import MOST_SCRATCH, Entries, array_call
from tileir_llvm.run.independent import companions
from tileir_llvm.run.sequence_code import (
    COUNTED_TURNS,
    ENTRY_BYTES,
    SKIP,
    TIMES,
    UNLESS,
    WHILE,
    WORDS,
    abreast,
    looping,
    straight,
)
from tileir_llvm.run.sharing import PYTHON_SECONDS
from tileir_llvm.run.together import Pooled, Together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np

    from tileir_llvm.run.executor import LLVMExecutor, LLVMKernel
    from tileir_llvm.run.sharing import Preference

    Work: TypeAlias = tuple[LLVMKernel, Sequence[HostBuffer | int]] | Repetition | Choice

_ADDRESS: Final = Struct("P")
_LOOPS: Final = Struct("PP")
_POINTER_BYTES: Final = ctypes.sizeof(ctypes.c_void_p)

_LONGEST_SECONDS: Final = 8e-3
"""Estimated time up to which kernels form one call: Python handles signals between calls."""


@attrs.frozen(eq=False, repr=False)
class _Stretch:
    """Neighbouring entries that run on the calling thread, or work shared with the pool: a kernel, or loops.

    Attributes:
        first: Number of the first entry.
        count: Number of entries.
        pooled: Shared work, if any.
        offset: Start of the arguments of a kernel; None for loops, each of which is a group.
    """

    first: int
    count: int
    pooled: Pooled | None = None
    offset: int | None = 0

    def arguments(self, all_arguments: bytes, entry: int) -> bytes:
        """Return the arguments of shared work, whose first entry is at an address."""
        if self.offset is not None:
            return all_arguments[self.offset :]
        return _LOOPS.pack(entry, ctypes.cast(ctypes.c_char_p(all_arguments), ctypes.c_void_p).value)


@attrs.frozen(eq=False, repr=False)
class _LoopStretch:
    """Repeated stretches, some of which are shared: a number of times, or while a condition holds."""

    times: int | _BranchCondition
    stretches: _Stretches


@attrs.frozen(eq=False, repr=False)
class _BranchStretch:
    """Conditional stretches, some of which are shared."""

    condition: _BranchCondition
    then: _Stretches
    otherwise: _Stretches


@attrs.frozen(eq=False, repr=False)
class _BranchCondition:
    """Condition; ``offset`` is that of the argument that points to it."""

    offset: int

    def __call__(self, arguments: bytes) -> bool:
        """Return whether it holds."""
        (address,) = _ADDRESS.unpack_from(arguments, self.offset)
        return ctypes.c_uint8.from_address(address).value != 0


_Stretches: TypeAlias = "tuple[_Stretch | _LoopStretch | _BranchStretch, ...]"


@attrs.frozen(eq=False, repr=False)
class _Run:
    """Consecutive stretches, in one native call if there is one and the pool is free."""

    stretches: _Stretches
    together: Together | None = None


@attrs.define(eq=False, repr=False)
class _Records:
    """Collected launches: entries, three numbers each, and arguments.

    Attributes:
        executor: Executor of the launches.
        python: Overhead in Python of a launch on several threads.
        entries: Entries for :data:`_CODE`.
        template: Addresses of all arguments, 0 for given arguments.
        slots: Position and number of given arguments.
        alignments: Required alignments of given arguments, by number.
        scratch_bytes: Maximum scratch memory of a kernel.
        first_turns: Iterations of loops until Python is asked first; None without loops and branches.
    """

    executor: LLVMExecutor
    python: float
    entries: list[int] = attrs.field(factory=list, init=False)
    template: list[int] = attrs.field(factory=list, init=False)
    slots: list[tuple[int, int]] = attrs.field(factory=list, init=False)
    alignments: dict[int, int] = attrs.field(factory=dict, init=False)
    scratch_bytes: int = attrs.field(default=0, init=False)
    first_turns: int | None = attrs.field(default=None, init=False)

    @property
    def count(self) -> int:
        """Number of entries."""
        return len(self.entries) // WORDS

    def stretches(self, works: Sequence[Work]) -> _Stretches:
        """Add works, and return their stretches, with independent loops on separate threads."""
        found: tuple[_Stretch | _LoopStretch | _BranchStretch, ...] = ()
        for together, uses in companions(works):
            first = self.count
            inside = self._inside(together)
            if len(together) > 1 and all(map(_is_plain, inside)):
                seconds, scratch_bytes = sum(use.seconds for use in uses), max(use.scratch_bytes for use in uses)
                address = abreast(self.executor.device.features)
                pooled = Pooled(address, len(together), scratch_bytes, seconds, self.executor.pool)
                inside = (_Stretch(first, self.count - first, pooled if pooled.share else None, None),)
            found = _joined((*found, *inside))
        return found

    def _inside(self, works: Sequence[Work], *, repeated: bool = False) -> _Stretches:
        """Add works, and return their stretches, one after the other."""
        found: list[_Stretch | _LoopStretch | _BranchStretch] = []
        for work in works:
            match work:
                case Repetition():
                    found.append(self._repeated(work))
                case Choice():
                    found.append(self._chosen(work, repeated))
                case (kernel, arguments):
                    found.append(self._launched(kernel, arguments, repeated))
        return _joined(found)

    def _repeated(self, repetition: Repetition) -> _Stretch | _LoopStretch:
        first, times = self.count, repetition.times
        if isinstance(times, int):
            self.first_turns = self.first_turns or COUNTED_TURNS
            turns: int | _BranchCondition = times
            self.entries += [TIMES, times, 0]
        else:
            self.first_turns = 1
            turns = self._condition(times)
            self.entries += [WHILE, turns.offset, 0]
        inside = self._inside(repetition.works, repeated=True)
        self._close(first)
        return _Stretch(first, self.count - first) if all(map(_is_plain, inside)) else _LoopStretch(turns, inside)

    def _chosen(self, choice: Choice, repeated: bool) -> _Stretch | _BranchStretch:
        first, holds = self.count, self._condition(choice.condition)
        self.first_turns = self.first_turns or COUNTED_TURNS
        self.entries += [UNLESS, holds.offset, 0]
        then = self._inside(choice.then, repeated=repeated)
        over = self.count
        self.entries += [SKIP, 0, 0]
        self._close(first)
        otherwise = self._inside(choice.otherwise, repeated=repeated)
        self._close(over)
        if all(map(_is_plain, (*then, *otherwise))):
            return _Stretch(first, self.count - first)
        return _BranchStretch(holds, then, otherwise)

    def _close(self, entry: int) -> None:
        """Set the number of following entries in an entry."""
        self.entries[entry * WORDS + 2] = self.count - entry - 1

    def _condition(self, condition: Condition) -> _BranchCondition:
        holds = _BranchCondition(len(self.template) * _POINTER_BYTES)
        self._argument(condition.argument, 1)
        return holds

    def _argument(self, argument: HostBuffer | int, alignment: int) -> None:
        """Add an argument; ``alignment`` is the requirement on a given array."""
        if isinstance(argument, int):
            self.slots.append((len(self.template), argument))
            self.alignments[argument] = max(self.alignments.get(argument, 1), alignment)
        self.template.append(0 if isinstance(argument, int) else argument.address)

    def _launched(self, kernel: LLVMKernel, arguments: Sequence[HostBuffer | int], repeated: bool) -> _Stretch:
        offset = len(self.template) * _POINTER_BYTES
        self.entries += [kernel.address, offset, kernel.groups]
        self.scratch_bytes = max(self.scratch_bytes, kernel.scratch_bytes)
        for param, argument in zip(kernel.kernel.params, arguments, strict=True):
            self._argument(argument, max(param.alignment, param.dtype.itemsize))
        pooled = kernel if repeated else attrs.evolve(kernel, python=self.python)
        share = pooled.share
        pays = share is not None and (share.pays or not repeated)  # loops without Python are worthwhile, too
        return _Stretch(self.count - 1, 1, pooled if pays else None, offset)

    def runs(self, stretches: _Stretches) -> tuple[_Run, ...]:
        """Return stretches as runs: neighbours with kernels only, some of them shared, are one call."""
        runs: list[_Run] = []
        for kernels, group in groupby(stretches, self._has_kernels_alone):
            for part in _parts(tuple(group)) if kernels else (tuple(group),):
                runs.append(_Run(part, self._together(part) if kernels else None))
        return tuple(runs)

    def _has_kernels_alone(self, stretch: _Stretch | _LoopStretch | _BranchStretch) -> bool:
        if not isinstance(stretch, _Stretch) or stretch.offset is None:
            return False
        return all(
            self.entries[number * WORDS] > SKIP for number in range(stretch.first, stretch.first + stretch.count)
        )

    def _together(self, stretches: _Stretches) -> Together | None:
        found = [stretch for stretch in stretches if isinstance(stretch, _Stretch)]
        kernels = [stretch.pooled for stretch in found for _ in range(stretch.count)]
        if len(kernels) < 2 or not any(kernels):
            return None
        return Together.of(found[0].first, kernels, self.executor.pool, self.scratch_bytes)


def _parts(stretches: _Stretches) -> Iterator[_Stretches]:
    """Yield stretches in short parts, as signals are handled between them."""
    part: list[_Stretch | _LoopStretch | _BranchStretch] = []
    seconds = 0.0
    for stretch in stretches:
        part.append(stretch)
        seconds += stretch.pooled.seconds if isinstance(stretch, _Stretch) and stretch.pooled else 0.0
        if seconds > _LONGEST_SECONDS:
            yield tuple(part)
            part, seconds = [], 0.0
    if part:
        yield tuple(part)


def _joined(stretches: Sequence[_Stretch | _LoopStretch | _BranchStretch]) -> _Stretches:
    """Return stretches with neighbours on the calling thread merged."""
    found: list[_Stretch | _LoopStretch | _BranchStretch] = []
    for stretch in stretches:
        last = found[-1] if found else None
        if _is_plain(last) and _is_plain(stretch):
            found[-1] = attrs.evolve(last, count=last.count + stretch.count)
        else:
            found.append(stretch)
    return tuple(found)


def _is_plain(stretch: _Stretch | _LoopStretch | _BranchStretch | None) -> TypeGuard[_Stretch]:
    """Return whether all of it runs on the calling thread."""
    return isinstance(stretch, _Stretch) and stretch.pooled is None


@attrs.frozen(eq=False, repr=False)
class _SerialFunction:
    """Function of arrays that runs launches on the calling thread, as long as sharing none of them is faster."""

    preferences: tuple[Preference, ...]
    function: Callable[..., int]

    def __call__(self, *arrays: object) -> int | None:
        """Return the result of the function; None, with nothing done, if Python has to launch."""
        return self.function(*arrays) if all(preference.passes() for preference in self.preferences) else None


@attrs.frozen(eq=False)
class LLVMSequence:
    """Kernels with their buffers, some of which each launch is given. Several threads may launch it.

    Implements :class:`tileir.runtime.interface.KernelSequence`. ``_order`` maps addresses to arguments if all of these
    are given.
    """

    _executor: LLVMExecutor
    _stretches: _Stretches
    _runs: tuple[_Run, ...]
    _entries: int
    _scratch_bytes: int
    _template: list[int]
    _slots: tuple[tuple[int, int], ...]
    _order: Callable[[list[int]], tuple[int, ...]] | None
    _masks: tuple[int, ...]
    _pack: Callable[..., bytes]
    _run: Callable[[int, int, bytes, int], object]
    _straight: int | None
    _held: object
    _count: int = attrs.field(init=False)
    _is_one_call: bool = attrs.field(init=False)

    @_count.default
    def _entries_of_first_stretch(self) -> int:
        return self._stretches[0].count if self._stretches and isinstance(self._stretches[0], _Stretch) else 0

    @_is_one_call.default
    def _runs_on_the_calling_thread(self) -> bool:
        return len(self._stretches) == 1 and _is_plain(self._stretches[0]) and not self._scratch_bytes

    @classmethod
    def of(cls, executor: LLVMExecutor, works: Sequence[Work]) -> LLVMSequence:
        """Prepare works: kernels with their arguments, buffers or numbers of arrays to be given.

        Loops and branches run without Python between their kernels, unless some of these are shared.
        """
        records = _Records(executor, PYTHON_SECONDS if len(works) == 1 else 0.0)
        stretches = records.stretches(works)
        slots, template, alignments = records.slots, records.template, records.alignments
        entries = (ctypes.c_uint64 * len(records.entries))(*records.entries)
        features, first_turns = executor.device.features, records.first_turns
        native = straight(features) if first_turns is None else looping(features, first_turns)
        return cls(
            executor,
            stretches,
            records.runs(stretches),
            ctypes.addressof(entries),
            records.scratch_bytes,
            template,
            tuple(slots),
            itemgetter(*(number for _, number in slots)) if len(slots) == len(template) > 1 else None,
            tuple(alignments.get(number, 1) - 1 for number in range(max(alignments, default=-1) + 1)),
            Struct(f"{len(template)}P").pack,
            native.run,
            native.straight,
            (entries, native, tuple(works)),
        )

    def launch(self, arrays: Sequence[np.ndarray[Any, Any]]) -> bool:
        """Run all kernels, and return when the outputs are written.

        Returns:
            False, with nothing done, if an array lacks the alignment that a kernel requires.

        Raises:
            BackendError: TIL807, the executor was closed.
            CancelledError: The results are no longer wanted, which loops check.
        """
        return self.launch_at(addresses_of(arrays))

    def launch_at(self, addresses: list[int]) -> bool:
        """Launch like :meth:`launch` with arrays at addresses."""
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
        if self._is_one_call:
            self._run(self._entries, self._count, arguments, 0)
            return True
        for run in self._runs:
            if run.together is None or not run.together.run(self._entries, arguments):
                self._run_stretches(run.stretches, arguments)
        return True

    def _run_stretches(self, stretches: _Stretches, arguments: bytes) -> None:
        if not self._scratch_bytes:
            self._run_all(stretches, arguments, 0)
            return
        scratch = self._executor.take_scratch(self._scratch_bytes)
        self._run_all(stretches, arguments, scratch.address)
        self._executor.give_scratch(scratch)

    def array_call(self, formats: Sequence[Format], read: int) -> Callable[..., int | None] | None:
        """Return its launches as a function of arrays; None if they are shared, loop, or need much scratch memory.

        If some may be shared, the function does nothing and returns None when sharing is preferable.
        """
        straight, scratch = self._straight, self._scratch_bytes
        stretches = [stretch for stretch in self._stretches if isinstance(stretch, _Stretch)]
        if straight is None or scratch > MOST_SCRATCH or len(stretches) < len(self._stretches) or not stretches:
            return None
        pooled = [stretch.pooled for stretch in stretches if stretch.pooled]
        preferences = [kernel.preference for kernel in pooled if kernel.preference]
        if len(preferences) < len(pooled):
            return None
        count = sum(stretch.count for stretch in stretches)
        entries = Entries(straight, self._entries, count, self._template, self._slots, self._masks, scratch)
        function = array_call(entries, formats, read, self._executor.device.features, self)
        return function if function is None or not pooled else _SerialFunction(tuple(preferences), function)

    def _run_all(self, stretches: _Stretches, arguments: bytes, scratch: int) -> None:
        for stretch in stretches:
            if isinstance(stretch, _Stretch):
                first, pooled = self._entries + stretch.first * ENTRY_BYTES, stretch.pooled
                if pooled is None:
                    self._run(first, stretch.count, arguments, scratch)
                else:
                    alone = partial(self._run, first, stretch.count, arguments, scratch)
                    pooled.run_shared(stretch.arguments(arguments, first), alone)
            elif isinstance(stretch, _BranchStretch):
                way = stretch.then if stretch.condition(arguments) else stretch.otherwise
                self._run_all(way, arguments, scratch)
            else:
                times = stretch.times
                for _ in counted_turns(times) if isinstance(times, int) else turns_while(arguments, times):
                    self._run_all(stretch.stretches, arguments, scratch)
