"""Schemas of all JSON formats. A changed schema needs a new version number."""

from __future__ import annotations

import enum
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Final, get_args, get_origin, get_type_hints

import attrs
import pytest

import tileir
from tileir.core import DType, Op
from tileir.core.json.codec import format_of
from tileir.core.json.encoder import added, encode, field_names
from tileir.core.json.versions import version_of
from tileir.driver.distribution.checkpoints import Manifest
from tileir.schedule.script import Script
from tileir.semtree.expressions import Apply, Const
from tileir.semtree.ir import KernelFunction, Program as SemProgram
from tileir.semtree.kinds import Type
from tileir.stripe.ir import Program as StripeProgram
from tileir.typed.ir import Function as TypedFunction
from tileir.typed.sharding.partitioned import Partitioned
from tileir_formula.ir import Formula

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOTS: Final = (
    *(tileir.Function, TypedFunction, Partitioned, StripeProgram, SemProgram, KernelFunction),
    *(Formula, Script, tileir.Target, Manifest),
)


def parts(hint: object) -> Iterator[type]:
    """Yield the classes that an annotation names."""
    if isinstance(hint, UnionType) or get_origin(hint) is tuple:
        for each in get_args(hint):
            yield from parts(each)
    elif isinstance(hint, type):
        yield hint


def spelled(hint: object) -> str:
    """Return an annotation as text that is the same on all versions of Python."""
    if isinstance(hint, UnionType):
        return " | ".join(sorted(set(map(spelled, get_args(hint)))))
    if get_origin(hint) is tuple:
        return f"[{', '.join(map(spelled, get_args(hint)))}]"
    if hint is memoryview:
        return "bytes"
    if hint in (..., NoneType):
        return "..." if hint is ... else "null"
    return getattr(hint, "__name__", str(hint))


def schema(root: type) -> str:
    """Return the version of a format, then each class and enumeration that its documents may hold.

    What documents may lack has a question mark.
    """
    lines, seen, pending = [], {root}, [root]
    while pending:
        cls = pending.pop()
        if issubclass(cls, enum.Enum):
            lines.append(f"{cls.__name__}: {', '.join(repr(member.value) for member in cls)}")
            continue
        if not attrs.has(cls):
            continue
        hints = get_type_hints(cls)
        fields = {name: hints[name] for name in field_names(cls)}
        told = (f"{name}{'?' * (name in added(cls))}: {spelled(hint)}" for name, hint in fields.items())
        lines.append(f"{cls.__name__} {{{'; '.join(told)}}}")
        new = {part for hint in fields.values() for part in parts(hint)} - seen
        seen |= new
        pending.extend(new)
    return "\n".join([f"{format_of(root)}, version {version_of(format_of(root))}", *sorted(lines), ""])


@pytest.mark.parametrize("root", ROOTS, ids=format_of)
def test_a_format_changes_with_its_version(root: type, golden: Callable[[str], None]) -> None:
    """Raise the version in ``core/json/versions.py`` where a release has the old one; then ``--update-golden``."""
    golden(schema(root))


def test_classes_have_names_of_their_own() -> None:
    for root in ROOTS:
        names = [line.split(" ", 1)[0] for line in schema(root).splitlines()[1:]]
        assert len(names) == len(set(names)), root


def test_nodes_that_a_document_shares_have_one_form() -> None:
    number = Const(1.0, Type(DType.F32))
    form = encode(Apply(Op.ADD, (number, number)))
    assert isinstance(form, dict)
    assert form["args"][0] is form["args"][1]
    assert form["args"][0] == {"$": "Const", "type": {"$": "Type", "dtype": "f32", "lanes": 1}, "value": 1.0}
