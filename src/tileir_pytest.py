"""The pytest plug-in of tileir: brings the options of the conformance kit to runs of the kit, nothing to others."""

from __future__ import annotations

from typing import Final

import pytest

KIT: Final = "tileir_testing"


def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Load the plug-in of the kit where the command line asks for the kit; options must be known this early."""
    if any(arg == KIT or arg.startswith(f"{KIT}.") for arg in args):
        early_config.pluginmanager.import_plugin(f"{KIT}.plugin")
