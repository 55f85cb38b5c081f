"""``python -m tileir`` and the ``tileir`` command."""

from __future__ import annotations

import importlib
import sys

from tileir.core.companions import provided
from tileir.core.errors import BackendError


def main() -> None:
    """Run the command line of the package ``tileir_cli``; the extra ``cli`` brings what it needs."""
    try:
        run = importlib.import_module(f"{provided('cli').__name__}.main").run  # type: ignore[attr-defined]  # a package
    except BackendError as error:
        sys.exit(str(error))
    except ModuleNotFoundError as missing:
        if missing.name not in ("click", "rich"):
            raise
        sys.exit(f"the tileir command needs {missing.name}: pip install 'tileir[cli]'")
    sys.exit(run())


if __name__ == "__main__":
    main()
