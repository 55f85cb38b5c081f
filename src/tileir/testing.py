"""Tests for authors of plug-ins: names and command of the package ``tileir_testing``, found when they are first used.

``python -m tileir.testing NAME`` runs the conformance kit on a back end.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from tileir_testing import (
        check_command as check_command,
        check_gradients as check_gradients,
        check_installed as check_installed,
        check_language as check_language,
        check_listing as check_listing,
        check_operation as check_operation,
        check_pass as check_pass,
        check_passes as check_passes,
        check_schedule as check_schedule,
        check_target as check_target,
        check_transport as check_transport,
    )


def _package() -> ModuleType:
    """Load the package.

    Raises:
        BackendError: TIL811, it is not installed.
    """
    from tileir.core.companions import provided

    package: ModuleType = provided("testing")  # type: ignore[assignment]
    return package


def main() -> int:
    """Run the command; the result is 0 where everything is as it should be."""
    from tileir.core.errors import BackendError

    try:
        package = _package()
    except BackendError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    code: int = importlib.import_module(f"{package.__name__}.__main__").main()
    return code


if not TYPE_CHECKING:  # or every unknown name would have a type

    def __getattr__(name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        package = _package()
        if name not in package.__all__:
            from tileir.core.text.advice import missing_attribute  # for faults only

            raise missing_attribute(__name__, name, package.__all__)
        return getattr(package, name)

    def __dir__() -> list[str]:
        return sorted({"main", *_package().__all__, *(name for name in globals() if name.startswith("__"))})


if __name__ == "__main__":
    sys.exit(main())
