"""Compilation requests: all settings of callers and contexts that determine the kernels of a program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tileir.core import Target, attrs
from tileir.driver.compilation import PROGRAM, Request
from tileir.driver.pass_arguments import given_passes
from tileir.driver.programs import Compilable
from tileir.driver.targets import TargetChoice, scheduling_target
from tileir.driver.tuned_pipelines import tuned
from tileir.runtime import Context, DeviceInfo, Options
from tileir.runtime.caches.carried_entries import CarriedEntries
from tileir.runtime.caches.file_digests import recall_digests
from tileir.tile.ir import Function
from tileir.tile.traversal import arrays
from tileir.typed import ir as typed

if TYPE_CHECKING:
    from tileir.passes.base import Pass


@attrs.frozen
class Origin:
    """Settings of an executable's compilation, beside its program and types."""

    options: Options
    passes: tuple[Pass, ...] | str | None
    choice: Target | TargetChoice | None


def is_stored(
    program: Compilable,
    types: Mapping[str, typed.TensorType],
    context: Context,
    device: str | DeviceInfo | None,
    options: Options | None = None,
    choice: Target | TargetChoice | None = None,
    carried: CarriedEntries | None = None,
) -> bool:
    """Return whether a file, or the cache on disk, has the kernels for these settings."""
    wanted = context.options if options is None else options
    disk = carried or context.disk_cache
    if disk is None or wanted.quick:
        return False
    key = requested(program, types, context, context.device(device), wanted, None, choice, carried).key
    return key is not None and disk.holds(PROGRAM, key)


def requested(
    program: Compilable,
    types: Mapping[str, typed.TensorType],
    context: Context,
    chosen: DeviceInfo,
    wanted: Options,
    passes: tuple[Pass, ...] | str | None,
    choice: Target | TargetChoice | None,
    carried: CarriedEntries | None = None,
    *,
    winners: bool = True,
) -> Request:
    """Return the request for these settings; pipelines found by tuning apply only with ``winners``."""
    if context.disk_cache is not None and isinstance(program, Function) and not wanted.quick:
        recall_digests(arrays(program), context.disk_cache)
    device_target = chosen.target.with_approximations() if wanted.fast_math else chosen.target
    target = scheduling_target(None, device_target, wanted.threads)
    scheduling = None if choice is None else scheduling_target(choice, device_target, wanted.threads)
    if wanted.quick and choice is None and target.pipeline == _PROCESSORS:
        scheduling = attrs.evolve(target, pipeline=_QUICK)
    request = Request(program, dict(types), target, given_passes(passes), scheduling, default=passes is None)
    disk = carried or context.disk_cache
    if winners and passes is None and disk is not None and not wanted.quick:
        request = tuned(request, disk, context.compiler(chosen, wanted), chosen)
    return request


_PROCESSORS: Final = "cpu"
_QUICK: Final = "quick"
"""Names of targets: one whose programs can be compiled quickly for :attr:`Options.quick`, and its quick variant."""
