"""PlaidML's names."""

from __future__ import annotations

import pytest

from tileir import ops
from tileir.ops import plaidml


def test_every_name_is_an_operation() -> None:
    assert [name for name, target in plaidml.ALIASES.items() if target not in ops.__all__] == []
    assert [name for name in plaidml.ALIASES if name in ops.__all__] == []
    assert list(plaidml.ALIASES) == sorted(plaidml.ALIASES) == dir(plaidml)


def test_names_are_those_operations() -> None:
    assert plaidml.Summation is ops.sum
    with pytest.raises(AttributeError, match="no operation 'Convolve'"):
        plaidml.Convolve  # noqa: B018
