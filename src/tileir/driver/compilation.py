"""Kernels and libraries of programs, compiled or taken from the cache on disk.

An entry ``program-…`` has the kernels of a function for a target, so that a process that finds it needs no stage
between them. An entry ``library-…`` has a back end's code of these kernels, shared by programs with equal kernels. The
stages are only loaded on cache misses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tileir.core import (
    ArrayValue,
    BackendError,
    Content,
    GroupLimitError,
    Target,
    TileError,
    attrs,
    collection_paused,
    content_hash,
    from_json,
    quick_json,
    to_json,
)
from tileir.driver import programs
from tileir.driver.function_cache import KnownFunction, large_arrays
from tileir.runtime.caches.carried_entries import Entries
from tileir.runtime.caches.disk_cache import DiskCache, cache_log, digest_of
from tileir.runtime.caches.source_digest import digest_of_extensions, source_digest
from tileir.runtime.interface import Compiler, DeviceInfo, Library
from tileir.runtime.plans.cached_results import KeptResults
from tileir.semtree.ir import KernelFunction, Program, Work
from tileir.semtree.launches import launches, used_buffers
from tileir.tile.ir import Function as TileFunction
from tileir.typed import ir as typed
from tileir.typed.ir import Function as TypedFunction
from tileir.typed.numbers import takes_numbers

if TYPE_CHECKING:
    from tileir.driver.compiler import Stages
    from tileir.passes.base import Pass
    from tileir.runtime.plans.preparation import KeptBy
    from tileir.schedule.remarks import Remark

T = TypeVar("T")

PROGRAM: Final = "program"
LIBRARY: Final = "library"

NAMED_KERNELS: Final = 3
"""Number of kernel names shown in the facts of an entry."""


@attrs.frozen(eq=False, slots=False)
class Request:
    """Everything that determines the kernels of a program.

    Attributes:
        origin: The program.
        types: Dtype and shape of each input.
        target: Facts of the device.
        passes: The passes, or the text, JSON or name of a pipeline; None for those of the target.
        scheduling: Target of the passes; None for ``target``.
        default: Whether the caller named no passes.
    """

    origin: programs.Compilable
    types: Mapping[str, typed.TensorType]
    target: Target
    passes: tuple[Pass, ...] | str | None
    scheduling: Target | None = None
    default: bool = False

    @property
    def program(self) -> programs.Program:
        """The program itself; a known function is made."""
        return programs.made(self.origin)

    @property
    def constants(self) -> tuple[ArrayValue, ...]:
        """Large constant arrays of a Tile function; programs of other stages, rarely compiled, are kept whole."""
        if isinstance(self.origin, KnownFunction):
            return self.origin.constants
        return large_arrays(self.origin) if isinstance(self.origin, TileFunction) else ()

    def stages(self) -> Stages:
        """Compile the program through all stages."""
        from tileir.driver.compiler import compile_stages  # it loads all stages

        return compile_stages(self.program, self.types, self.target, passes=self.pipeline, tolerant=self.tolerant)

    @property
    def tolerant(self) -> bool:
        """True if failing passes are left out."""
        from tileir.core.targets.target_names import names_of_targets  # importing tileir must stay cheap

        return self.default and (self.scheduling or self.target).pipeline in names_of_targets()

    @cached_property
    def pipeline(self) -> tuple[Pass, ...]:
        """The passes themselves."""
        from tileir.driver.compiler import passes_of  # it loads all stages

        return passes_of(self.passes, self.scheduling or self.target)

    def with_groups_of(self, threads: int) -> Request | None:
        """Return the request for groups with at most this many threads; None if that changes nothing."""
        scheduling = self.scheduling or self.target
        if isinstance(self.passes, tuple) or not 1 <= threads < scheduling.group_threads:
            return None
        smaller = attrs.evolve(scheduling, group_threads=threads)
        target = attrs.evolve(self.target, group_threads=min(threads, self.target.group_threads))
        return attrs.evolve(self, target=target, scheduling=None if self.scheduling is None else smaller)

    @cached_property
    def key(self) -> str | None:
        """Key that equal requests share, in all processes; None if there is none.

        Pipelines count by their text, so that a cached program needs no passes.
        """
        if isinstance(self.origin, Program):  # nothing to do
            return None
        sources = source_digest("tileir")
        passes = self._passes_text()
        if sources is None or passes is None:
            return None
        try:
            types = [part for name in sorted(self.types) for part in (name, to_json(self.types[name]))]
            described = self._identity(), to_json(self.target), to_json(self.scheduling or self.target)
        except TileError:  # nested too deeply
            return None
        return digest_of(sources, *described, passes, *types)

    def _identity(self) -> str:
        return self.origin.identity if isinstance(self.origin, KnownFunction) else content_hash(self.origin)

    def _passes_text(self) -> str | None:
        """Return the identity of the passes; None for passes of extensions whose code has no digest."""
        if not isinstance(self.passes, tuple):
            own = (self.scheduling or self.target).pipeline
            strangers = digest_of_extensions(own if self.passes is None else self.passes)
            if strangers is None:
                return None
            return strangers + ("" if self.passes in (None, own) else self.passes)
        from tileir.passes.base import unnamed
        from tileir.passes.pipelines.catalog import PASSES  # it loads all passes
        from tileir.passes.pipelines.pipeline import to_text

        return to_text(self.passes) if {type(unnamed(step)) for step in self.passes} <= set(PASSES) else None


@attrs.frozen(eq=False, slots=False)
class Compilation:
    """Function and its kernels.

    Attributes:
        request: The request.
        sem: The resulting program.
        arguments: The typed function without its operations, if calls have to convert or omit numbers; else None.
        kernels: The JSON of the kernels, one per line; None if nothing is to be stored.
    """

    request: Request
    sem: Program
    arguments: typed.Function | None
    kernels: bytes | None
    _known: Stages | None = None

    @cached_property
    def stages(self) -> Stages:
        """All stages, compiled again if only the last one came from the cache."""
        return self.request.stages() if self._known is None else self._known

    @cached_property
    def remarks(self) -> tuple[Remark, ...]:
        """Remarks of each step of the pipeline on each kernel, done or refused; the passes run again for them."""
        if isinstance(self.request.origin, Program):
            return ()
        from tileir.driver.compiler import remarks_of  # it loads all stages

        return remarks_of(self.request.pipeline, self.stages.stripe, tolerant=self.request.tolerant)


def compiled(request: Request, disk: Entries | None) -> Compilation:
    """Return the kernels for a request, from the cache or compiled and stored.

    Raises:
        TileError: The function is wrong, or does not fit the arguments.
    """
    key = None if disk is None else request.key
    if disk is not None and key is not None:
        parts = disk.get(PROGRAM, key)
        if parts is not None:
            try:
                return _restored(request, parts)
            except (TileError, KeyError, ValueError) as error:
                disk.drop(PROGRAM, key, f"it cannot be decoded: {error}")
    if isinstance(request.origin, KnownFunction):
        request = attrs.evolve(request, origin=request.program)  # kernels have the constants of their program
    stages = request.stages()
    arguments = _arguments(request, stages.graph)
    kernels = None if disk is None else _encoded(stages.sem.kernels)
    if disk is not None and key is not None and kernels is not None and not stages.skipped:
        signatures = tuple(attrs.evolve(kernel, body=()) for kernel in stages.sem.kernels)
        frame = to_json(_without_arrays(attrs.evolve(stages.sem, kernels=signatures), request.constants))
        about = {"device": request.target.name, "kernels": _named(stages.sem.kernels)}
        parts = {"frame": frame, "kernels": kernels}
        disk.put(PROGRAM, key, parts if arguments is None else {**parts, "arguments": to_json(arguments)}, about)
    return Compilation(request, stages.sem, arguments, kernels, stages)


def _restored(request: Request, parts: Mapping[str, bytes]) -> Compilation:
    """Return the compilation of an entry; kernel bodies are decoded on access."""
    with collection_paused():
        frame = _with_arrays(from_json(parts["frame"], Program), request.constants)
    documents = zip(frame.kernels, parts["kernels"].splitlines(), strict=True)
    program = attrs.evolve(frame, kernels=tuple(kernel.with_body_of(document) for kernel, document in documents))
    arguments = from_json(parts["arguments"], TypedFunction) if "arguments" in parts else None
    return Compilation(request, program, arguments, parts["kernels"])


def _without_arrays(program: Program, constants: tuple[ArrayValue, ...]) -> Program:
    """Return a program whose buffers have digests in the place of the large constant arrays of the function.

    Users of the program have these arrays, so the cache needs no copy.
    """
    digests = {id(array.data): array.digest.encode() for array in constants}  # comparing them would read all weights
    buffers = tuple(
        attrs.evolve(buffer, data=digests[id(buffer.data)]) if id(buffer.data) in digests else buffer
        for buffer in program.buffers
    )
    return attrs.evolve(program, buffers=buffers) if digests else program


def _with_arrays(program: Program, constants: tuple[ArrayValue, ...]) -> Program:
    """Return a program with the constant arrays of the function in the place of their digests."""
    known: dict[Content, Content] = {array.digest.encode(): array.data for array in constants}
    buffers = tuple(
        attrs.evolve(buffer, data=known[buffer.data]) if buffer.data in known else buffer for buffer in program.buffers
    )
    return attrs.evolve(program, buffers=buffers) if known else program


def _arguments(request: Request, function: typed.Function | None) -> typed.Function | None:
    """Return the parts of a typed function for converting numbers in calls; None if it reads all arguments."""
    if function is None:
        return None
    if not takes_numbers(function) and len(function.inputs) == len(request.types):
        return None
    return attrs.evolve(function, outputs=(), operations=(), labels=())


def _encoded(kernels: tuple[KernelFunction, ...]) -> bytes | None:
    """Return the JSON of kernels, one per line; None if they are nested too deeply for it."""
    try:
        with collection_paused():
            return b"\n".join(map(quick_json, kernels))
    except TileError:
        return None


def ready(
    request: Request,
    compiler: Compiler[Any],
    device: DeviceInfo,
    disk: Entries | None,
    prepare: Callable[[Compilation, Library], T],
) -> tuple[Compilation, Library, T]:
    """Return the kernels for a request, their library, and the result of ``prepare`` for them.

    If a driver finds that it cannot run as many threads as the groups of a kernel have, because of their registers, the
    program is scheduled again for smaller groups.

    Raises:
        TileError: As :func:`compiled`.
        BackendError: As :func:`built`; GroupLimitError if explicitly requested passes make such groups.
    """
    while True:
        compilation = compiled(request, disk)
        try:
            library, result = built(compilation, compiler, device, disk, partial(prepare, compilation))
        except GroupLimitError as error:
            smaller = request.with_groups_of(error.threads)
            if smaller is None:
                raise
            cache_log().info("compiled again for groups of %d threads: %s", error.threads, error)
            request = smaller
        else:
            return compilation, library, result


def built(
    compilation: Compilation,
    compiler: Compiler[Any],
    device: DeviceInfo,
    disk: Entries | None,
    prepare: Callable[[Library], T],
) -> tuple[Library, T]:
    """Return the library of a program and the result of ``prepare``, from the cache if it has a working library.

    Raises:
        BackendError: The compiler or device refused a kernel.
    """
    kernels = compilation.sem.kernels
    key = _library_key(compilation, compiler, device)
    if disk is not None and key is not None:
        parts = disk.get(LIBRARY, key)
        if parts is not None:
            try:
                loaded = compiler.load(kernels, parts)
                return loaded, prepare(loaded)
            except GroupLimitError:
                raise
            except BackendError as error:
                disk.drop(LIBRARY, key, f"it cannot be loaded: {error}")
    library = compiler.build(kernels)
    result = prepare(library)
    if disk is not None and key is not None and (parts := _saved(library)):
        about = {"device": f"{device.backend}: {device.name}", "kernels": _named(kernels)}
        disk.put(LIBRARY, key, parts, about)
    return library, result


def _library_key(compilation: Compilation, compiler: Compiler[Any], device: DeviceInfo) -> str | None:
    """Return the key of libraries with equal kernels for equal devices; None if there is none."""
    if compilation.kernels is None:
        return None
    maker = _maker(compiler, device)
    return None if maker is None else digest_of(compilation.kernels, *maker)


def digest_of_maker(compiler: type[Compiler[Any]]) -> str | None:
    """Return a digest of the package of a compiler and of those it is ``built_on``; None if one has none."""
    packages = (compiler.__module__.partition(".")[0], *getattr(compiler, "built_on", ()))
    digests = [source_digest(package) for package in packages]
    return None if None in digests else " ".join(map(str, digests))


def _maker(compiler: Compiler[Any], device: DeviceInfo) -> tuple[str | bytes, ...] | None:
    """Return the identity of the code generator for a device; None if its sources have no digest."""
    ours, theirs = source_digest("tileir"), generator_of(compiler, device)
    return None if ours is None or theirs is None else (ours, to_json(device.target), *theirs)


def generator_of(compiler: Compiler[Any], device: DeviceInfo) -> tuple[str | bytes, ...] | None:
    """Return the identity of a compiler and of a device; None if the compiler's sources have no digest."""
    kind = type(compiler)
    digest = digest_of_maker(kind)
    if digest is None:
        return None
    return digest, kind.__module__, kind.__qualname__, compiler.identity, device.backend, device.name, *device.features


def results_in(disk: DiskCache, compilation: Compilation, compiler: Compiler[Any], device: DeviceInfo) -> KeptBy:
    """Return a finder of cache entries for results of works that only depend on constants.

    Their key covers the works, their kernels, the compiler, the device, and digests of the constants.
    """

    def find(works: Sequence[Work], results: Sequence[str]) -> KeptResults | None:
        maker = _maker(compiler, device)
        if compilation.kernels is None or maker is None:
            return None
        program, kernels = compilation.sem, compilation.kernels.splitlines()
        used = frozenset(used_buffers(works))
        digests = {id(array.data): array.digest for array in compilation.request.constants}
        described = [
            f"{buffer.name} {buffer.role.value} {buffer.dtype.value}{buffer.shape}"
            f" {digests.get(id(buffer.data)) or digest_of(bytes(buffer.data))}"
            for buffer in program.buffers
            if buffer.name in used
        ]
        launched = sorted({launch.kernel for launch in launches(works)})
        code = [part for number in launched for part in (str(number), kernels[number])]
        key = digest_of(repr(works), *results, "", *described, "", *code, "", *maker)
        named = _named(tuple(program.kernels[number] for number in launched))
        return KeptResults(disk, key, {"device": f"{device.backend}: {device.name}", "kernels": named})

    return find


def _saved(library: Library) -> Mapping[str, bytes]:
    """Return the parts of a library, none if the back end cannot save it."""
    try:
        return library.save()
    except Exception as error:  # foreign code may raise anything, and a failing copy must not break a working library
        cache_log().info("not stored: the library cannot be saved: %s", error)
        return {}


def _named(kernels: tuple[KernelFunction, ...]) -> str:
    """Return the names of the first kernels, and the number of others."""
    names = ", ".join(kernel.name for kernel in kernels[:NAMED_KERNELS])
    return names if len(kernels) <= NAMED_KERNELS else f"{names} and {len(kernels) - NAMED_KERNELS} more"
