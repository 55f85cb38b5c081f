"""``python -m tileir`` and the ``tileir`` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; the extra ``cli`` brings what it needs."""
    try:
        from tileir.driver.cli.main import run
    except ModuleNotFoundError as missing:
        if missing.name not in ("click", "rich"):
            raise
        sys.exit(f"the tileir command needs {missing.name}: pip install 'tileir[cli]'")
    sys.exit(run())


if __name__ == "__main__":
    main()
