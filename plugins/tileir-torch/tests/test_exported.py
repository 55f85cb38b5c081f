"""Modules that are compiled as a whole: values beside eager, mutations, weights, and files that need no PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import tileir_torch
from tileir import ArgumentError, BackendError, TileError

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


class Network(nn.Module):
    """Products, norms and attention."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.head = nn.Linear(16, 3)
        self.head2 = nn.Linear(16, 3)
        self.head2.weight = self.head.weight

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.layer(x)
        return {"logits": self.head(y) + self.head2(y), "mean": y.mean()}


class Counting(nn.Module):
    """A module with a buffer that counts calls."""

    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        x.mul_(2)
        return x + self.calls


@pytest.fixture
def network() -> Network:
    torch.manual_seed(0)
    return Network().eval()


def test_results_equal_eager(network: Network) -> None:
    x = torch.randn(2, 5, 16)
    compiled = tileir_torch.compile(network, (x,))
    expected, found = network(x), compiled(x)
    assert list(found) == ["logits", "mean"]
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value.detach())
        assert not found[name].requires_grad


def test_arrays_of_numpy_give_such(network: Network) -> None:
    x = torch.randn(2, 5, 16)
    found = tileir_torch.compile(network, (x,))(x.numpy())["logits"]
    assert type(found) is np.ndarray
    np.testing.assert_allclose(found, network(x)["logits"].detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.sampled(0)
def test_dynamic_sizes(network: Network) -> None:
    batch = torch.export.Dim("batch", min=2, max=64)
    compiled = tileir_torch.compile(network, (torch.randn(2, 5, 16),), dynamic_shapes=({0: batch},))
    for rows in (2, 3, 7):
        x = torch.randn(rows, 5, 16)
        torch.testing.assert_close(compiled(x)["logits"], network(x)["logits"].detach())


def test_mutations_are_those_of_eager() -> None:
    module, eager = Counting(), Counting()
    compiled = tileir_torch.compile(module, (torch.ones(3),))
    for _ in range(3):
        ours, theirs = torch.arange(3.0), torch.arange(3.0)
        torch.testing.assert_close(compiled(ours), eager(theirs))
        torch.testing.assert_close(ours, theirs)
    assert module.calls == 0, "the snapshot counts, and not the module"


def test_weights_are_those_of_the_module_until_they_are_updated(network: Network) -> None:
    x = torch.randn(1, 5, 16)
    compiled = tileir_torch.compile(network, (x,))
    before = network(x)["logits"].detach()
    other = Network().eval()
    with pytest.warns(tileir_torch.StaleWeightsWarning, match="keeps the weights"):
        network.load_state_dict(other.state_dict())
    torch.testing.assert_close(compiled(x)["logits"], before)
    compiled.update(network.state_dict())
    torch.testing.assert_close(compiled(x)["logits"], other(x)["logits"].detach())


def test_no_warning_once_what_was_compiled_is_gone(network: Network) -> None:
    tileir_torch.compile(network, (torch.randn(1, 5, 16),))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network.load_state_dict(network.state_dict())


def test_wrong_weights_are_refused(network: Network) -> None:
    compiled = tileir_torch.compile(network, (torch.randn(1, 5, 16),))
    with pytest.raises(ArgumentError, match="no parameter or buffer 'nothing'") as error:
        compiled.update({"nothing": torch.zeros(1), "head.bias": torch.zeros(4)})
    assert [each.code for each in error.value.diagnostics] == ["TIL711", "TIL701"]


def test_other_arguments_are_refused(network: Network) -> None:
    compiled = tileir_torch.compile(network, (torch.randn(1, 5, 16),))
    with pytest.raises(ArgumentError, match="takes 1 tensors, and 2 came"):
        compiled(torch.zeros(1), torch.zeros(1))
    with pytest.raises(ArgumentError):
        compiled(torch.zeros(1, 5, 17))
    with pytest.raises(ArgumentError):
        compiled(torch.zeros(1, 5, 16, dtype=torch.float64))


def test_all_operations_without_rows_are_told_with_their_lines() -> None:
    class Strange(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            y = torch.linalg.eigvalsh(x)
            return y, torch.rand_like(x)

    with pytest.raises(TileError, match="rand") as error:
        tileir_torch.compile(Strange(), (torch.eye(3),))
    text = str(error.value)
    assert "y = torch.linalg.eigvalsh(x)" in text
    assert len(error.value.diagnostics) >= 2


def test_files_need_no_pytorch(network: Network, tmp_path: Path) -> None:
    x = torch.randn(2, 5, 16)
    tileir_torch.compile(network, (x,)).save(tmp_path / "network.tileir")
    np.save(tmp_path / "x.npy", x.numpy())
    script = (
        "import sys\n"
        "sys.modules['torch'] = None  # to import it is an error\n"
        "import numpy as np, tileir\n"
        "logits, mean = tileir.load('network.tileir')(np.load('x.npy'))\n"
        "np.save('logits.npy', logits)\n"
        "assert 'tileir.driver.compiler' not in sys.modules, 'it was compiled'\n"
    )
    environment = {**os.environ, "TILEIR_CACHE": "0"}
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, env=environment)
    found = np.load(tmp_path / "logits.npy")
    np.testing.assert_allclose(found, network(x)["logits"].detach().numpy(), rtol=1e-4, atol=1e-5)


def test_modules_that_write_are_not_saved(tmp_path: Path) -> None:
    compiled = tileir_torch.compile(Counting(), (torch.ones(3),))
    with pytest.raises(TileError, match="writes to its inputs or buffers"):
        compiled.save(tmp_path / "counting.tileir")


def test_modules_with_dynamic_sizes_are_not_saved(network: Network, tmp_path: Path) -> None:
    shapes = ({0: torch.export.Dim("batch", min=2, max=64)},)
    compiled = tileir_torch.compile(network, (torch.randn(2, 5, 16),), dynamic_shapes=shapes)
    with pytest.raises(TileError, match="dynamic sizes"):
        compiled.save(tmp_path / "network.tileir")


def test_devices_of_kernels_that_there_are_not(network: Network, tmp_path: Path) -> None:
    compiled = tileir_torch.compile(network, (torch.randn(2, 5, 16),))
    compiled.save(tmp_path / "network.tileir", devices=())
    with pytest.raises(BackendError, match=r"there is no device 'abacus.0'"):
        compiled.save(tmp_path / "network.tileir", devices=["abacus.0"])


@pytest.mark.sampled(0)
@pytest.mark.filterwarnings("ignore:The tensor attributes")  # of PyTorch itself
def test_recurrent_networks_are_kept_whole() -> None:
    torch.manual_seed(0)
    module, x = nn.LSTM(4, 6, 2, bidirectional=True, batch_first=True).eval(), torch.randn(3, 5, 4)
    compiled = tileir_torch.compile(module, (x,))
    assert any(str(node.target) == "aten.lstm.input" for node in compiled.program.graph.nodes)
    torch.testing.assert_close(compiled(x), module(x), rtol=1e-5, atol=1e-6)
