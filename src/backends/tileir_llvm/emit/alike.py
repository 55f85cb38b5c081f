"""Kernels whose functions only differ in integers, merged into one function with integer parameters.

Layers of a network often differ only in numbers of channels, or in the places of their results in a shared tensor.
Compiling a kernel takes several times as long as writing its text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from tileir.core import attrs
from tileir.semtree.ir import For, KernelFunction, LoopKind, Stmt
from tileir.semtree.rewrite import statements
from tileir_llvm.emit.text import WEIGHTS, ModuleText

MOST_STRIDES: Final = 12
"""Maximum number of parameters in addresses of a product loop: each takes a register, of which there are 16."""

_INTEGER: Final = re.compile(
    r"^  (%v\d+) = ((?:mul|add|sub)(?: nsw| nuw)* i64 %\w+, |icmp \w+ i64 %\w+, "
    r"|getelementptr (?:inbounds )?\w+, ptr %\w+, i64 )(-?\d+)$",
    re.MULTILINE,
)
"""Instruction with a trailing integer that may be in a register: a stride, a bound or an offset."""

_PROMISE: Final = re.compile(r"\b(align |dereferenceable\()(\d+)")
"""Attribute of a parameter's memory, which stronger values imply."""

_NAME: Final = re.compile(r"@([\w.]+)\(")
_JUMP: Final = re.compile(r"  br i1 [^,]+, label %(\w+), ")
_ADDRESS: Final = re.compile(r"^  (%v\d+) = getelementptr ", re.MULTILINE)
_READ: Final = re.compile(r" load .*, ptr (%v\d+)")


def outline(kernel: KernelFunction) -> object:
    """Return a cheap outline of a kernel, equal for kernels whose functions only differ in integers."""
    params = tuple((param.dtype, param.access, param.no_alias) for param in kernel.params)
    return params, tuple(map(_kind, statements(kernel.body)))


def _kind(stmt: Stmt) -> object:
    if isinstance(stmt, For) and stmt.kind is LoopKind.UNROLL:
        return stmt.begin, stmt.end, stmt.step
    return type(stmt)


def in_order(outlines: Sequence[object]) -> list[int]:
    """Return an order in which equal outlines are adjacent, after those that occur once.

    So compilation can start while the texts of several kernels are written.
    """
    counts = Counter(outlines)
    first = {each: place for place, each in reversed([*enumerate(outlines)])}
    return sorted(range(len(outlines)), key=lambda place: (counts[outlines[place]] > 1, first[outlines[place]]))


def joined(modules: Sequence[ModuleText]) -> Iterator[ModuleText]:
    """Yield modules of one kernel each, with those that only differ in integers merged."""
    written = [_KernelModule.of(module) if len(module.functions) == 2 else None for module in modules]
    classes: dict[object, list[_KernelModule]] = {}
    for module, each in zip(modules, written, strict=True):
        if each is None:
            yield module
        else:
            classes.setdefault(each.form, []).append(each)
    for alike in classes.values():
        for several in _apart(alike):
            if len(several) > 1:
                _join(several)
            yield several[0].module


@attrs.frozen(eq=False)
class _KernelModule:
    """Module of one kernel.

    Attributes:
        module: Its entry, and the function that the entry calls.
        header: First line of that function.
        body: Other lines.
        integers: Registers of instructions with trailing integers, and these integers.
        form: The module without integers, names, and trip counts.
    """

    module: ModuleText
    header: str
    body: str
    integers: tuple[tuple[str, int], ...]
    form: object

    @classmethod
    def of(cls, module: ModuleText) -> _KernelModule:
        header, _, body = module.functions[1].partition("\n")
        pieces = _INTEGER.split(body)  # text between instructions with trailing integers, and their three parts
        integers = tuple(zip(pieces[1::4], map(int, pieces[3::4]), strict=True))
        del pieces[3::4]
        nodes = tuple(node for node in module.metadata if WEIGHTS not in node)
        others = tuple(module.globals), tuple(module.declarations), nodes
        form = _PROMISE.sub(r"\1", header.partition("(")[2]), tuple(pieces), others
        return cls(module, header, body, integers, form)

    @property
    def name(self) -> str:
        """The name of the function."""
        return str(_NAME.findall(self.header)[0])

    def columns(self, others: Sequence[_KernelModule]) -> list[tuple[int, ...]]:
        """Return the differences of each integer of others to its own."""
        rows = [[value for _, value in each.integers] for each in (self, *others)]
        return [tuple(value - own for value in values) for own, *values in zip(*rows, strict=True)]


def _apart(alike: list[_KernelModule]) -> list[list[_KernelModule]]:
    """Return modules of one form in mergeable lists: loops of products need their registers."""
    first, *others = alike
    columns = first.columns(others)
    kept: list[int] = []
    for strides in _read_by_products(first.body) if others else ():
        places = [place for place, (register, _) in enumerate(first.integers) if register in strides]
        if len({columns[place] for place in places if any(columns[place])}) > MOST_STRIDES:
            kept += places
    classes: dict[object, list[_KernelModule]] = {}
    for each in alike:
        classes.setdefault(tuple(each.integers[place] for place in kept), []).append(each)
    return [*classes.values()]


def _read_by_products(body: str) -> Iterator[set[str]]:
    """Yield the computed and read address registers in each innermost loop of products."""
    lines = body.splitlines()
    begins: dict[str, int] = {}
    inside = 0  # loops that begin before this line have loops inside
    for number, line in enumerate(lines):
        if line.endswith(":"):
            begins[line[:-1]] = number
        elif (jump := _JUMP.match(line)) and begins.get(jump[1], -1) >= inside:
            text, inside = "\n".join(lines[begins[jump[1]] : number]), number
            if "@llvm.fma" in text:
                yield {*_ADDRESS.findall(text)}.intersection(_READ.findall(text))


def _join(alike: Sequence[_KernelModule]) -> None:
    """Merge modules of one form: one function with parameters, and the entries of all."""
    first, *others = alike
    columns = first.columns(others)
    more = {column: f"%s{number}" for number, column in enumerate(dict.fromkeys(filter(any, columns)))}
    place = iter(columns)
    sums: dict[str, str] = {}

    def spelt(found: re.Match[str]) -> str:
        added = more.get(next(place))
        if added is None:
            return found[0]
        register, instruction, own = found.groups()
        if instruction.startswith("getelementptr"):  # instructions of processors add the integer to the address
            moved = instruction.replace("inbounds ", "")
            beyond = re.sub(r"ptr %\w+", f"ptr {register}.s", moved)
            return f"  {register}.s = {moved}{added}\n  {register} = {beyond}{own}"
        total = f"{added}.{own}"
        sums[total] = f'  %"{total[1:]}" = add nsw i64 {added}, {own}\n'
        return f'  {register} = {instruction}%"{total[1:]}"'

    body = _INTEGER.sub(spelt, first.body)
    start = "entry:\n"
    body = body.replace(start, start + "".join(sums.values()), 1)
    header = _PROMISE.sub(_least([each.header for each in alike]), first.header)
    header = header.replace("i64 %end)", f"i64 %end{''.join(f', i64 {name}' for name in more.values())})")
    entries = []
    for number, each in enumerate(alike):
        given = "".join(f", i64 {(0, *column)[number]}" for column in more)
        (entry, _) = each.module.functions
        before, call, after = entry.rpartition(f"call void @{each.name}(")
        entries.append(before + call.replace(each.name, first.name) + after.replace("%end)", f"%end{given})", 1))
    first.module.functions[:] = [*entries, f"{header}\n{body}"]


def _least(headers: Sequence[str]) -> Callable[[re.Match[str]], str]:
    """Return a replacement with the attributes that hold for all functions, in order."""
    numbers = ([int(number) for _, number in _PROMISE.findall(header)] for header in headers)
    least = map(min, zip(*numbers, strict=True))
    return lambda found: f"{found[1]}{next(least)}"
