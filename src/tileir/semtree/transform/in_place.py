"""Kernels that write a temporary over one that they read for the last time.

A kernel may do so where it reads each element before it writes the same place of the result, which
:mod:`tileir.semtree.analysis.element_order` proves.

Kernels that differ in names only become one here, too, so that a chain of equal layers is compiled once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tileir.core import NameScope, attrs
from tileir.semtree.analysis.constant_works import constant_works, made_by
from tileir.semtree.analysis.element_order import ElementOrder
from tileir.semtree.ir import BufferRole, KernelFunction, Launch, ParamAccess, Program, Work
from tileir.semtree.launches import launches, used_buffers, with_buffers, with_launches
from tileir.semtree.rewrite import kernel_names, renamed

Pair: TypeAlias = tuple[int, int]
"""A parameter that is read, and one that is written and may replace it."""
Variant: TypeAlias = tuple[int, tuple[Pair, ...]]
"""A kernel, and which parameters alias in it."""


def reuse_in_place(program: Program) -> Program:
    """Return a program in which temporaries take the place of others that die where they are born, as kernels allow.

    Such a kernel gets a variant in which they may alias. A program that cannot be improved is returned itself.
    """
    kernels = list(program.kernels)
    scope = NameScope.of(kernel.name for kernel in kernels)
    variants: dict[tuple[int, tuple[Pair, ...]], Variant] = {}
    places: dict[str, str] = {}
    works: list[Work] = []
    for launch, pairs in zip(program.works, _dying_and_born(program), strict=True):
        if not isinstance(launch, Launch):
            works.extend(with_buffers((launch,), places))
            continue
        key = (launch.kernel, tuple(pairs))
        if key not in variants:
            variants[key] = _variant(kernels, launch.kernel, pairs, scope)
        chosen, aliases = variants[key]
        for read, written in aliases:
            before = launch.arguments[read]
            places[launch.arguments[written]] = places.get(before, before)
        works.extend(with_buffers((attrs.evolve(launch, kernel=chosen),), places))
    return _compacted(program, kernels, tuple(works), places) if places else program


def _dying_and_born(program: Program) -> list[list[Pair]]:
    """Return, for each launch, the parameters that are read and written of which one could replace the other.

    What a loop or a branch uses is in use throughout it, so there is nothing to return for its launches. What is made
    once, before the first run, stays for all that run each time.
    """
    once = constant_works(program)
    kept = made_by(program, once)
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for number, work in enumerate(program.works):
        for name in used_buffers((work,)):
            first.setdefault(name, number)
            last[name] = number
    temporaries = {buffer.name for buffer in program.buffers if buffer.role is BufferRole.TEMPORARY}
    result: list[list[Pair]] = []
    for number, launch in enumerate(program.works):
        if not isinstance(launch, Launch):
            result.append([])
            continue
        uses = [
            (at, param, name)
            for at, (param, name) in enumerate(
                zip(program.kernels[launch.kernel].params, launch.arguments, strict=True)
            )
            if name in temporaries and (name not in kept or number in once) and launch.arguments.count(name) == 1
        ]
        dying = [use for use in uses if use[1].access is ParamAccess.READ and last[use[2]] == number]
        born = [use for use in uses if use[1].access is ParamAccess.WRITE and first[use[2]] == number]
        result.append(
            [
                (read, written)
                for written, target, _ in born
                for read, source, _ in dying
                if (source.dtype, source.size) == (target.dtype, target.size)
            ]
        )
    return result


def _variant(kernels: list[KernelFunction], number: int, pairs: Sequence[Pair], scope: NameScope) -> Variant:
    """Add the kernel in which some pairs may alias, each parameter in one pair only; itself where there are none.

    Results are looked at in the order in which they are first written: what one may replace, later ones may, too.
    """
    kernel = kernels[number]
    aliases: list[Pair] = []
    taken: set[int] = set()
    if pairs:
        order = ElementOrder.of(kernel)
        for read, written in sorted(pairs, key=lambda pair: order.first_store(pair[1])):
            if taken.isdisjoint((read, written)) and order.reads_before_it_writes(read, written):
                aliases.append((read, written))
                taken.update((read, written))
    if not aliases:
        return number, ()
    params = tuple(
        attrs.evolve(param, no_alias=False) if at in taken else param for at, param in enumerate(kernel.params)
    )
    kernels.append(attrs.evolve(kernel, name=scope.fresh(kernel.name), params=params))
    return len(kernels) - 1, tuple(aliases)


def _compacted(
    program: Program, kernels: Sequence[KernelFunction], works: tuple[Work, ...], places: Mapping[str, str]
) -> Program:
    """Return the program without kernels and buffers that are not used any more, kernels by their first launch."""
    used = tuple(dict.fromkeys(launch.kernel for launch in launches(works)))
    numbers = {number: position for position, number in enumerate(used)}
    return attrs.evolve(
        program,
        kernels=tuple(kernels[number] for number in used),
        buffers=tuple(buffer for buffer in program.buffers if buffer.name not in places),
        works=with_launches(works, lambda launch: attrs.evolve(launch, kernel=numbers[launch.kernel])),
    )


def share_kernels(program: Program) -> Program:
    """Return a program that runs the first of each set of equal kernels; itself where no two are equal.

    Names of kernels, parameters, variables and arrays do not count, and neither do comments.
    """
    heads = [_head(kernel) for kernel in program.kernels]
    counts = Counter(heads)
    numbers: dict[object, int] = {}
    kept: list[KernelFunction] = []
    chosen: list[int] = []
    for kernel, head in zip(program.kernels, heads, strict=True):
        # Most kernels of most programs have a head of their own, and bodies need no look.
        number = numbers.setdefault(head if counts[head] == 1 else anonymous(kernel), len(kept))
        if number == len(kept):
            kept.append(kernel)
        chosen.append(number)
    if len(kept) == len(program.kernels):
        return program
    works = with_launches(program.works, lambda launch: attrs.evolve(launch, kernel=chosen[launch.kernel]))
    return attrs.evolve(program, kernels=tuple(kept), works=works)


def _head(kernel: KernelFunction) -> object:
    """Return what is soon told of a kernel, and the same for all that differ in names only."""
    params = tuple(attrs.evolve(param, name="") for param in kernel.params)
    return attrs.evolve(kernel, name="", params=params, body=(), comments=()), tuple(map(type, kernel.body))


def anonymous(kernel: KernelFunction) -> KernelFunction:
    """Return a kernel whose names are numbers in the order of their introduction, without comments."""
    names = {name: str(number) for number, name in enumerate(dict.fromkeys(kernel_names(kernel)))}
    params = tuple(attrs.evolve(param, name=names[param.name]) for param in kernel.params)
    return attrs.evolve(kernel, name="", params=params, body=renamed(kernel.body, names), comments=())
