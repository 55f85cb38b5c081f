"""The stable diagnostic codes, each with what it means. A code is never used for something else."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEXT: Final = {
    "TIL101": "a character that the language does not know",
    "TIL102": "unexpected token",
    "TIL103": "nested too deeply",
    "TIL104": "a number that is out of range",
    "TIL105": "text too large",
}
_NAMES: Final = {
    "TIL201": "a name is used before it is defined",
    "TIL202": "a name is defined twice",
}
_TYPES: Final = {
    "TIL301": "shapes cannot be broadcast together",
}
_INDICES: Final = {
    "TIL401": "an index variable has no bounds",
}
_REPRESENTATIONS: Final = {
    "TIL501": "a Stripe program breaks a rule",
    "TIL551": "a semtree kernel breaks a rule",
}
_JSON: Final = {
    "TIL601": "not JSON",
    "TIL602": "JSON of another shape than the format asks for",
}
_RUNNING: Final = {
    "TIL701": "an array does not fit its tensor",
}
_BACKENDS: Final = {
    "TIL801": "no such device",
}
_COMMANDS: Final = {
    "TIL901": "a file cannot be read or written",
}

CODES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **_TEXT,
        **_NAMES,
        **_TYPES,
        **_INDICES,
        **_REPRESENTATIONS,
        **_JSON,
        **_RUNNING,
        **_BACKENDS,
        **_COMMANDS,
    }
)
