"""Languages of installed distributions, such as formulas, whose texts :func:`tileir.parse` reads."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol

from tileir.core import ArgumentError, BackendError, nearest
from tileir.core.companions import PACKAGES, not_installed
from tileir.core.extensions import EXTENSIONS, Kind
from tileir.core.protocols import wrong_offer


class Language(Protocol):
    """Language whose name is a ``stage`` of :func:`tileir.parse`; an entry point of ``tileir.languages`` names it."""

    @property
    def name(self) -> str:
        """The name of the entry point."""

    @property
    def kinds(self) -> tuple[type, ...]:
        """The classes of nodes."""

    def parse(self, text: str, name: str) -> object:
        """Return the node of a text, which has ``name`` in errors; it is verified afterwards.

        Raises:
            ParseError: The text does not follow the grammar; one diagnostic for each fault.
        """

    def to_text(self, node: Any) -> str:
        """Return the text of a node, which :meth:`parse` reads back."""

    def verify(self, node: Any) -> None:
        """Verify a node by the rules of the language.

        Raises:
            VerifyError: It breaks rules; one diagnostic for each fault.
        """


def language_called(name: str, stages: Collection[str] = ()) -> Language:
    """Return the installed language with a name.

    Args:
        name: Requested name.
        stages: Names of tileir's own stages, for the message.

    Raises:
        ArgumentError: TIL707, there is none.
        BackendError: TIL811 or TIL812, it cannot be loaded.
    """
    if name not in EXTENSIONS.entries(Kind.LANGUAGE):
        if name in PACKAGES:
            raise not_installed(f"stage={name!r}", name)
        known = (*stages, *EXTENSIONS.names(Kind.LANGUAGE))
        raise ArgumentError.of("TIL707", f"there is no stage {name!r:.64}{nearest(name, known)}")
    language: Any = EXTENSIONS.get(Kind.LANGUAGE, name, wrong_language(name))
    checked: Language = language
    return checked


def language_of(node: object) -> Language | None:
    """Return the installed language of a node; languages that cannot be loaded have no nodes."""
    for name in EXTENSIONS.names(Kind.LANGUAGE):
        try:
            language = language_called(name)
        except BackendError:  # it is logged, and reported on use of the language by name
            continue
        if isinstance(node, language.kinds):
            return language
    return None


def wrong_language(name: str) -> Callable[[object], str | None]:
    """Return a check whether an offer can serve as a language: it returns the reason against it, or None."""

    def wrong(offer: Any) -> str | None:
        if reason := wrong_offer(Language, name)(offer):
            return reason
        kinds = offer.kinds
        fits = isinstance(kinds, tuple) and kinds and all(isinstance(kind, type) for kind in kinds)
        return None if fits else "has kinds that are no tuple of classes"

    return wrong
