"""Native descriptions of programs and arrays for calls on a card, and access to foreign arrays by DLPack."""

from __future__ import annotations

import ctypes
from typing import Final

_POINTER, _NUMBER, _INTEGER = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32


class Operand(ctypes.Structure):
    """Requirements on the array of one argument.

    ``mask`` has the bits of its address that must be 0; ``place`` and ``kind`` are DLPack's device, and rank and dtype.
    ``spare`` is the list of addresses of spare memory for a fresh array, ``allocate`` makes a buffer if there is none,
    and ``nbytes`` and ``size`` are those of this buffer as objects.
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
    """Foreign array type, its DLPack functions, and the names of attributes that make an array more than memory."""

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

    ``used`` is the time of the last use, in calls.
    """

    _fields_ = (("arguments", _POINTER), ("graphs", _POINTER), ("used", _NUMBER))


class Made(ctypes.Structure):
    """Entries of a program, and the time."""

    _fields_ = (("entries", _POINTER), ("count", _NUMBER), ("clock", _NUMBER))


class Call(ctypes.Structure):
    """Native description of a program's calls.

    ``count`` arrays are given, of which ``read`` are read, then come ``fixed`` addresses, ``known`` bytes in total.
    ``made`` are the existing entries, and ``missed`` makes one for other addresses; null if addresses are the only
    arguments. ``closed`` and ``forked`` are objects that are False in normal operation, and ``tail`` is the place of
    the stream's latest event.
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
    """DLPack's ``DLTensor``."""

    _fields_ = (
        ("data", _POINTER),
        ("place", _NUMBER),
        ("kind", _NUMBER),
        ("extents", _POINTER),
        ("strides", _POINTER),
        ("offset", _NUMBER),
    )


class Managed(ctypes.Structure):
    """DLPack's ``DLManagedTensorVersioned``, without its tensor."""

    _fields_ = (
        ("major", _INTEGER),
        ("minor", _INTEGER),
        ("context", _POINTER),
        ("deleter", _POINTER),
        ("flags", _NUMBER),
    )


class Seen(ctypes.Structure):
    """Foreign stream found in a call, and its library."""

    _fields_ = (("stream", _POINTER), ("library", _POINTER))


STRUCTURES: Final = (Operand, Library, Entry, Made, Call, Tensor, Managed, Seen)
