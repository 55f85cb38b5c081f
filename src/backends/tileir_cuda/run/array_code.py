"""Facts about programs and arrays for the code of calls on a card, and reading of foreign arrays by DLPack."""

from __future__ import annotations

import ctypes
from typing import Final

_POINTER, _NUMBER, _INTEGER = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32


class Operand(ctypes.Structure):
    """Requirements on the array of one argument.

    ``mask`` has the bits of its address that must be 0; ``place`` and ``kind`` are what DLPack says of the device, and
    of rank and dtype. ``spare`` is the list of addresses from which memory for a fresh one is taken, ``allocate`` what
    makes a buffer where there is none, and ``nbytes`` and ``size`` are those of such a buffer as objects.
    """

    _fields_ = (
        ("dtype", _POINTER),
        ("shape", _POINTER),
        ("bytes", _NUMBER),
        ("mask", _NUMBER),
        ("place", _NUMBER),
        ("kind", _NUMBER),
        ("rank", _NUMBER),
        ("extents", _POINTER),
        ("strides", _POINTER),
        ("spare", _POINTER),
        ("allocate", _POINTER),
        ("nbytes", _POINTER),
        ("size", _POINTER),
    )


class Library(ctypes.Structure):
    """A type of arrays of others, its functions of DLPack, and the names of what makes an array more than memory."""

    _fields_ = (
        ("type", _POINTER),
        ("lent", _POINTER),
        ("owned", _POINTER),
        ("stream", _POINTER),
        ("gradient", _POINTER),
        ("negative", _POINTER),
    )


class Entry(ctypes.Structure):
    """Cache entry of one set of addresses: all arguments of the launches, and the graphs made with them, if any.

    ``used`` is the time of the last use, by a clock that counts calls.
    """

    _fields_ = (("arguments", _POINTER), ("graphs", _POINTER), ("used", _NUMBER))


class Made(ctypes.Structure):
    """The entries of a program that are made, and the time."""

    _fields_ = (("entries", _POINTER), ("count", _NUMBER), ("clock", _NUMBER))


class Call(ctypes.Structure):
    """Facts about a program for the code of its calls.

    ``count`` arrays are given, of which ``read`` are read, then come ``fixed`` addresses, ``known`` bytes in all.
    ``made`` are the entries that are made, and ``missed`` is what gives one for other addresses; null where arguments
    are nothing but addresses. ``closed`` and ``forked`` are places that have False while all is well, and ``tail`` is
    where the stream has its latest event.
    """

    _fields_ = (
        ("table", _POINTER),
        ("hand_over", _POINTER),
        ("read", _NUMBER),
        ("count", _NUMBER),
        ("fixed", _POINTER),
        ("known", _NUMBER),
        ("operands", _POINTER),
        ("stream", _POINTER),
        ("home", _POINTER),
        ("pool", _POINTER),
        ("libraries", _POINTER),
        ("library_count", _NUMBER),
        ("mark", _POINTER),
        ("closed", _POINTER),
        ("forked", _POINTER),
        ("tail", _POINTER),
        ("new_tail", _POINTER),
        ("made", _POINTER),
        ("missed", _POINTER),
    )


class Tensor(ctypes.Structure):
    """``DLTensor`` of DLPack."""

    _fields_ = (
        ("data", _POINTER),
        ("place", _NUMBER),
        ("kind", _NUMBER),
        ("extents", _POINTER),
        ("strides", _POINTER),
        ("offset", _NUMBER),
    )


class Managed(ctypes.Structure):
    """``DLManagedTensorVersioned`` of DLPack, without its tensor."""

    _fields_ = (
        ("major", _INTEGER),
        ("minor", _INTEGER),
        ("context", _POINTER),
        ("deleter", _POINTER),
        ("flags", _NUMBER),
    )


class Seen(ctypes.Structure):
    """The stream of others that was found in a call, and whose library told it."""

    _fields_ = (("stream", _POINTER), ("library", _POINTER))


STRUCTURES: Final = (Operand, Library, Entry, Made, Call, Tensor, Managed, Seen)
