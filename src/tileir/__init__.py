"""Tensor programs as immutable data: the Tile language, the Stripe IR, the semtree, and back ends as plug-ins.

Importing this package touches no driver, starts no thread, writes no file and loads no plug-in. Each name loads its
module when it is first used.
"""

import importlib
import types
import typing

from tileir.core.version import VERSION as _VERSION

if typing.TYPE_CHECKING:
    from tileir import distributed as distributed, frontends as frontends, ops as ops
    from tileir.core import (
        ArgumentError,
        BackendError,
        Diagnostic,
        DType,
        ParseError,
        SkippedPassWarning,
        Source,
        Span,
        TileError,
        VerifyError,
        content_hash,
        from_json,
        to_json,
    )
    from tileir.core.targets.target import Target
    from tileir.driver.binding import bind
    from tileir.driver.bundles import load, save
    from tileir.driver.calls.pending import PendingCall
    from tileir.driver.calls.stepper import Stepper, stepper
    from tileir.driver.differentiation import gradient, jvp, vjp
    from tileir.driver.distribution.distributed import Distributed, distribute
    from tileir.driver.distribution.partitioning import partition
    from tileir.driver.executable import Executable, compile  # noqa: A004  the public verb
    from tileir.driver.forms import parse, to_text, verify
    from tileir.driver.jit import Jit, evaluate, jit
    from tileir.driver.tracing.control import cond, scan, while_loop
    from tileir.driver.tracing.functions import PythonFunction, function
    from tileir.driver.tracing.mapping import vmap
    from tileir.driver.tracing.transforms import value_and_grad
    from tileir.runtime.caches.disk_cache import DiskCache
    from tileir.runtime.context import Context, default_context, trim
    from tileir.runtime.devices.array import DeviceArray
    from tileir.runtime.devices.regions import MemoryRegions, memory
    from tileir.runtime.devices.transfer import to_device
    from tileir.runtime.interface import Backend, DeviceInfo, Options
    from tileir.tile.builder import FunctionBuilder
    from tileir.tile.ir import Function
    from tileir.typed.ir import TensorType
    from tileir.typed.sharding.mesh import Mesh, Sharding
    from tileir.typed.sharding.partitioned import Partitioned
    from tileir_formula.running.crafting import CraftedFormula, craft
    from tileir_performance.explain.explanation import Explanation, explain
    from tileir_performance.tuning.search import Tuned, tune
    from tileir_performance.warnings.programs import warnings_of

__version__: typing.Final = _VERSION

__all__ = [
    "ArgumentError",
    "Backend",
    "BackendError",
    "Context",
    "CraftedFormula",
    "DType",
    "DeviceArray",
    "DeviceInfo",
    "Diagnostic",
    "DiskCache",
    "Distributed",
    "Executable",
    "Explanation",
    "Function",
    "FunctionBuilder",
    "Jit",
    "MemoryRegions",
    "Mesh",
    "Options",
    "ParseError",
    "Partitioned",
    "PendingCall",
    "PythonFunction",
    "Sharding",
    "SkippedPassWarning",
    "Source",
    "Span",
    "Stepper",
    "Target",
    "TensorType",
    "TileError",
    "Tuned",
    "VerifyError",
    "bind",
    "compile",
    "cond",
    "content_hash",
    "craft",
    "default_context",
    "devices",
    "distribute",
    "evaluate",
    "explain",
    "from_json",
    "function",
    "gradient",
    "jit",
    "jvp",
    "load",
    "memory",
    "parse",
    "partition",
    "save",
    "scan",
    "stepper",
    "to_device",
    "to_json",
    "to_text",
    "trim",
    "tune",
    "value_and_grad",
    "verify",
    "vjp",
    "vmap",
    "warnings_of",
    "while_loop",
]


def devices() -> tuple["DeviceInfo", ...]:
    """Return the devices of all back ends that can be loaded; ``default_context().failures()`` has the others."""
    from tileir.runtime.context import default_context

    return default_context().devices()


_LATER: typing.Final = types.MappingProxyType(
    {
        name: f"tileir.{module}"
        for module, names in {
            "core.dtype": ("DType",),
            "core.errors": (
                "ArgumentError",
                "BackendError",
                "Diagnostic",
                "ParseError",
                "SkippedPassWarning",
                "TileError",
                "VerifyError",
            ),
            "core.json.codec": ("content_hash", "from_json", "to_json"),
            "core.targets.target": ("Target",),
            "core.text.span": ("Source", "Span"),
            "driver.binding": ("bind",),
            "driver.bundles": ("load", "save"),
            "driver.calls.pending": ("PendingCall",),
            "driver.calls.stepper": ("Stepper", "stepper"),
            "driver.differentiation": ("gradient", "jvp", "vjp"),
            "driver.distribution.distributed": ("Distributed", "distribute"),
            "driver.distribution.partitioning": ("partition",),
            "driver.executable": ("Executable", "compile"),
            "driver.forms": ("parse", "to_text", "verify"),
            "driver.jit": ("Jit", "evaluate", "jit"),
            "driver.tracing.control": ("cond", "scan", "while_loop"),
            "driver.tracing.functions": ("PythonFunction", "function"),
            "driver.tracing.mapping": ("vmap",),
            "driver.tracing.transforms": ("value_and_grad",),
            "runtime.caches.disk_cache": ("DiskCache",),
            "runtime.context": ("Context", "default_context", "trim"),
            "runtime.devices.array": ("DeviceArray",),
            "runtime.devices.regions": ("MemoryRegions", "memory"),
            "runtime.devices.transfer": ("to_device",),
            "runtime.interface": ("Backend", "DeviceInfo", "Options"),
            "tile.builder": ("FunctionBuilder",),
            "tile.ir": ("Function",),
            "typed.ir": ("TensorType",),
            "typed.sharding.mesh": ("Mesh", "Sharding"),
            "typed.sharding.partitioned": ("Partitioned",),
        }.items()
        for name in names
    }
)
"""The module of each name. It is loaded when the name is first used: no program uses all of them."""

_MODULES: typing.Final = ("distributed", "frontends", "ops")
"""Modules that are loaded when they are first used: arrays whose parts ranks have, front ends, operations."""

_BESIDE: typing.Final = ("CraftedFormula", "Explanation", "Tuned", "craft", "explain", "tune", "warnings_of")
"""Names that packages built on the compiler provide by entry points."""

if not typing.TYPE_CHECKING:  # or every unknown name would have a type

    def __getattr__(name: str) -> object:
        """Load names of :data:`_MODULES` and :data:`_LATER` when they are first used."""
        if name in _MODULES:
            return importlib.import_module(f"tileir.{name}")
        if name in _LATER:
            from tileir.core.process.collection import collection_paused

            with collection_paused(lasting=True):  # all of it stays, so to walk it again and again finds nothing
                value = globals()[name] = getattr(importlib.import_module(_LATER[name]), name)
            return value
        if name in _BESIDE:
            from tileir.core.companions import provided

            value = globals()[name] = provided(name)
            return value
        from tileir.core.text.advice import missing_attribute  # for faults only

        raise missing_attribute(__name__, name, __all__)

    def __dir__() -> list[str]:
        return sorted({*__all__, *_MODULES, *(name for name in globals() if name.startswith("__"))})
