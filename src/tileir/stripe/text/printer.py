"""Printer of Stripe text, which :mod:`tileir.stripe.text.parser` reads back to an equal value.

The form is PlaidML's, with these additions: a first line with the parameters and results of a program and a last
line for each constant buffer; dtypes of constants, conversions and (unless the operands determine them) intrinsics;
values of refinement tags; indirect loads and stores; ``at@`` for an allocation that has been placed, while
``new@0x00000000`` has not; a range behind the affine of an index unless it is 1.

Kernels that differ only in names are one, with the names of the first. In text each launch has its own names again, if
they are free; the parser finds the same kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final

from tileir.core import DType, attrs
from tileir.core.text.writer import Writer, listed
from tileir.stripe.dtypes import SPELLING, intrinsic_dtype, scalar_dtype
from tileir.stripe.instructions import Copy, Pipeline, Product, Repair, Role, role_words
from tileir.stripe.ir import (
    KERNEL,
    USER,
    Block,
    Direction,
    Index,
    Intrinsic,
    Kernel,
    Launch,
    Program,
    Refinement,
    Statement,
    Tags,
    scalar_output,
)
from tileir.stripe.lower.kernel_table import launched
from tileir.stripe.lower.renaming import with_names
from tileir.stripe.nesting import entry_around, main_of, parameters_of
from tileir.stripe.shapes import Node
from tileir.stripe.text.instruction_words import instruction_words
from tileir.stripe.text.language import LANGUAGE, byte_text, location_text, tags_text


def named(kernel: Kernel, launch: Launch) -> Block:
    """Return the block of a launch, with the names of its arguments in place of parameter names."""
    block = launched(kernel, launch)
    names = {own.name: name for own, name in zip(kernel.parameters, launch.arguments, strict=True) if own.name != name}
    return with_names(block, names) if names else block


SEED: Final = "seed"
"""The style of the first slides about Stripe."""

STYLES: Final = ("plain", SEED)


def to_text(node: Program | Block, style: str = STYLES[0]) -> str:
    """Return the text of a program, or of a block with its content; the parser reads each style.

    In the style ``seed`` the header of a block is one line, shapes are ``dtype(size:stride, …)``, redundant facts are
    left out, and the parameters of a program follow from the reads and writes of its block ``main``, if possible.

    Raises:
        ValueError: The style is unknown.
    """
    if style not in STYLES:
        raise ValueError(f"there is no style {style!r}: write one of {', '.join(STYLES)}")
    writer = Writer()
    seed = style == SEED
    if isinstance(node, Block):
        _block(writer, node, 0, seed)
        return writer.text()
    entry = entry_around(node, main_of(node, _kernel))
    if not seed or parameters_of(entry) != (node.inputs, node.outputs):
        writer.line(f"program ({', '.join(node.inputs)}) -> ({', '.join(node.outputs)})")
    if seed:
        entry = attrs.evolve(entry, refinements=tuple(map(_without_user, entry.refinements)))
    _block(writer, entry, 0, seed)
    for buffer in node.buffers:
        writer.line(LANGUAGE.text(None, buffer))
    return writer.text()


def node_text(node: Node) -> str:
    """Return the text of any node; works, which text shows as blocks, are described in words."""
    match node:
        case Program() | Block():
            return to_text(node)
        case Kernel(parameters=parameters, block=block):
            return "".join(f"{parameter}\n" for parameter in parameters) + to_text(block)
        case Refinement():
            return refinement_text(node)
        case Index():
            return _index(node)
        case Tags():
            return tags_text(node).rstrip()
        case Product() | Pipeline() | Copy() | Repair():
            return tags_text(Tags.of(**instruction_words(node))).rstrip()
        case Role():
            return tags_text(Tags.of(**role_words(node))).rstrip()
        case _:
            return LANGUAGE.text(None, node)


def _without_user(memory: Refinement) -> Refinement:
    return attrs.evolve(memory, tags=memory.tags.remove(USER))


def _kernel(kernel: Kernel, launch: Launch) -> Block:
    """Return the block of a launch as text shows it."""
    block = named(kernel, launch)
    return attrs.evolve(block, tags=block.tags.add(KERNEL))


def refinement_text(refinement: Refinement, ranges: Mapping[str, int] | None = None, seed: bool = False) -> str:
    """Return the line of a refinement; given the ranges of its block's indices, with the exterior."""
    location, shape = location_text(refinement.location), refinement.shape
    parts = [f"{tags_text(refinement.tags)}{refinement.direction.value}"]
    if refinement.constant:
        parts.append("const")
    if refinement.offset is not None:
        parts.append(f"at@{refinement.offset:#010x}")
    elif refinement.direction is Direction.NONE:
        parts.append("new@0x00000000")
    before = seed and not refinement.constant  # after the word const a location would make it a name
    if before:
        parts[-1] += location
    parts.append(refinement.name)
    if refinement.source not in ("", refinement.name):
        parts.append(f"= {refinement.source}")
    aggregation = "" if refinement.aggregation is None else f":{refinement.aggregation.value}"
    parts[-1] += f"{'' if before else location}[{_access(refinement)}]{aggregation}"
    parts.append(f"{SPELLING[shape.dtype]}({listed(shape.dims)})" if seed else LANGUAGE.text(None, shape))
    text = " ".join(parts)
    if ranges is not None and not seed and refinement.direction is not Direction.NONE:
        text += _exterior(refinement, ranges)
    if refinement.cache_unit is not None:
        text += f", cache[{refinement.cache_unit}]"
    return text


def statement_text(statement: Statement, natural: DType | None = None) -> str:
    """Return one statement without its number, tags and dependencies; of a block only the header.

    ``natural`` is the dtype of an intrinsic from its operands: another dtype is written.
    """
    return _block_header(statement) if isinstance(statement, Block) else LANGUAGE.text(natural, statement)


def _access(refinement: Refinement) -> str:
    bank = refinement.bank_dim
    return listed(f"{{{affine}}}" if axis == bank else affine for axis, affine in enumerate(refinement.access))


def _exterior(refinement: Refinement, ranges: Mapping[str, int]) -> str:
    """Return the exterior, accessed by all points of the block together; empty for an invalid access."""
    shape = refinement.shape
    if len(refinement.access) != len(shape.dims) or not all(
        affine.is_integral and all(name in ranges for name in affine.indices) for affine in refinement.access
    ):
        return ""
    sizes = [
        dim.size + sum(abs(int(coefficient)) * (ranges[name] - 1) for name, coefficient in affine.terms)
        for dim, affine in zip(shape.dims, refinement.access, strict=True)
    ]
    return f", E({listed(sizes)}):{byte_text(prod(sizes) * shape.dtype.itemsize)}"


def _index(index: Index) -> str:
    """Return ``name:range``, or ``name = affine``, with its tags."""
    if index.affine is None:
        text = f"{index.name}:{index.range}"
    else:
        count = "" if index.range == 1 else f":{index.range}"
        text = f"{index.name} = {index.affine}{count}"
    return f"({tags_text(index.words)}{text})" if index.is_marked else text


def _block_header(block: Block, seed: bool = False) -> str:
    name = f" // {block.name}" if block.name else ""
    count = "" if seed else f":{block.points}"
    return f"block{location_text(block.location)} [{', '.join(map(_index, block.indices))}]{count} ({name}"


def _prefix(number: int, statement: Statement) -> str:
    deps = f"[{listed(statement.deps)}] " if statement.deps else ""
    words = statement.words if isinstance(statement, Block) else statement.tags
    return f"{number}: {deps}{tags_text(words)}"


def _block(writer: Writer, block: Block, number: int, seed: bool) -> None:
    if seed:
        writer.line(_prefix(number, block) + _block_header(block, seed))
    else:
        writer.line(_prefix(number, block).rstrip())
        writer.line(_block_header(block))
    ranges = block.ranges
    with writer.indented(2):
        for comment in block.comments:
            writer.line(f"// {comment}")
        for constraint in block.constraints:
            writer.line(f"{constraint} >= 0")
        if (reduction := block.reduction) is not None:
            writer.line(LANGUAGE.text(None, reduction))
        for refinement in block.refinements:
            writer.line(refinement_text(refinement, ranges, seed))
    writer.line(") {")
    with writer.indented():
        _body(writer, block, seed)
    writer.line("}")


def _body(writer: Writer, block: Block, seed: bool) -> None:
    views = {refinement.name: refinement.shape.dtype for refinement in block.refinements}
    scalars: dict[str, DType | None] = {}
    for number, statement in enumerate(block.statements):
        if isinstance(statement, Block):
            _block(writer, statement, number, seed)
            continue
        natural = None
        if isinstance(statement, Intrinsic):
            natural = intrinsic_dtype(statement.op, [scalars.get(name) for name in statement.inputs])
        writer.line(_prefix(number, statement) + statement_text(statement, natural))
        if (name := scalar_output(statement)) is not None:
            scalars[name] = scalar_dtype(statement, views)
