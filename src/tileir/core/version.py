"""The version of this release of tileir."""

from typing import Final

VERSION: Final = "0.1.0"
