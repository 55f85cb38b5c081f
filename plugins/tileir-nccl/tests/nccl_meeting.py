"""One of several processes that meet as ranks of NCCL do; the test starts them."""

from __future__ import annotations

import sys

import pytest

from nccl_fake import Fake


def main(size: int) -> None:
    """Say who the ranks are, by what each tells the others."""
    with pytest.MonkeyPatch.context() as patch:
        Fake().install(patch)
        from tileir_nccl import Cards
        from tileir_nccl.engine import started

        def met(end: object) -> list[str]:
            start = started()
            assert start is not None
            meeting = end.card.meeting  # type: ignore[attr-defined]
            found: list[str] = meeting.share("who", f"{start.rank} of {start.size}, {start.local} here", range(size))
            return found

        ((rank, told),) = Cards(devices=["llvm.0"] * size).launch(size, met).items()
    sys.stdout.write(f"{rank}: {'; '.join(told)}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
