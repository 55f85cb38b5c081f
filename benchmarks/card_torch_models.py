"""Models of PyTorch on an NVIDIA card through ``torch.compile(backend="tileir")`` beside Inductor.

    python benchmarks/card_torch_models.py --only 'vit|bert' --jobs 8 --kernels 8 --json result.json
    python benchmarks/card_torch_models.py --offline

All is in bf16 with batches of 8 unless ``--batch`` and ``--dtype`` say otherwise, with random weights; torchvision and
transformers have the definitions. Both sides run as graphs of the card: Inductor's are its own (``reduce-overhead``, or
``max-autotune`` where ``--tuned`` has a match), ours are captured by ``torch.cuda.graph``; ``calls`` are ours without
that. Models named ``…-step`` are training steps: forward, backward and SGD, calls on either side, as optimisers are.
Times are medians by the clock of the host, in milliseconds, from one idle card to the next. Errors are norms of
differences from eager execution in f32, by its norm, ours and eager's in the dtype. ``--kernels`` lists the kernels
that take longest on both sides, in processes of their own, as launches take longer once some were profiled.
``--offline`` compiles models for a card that need not be there, and counts kernels.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

Made = tuple[Any, tuple[Any, ...]]
OFFLINE = "cuda.sm_90a"


def image(name: str, batch: int) -> Made:
    """Return a network of torchvision and pictures."""
    import torch

    return getattr(networks(), name)(), (torch.randn(batch, 3, 224, 224),)


def networks() -> Any:
    """Return torchvision's models, also where its extension does not fit to the PyTorch that is there."""
    try:
        from torchvision import models
    except RuntimeError:
        from torch_models import vision

        return vision()
    return models


def words(kind: str, config: str, batch: int, length: int = 128, **settings: Any) -> Made:
    """Return a model of transformers and numbers of words."""
    import torch

    from torch_models import First

    networks()  # transformers imports torchvision where it is installed
    import transformers

    described = getattr(transformers, config)(**settings)
    model = getattr(transformers, kind)._from_config(described, attn_implementation="sdpa")
    return First(model), (torch.randint(0, described.vocab_size, (batch, length)),)


def whisper(batch: int) -> Made:
    """Return the encoder of Whisper's base model, and spectra of 30 s."""
    import torch

    from torch_models import First

    networks()
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    sizes = {"d_model": 512, "encoder_layers": 6, "encoder_attention_heads": 8, "encoder_ffn_dim": 2048}
    return First(WhisperEncoder._from_config(WhisperConfig(**sizes), attn_implementation="sdpa")), (
        torch.randn(batch, 80, 3000),
    )


def transformer(batch: int) -> Made:
    """Return 12 layers of a transformer, and data of 512 words."""
    import torch

    layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, 0.0, "gelu", batch_first=True, norm_first=True)
    return torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False), (torch.randn(batch, 512, 768),)


_LLAMA = {"hidden_size": 1024, "num_hidden_layers": 8, "intermediate_size": 2816, "vocab_size": 32000}
_HEADS = {"num_attention_heads": 16, "num_key_value_heads": 4}
MODELS: dict[str, Callable[[int], Made]] = {
    "resnet50": lambda batch: image("resnet50", batch),
    "convnext_tiny": lambda batch: image("convnext_tiny", batch),
    "vit_b_16": lambda batch: image("vit_b_16", batch),
    "mobilenet_v3": lambda batch: image("mobilenet_v3_large", batch),
    "bert_base": lambda batch: words("BertModel", "BertConfig", batch),
    "gpt2": lambda batch: words("GPT2LMHeadModel", "GPT2Config", batch),
    "llama": lambda batch: words("LlamaForCausalLM", "LlamaConfig", batch, 512, **_LLAMA, **_HEADS),
    "whisper": whisper,
    "resnet50-step": lambda batch: image("resnet50", batch),
    "transformer-step": transformer,
}


def made_of(torch: Any, name: str, batch: int, dtype: Any, device: str) -> Made:
    """Return a model and its inputs on a device; the last layers of models that begin as zeros have values."""
    torch.manual_seed(0)
    model, inputs = MODELS[name](batch)
    for parameter in model.parameters():
        if parameter.dim() > 1 and not parameter.any():
            torch.nn.init.normal_(parameter, std=0.02)
    model = model.train() if name.endswith("-step") else model.eval().requires_grad_(requires_grad=False)
    return model.to(device, dtype), tuple(
        (each.to(dtype) if each.is_floating_point() else each).to(device) for each in inputs
    )


def step_of(torch: Any, model: Any, inputs: tuple[Any, ...], run: Callable[..., Any]) -> Callable[[], Any]:
    """Return a step of training, which returns the loss."""
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)

    def step() -> Any:
        loss = run(*inputs).float().square().mean()
        loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def seconds_of(torch: Any, call: Callable[[], Any], runs: int = 30) -> float:
    """Return the median of the seconds from an idle card to the next time that it is idle."""
    for _ in range(3):
        call()
    times = []
    for _ in range(runs):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def captured(torch: Any, call: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
    """Return a graph of the card that has all launches of a call, and its result."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call()
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call()
    replay: Callable[[], None] = graph.replay
    return replay, result


def compiled(torch: Any, model: Any, side: str, *, is_whole: bool = True) -> Any:
    """Return a model that one side compiles when it is called; ours as a whole, or with what is left to eager."""
    if side == "tileir":
        import tileir_torch

        options = {"fullgraph": True} if is_whole else {}
        return torch.compile(model, backend=tileir_torch.backend, fullgraph=is_whole, options=options)
    return torch.compile(model, mode=side)


def called(torch: Any, name: str, model: Any, inputs: tuple[Any, ...]) -> Any:
    """Return a model that tileir has compiled: as a whole, or in parts, once it is said why."""
    made = compiled(torch, model, "tileir")
    try:
        made(*inputs)
    except Exception as error:  # what is refused is told, and the rest measured
        print(name, "is not compiled as a whole:", str(error.__cause__ or error)[:1200], flush=True)
        torch._dynamo.reset()
        made = compiled(torch, model, "tileir", is_whole=False)
        made(*inputs)
    return made


def peer_of(name: str, options: argparse.Namespace) -> str:
    """Return the mode of Inductor that a model is compared with."""
    return "max-autotune" if re.search(options.tuned, name) else "reduce-overhead"


def list_kernels(torch: Any, name: str, options: argparse.Namespace) -> None:
    """Print the kernels of both sides that take longest, and the time of all."""
    for side in ("tileir", peer_of(name, options)):
        torch._dynamo.reset()
        model, inputs = made_of(torch, name, options.batch, getattr(torch, options.dtype), "cuda")
        with torch.set_grad_enabled(name.endswith("-step")):
            run = called(torch, name, model, inputs) if side == "tileir" else compiled(torch, model, side)
            call = step_of(torch, model, inputs, run) if name.endswith("-step") else lambda: run(*inputs)  # noqa: B023
            found = kernels_of(torch, call)
        print(
            f"{name:18}{side:16}{sum(each[2] for each in found):9.1f} us {sum(each[1] for each in found):6.0f} kernels"
        )
        for kernel, times, micros in found[: options.kernels]:
            print(f"{'':18}{side:16}{micros:9.1f} us {times:6.0f} x {kernel[:110]}", flush=True)


def kernels_of(torch: Any, call: Callable[[], Any]) -> list[tuple[str, int, float]]:
    """Return the kernels of a call, longest first: names, how often they run, and microseconds of all."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(3):
            call()
        torch.cuda.synchronize()
    found = [(each.key, each.count / 3, each.self_device_time_total / 3) for each in profile.key_averages()]
    return sorted(found, key=lambda each: -each[2])


def error_of(found: Any, wanted: Any) -> float:
    """Return the norm of a difference by that of what is wanted."""
    return float((found.double() - wanted.double()).norm() / wanted.double().norm())


def measured(torch: Any, name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return milliseconds of both sides, and errors."""
    row: dict[str, Any] = {"model": name, "batch": options.batch, "dtype": options.dtype}
    dtype = getattr(torch, options.dtype)
    peer = peer_of(name, options)
    if name.endswith("-step"):
        lists = {}
        for side in ("eager", "tileir", peer):
            torch._dynamo.reset()
            model, inputs = made_of(torch, name, options.batch, dtype, "cuda")
            run = model
            if side != "eager":
                run = called(torch, name, model, inputs) if side == "tileir" else compiled(torch, model, side)
            step = step_of(torch, model, inputs, run)
            losses = [float(step()) for _ in range(3)]
            lists[side] = losses
            row["compiled" if side == peer else side] = seconds_of(torch, step, 20) * 1e3
        row["error"] = max(abs(a - b) / abs(b) for a, b in zip(lists["tileir"], lists["eager"], strict=True))
        row["ratio"] = row["compiled"] / row["tileir"]
        return row
    with torch.no_grad():
        model, inputs = made_of(torch, name, options.batch, dtype, "cuda")
        wide = copy.deepcopy(model).float()
        exact = wide(*(each.float() if each.is_floating_point() else each for each in inputs))
        row["eager's"] = error_of(model(*inputs), exact)
        del wide
        begin = time.perf_counter()
        ours = called(torch, name, model, inputs)
        found = ours(*inputs)
        torch.cuda.synchronize()
        row["first"] = time.perf_counter() - begin
        row["error"] = error_of(found, exact)
        row["calls"] = seconds_of(torch, lambda: ours(*inputs)) * 1e3
        try:
            replay, result = captured(torch, lambda: ours(*inputs))
            row["tileir"] = seconds_of(torch, replay) * 1e3
            row["replayed"] = error_of(result, exact)
        except Exception as error:  # the other figures are still of interest
            print(name, "is not captured:", error, error.__context__, flush=True)
        torch._dynamo.reset()
        if options.sides != "tileir":
            row["eager"] = seconds_of(torch, captured(torch, lambda: model(*inputs))[0]) * 1e3
            fused = compiled(torch, model, peer)
            row["compiled"] = seconds_of(torch, lambda: fused(*inputs)) * 1e3
            row["ratio"] = row["compiled"] / row.get("tileir", row["calls"])
    return row


def blank(torch: Any, node: Any) -> Any:
    """Return a tensor in the place of what a node makes."""
    value = node.meta["val"] if hasattr(node, "meta") else node
    if isinstance(value, torch.SymInt):
        return int(value)
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(tuple(value.shape), value.stride(), dtype=value.dtype)


def offline(torch: Any, name: str, options: argparse.Namespace) -> None:
    """Compile the graphs of a model for a card, and print how many kernels they are."""
    import tileir
    from tileir import TensorType
    from tileir_torch import decompositions
    from tileir_torch.importing import imported, unsupported
    from tileir_torch.packing import partitioned

    model, inputs = made_of(torch, name, options.batch, getattr(torch, options.dtype), "cpu")
    begin = time.perf_counter()
    graphs: list[Any] = []

    def keep(module: Any, _: Any) -> Any:
        from functorch.compile import make_boxed_func

        graphs.append(module)
        return make_boxed_func(lambda *_: [blank(torch, each) for each in module.graph.output_node().args[0]])

    def backend(module: Any, examples: Any) -> Any:
        from torch._dynamo.backends.common import aot_autograd

        made = aot_autograd(
            fw_compiler=keep,
            bw_compiler=keep,
            inference_compiler=keep,
            partition_fn=partitioned,
            decompositions=decompositions.of_autograd(),
        )
        return made(module, examples)

    run = torch.compile(model, backend=backend, fullgraph=True)
    if name.endswith("-step"):
        run(*inputs).float().square().mean().backward()
    else:
        with torch.no_grad():
            run(*inputs)
    for graph in graphs:
        traced = time.perf_counter()
        faults = unsupported(graph)
        if faults:
            print(name, "refused:", *{f"{each.target}: {each.reason}" for each in faults}, sep="\n  ")
            continue
        function = imported(graph.graph, graph).function
        assert function is not None
        types = [
            TensorType(each.dtype or "f32", tuple(int(str(size)) for size in each.dims or ()))
            for each in function.inputs
        ]
        executable = tileir.compile(function, types, device=OFFLINE)
        seconds = time.perf_counter() - traced
        print(
            f"{name}: {len(executable.sem.works)} kernels in {seconds:.1f} s ({traced - begin:.1f} s before)",
            flush=True,
        )
        if options.listing:
            (options.listing / f"{name}.{len(graph.graph.nodes)}.ptx").write_text(executable.listing("ptx"))
            (options.listing / f"{name}.{len(graph.graph.nodes)}.sem").write_text(str(executable.sem))


def prepared(names: list[str], options: argparse.Namespace) -> None:
    """Compile in processes, some at a time, so that caches on disk have all but what is tuned on an idle card."""
    sides = ("tileir",) if options.sides == "tileir" else ("tileir", "inductor")
    waiting, begin = [(name, side) for name in names for side in sides], time.monotonic()
    waiting = [each for each in waiting if each[1] == "tileir" or peer_of(each[0], options) != "max-autotune"]
    waiting.sort(key=lambda each: not each[0].endswith("-step"))  # which take longest
    running: list[subprocess.Popen[bytes]] = []
    while waiting or running:
        running = [each for each in running if each.poll() is None]
        while waiting and len(running) < options.jobs:
            name, side = waiting.pop(0)
            running.append(of_one(name, options, "--prepare", f"--sides={side}"))
        time.sleep(0.05)
    print(f"compiled in {time.monotonic() - begin:.1f} s", flush=True)


def of_one(name: str, options: argparse.Namespace, *words: str) -> subprocess.Popen[bytes]:
    """Start a process for one model."""
    same = (f"--only=^{name}$", f"--batch={options.batch}", f"--dtype={options.dtype}", f"--tuned={options.tuned}")
    return subprocess.Popen([sys.executable, __file__, *same, *words])


def prepare(torch: Any, name: str, options: argparse.Namespace) -> None:
    """Compile a model on one side, so that caches on disk have it."""
    model, inputs = made_of(torch, name, options.batch, getattr(torch, options.dtype), "cuda")
    side = "tileir" if options.sides == "tileir" else peer_of(name, options)
    begin = time.perf_counter()
    try:
        if name.endswith("-step"):
            step_of(torch, model, inputs, compiled(torch, model, side))()
        else:
            with torch.no_grad():
                run = called(torch, name, model, inputs) if side == "tileir" else compiled(torch, model, side)
                run(*inputs)
        torch.cuda.synchronize()
    except Exception:  # the others are still of interest
        print(name, side, traceback.format_exc()[-1500:], flush=True)
    print(f"{name} {side} {time.perf_counter() - begin:.1f} s", flush=True)


def main() -> None:
    """Compile models, and measure them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX", help="models whose name has a match")
    parser.add_argument("--tuned", default="^(bert_base|resnet50)$", metavar="REGEX", help="those of max-autotune")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--dtype", default="bfloat16", help="as torch calls it")
    parser.add_argument("--sides", choices=["both", "tileir", "inductor"], default="both")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="measure no further model after these")
    parser.add_argument("--jobs", type=int, default=4, help="processes that compile")
    parser.add_argument("--kernels", type=int, default=0, help="list so many kernels of each side")
    parser.add_argument("--offline", action="store_true", help="compile only, without a card")
    parser.add_argument("--listing", type=Path, help="a folder for code that is compiled offline")
    parser.add_argument("--prepare", action="store_true", help="compile one side in this process, and measure nothing")
    parser.add_argument("--list", action="store_true", help="list kernels in this process, and measure nothing")
    parser.add_argument("--json", type=Path, default=Path(tempfile.gettempdir()) / "card_torch_models.json")
    options = parser.parse_args()
    import torch

    warnings.simplefilter("ignore")
    names = [name for name in MODELS if re.search(options.only, name)]
    if options.offline or options.prepare or options.list:
        for name in names:
            (offline if options.offline else prepare if options.prepare else list_kernels)(torch, name, options)
        return
    begin, rows = time.monotonic(), []
    prepared(names, options)
    for name in names:
        if time.monotonic() - begin > options.seconds:
            break
        torch._dynamo.reset()
        try:
            row = measured(torch, name, options)
        except Exception as error:  # the others are still of interest
            print(name, type(error).__name__, str(error)[-600:], flush=True)
            continue
        rows.append(row)
        figures = "".join(f"{key} {value:.4g}  " for key, value in row.items() if isinstance(value, float))
        print(f"{name:18}{figures}", flush=True)
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    for name in names if options.kernels else ():
        of_one(name, options, "--list", f"--kernels={options.kernels}").wait()
    ratios = [row["ratio"] for row in rows if "ratio" in row and not row["model"].endswith("-step")]
    if ratios:
        mean = statistics.geometric_mean(ratios)
        print(f"{torch.cuda.get_device_name()}: geometric mean {mean:.2f} of {len(ratios)}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
