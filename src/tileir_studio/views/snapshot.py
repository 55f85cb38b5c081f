"""A program compiled all the way down for one device, with the Stripe program after each pass.

Also the lines that differ between two stages.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path
from typing import Final

from tileir import DeviceInfo, Mesh, default_context, partition
from tileir.core import Target, attrs, fail, nearest
from tileir.core.targets.target_file import all_names_of_targets
from tileir.driver.compiler import Stages, compile_stages, passes_of
from tileir.driver.targets import TargetChoice, choice_of, scheduling_target
from tileir.passes.base import Pass
from tileir.runtime import Library
from tileir.stripe.ir import Program
from tileir.tile.text.parser import parse
from tileir.typed.ir import TensorType
from tileir.typed.sharding.partitioned import Partitioned
from tileir_studio.views.linking import Origins, origins
from tileir_studio.views.subject import Subject
from tileir_studio.views.values import types_of


@attrs.frozen(eq=False, slots=False)
class Snapshot:
    """All stages of one program.

    Attributes:
        subject: The subject of the request.
        types: Dtype and shape of each input.
        device: The device that it is compiled for.
        target: The facts that its passes are computed for.
        steps: Its passes.
        stages: One function at every stage.
        after: The name of each pass, with the program that it returned, in order.
    """

    subject: Subject
    types: dict[str, TensorType]
    device: DeviceInfo
    target: Target
    steps: tuple[Pass, ...]
    stages: Stages
    after: tuple[tuple[str, Program], ...]

    @cached_property
    def origins(self) -> Origins:
        """The statements of values and comments."""
        return origins(self.stages.tile, self.stages.typed)

    @cached_property
    def library(self) -> Library:
        """The generated code."""
        library: Library = default_context().compiler(self.device).build(self.stages.sem.kernels)
        return library

    @cached_property
    def partitioned(self) -> Partitioned:
        """The program that all ranks of the mesh run."""
        mesh = Mesh.of(self.subject.mesh or "")
        return partition(self.stages.tile, mesh, arguments=self.types, target=target_of(self.subject))

    @property
    def forms(self) -> Mapping[str, str]:
        """Forms of generated code that the back end of the device may show, with their titles."""
        return default_context().registry.backend(self.device.backend).forms


def snapshot_of(subject: Subject, folder: Path) -> Snapshot:
    """Compile a program, with uploads from ``folder``.

    Raises:
        TileError: The text is wrong or does not fit the inputs, or there is no such device, target or pass.
    """
    function = parse(subject.text, "program")
    types = types_of(function, subject, folder)
    device = default_context().device(subject.device)
    target = scheduling_target(target_of(subject), device.target, None)
    after: list[tuple[str, Program]] = []
    steps = passes_of(subject.passes, target)
    stages = compile_stages(
        function, types, target, passes=steps, dump=lambda name, program: after.append((name, program))
    )
    return Snapshot(subject, types, device, target, steps, stages, tuple(after))


def target_of(subject: Subject) -> Target | TargetChoice | None:
    """Return the target that a request names, among those of tileir: a page opens no files.

    Raises:
        TileError: TIL547, there is none of that name.
    """
    known = all_names_of_targets()
    if subject.target is not None and subject.target.partition(":")[0] not in known:
        raise fail("TIL547", f"there is no target {subject.target[:64]!r}{nearest(subject.target, known)}")
    return choice_of(subject.target)


MOST_COMPARED: Final = 4000
"""Lines that are compared one by one: beyond, all between the first and last difference counts as changed."""


def changed_lines(before: str, after: str) -> tuple[tuple[int, int], ...]:
    """Return ranges, first to last (exclusive, from 0), of the lines of ``after`` that are new or moved."""
    old, new = before.split("\n"), after.split("\n")
    head = _common(zip(old, new, strict=False))
    most = min(len(old), len(new)) - head
    tail = min(most, _common(zip(reversed(old), reversed(new), strict=False)))
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    if not new:
        return ()
    if len(old) + len(new) > MOST_COMPARED:
        return ((head, head + len(new)),)
    codes = SequenceMatcher(None, old, new).get_opcodes()
    return tuple((head + first, head + last) for kind, _, _, first, last in codes if kind in ("insert", "replace"))


def _common(pairs: zip[tuple[str, str]]) -> int:
    count = 0
    for one, other in pairs:
        if one != other:
            break
        count += 1
    return count
