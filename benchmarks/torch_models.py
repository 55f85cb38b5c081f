"""Models of PyTorch beside eager execution and Inductor, in turns: ``python benchmarks/torch_models.py --only bert``.

Weights are random, and nothing is downloaded; torchvision and transformers have the definitions. For each model, in a
process of its own with empty caches: whether it is compiled whole, with nothing left to eager execution; the greatest
error beside eager execution in f64, as a part of the greatest magnitude, and eager's own in f32; seconds
of compiling and the first call; milliseconds of calls, median and least, and their ratios, above 1 where tileir is
faster.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

Made = tuple[Any, tuple[Any, ...]]
_WIDTHS = (24, 7, 9, 9, 8, 8, 14, 14, 14)
_HEADS = ("model", "whole", "error", "eager's", "cold s", "ind. s", "eager ms", "Inductor", "tileir")


def vision() -> Any:
    """Return torchvision's models; its operators of detection are declared where its library does not fit PyTorch's."""
    import torch

    try:
        for path in Path(find_spec("torchvision").origin).parent.glob("_C*.so"):  # type: ignore[union-attr, arg-type]
            torch.ops.load_library(path)
        torch._C._dispatch_find_schema_or_throw("torchvision::nms", "")
    except (OSError, RuntimeError):
        library = torch.library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _KEPT.append(library)
    from torchvision import models

    return models


_KEPT: list[Any] = []


def _image(name: str, size: int = 224, **settings: Any) -> Callable[[], Made]:
    def made() -> Made:
        import torch

        models = vision()
        group = models.segmentation if name.startswith("deeplab") else models
        return getattr(group, name)(**settings), (torch.randn(1, 3, size, size),)

    return made


def _words(kind: str, config: str, length: int = 128, **settings: Any) -> Callable[[], Made]:
    def made() -> Made:
        import torch

        vision()  # transformers imports torchvision where it is installed
        import transformers

        described = getattr(transformers, config)(**settings)
        attention = {} if kind.startswith("Mamba") else {"attn_implementation": "sdpa"}
        model = getattr(transformers, kind)._from_config(described, **attention)
        return First(model), (torch.randint(0, described.vocab_size, (1, length)),)

    return made


def First(model: Any) -> Any:  # noqa: N802  a class that is made when PyTorch is there
    import torch

    class First(torch.nn.Module):  # type: ignore[misc]  # types are checked without PyTorch
        """The first result of a model of transformers."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *inputs: Any) -> Any:
            return self.model(*inputs, **({"use_cache": False} if hasattr(model.config, "use_cache") else {}))[0]

    return First()


def _vit() -> Made:
    import torch

    vision()
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(hidden_size=192, num_hidden_layers=6, num_attention_heads=3, intermediate_size=768)
    return First(ViTModel._from_config(config, attn_implementation="sdpa")), (torch.randn(1, 3, 224, 224),)


def _whisper() -> Made:
    import torch

    vision()
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    sizes = {"d_model": 256, "encoder_layers": 4, "encoder_attention_heads": 4, "encoder_ffn_dim": 1024}
    config = WhisperConfig(**sizes, max_source_positions=200)
    return First(WhisperEncoder._from_config(config, attn_implementation="sdpa")), (torch.randn(1, 80, 400),)


def _lstm() -> Made:
    import torch

    return Lone(torch.nn.LSTM(64, 256, 2, batch_first=True)), (torch.randn(8, 64, 64),)


def Lone(model: Any) -> Any:  # noqa: N802
    import torch

    class Lone(torch.nn.Module):  # type: ignore[misc]
        """The outputs of an LSTM, without its states."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Any) -> Any:
            return self.model(x)[0]

    return Lone()


def _encoder_layer() -> Made:
    import torch

    return torch.nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True), (torch.randn(4, 128, 256),)


_SMALL = {"hidden_size": 256, "num_hidden_layers": 4, "intermediate_size": 1024, "vocab_size": 8192}
MODELS: dict[str, Callable[[], Made]] = {
    "resnet18": _image("resnet18"),
    "mobilenet_v3_small": _image("mobilenet_v3_small"),
    "efficientnet_b0": _image("efficientnet_b0"),
    "densenet121": _image("densenet121"),
    "vit_b_16": _image("vit_b_16"),
    "swin_t": _image("swin_t"),
    "convnext_tiny": _image("convnext_tiny"),
    "deeplabv3_resnet50": lambda: _segmented(_image("deeplabv3_resnet50", 128, weights_backbone=None)()),
    "bert": _words("BertModel", "BertConfig", **_SMALL, num_attention_heads=8),
    "gpt2": _words(
        "GPT2LMHeadModel",
        "GPT2Config",
        n_embd=256,
        n_layer=4,
        n_head=8,
        vocab_size=8192,
        bos_token_id=0,
        eos_token_id=0,
    ),
    "llama": _words("LlamaForCausalLM", "LlamaConfig", **_SMALL, num_attention_heads=8, num_key_value_heads=2),
    "t5_encoder": _words("T5EncoderModel", "T5Config", d_model=256, d_kv=32, d_ff=1024, num_layers=4, vocab_size=8192),
    "vit_hf": _vit,
    "whisper_encoder": _whisper,
    "mamba": _words("MambaForCausalLM", "MambaConfig", 64, hidden_size=256, num_hidden_layers=2, vocab_size=8192),
    "mixtral": _words(
        "MixtralForCausalLM",
        "MixtralConfig",
        64,
        **_SMALL | {"num_hidden_layers": 2, "intermediate_size": 512},
        num_attention_heads=8,
        num_key_value_heads=2,
        num_local_experts=4,
    ),
    "lstm": _lstm,
    "encoder_layer": _encoder_layer,
}


def _segmented(made: Made) -> Made:
    import torch

    model, inputs = made

    class Segmented(torch.nn.Module):  # type: ignore[misc]
        """The classes of pixels."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Any) -> Any:
            return self.model(x)["out"]

    return Segmented(), inputs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="REGEX", help="models whose name has a match")
    parser.add_argument("--threads", type=int, default=2, help="threads of all, and the processors that they run on")
    parser.add_argument("--turns", type=int, default=10, help="turns, each of some calls")
    parser.add_argument("--without-inductor", action="store_true", help="Inductor takes most of the time")
    parser.add_argument(
        "--door", choices=["compile", "backend"], default="compile", help="tileir_torch.compile, or torch.compile"
    )
    parser.add_argument("--json", type=Path, help="a file for the figures")
    parser.add_argument("--measured", metavar="MODEL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measured:
        print(json.dumps(measured(options.measured, options)))
        return
    print(f"{options.threads} threads, load {os.getloadavg()[0]:.1f} at the beginning; milliseconds, median/least")
    print("".join(f"{head:>{width}}" for head, width in zip(_HEADS, _WIDTHS, strict=False)), "Inductor/tileir")
    rows = [row for name in MODELS if re.search(options.only, name) if (row := _alone(name, options))]
    for other in ("inductor", "eager"):
        ratios = [
            np.median(row[other]) / np.median(row["tileir"]) for row in rows if row.get(other) and row.get("tileir")
        ]
        if ratios:
            told = f"{np.exp(np.mean(np.log(ratios))):.2f} over {len(ratios)}, least {min(ratios):.2f}"
            print(f"geometric mean of {other}/tileir by medians: {told}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def _alone(name: str, options: argparse.Namespace) -> dict[str, Any] | None:
    """Measure a model in a process of its own with caches of its own, print its row, and return it."""
    with tempfile.TemporaryDirectory() as folder:
        caches = {"TILEIR_CACHE_DIR": f"{folder}/tileir", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
        environment = {**os.environ, **caches}
        words = [
            f"--measured={name}",
            f"--threads={options.threads}",
            f"--turns={options.turns}",
            f"--door={options.door}",
        ]
        words += ["--without-inductor"] * options.without_inductor
        command = [sys.executable, str(Path(__file__).resolve()), *words]
        told = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if told.returncode:
        print(f"{name:>24}  {(told.stderr.strip().splitlines() or ['?'])[-1]:.200}", flush=True)
        return None
    row: dict[str, Any] = json.loads(told.stdout.strip().splitlines()[-1])
    times = [
        f"{np.median(row[who]):.2f}/{min(row[who]):.2f}" if row[who] else "-" for who in ("eager", "inductor", "tileir")
    ]
    ratios = [
        f"{f(row['inductor']) / f(row['tileir']):.2f}" for f in (np.median, min) if row["inductor"] and row["tileir"]
    ]
    cells: tuple[Any, ...] = (
        name,
        "no" if row["reason"] else "yes",
        f"{row['error']:.0e}",
        f"{row['own']:.0e}",
        f"{row['cold']:.2f}",
    )
    cells = (*cells, f"{row['inductor_cold']:.2f}" if row["inductor"] else "-", *times)
    line = "".join(f"{cell:>{width}}" for cell, width in zip(cells, _WIDTHS, strict=False))
    print(line, ", ".join(ratios), row["reason"], flush=True)
    return row


def measured(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of a model."""
    import torch

    warnings.simplefilter("ignore")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    model, inputs = MODELS[name]()
    model.eval()
    for parameter in model.parameters():
        if parameter.dim() > 1 and not parameter.any():  # a head that would make zeros of everything
            torch.nn.init.normal_(parameter, std=0.02)
    with torch.no_grad():
        wanted = model(*inputs)
        exact = _exact(model, inputs)
        began = time.perf_counter()
        compiled, reason = _compiled(model, inputs, options.door)
        cold = time.perf_counter() - began
        found = compiled(*inputs)
        calls: dict[str, Callable[[], Any]] = {"eager": lambda: model(*inputs), "tileir": lambda: compiled(*inputs)}
        began = time.perf_counter()
        if not options.without_inductor:
            other = torch.compile(model)
            other(*inputs)
            calls["inductor"] = lambda: other(*inputs)
        inductor_cold = time.perf_counter() - began
        times: dict[str, list[float]] = {"inductor": [], **{who: [] for who in calls}}
        for _ in range(options.turns):
            for who, call in calls.items():
                call()
                for _ in range(3):
                    began = time.perf_counter()
                    call()
                    times[who].append((time.perf_counter() - began) * 1e3)
    scale = float(exact.abs().max())
    errors = {
        "error": float((torch.as_tensor(found).double() - exact).abs().max()) / scale,
        "own": float((wanted.double() - exact).abs().max()) / scale,
    }
    return {
        "model": name,
        **errors,
        "cold": cold,
        "inductor_cold": inductor_cold,
        **times,
        "reason": reason,
    }


def _exact(model: Any, inputs: tuple[Any, ...]) -> Any:
    """Return the result in f64; that in f32 where the model cannot be computed so."""
    import copy

    wide = copy.deepcopy(model).double()
    try:
        return wide(*(each.double() if each.is_floating_point() else each for each in inputs))
    except RuntimeError:  # some make tensors of f32 by themselves
        return model(*inputs).double()


def _compiled(model: Any, inputs: tuple[Any, ...], door: str) -> tuple[Callable[..., Any], str]:
    """Return a compiled model, and why it is compiled in parts; nothing where it is whole."""
    import torch

    import tileir
    import tileir_torch

    made: Callable[..., Any]
    reason = ""
    try:
        if door == "compile":
            made = tileir_torch.compile(model, inputs)
        else:
            made = torch.compile(model, backend=tileir_torch.backend, options={"fullgraph": True}, fullgraph=True)
        made(*inputs)
    except Exception as error:
        inner = next((each for each in (error, error.__cause__) if isinstance(each, tileir.TileError)), error)
        reason = f"{type(inner).__name__}: {inner}".splitlines()[0][:160]
        torch._dynamo.reset()
        made = torch.compile(model, backend=tileir_torch.backend)
        made(*inputs)
    return made, reason


if __name__ == "__main__":
    main()
