"""Plants a fault into the running tileir: functions of a module get the code that a changed source gives them."""

from __future__ import annotations

import functools
import gc
import importlib
import inspect
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tileir.core.nodes.rewrite import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mutants.mutant import Mutant


def plant(mutant: Mutant) -> None:
    """Change the functions of a module in place, for good: do so in a process of its own.

    Raises:
        ValueError: The source does not hold the piece exactly once.

    """
    module = importlib.import_module(mutant.path)
    assert module.__file__ is not None
    source = Path(module.__file__).read_text(encoding="utf-8")
    if source.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: {mutant.old!r} stands {source.count(mutant.old)} times in {mutant.module}")
    changed = types.ModuleType(module.__name__)
    changed.__file__ = module.__file__
    sys.modules[module.__name__] = changed
    try:
        exec(compile(source.replace(mutant.old, mutant.new), module.__file__, "exec"), vars(changed))
    finally:
        sys.modules[module.__name__] = module
    new = dict(_functions(changed))
    functions_are_the_same = all(function.__code__ == new[name].__code__ for name, function in _functions(module))
    _replace_constants(module, changed, tables_only=not functions_are_the_same)
    for name, function in _functions(module):
        function.__code__ = new[name].__code__
    for cached in [o for o in gc.get_objects() if isinstance(o, functools._lru_cache_wrapper)]:
        cached.cache_clear()


def _replace_constants(module: types.ModuleType, changed: types.ModuleType, *, tables_only: bool) -> None:
    """Give all modules the constants of a changed source in place of those that they took from the module.

    Tables may hold functions that other functions have made, and are equal though these differ.
    """
    for name, value in [*vars(module).items()]:
        is_table = isinstance(value, Mapping)
        differs = is_table or (not tables_only and name in vars(changed) and vars(changed)[name] != value)
        if name.strip("_").isupper() and differs:
            for other in [*sys.modules.values()]:
                if vars(other).get(name) is value:
                    setattr(other, name, vars(changed)[name])


def _functions(module: types.ModuleType) -> Iterator[tuple[str, types.FunctionType]]:
    """Yield the functions and methods that the source of a module defines, with their names."""
    for name, value in vars(module).items():
        if isinstance(value, Rule):
            value = value.apply
        if getattr(value, "__module__", None) != module.__name__:
            continue
        found = inspect.unwrap(value) if callable(value) else value  # code is that of what a decorator wraps
        if isinstance(found, types.FunctionType):
            yield name, found
        elif isinstance(found, type):
            for inner, member in vars(found).items():
                method = member.__func__ if isinstance(member, classmethod | staticmethod) else member
                method = method.fget if isinstance(method, property) else method
                method = inspect.unwrap(method) if callable(method) else method
                if isinstance(method, types.FunctionType) and method.__code__.co_filename == module.__file__:
                    yield f"{name}.{inner}", method
