"""The stages that the page can show: a table of families, each of which names its stages and makes their texts.

A further stage is one more family, or one more entry of one; the page draws what it is told of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import attrs

from tileir.core.errors import fail
from tileir.core.json.codec import to_json
from tileir.core.text.names import nearest
from tileir.semtree.text.printer import to_text as semtree_text
from tileir.stripe.ir import Program
from tileir.stripe.text.printer import to_text as stripe_text
from tileir.studio.views.linking import (
    listing_regions,
    semtree_regions,
    stripe_regions,
    tile_regions,
    typed_regions,
)
from tileir.studio.views.snapshot import Snapshot, changed_lines
from tileir.studio.views.views import Region, StageEntry, StageView
from tileir.tile.text.printer import to_text as tile_text
from tileir.typed.text.printer import to_text as typed_text


@attrs.frozen
class Stage:
    """One stage of a program.

    Attributes:
        entry: What the page lists.
        text: Makes its text.
        json: Makes its JSON; None where a stage is text only.
        regions: Tells which lines of the text came of which statements.
        before: Makes the text of the stage that it is compared with; None where it is compared with none.

    """

    entry: StageEntry
    text: Callable[[], str]
    json: Callable[[], bytes] | None
    regions: Callable[[str], tuple[Region, ...]]
    before: Callable[[], str] | None = None


def _front(snapshot: Snapshot) -> Iterator[Stage]:
    stages, found = snapshot.stages, snapshot.origins
    yield Stage(
        StageEntry("tile", "Tile", "Program"),
        partial(tile_text, stages.tile),
        partial(to_json, stages.tile),
        tile_regions,
    )
    yield Stage(
        StageEntry("typed", "Typed", "Program"),
        partial(typed_text, stages.typed),
        partial(to_json, stages.typed),
        partial(typed_regions, found=found),
    )


def _stripe(snapshot: Snapshot) -> Iterator[Stage]:
    before = snapshot.stages.stripe
    yield _stripe_stage(snapshot, StageEntry("stripe", "before all passes", "Stripe"), before, None)
    for number, (name, program) in enumerate(snapshot.after, 1):
        entry = StageEntry(f"stripe.{number}", f"{number}. {name}", "Stripe", changed=program is not before)
        yield _stripe_stage(snapshot, entry, program, before)
        before = program


def _stripe_stage(snapshot: Snapshot, entry: StageEntry, program: Program, before: Program | None) -> Stage:
    return Stage(
        entry,
        partial(stripe_text, program),
        partial(to_json, program),
        partial(stripe_regions, found=snapshot.origins),
        None if before is None else partial(stripe_text, before),
    )


def _kernels(snapshot: Snapshot) -> Iterator[Stage]:
    program = snapshot.stages.sem
    regions = partial(semtree_regions, kernels=program.kernels, found=snapshot.origins)
    yield Stage(
        StageEntry("sem", "Kernels", "Semtree"), partial(semtree_text, program), partial(to_json, program), regions
    )


def _listings(snapshot: Snapshot) -> Iterator[Stage]:
    regions = partial(listing_regions, kernels=snapshot.stages.sem.kernels, found=snapshot.origins)
    for form, title in snapshot.forms.items():
        entry = StageEntry(f"code.{form}", title, "Generated code")
        yield Stage(entry, lambda form=form: snapshot.library.listing(form), None, regions)  # type: ignore[misc]


FAMILIES: Final[tuple[Callable[[Snapshot], Iterator[Stage]], ...]] = (_front, _stripe, _kernels, _listings)
"""What there is to see, from the program to the code."""


def stages_of(snapshot: Snapshot) -> dict[str, Stage]:
    """Return all stages by name, in the order of the way down. None of their texts is made yet."""
    return {stage.entry.name: stage for family in FAMILIES for stage in family(snapshot)}


def stage_called(snapshot: Snapshot, name: str) -> Stage:
    """Return the stage of that name.

    Raises:
        TileError: TIL913, there is none.
    """
    stages = stages_of(snapshot)
    if name not in stages:
        raise fail("TIL913", f"there is no stage {name[:64]!r}{nearest(name, stages)}")
    return stages[name]


def view_of(stage: Stage) -> StageView:
    """Return the text of a stage with its links and changes.

    Raises:
        BackendError: The back end refused a kernel, or does not have this form of code.
    """
    text = stage.text()
    changes = () if stage.before is None else changed_lines(stage.before(), text)
    return StageView(stage.entry.name, stage.entry.title, text, stage.regions(text), changes)
