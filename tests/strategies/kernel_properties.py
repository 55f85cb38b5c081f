"""Counted parts of kernels, and differences between two versions in words."""

from __future__ import annotations

import hashlib
from collections import Counter
from itertools import count
from math import prod
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from tileir.core.fragments import FRAGMENTS
from tileir.semtree.ir import (
    Apply,
    Assign,
    AsyncCopy,
    Barrier,
    BufferRole,
    Declare,
    DeclareArray,
    Dot,
    Expr,
    For,
    If,
    KernelFunction,
    MatrixMultiply,
    Param,
    Prefetch,
    Program,
    Reduce,
    Region,
    Stmt,
    Subscript,
    Var,
)
from tileir.semtree.launches import launches, runs, with_launches
from tileir.semtree.rewrite import expressions, renamed, statements, walk
from tileir.semtree.text.printer import to_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Value: TypeAlias = int | str | list[int] | dict[str, int]
Row: TypeAlias = dict[str, Value]
"""Counted parts of one kernel, without zeros."""

WORDS: Final = {
    "runs": "runs",
    "grid": "groups of the grid",
    "group": "threads of a group",
    "fragments": "multiply fragments",
    "dots": "dot products",
    "lanes": "lanes of arithmetic",
    "staged": "staged bytes of local memory",
    "scratch": "bytes of scratch memory",
    "registers": "bytes of private arrays",
    "copies": "asynchronous copies",
    "prefetches": "prefetches",
    "barriers": "barriers",
    "loads": "loads",
    "stores": "stores",
}
"""The properties of a kernel in the order of a row. Statements are counted once, however often loops run them."""

_REGIONS: Final = {Region.LOCAL: "staged", Region.SCRATCH: "scratch", Region.PRIVATE: "registers"}


def program_row(program: Program) -> Row:
    """Return what a program has beside its kernels: how often it launches any, and bytes between them."""
    between = (buffer for buffer in program.buffers if buffer.role is BufferRole.TEMPORARY)
    return {"launches": sum(runs(program)), "temporaries": sum(b.elements * b.dtype.itemsize for b in between)}


def kernel_rows(program: Program, *, digests: bool = False) -> list[Row]:
    """Return the properties of each kernel, and the digest of its text where they are asked for."""
    rows = []
    for kernel, times in zip(program.kernels, runs(program), strict=True):
        row: Row = {"runs": times, **kernel_row(kernel)}
        rows.append({**row, "digest": digest_of(to_text(canonical(kernel)))} if digests else row)
    return rows


def kernel_row(kernel: KernelFunction) -> Row:
    """Return what a kernel is made of."""
    counts: Counter[str] = Counter()
    for stmt in statements(kernel.body):
        match stmt:
            case DeclareArray(dtype=dtype, size=size, region=region):
                counts[_REGIONS[region]] += size * dtype.itemsize
            case MatrixMultiply(tile=tile, fragment=fragment):
                counts["fragments"] += prod(tile) // prod(FRAGMENTS[fragment].mnk)
            case AsyncCopy():
                counts["copies"] += 1
            case Prefetch():
                counts["prefetches"] += 1
            case Barrier():
                counts["barriers"] += 1
            case _:
                pass
    nodes = [node for stmt in statements(kernel.body) for root in expressions(stmt) for node in walk(root)]
    counts["dots"] = sum(isinstance(node, Dot) for node in nodes)
    found: Row = {
        "grid": list(kernel.grid),
        "group": list(kernel.group) if kernel.group != (1,) else [],
        "lanes": max((node.type.lanes for node in nodes if isinstance(node, Apply | Reduce | Dot)), default=1),
        **counts,
        "loads": _accesses(kernel.params, nodes),
        "stores": _accesses(kernel.params, [s.target for s in statements(kernel.body) if isinstance(s, Assign)]),
    }
    return {name: found[name] for name in WORDS if found.get(name)}


def _accesses(params: tuple[Param, ...], nodes: list[Expr]) -> dict[str, int]:
    """Return how many accesses of each type there are to parameters; those of several places have a star."""
    names = {param.name for param in params}
    found = (node for node in nodes if isinstance(node, Subscript) and node.array in names)
    counts = Counter(f"{node.type}{'*' if node.offset.type.lanes > 1 else ''}" for node in found)
    return dict(sorted(counts.items()))


def canonical(kernel: KernelFunction) -> KernelFunction:
    """Return a kernel with numbers for names, by the place of what introduces them, and without comments."""
    names = {param.name: f"p{number}" for number, param in enumerate(kernel.params)}
    params = tuple(attrs.evolve(param, name=names[param.name]) for param in kernel.params)
    return attrs.evolve(kernel, name="k", params=params, body=_numbered(kernel.body, names, count()), comments=())


def _numbered(stmts: tuple[Stmt, ...], outer: Mapping[str, str], numbers: Iterator[int]) -> tuple[Stmt, ...]:
    """Return statements with numbered names; siblings that share a name get one each."""
    names = dict(outer)

    def shown(expr: Expr) -> Expr:
        (holder,) = renamed((Declare(Var("", expr.type), expr),), names)
        assert isinstance(holder, Declare)
        return holder.value

    result: list[Stmt] = []
    for stmt in stmts:
        match stmt:
            case Declare(variable=variable):
                value, names[variable.name] = shown(stmt.value), f"v{next(numbers)}"
                result.append(Declare(Var(names[variable.name], variable.type), value))
            case DeclareArray(name=name):
                names[name] = f"v{next(numbers)}"
                result.append(attrs.evolve(stmt, name=names[name]))
            case For(counter=Var(name=name, type=kind)):
                bounds, number = (shown(stmt.begin), shown(stmt.end)), f"v{next(numbers)}"
                body = _numbered(stmt.body, {**names, name: number}, numbers)
                result.append(For(Var(number, kind), *bounds, stmt.step, body, stmt.kind))
            case If():
                branches = (_numbered(branch, names, numbers) for branch in (stmt.then, stmt.otherwise))
                result.append(If(shown(stmt.condition), *branches))
            case _:
                result.extend(renamed((stmt,), names))
    return tuple(result)


def program_digest(program: Program) -> str:
    """Return a digest that renaming of kernels, buffers and variables does not change, and all else does."""
    numbers = {name: str(number) for number, name in enumerate(_used(program))}
    works = with_launches(
        program.works, lambda launch: attrs.evolve(launch, arguments=tuple(numbers[a] for a in launch.arguments))
    )
    kept = sorted((b for b in program.buffers if b.name in numbers), key=lambda b: int(numbers[b.name]))
    buffers = tuple(attrs.evolve(buffer, name=numbers[buffer.name]) for buffer in kept)
    kernels = tuple(attrs.evolve(canonical(kernel), name=f"k{n}") for n, kernel in enumerate(program.kernels))
    return digest_of(to_text(Program(kernels, buffers, works)))


def _used(program: Program) -> list[str]:
    return list(dict.fromkeys(name for launch in launches(program.works) for name in launch.arguments))


def digest_of(text: str) -> str:
    """Return a short digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def differences(name: str, old: Row, new: Row) -> list[str]:
    """Return in words what changed between two rows; the digest only where nothing else did."""
    words = {"launches": "launches", "temporaries": "bytes of temporaries", **WORDS}
    found = [
        f"{name}: {words[key]} {_shown(old.get(key))} -> {_shown(new.get(key))}"
        for key in words
        if old.get(key) != new.get(key) and not isinstance(old.get(key, new.get(key)), dict)
    ]
    for key in ("loads", "stores"):
        before, after = (_counts(row.get(key, {})) for row in (old, new))
        found += [
            f"{name}: {key} of {kind} {before.get(kind, 0)} -> {after.get(kind, 0)}"
            for kind in sorted({*before, *after})
            if before.get(kind, 0) != after.get(kind, 0)
        ]
    if not found and old.get("digest") != new.get("digest"):
        found.append(f"{name}: the text is another, though all that is counted is the same")
    return found


def _counts(value: Value) -> dict[str, int]:
    assert isinstance(value, dict)
    return value


def _shown(value: Value | None) -> str:
    return " x ".join(map(str, value)) if isinstance(value, list) else str(value or 0)
