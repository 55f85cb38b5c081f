"""A card beside the processor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tileir
from strategies.shared_device import SharedDevice, with_card

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def card() -> SharedDevice:
    return SharedDevice()


@pytest.fixture
def context(card: SharedDevice) -> Iterator[tileir.Context]:
    with tileir.Context(device_id="llvm", registry=with_card(card)) as made:
        yield made
