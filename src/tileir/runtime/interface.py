"""Interface of back ends. Protocols only: a back end subclasses nothing, and needs no private name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, Final, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np

from tileir.core import ArgumentError, BackendError, Target, attrs, made_at_the_call, meant
from tileir.semtree.ir import KernelFunction, Program
from tileir.tile.ir import Function
from tileir.typed.ir import TensorType

API_VERSION: Final = 1
"""Version of this interface; each back end states the version that it was written for."""

TOP_RANK: Final = 100
"""The highest :attr:`Backend.rank`: if it has a device, back ends of other distributions are not even loaded."""


class Event(Protocol):
    """Completion of work. If an event fails, everything that waits for it fails with its error."""

    @property
    def done(self) -> bool:
        """True if it has completed or failed."""

    def wait(self) -> None:
        """Block until it completes; raise the original error if it, or an event that it waited for, failed."""

    @property
    def duration(self) -> float | None:
        """Seconds that the device was busy; None before completion or if not measured."""


class Buffer(Protocol):
    """Memory that an executor can pass to kernels."""

    @property
    def nbytes(self) -> int:
        """Size in bytes."""

    def host(self) -> np.ndarray[Any, np.dtype[np.uint8]] | None:
        """Return the memory as bytes if the host can access it without a copy, else None."""

    def map_current(self, after: Sequence[Event] = ()) -> AbstractContextManager[np.ndarray[Any, np.dtype[np.uint8]]]:
        """Map the content for the host, to read and to change, once all of ``after`` have completed.

        The bytes are valid inside the ``with`` statement; at its end the buffer has their content. For buffers with
        :meth:`host`, :func:`tileir.runtime.mapping.map_host` implements this method and the next.
        """

    def map_discard(self, after: Sequence[Event] = ()) -> AbstractContextManager[np.ndarray[Any, np.dtype[np.uint8]]]:
        """Map the buffer like :meth:`map_current`, but with undefined content at first, for overwriting."""


B = TypeVar("B", bound=Buffer)
L = TypeVar("L", bound="Library")
L_co = TypeVar("L_co", bound="Library", covariant=True)
L_contra = TypeVar("L_contra", bound="Library", contravariant=True)


class Library(Protocol):
    """Executable code for some kernels."""

    @property
    def kernels(self) -> tuple[KernelFunction, ...]:
        """The kernels, in the order in which they were given to the compiler."""

    def save(self) -> Mapping[str, bytes]:
        """Return named parts from which :meth:`Compiler.load` makes an equal library."""

    def listing(self, form: str) -> str:
        """Return generated code as text.

        Raises:
            BackendError: TIL806, ``form`` is not in :attr:`Backend.forms`, or this device has no text in that form.
        """


class Compiler(Protocol[L_co]):
    """Compiler of kernels for one device."""

    @property
    def identity(self) -> str:
        """Part of cache keys beside the kernels: versions, device, features, options."""

    def build(self, kernels: Sequence[KernelFunction]) -> L_co:
        """Compile; raises :class:`tileir.core.errors.BackendError`. Several threads may call it."""

    def load(self, kernels: Sequence[KernelFunction], parts: Mapping[str, bytes]) -> L_co:
        """Return the library of parts that :meth:`Library.save` returned."""


class Kernel(Protocol):
    """One kernel, ready to run on one device."""

    def run(self, buffers: Sequence[Any], after: Sequence[Event] = ()) -> Event:
        """Launch once all of ``after`` have completed; the event completes when the outputs are written."""

    def launch(self, buffers: Sequence[Any]) -> None:
        """Launch now and return when the outputs are written: the fast path without overlap."""


class BoundKernel(Protocol):
    """Kernel with its buffers, which it keeps alive, checked and packed once for many launches."""

    def run(self, after: Sequence[Event] = ()) -> Event:
        """Launch like :meth:`Kernel.run`."""

    def launch(self) -> None:
        """Launch like :meth:`Kernel.launch`."""


@runtime_checkable
class BindingKernel(Kernel, Protocol):
    """Optional part of a kernel beyond :class:`Kernel`; plans use it for memory that stays from run to run."""

    def bind(self, buffers: Sequence[Any]) -> BoundKernel:
        """Return a launch on these buffers, which one thread at a time may run repeatedly."""


class Executor(Protocol[L_contra]):
    """Owner of memory and launcher of kernels on one device; optional parts are in :mod:`tileir.runtime.offers`."""

    def allocate(self, nbytes: int) -> Buffer:
        """Return fresh memory with undefined content, aligned to at least 64 bytes."""

    def wrap(self, array: np.ndarray[Any, Any]) -> Buffer | None:
        """Return a buffer over a contiguous array's own memory, or None if the device cannot use it in place."""

    def prepare(self, library: L_contra, index: int) -> Kernel:
        """Prepare kernel number ``index`` of a library."""

    def copy(self, source: Any, destination: Any, after: Sequence[Event] = ()) -> Event:
        """Copy ``min(source.nbytes, destination.nbytes)`` bytes between buffers, or to and from contiguous arrays."""

    def close(self) -> None:
        """Wait for all work, stop threads and give memory back; the executor is not used afterwards."""


@runtime_checkable
class PartingExecutor(Protocol):
    """Optional part of an executor beyond :class:`Executor`: suballocation, by which temporaries share memory.

    Plans need it only for memory that the host cannot access; otherwise they wrap parts of it.

    Attributes:
        part_alignment: Alignment of the offset of each part.
    """

    part_alignment: int

    def part(self, buffer: Any, offset: int, nbytes: int) -> Buffer:
        """Return a buffer over ``nbytes`` bytes of another from ``offset`` on, which it keeps alive."""


class KernelSequence(Protocol):
    """Kernels with their buffers; some buffers are arrays that each launch is given."""

    def launch(self, arrays: Sequence[np.ndarray[Any, Any]]) -> bool:
        """Run the kernels in their order, and return when the outputs are written.

        The arrays are contiguous and have the sizes of the parameters.

        Returns:
            False, with nothing done, if an array cannot be used in place.
        """


@attrs.frozen(eq=False)
class Condition:
    """Byte that is not 0 if work shall run; ``argument`` is its buffer, like an argument of a launch."""

    argument: Any


@attrs.frozen(eq=False)
class Repetition:
    """Works that run in order, repeated a number of times or while a condition holds, tested before each iteration.

    Each work is an argument of :meth:`SequencingExecutor.sequence`.
    """

    times: int | Condition
    works: tuple[tuple[Any, Sequence[Any]] | Repetition | Choice, ...]


@attrs.frozen(eq=False)
class Choice:
    """Branch: the works in ``then`` run in order if a condition holds, else those in ``otherwise``."""

    condition: Condition
    then: tuple[tuple[Any, Sequence[Any]] | Repetition | Choice, ...]
    otherwise: tuple[tuple[Any, Sequence[Any]] | Repetition | Choice, ...]


@runtime_checkable
class SequencingExecutor(Protocol):
    """Optional part of a synchronous executor beyond :class:`Executor`: many launches in one call."""

    def sequence(self, launches: Sequence[tuple[Any, Sequence[Any]]]) -> KernelSequence:
        """Prepare launches, each a kernel and its arguments; a number stands for one of the arrays of a launch.

        Several threads may launch the result at a time if its buffers allow it.
        """


@runtime_checkable
class BatchingExecutor(Protocol):
    """Optional part of an asynchronous executor beyond :class:`Executor`: a whole program, cheaper than by events.

    Attributes:
        batches: Whether batching pays; false where the device works on arrays in place.
    """

    batches: bool

    def run_batch(
        self,
        inputs: Sequence[tuple[np.ndarray[Any, Any], Any]],
        launches: Sequence[Any],
        outputs: Sequence[tuple[Any, np.ndarray[Any, Any]]],
    ) -> None:
        """Copy arrays in, launch bound kernels one after the other, copy results out, and return when all is done.

        Even if it raises, the device uses none of the memory any more.

        Args:
            inputs: Contiguous arrays, and the buffers to copy them to.
            launches: Results of :meth:`BindingKernel.bind`.
            outputs: Buffers, and the contiguous arrays to copy them to.
        """


@attrs.frozen
class DeviceInfo:
    """Device of a back end; ``dlpack`` is its kind and number in DLPack."""

    id: str
    name: str
    backend: str
    memory_bytes: int | None = None
    features: tuple[str, ...] = ()
    target: Target = attrs.field(factory=Target, repr=False)
    dlpack: tuple[int, int] | None = attrs.field(default=None, repr=False)


@made_at_the_call
@attrs.frozen
class Options:
    """Options of compiling and running; part of every cache key.

    Attributes:
        fast_math: Whether float results may be reassociated and approximated; infinities and NaN keep their meaning.
        threads: Maximum number of threads, at least 1; None for all that the process may use.
        profile: Whether events of devices with clocks measure their duration, which makes each launch slower.
        quick: Whether to compile faster to slower code, for programs that run a few times: processors get the passes of
            the target ``quick``, LLVM optimises little, and nothing is stored on disk.

    Raises:
        ArgumentError: TIL707, a value has a wrong type.
    """

    fast_math: bool = attrs.field(default=False)
    threads: int | None = attrs.field(default=None)
    profile: bool = attrs.field(default=False)
    quick: bool = attrs.field(default=False)

    @fast_math.validator
    @profile.validator
    @quick.validator
    def _check_switch(self, option: attrs.Attribute[bool], value: object) -> None:
        if not isinstance(value, bool):
            raise ArgumentError.of("TIL707", f"option {option.name} is True or False, not {value!r}")

    @threads.validator
    def _check_threads(self, _: attrs.Attribute[int | None], value: object) -> None:
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise ArgumentError.of("TIL707", f"option threads is an integer from 1 on, not {value!r}")


def _titled(forms: Mapping[str, str] | Sequence[str]) -> Mapping[str, str]:
    return MappingProxyType(dict(forms) if isinstance(forms, Mapping) else {form: form for form in forms})


def _no_device(_device_id: str) -> None:
    """Return None: there are no further devices."""


@attrs.frozen
class Backend(Generic[L]):
    """Back end, as an entry point of the group ``tileir.backends`` provides it.

    Attributes:
        name: First part of device ids, ``name.number``.
        devices: Lists devices; may raise :class:`tileir.core.errors.BackendError` with the reason why there is none.
        compiler: Makes a compiler for a device.
        executor: Makes an executor for a device.
        forms: Forms of generated text that :meth:`Library.listing` offers, each with its title for people, such as
            ``{"asm": "Assembly"}``; the first is the default. Names without titles are their own titles.
        api_version: The :data:`API_VERSION` it was written for.
        rank: Priority for the default device, which the back end with the highest rank that has a device provides, the
            first by name among equals. At most :data:`TOP_RANK`. Devices of back ends with a negative rank have to be
            named.
        notes: Describes further devices that there could be, and how to enable them.
        source: Writes a program that was compiled for a device as one text, which begins with a comment of some lines
            that says how to run it without tileir; None if the back end has no such text.
        source_suffix: Suffix of files with such a text.
        library: Writes a function of Tile, for given input types, as the sources of a named library, including a
            header, that needs neither Python nor tileir: returns their texts by file name. None if the back end has no
            such library.
        described: Returns an unlisted device that code can be made for, by its id; None if the id is not known. Its
            executor raises TIL801.
    """

    name: str
    devices: Callable[[], Sequence[DeviceInfo]]
    compiler: Callable[[DeviceInfo, Options], Compiler[L]]
    executor: Callable[[DeviceInfo, Options], Executor[L]]
    forms: Mapping[str, str] = attrs.field(factory=dict, converter=_titled, hash=False)
    api_version: int = API_VERSION
    rank: int = 0
    notes: Callable[[], Sequence[str]] = tuple
    source: Callable[[Program, DeviceInfo, str], str] | None = None
    source_suffix: str = ".txt"
    library: Callable[[Function, Mapping[str, TensorType], str], Mapping[str, str]] | None = None
    described: Callable[[str], DeviceInfo | None] = _no_device

    @property
    def title(self) -> str:
        """Language of its code, for people: the title of its first form, or else its name."""
        return next(iter(self.forms.values()), self.name)

    def listing(self, library: L, form: str | None = None) -> str:
        """Return the generated code of a library of this back end in a form, by default the first.

        Raises:
            BackendError: TIL806, there is no such form, or this device has no text in it.
        """
        if not self.forms:
            raise BackendError.of("TIL806", f"back end {self.name!r} shows no generated code")
        if form is not None and form not in self.forms:
            shown = " or ".join(map(repr, self.forms))
            near = meant(form, self.forms)
            hint = "" if near is None else f"; did you mean {near!r}?"
            raise BackendError.of("TIL806", f"back end {self.name!r} lists {shown}, not {form[:64]!r}{hint}")
        return library.listing(next(iter(self.forms)) if form is None else form)
