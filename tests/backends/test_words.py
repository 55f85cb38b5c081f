"""Checks in the words of native code, as LLVM reads and runs them."""

from __future__ import annotations

import ctypes
from itertools import product

import pytest

from tileir_llvm.device.host import device
from tileir_llvm.run.loader import load_code
from tileir_llvm.run.modules import object_code
from tileir_llvm.run.words import SHARED, spelt


class Pair(ctypes.Structure):
    """Two numbers of different sizes."""

    _fields_ = (("small", ctypes.c_int32), ("large", ctypes.c_int64))


class Operand(ctypes.Structure):
    """Properties that the shared functions look at."""

    _fields_ = (("bytes", ctypes.c_int64),)


TEXT = """
define i64 @alike(ptr %one, ptr %other, i64 %kind) nounwind {
entry:
  %given = icmp ne ptr %other, null
  go yes if %given
    and Pair.small of %one == Pair.small of %other
    and Pair.large of %one != i64 7
    and i64 %kind == 3 else no
yes:
  ret i64 1
no:
  ret i64 0
}

define i64 @equal(ptr %some, ptr %others, i64 %count) nounwind {
  %found = call i1 @same(ptr %some, ptr %others, i64 %count)
  %result = zext i1 %found to i64
  ret i64 %result
}

define i64 @alone(ptr %operands, ptr %addresses, i64 %count, i64 %start, i64 %bytes) nounwind {
  %found = call i1 @apart(ptr %operands, ptr %addresses, i64 %count, i64 %start, i64 %bytes)
  %result = zext i1 %found to i64
  ret i64 %result
}
"""


@pytest.fixture(scope="module")
def code() -> object:
    text, features = spelt(SHARED + TEXT, (Pair, Operand)), device().features
    return load_code((object_code(text, features, optimise=False),), ("alike", "equal", "alone"), features)


def function(code: object, number: int, *kinds: type[ctypes.c_void_p | ctypes.c_int64]) -> ctypes._FuncPointer:
    return ctypes.CFUNCTYPE(ctypes.c_int64, *kinds)(code.addresses[number])  # type: ignore[attr-defined]


POINTER, NUMBER = ctypes.c_void_p, ctypes.c_int64


def test_all_checks_of_a_table_must_hold(code: object) -> None:
    alike = function(code, 0, POINTER, POINTER, NUMBER)
    for small, large, kind in product((1, 2), (6, 7), (3, 4)):
        one, other = Pair(small, large), Pair(1, 5)
        expected = small == 1 and large != 7 and kind == 3
        assert alike(ctypes.addressof(one), ctypes.addressof(other), kind) == expected


def test_words_and_places_are_compared(code: object) -> None:
    equal = function(code, 1, POINTER, POINTER, NUMBER)
    some, others = (NUMBER * 3)(1, 2, 3), (NUMBER * 3)(1, 2, 4)
    assert [equal(some, others, count) for count in range(4)] == [1, 1, 1, 0]
    alone = function(code, 2, POINTER, POINTER, NUMBER, NUMBER, NUMBER)
    operands, addresses = (Operand * 2)(Operand(16), Operand(8)), (NUMBER * 2)(100, 200)
    for start, size in ((84, 16), (85, 16), (115, 1), (116, 84), (116, 85), (207, 4), (208, 4)):
        apart = all(start + size <= at or at + held <= start for at, held in ((100, 16), (200, 8)))
        assert alone(operands, addresses, 2, start, size) == apart
