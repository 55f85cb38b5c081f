"""Kernels as LLVM IR text.

Every kernel becomes ``void @name(ptr args, ptr scratch, i64 begin, i64 end)``, which runs the groups ``begin`` to
``end`` (exclusive) of the grid in order, axis 0 fastest. ``args`` points to the parameters' addresses, and ``scratch``
to :attr:`tileir.semtree.transform.layout.Layout.scratch_bytes` bytes of exclusive memory.

Streaming stores bypass the caches for results that exceed them.

An ordinary store to uncached memory first reads the line, and later writes it back. Non-temporal stores of whole lines
only write: a copy moves two thirds as much.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from itertools import chain, groupby
from typing import Final

from tileir.core import DType, Op
from tileir.core.updates import WIDEST_UPDATE
from tileir.semtree.analysis.effects import assigned_variables
from tileir.semtree.analysis.ranges import Ranges
from tileir.semtree.ir import GridLevel, KernelFunction, Param, ParamAccess, Type
from tileir.semtree.legalise.legaliser import legalise
from tileir.semtree.transform.layout import ALIGNMENT, layout
from tileir.semtree.transform.threads import one_thread
from tileir_llvm.emit.alike import joined, outline
from tileir_llvm.emit.capabilities import CAPABILITIES
from tileir_llvm.emit.conversions import integer
from tileir_llvm.emit.expressions import Environment
from tileir_llvm.emit.integers import apply_integer
from tileir_llvm.emit.memory import LINE, Place
from tileir_llvm.emit.spelling import symbol
from tileir_llvm.emit.statements import Statements, has_vectors
from tileir_llvm.emit.text import FunctionText, ModuleText, Value

_PAGE: Final = 4096
_NEAR: Final = 1024
"""Distance in bytes up to which loads after the latest stores in another page wait for them, by 4K aliasing."""

_LARGE: Final = 4096
"""Minimum number of elements of inputs to check; smaller ones, such as a bias, are ignored."""


def streamed_results(kernel: KernelFunction, cache_bytes: int) -> frozenset[str]:
    """Return the results that do not fit into the last cache, where their readers would not find them."""
    written = (param for param in kernel.params if param.access is ParamAccess.WRITE)
    return frozenset(param.name for param in written if param.size * param.dtype.itemsize >= cache_bytes)


def jump_where_they_fit(kernel: KernelFunction, streamed: Set[str]) -> Iterator[str]:
    """Yield lines that jump to ``past`` if each streamed result is line-aligned, else to ``plain``.

    Arguments are ``%a0`` and so on. A large input must also not begin shortly before a result, by the low bits of
    addresses.
    """
    parameters = list(enumerate(kernel.params))
    results = [number for number, param in parameters if param.name in streamed]
    inputs = [n for n, param in parameters if param.access is ParamAccess.READ and param.size >= _LARGE]
    for number in (*results, *inputs):
        yield f"  %n{number} = ptrtoint ptr %a{number} to i64"
    tests = []
    for number in results:
        yield f"  %low{number} = and i64 %n{number}, {LINE - 1}"
        yield f"  %whole{number} = icmp eq i64 %low{number}, 0"
        tests.append(f"%whole{number}")
        for other in inputs:
            pair = f"{number}.{other}"
            yield f"  %apart{pair} = sub i64 %n{number}, %n{other}"
            yield f"  %behind{pair} = sub i64 %apart{pair}, 1"  # at equal places, loads precede stores
            yield f"  %in_page{pair} = and i64 %behind{pair}, {_PAGE - 1}"
            yield f"  %far{pair} = icmp uge i64 %in_page{pair}, {_NEAR}"
            tests.append(f"%far{pair}")
    fits = "true"
    for number, test in enumerate(tests):
        yield f"  %fits{number} = and i1 {fits}, {test}"
        fits = f"%fits{number}"
    yield f"  br i1 {fits}, label %past, label %plain"


FAST_MATH: Final = "reassoc nsz arcp contract afn "
"""Flags of float operations with :attr:`tileir.runtime.interface.Options.fast_math`; infinities and NaNs keep their
meaning, since maxima and minima start from infinities.
"""

_INDEX: Final = Type(DType.I64)


def emit(
    kernels: Iterable[tuple[int, KernelFunction]],
    *,
    vector_bits: int = 256,
    fast_math: bool = False,
    scheduled: bool = False,
    length: int | None = None,
    cache_bytes: int = 0,
) -> Iterator[str]:
    """Yield modules with a function for each kernel, named by :func:`symbol`; at least one.

    Args:
        kernels: Verified kernels with their numbers, whose float operations are all in
            :data:`tileir_llvm.emit.floats.NATIVE`. Each is requested after the modules before it are done. Adjacent
            scheduled kernels with equal :func:`tileir_llvm.emit.alike.outline` share functions.
        vector_bits: Preferred width of vector registers for LLVM.
        fast_math: Whether to add :data:`FAST_MATH`.
        scheduled: Whether all kernels satisfy :func:`tileir_llvm.emit.statements.is_scheduled`.
        length: Number of characters from which a module gets no further kernel; None for one module.
        cache_bytes: Size of the last cache: results of kernels that move more bypass it. 0 for no bypass.

    Raises:
        BackendError: TIL804, an operation is not native.
    """
    flags = FAST_MATH if fast_math else ""
    attributes = f'nounwind willreturn mustprogress norecurse "prefer-vector-width"="{vector_bits}"'
    last = f"attributes #0 = {{ {attributes} }}"

    def write(module: ModuleText, number: int, kernel: KernelFunction) -> ModuleText:
        streamed = streamed_results(kernel, cache_bytes) if cache_bytes and vector_bits >= 8 * LINE else frozenset()
        _kernel(module, one_thread(kernel, masks=False, updates=WIDEST_UPDATE), symbol(number, kernel), streamed)
        return module

    module = ModuleText(flags, scheduled)
    count = 0
    for _, group in groupby(kernels, lambda each: outline(each[1]) if scheduled else each[0]):
        several = iter(group)
        first = next(several)
        if (second := next(several, None)) is not None:
            # Each is expanded and written before the next one, while its analyses are cached.
            separate = [write(ModuleText(flags, scheduled), *each) for each in chain((first, second), several)]
            yield from (each.text(last) for each in joined(separate))
            count += 1
            continue
        if length is not None and module.length >= length:
            yield module.text(last)
            module = ModuleText(flags, scheduled)
            count += 1
        write(module, *first)
    if module.functions or not count:
        yield module.text(last)


def _kernel(module: ModuleText, kernel: KernelFunction, name: str, streamed: frozenset[str]) -> None:
    """Write the entry, and the function that it calls with the addresses as parameters.

    Only function parameters can be declared free of aliases, so the second function must not be inlined. There are two
    versions of it if results may be ``streamed``, selected by addresses.
    """
    types = ["ptr"] * len(kernel.params)
    lines = [f"define void @{name}(ptr %args, ptr %scratch, i64 %begin, i64 %end) #0 {{"]
    for number in range(len(types)):
        lines.append(f"  %p{number} = getelementptr inbounds ptr, ptr %args, i64 {number}")
        lines.append(f"  %a{number} = load ptr, ptr %p{number}")
    operands = "".join(f"ptr %a{number}, " for number in range(len(types)))
    call = f"({operands}ptr %scratch, i64 %begin, i64 %end)"
    kernel = legalise(kernel, CAPABILITIES)
    plain = _groups(module, kernel, f"{name}.groups")
    past = _groups(module, kernel, f"{name}.past", streamed) if streamed else ""
    if "!nontemporal" in past:
        lines.extend(jump_where_they_fit(kernel, streamed))
        # Other threads only see non-temporal stores after a fence.
        lines.extend(("past:", f"  call void @{name}.past{call}", "  fence seq_cst", "  ret void", "plain:"))
        module.functions.append(past)
    module.functions.append("\n".join((*lines, f"  call void @{name}.groups{call}", "  ret void", "}", "")))
    module.functions.append(plain)


def _groups(module: ModuleText, kernel: KernelFunction, name: str, streamed: frozenset[str] = frozenset()) -> str:
    """Return the function that runs a range of groups, with line-aligned ``streamed`` results."""
    out = FunctionText(module)
    env = Environment(out, ranges=Ranges.of(kernel) if streamed else None)
    for number, param in enumerate(kernel.params):
        constant = param.no_alias and param.access is ParamAccess.READ
        past = param.name in streamed
        alignment = LINE if past else max(param.alignment, param.dtype.itemsize)
        env.arrays[param.name] = Place(f"%a{number}", param.dtype, alignment, constant, streamed=past)
    shared = frozenset(param.name for param in kernel.params if not param.no_alias)
    writer = Statements(env, layout(kernel), assigned_variables(kernel.body), has_vectors(kernel), shared)
    out.branch_if(out.pure("icmp slt i64 %begin, %end"), "first", "finished")
    out.start("first")
    starts = coordinates(out, kernel.grid, Value("%begin", _INDEX))
    varying = [axis for axis, start in enumerate(starts) if start.known is None]
    with out.loop("group"):
        position = len(out.lines)
        out.belongs_here("%number")
        for axis, start in enumerate(starts):
            moving = axis in varying
            env.coordinates[GridLevel.GROUP, axis] = Value(out.belongs_here(f"%g{axis}"), _INDEX) if moving else start
        for axis in range(len(kernel.group)):
            env.coordinates[GridLevel.LOCAL, axis] = integer(0, _INDEX)
        writer.write(kernel.body)
        following = out.pure("add nsw i64 %number, 1")
        nexts = _advanced(out, kernel.grid, varying, following)
        again = out.pure(f"icmp slt i64 {following}, %end")
        # LLVM's vectoriser takes exponential time if nothing depends on the group.
        out.loop_back(again, "group", "finished", vectorise=False, unroll=False)
        phis = [f"  %number = phi i64 [ %begin, %first ], [ {following}, %{out.block} ]"]
        for axis, after in zip(varying, nexts, strict=True):
            phis.append(f"  %g{axis} = phi i64 [ {starts[axis].text}, %first ], [ {after}, %{out.block} ]")
        out.lines[position:position] = phis
    out.start("finished")
    out.effect("ret void")
    params = "".join(f"ptr {promises(param)}%a{number}, " for number, param in enumerate(kernel.params))
    tail = f"ptr noalias align {ALIGNMENT} %scratch, i64 %begin, i64 %end"
    return out.text(f"define internal void @{name}({params}{tail}) noinline #0")


def promises(param: Param) -> str:
    """Return the attributes of a parameter, each followed by a blank."""
    nbytes = param.size * param.dtype.itemsize
    return "".join(
        (
            "noalias " if param.no_alias else "",
            "readonly " if param.access is ParamAccess.READ else "",
            f"align {max(param.alignment, param.dtype.itemsize)} ",
            f"dereferenceable({nbytes}) " if nbytes else "",
        )
    )


def coordinates(out: FunctionText, extents: tuple[int, ...], linear: Value) -> list[Value]:
    """Return the coordinates of group number ``linear``; axis 0 varies fastest."""
    wide = [axis for axis, extent in enumerate(extents) if extent != 1]
    result = [integer(0, _INDEX) for _ in extents]
    for axis in wide:
        result[axis] = linear
        if axis != wide[-1]:
            extent = integer(extents[axis], _INDEX)
            result[axis] = apply_integer(out, Op.MOD, (linear, extent), index=True)
            linear = apply_integer(out, Op.DIV, (linear, extent), index=True)
    return result


def _advanced(out: FunctionText, extents: tuple[int, ...], varying: list[int], following: str) -> list[str]:
    """Return the next group's coordinates along the varying axes: a carry is cheaper than a division."""
    if len(varying) == 1:
        return [following]
    result = []
    carry = "true"
    for axis in varying:
        step = out.pure(f"zext i1 {carry} to i64")
        moved = out.pure(f"add nsw i64 %g{axis}, {step}")
        carry = out.pure(f"icmp eq i64 {moved}, {extents[axis]}")
        result.append(out.pure(f"select i1 {carry}, i64 0, i64 {moved}"))
    return result
