"""The text of any node of Stripe, which a text of a program has where the node stands, or would have."""

from __future__ import annotations

from tileir.core.text.writer import Writer, bytes_text, listed
from tileir.stripe.instructions import Copy, Pipeline, Product, Repair, Role, instruction_words, role_words
from tileir.stripe.ir import (
    Block,
    Branch,
    Buffer,
    Carry,
    Constant,
    Convert,
    Device,
    Dim,
    Index,
    Intrinsic,
    Kernel,
    Launch,
    Load,
    LoadIndex,
    Loop,
    Parameter,
    Program,
    Reduction,
    Refinement,
    Special,
    Store,
    Tags,
    TensorShape,
    While,
    Work,
)
from tileir.stripe.shapes import Node
from tileir.stripe.text.printer import (
    index_text,
    location_text,
    reduction_text,
    refinement_text,
    shape_text,
    statement_text,
    tags_text,
    to_text,
)


def node_text(node: Node) -> str:
    """Return the text of a node; works, which text shows as the blocks that they launch, are told in words."""
    match node:
        case Program() | Block():
            return to_text(node)
        case Kernel(parameters=parameters, block=block):
            return "".join(f"{parameter}\n" for parameter in parameters) + to_text(block)
        case Launch() | Loop() | Branch():
            writer = Writer()
            _work(writer, node)
            return writer.text().rstrip("\n")
        case Load() | Store() | LoadIndex() | Constant() | Intrinsic() | Convert() | Special():
            return statement_text(node)
        case Refinement():
            return refinement_text(node)
        case Index():
            return index_text(node)
        case Buffer(name=name, data=data):
            return f'buffer {name} = "{bytes_text(data)}"'
        case _:
            return _part_text(node)


def _part_text(node: Node) -> str:
    """Return the text of what is no statement itself."""
    match node:
        case Parameter(name=name, shape=shape, location=location):
            return f"{name}{location_text(location)} {shape}"
        case Reduction():
            return reduction_text(node)
        case Tags():
            return tags_text(node).rstrip()
        case Device():
            return location_text((node,))[1:-1]
        case TensorShape():
            return shape_text(node)
        case Dim(size=size, stride=stride):
            return f"{size}:{stride}"
        case While(memory=memory):
            return f"while ({memory})"
        case Carry(kept=kept, made=made):
            return f"{kept} = {made}"
        case Product() | Pipeline() | Copy() | Repair():
            return tags_text(Tags.of(**instruction_words(node))).rstrip()
        case Role():
            return tags_text(Tags.of(**role_words(node))).rstrip()
        case _:
            raise TypeError(f"nodes of type {type(node).__name__} have no text")


def _work(writer: Writer, work: Work) -> None:
    match work:
        case Launch(kernel=kernel, arguments=arguments):
            writer.line(f"launch {kernel}({listed(arguments)})")
        case Loop(times=times, works=works, carries=carries):
            _inside(writer, str(times) if isinstance(times, While) else f"repeat {times}", works)
            with writer.indented():
                for carry in carries:
                    writer.line(str(carry))
            writer.line("}")
        case Branch(condition=condition, then=then, otherwise=otherwise):
            _inside(writer, f"if ({condition})", then)
            if otherwise:
                _inside(writer, "} else", otherwise)
            writer.line("}")


def _inside(writer: Writer, head: str, works: tuple[Work, ...]) -> None:
    writer.line(f"{head} {{")
    with writer.indented():
        for work in works:
            _work(writer, work)
