"""Folder of the hook for PyInstaller, which finds it by the entry point ``pyinstaller40``."""

from __future__ import annotations

from pathlib import Path


def hook_folders() -> list[str]:
    """Return the folder with the hook of the package tileir."""
    return [str(Path(__file__).parent)]
