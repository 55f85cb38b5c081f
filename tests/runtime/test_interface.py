from __future__ import annotations

import pytest

from tileir.core.errors import ArgumentError
from tileir.runtime.interface import Options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": 0}, "option threads is an integer from 1 on, not 0"),
        ({"threads": "2"}, "option threads is an integer from 1 on, not '2'"),
        ({"threads": True}, "option threads is an integer from 1 on, not True"),
        ({"fast_math": 1}, "option fast_math is True or False, not 1"),
        ({"profile": "yes"}, "option profile is True or False, not 'yes'"),
    ],
)
def test_options_are_checked(options: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        Options(**options)  # type: ignore[arg-type]
    assert [(fault.code, fault.message) for fault in caught.value.diagnostics] == [("TIL707", message)]


def test_options_are_values() -> None:
    assert Options(threads=2) == Options(fast_math=False, threads=2)
    assert hash(Options(threads=2)) != hash(Options(threads=3))
