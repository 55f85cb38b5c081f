"""The examples of the manual's page on PyTorch, as somebody would type them."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
import torch

PAGE = Path(__file__).parents[3] / "docs" / "pytorch.md"


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if "tileir" not in torch._dynamo.list_backends():
        from tileir_torch import backend

        torch._dynamo.register_backend(backend, name="tileir")
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()) as out:
        for number, code in enumerate(re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)):
            file = tmp_path / f"block{number}.py"  # from which errors take lines
            file.write_text(code, "utf-8")
            exec(compile(code, str(file), "exec"), names)
    printed = out.getvalue().splitlines()
    torch._dynamo.reset()
    assert printed == ["True", "True", "True True", "True", "ndarray", "True", "torch.Size([5])", "[]"]
