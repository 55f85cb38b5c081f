"""JSON for every node, and the content hash that identifies it.

A document is ``{"format": "tileir.stripe.Program", "node": …, "version": 1}``; each format has a version of its own
(:mod:`tileir.core.json.versions`). A node is an object with the name of its class under ``"$"`` and all fields that
equality compares, so spans are left out. Tuples are arrays, enumerations their value, fractions ``"p/q"``. Values that
JSON lacks are spelt as ``{"$": "float", "value": "inf"}`` (also ``-inf`` and ``nan``) and, beyond 64 bits, ``{"$":
"int", "value": "0x…"}``; bytes are strings in base64. Keys are sorted, and fields that older documents lack are left
out if they have their defaults, so equal bytes mean equal nodes.

Decoding is driven by the type annotations of the node classes, which their modules must therefore import at run time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import TypeVar

from attrs import AttrsInstance

from tileir.core.errors import ArgumentError, fail
from tileir.core.json.decoder import MAX_DEPTH, FormatError, decoder_of, is_shallow
from tileir.core.json.encoder import encode, identify
from tileir.core.json.versions import refusal, version_of
from tileir.core.process.collection import collection_paused
from tileir.core.process.tracebacks import with_short_traceback

T = TypeVar("T")


@with_short_traceback
def to_json(node: AttrsInstance) -> bytes:
    """Return the canonical JSON of ``node``, equal in every process.

    Raises:
        TileError: TIL602, nodes are nested too deeply.
    """
    return _document(node, encode)


def quick_json(node: AttrsInstance) -> bytes:
    """Return JSON of ``node`` that :func:`from_json` reads, made in half the time of :func:`to_json`.

    Its bytes depend on the version of the library that writes it, which may spell numbers differently.

    Raises:
        TileError: TIL602, nodes are nested too deeply.
    """
    import orjson  # as in from_json

    def written(document: object) -> bytes:
        try:
            return orjson.dumps(document)
        except orjson.JSONEncodeError:  # it supports less nesting than the standard library
            return _dumped(document)

    return _document(node, encode, written)


def content_hash(node: AttrsInstance) -> str:
    """Return the SHA-256 of :func:`identity`, in hexadecimal. It distinguishes 1, 1.0 and True."""
    return hashlib.sha256(identity(node)).hexdigest()


def identity(node: AttrsInstance) -> bytes:
    """Return JSON that identifies ``node``: that of :func:`to_json`, with digests in place of arrays.

    Raises:
        TileError: TIL602, nodes are nested too deeply.
    """
    return _document(node, identify)


def _dumped(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def _document(
    node: AttrsInstance, encoded: Callable[[object], object], written: Callable[[object], bytes] = _dumped
) -> bytes:
    try:
        with collection_paused():
            name = format_of(type(node))
            return written({"format": name, "node": encoded(node), "version": version_of(name)})
    except RecursionError:
        raise fail("TIL602", "the nodes are nested too deeply for JSON; split the expression") from None


@with_short_traceback
def from_json(data: bytes | str, cls: type[T]) -> T:
    """Read a node of class ``cls`` back.

    Rules across several nodes are not checked: that is left to the verifier of its stage.

    Raises:
        ArgumentError: TIL707, ``cls`` is no class.
        TileError: TIL601, the data is not JSON; TIL602, it is not the JSON of such a node. The message has the place,
            as
            in ``$.node.statements[3].value``.
    """
    if not isinstance(cls, type):
        raise ArgumentError.of("TIL707", f"JSON is read as a node of a class, not of {cls!r:.80}")
    import orjson  # unlike the standard library's, it never recurses without bound nor accepts bad UTF-8

    try:
        document: object = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise fail("TIL601", f"this is not JSON: {error}") from None
    if not is_shallow(document):
        raise fail("TIL602", f"the JSON is nested more than {MAX_DEPTH} deep")
    try:
        with collection_paused():
            node = _decode_document(document, cls)
    except FormatError as fault:
        raise fail("TIL602", f"{fault.place()}: {fault.problem}") from None
    except RecursionError:
        raise fail("TIL602", "the JSON is nested too deeply for the stack that is left") from None
    return node


def format_of(cls: type) -> str:
    """Return the name of a class in the package of its stage, without its module there.

    A package beside the compiler, ``tileir_formula``, is named like a stage: ``tileir.formula``.
    """
    return ".".join((*cls.__module__.replace("tileir_", "tileir.", 1).split(".")[:2], cls.__name__))


def _decode_document(document: object, cls: type[T]) -> T:
    if not isinstance(document, dict) or document.keys() != {"format", "node", "version"}:
        raise FormatError('expected an object with the keys "format", "node" and "version"')
    if document["format"] != format_of(cls):
        raise FormatError(f"the format is {document['format']!r:.80}; expected {format_of(cls)!r}")
    refused = refusal(document["format"], document["version"])
    if refused is not None:
        raise FormatError(refused)
    try:
        hint: object = cls
        node = decoder_of(hint)(document["node"])
    except FormatError as fault:
        fault.path.append("node")
        raise
    assert isinstance(node, cls)
    return node
