"""Flags: elements of global memory by which groups of one launch wait for each other."""

from __future__ import annotations

from types import MappingProxyType
from typing import ClassVar

from tileir.core import OPERAND, DType, Role, attrs, role
from tileir.core.nodes.rules import Rule
from tileir.semtree.expressions import Expr, Subscript
from tileir.semtree.kinds import Collective, ParamAccess, Region, Type


@attrs.frozen(cache_hash=True, repr=False)
class Arrive(Collective):
    """Add one to a flag once for the group, and set an element of a private array to the flag's previous value.

    A flag is an element of a parameter of u32. All threads of the group first meet here; their earlier writes to
    parameters are visible to groups that arrive at the flag later, or await it (release). From here on the group sees
    the writes of groups that arrived earlier (acquire): the last group to arrive can continue with the work of all.
    """

    form: ClassVar[str] = "arrive {target} = {flag}"
    rules: ClassVar = (
        Rule(
            lambda s: s.flag.type == s.target.type == Type(DType.U32),
            "flags count in u32, and not in {flag.type} and {target.type}",
        ),
    )
    places: ClassVar = MappingProxyType(
        {
            "flag": (ParamAccess.READ_WRITE, "flags are elements of 'inout' parameters"),
            "target": (Region.PRIVATE, "arrivals set elements of private arrays"),
        }
    )
    target: Subscript = attrs.field(metadata=role(Role.TARGET, Subscript))
    flag: Subscript = attrs.field(metadata=role(Role.UPDATED, Subscript))


@attrs.frozen(cache_hash=True, repr=False)
class Await(Collective):
    """Wait until a flag is at least ``count``; from here on the group sees the earlier writes of groups that arrived.

    All groups of a kernel that awaits flags run at the same time: a device without room for them refuses it.
    """

    form: ClassVar[str] = "await {flag} until {count}"
    rules: ClassVar = (
        Rule(
            lambda s: s.flag.type == s.count.type == Type(DType.U32),
            "flags count in u32, and not in {flag.type} and {count.type}",
        ),
    )
    places: ClassVar = MappingProxyType({"flag": (ParamAccess.READ_WRITE, "flags are elements of 'inout' parameters")})
    flag: Subscript = attrs.field(metadata=role(Role.OPERAND, Subscript))
    count: Expr = attrs.field(metadata=OPERAND)
