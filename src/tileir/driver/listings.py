"""Forms of listings: those of a back end, and those of installed distributions, which take the executable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileir.core import BackendError, meant
from tileir.core.extensions import EXTENSIONS, Kind
from tileir.runtime.interface import Backend, Library

if TYPE_CHECKING:
    from tileir.driver.executable import Executable


def forms_of(backend: Backend[Any]) -> tuple[str, ...]:
    """Return the forms of a back end, default first, followed by those of distributions."""
    own = tuple(backend.forms)
    return (*own, *(name for name in EXTENSIONS.names(Kind.LISTING) if name not in own))


def listing_of(executable: Executable, backend: Backend[Any], library: Library, form: str | None) -> str:
    """Return the listing of a library by its back end, or of an executable by a distribution.

    Raises:
        BackendError: TIL806, there is no such form, or that of a distribution fails; TIL811 or TIL812, it cannot be
            loaded.
    """
    if form is None or form in backend.forms:
        return backend.listing(library, form)
    if form in EXTENSIONS.entries(Kind.LISTING):
        return _installed(executable, form)
    found = meant(form, forms_of(backend))
    if found is None or found in backend.forms:
        return backend.listing(library, form)  # which names its own forms
    raise BackendError.of("TIL806", f"there is no listing {form[:64]!r}; did you mean {found!r}?")


def _installed(executable: Executable, form: str) -> str:
    make = EXTENSIONS.get(Kind.LISTING, form, wrong_listing)
    try:
        text = make(executable)  # type: ignore[operator]  # it is checked
    except BackendError:
        raise
    except Exception as error:  # foreign code may raise anything
        raise BackendError.of("TIL806", f"the listing {form!r} fails: {type(error).__name__}: {error}") from error
    if not isinstance(text, str):
        raise BackendError.of("TIL806", f"the listing {form!r} is a {type(text).__name__}, not a text")
    return text


def wrong_listing(offer: object) -> str | None:
    """Return the reason why an object cannot serve as a form of listings; None if it can."""
    return None if callable(offer) else f"is a {type(offer).__name__}, not a function of an executable"
