"""Front ends of files, and the functions that the cache on disk lets them know again without reading these.

:class:`Frontend` is what an entry point of the group ``tileir.frontends`` names. :func:`kept` and :func:`recalled`
spare callers of an unchanged file to make its function; :func:`keep_note` and :func:`recalled_note` do so for what else
a front end tells of a file.
"""

from tileir.core.array_value import settled
from tileir.driver.frontends import Frontend
from tileir.driver.function_cache import Files, KnownFunction, keep_note, kept, recalled, recalled_note

__all__ = ["Files", "Frontend", "KnownFunction", "keep_note", "kept", "recalled", "recalled_note", "settled"]
