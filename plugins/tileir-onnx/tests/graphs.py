"""Drawn graphs, run by tileir and node by node by others: ``python graphs.py --graphs 1000 --seed 7 --jobs 2``.

All values of a graph are its results at first. Each node is then computed anew by ONNX's reference, and where that
differs by onnxruntime, from the values that tileir has for its inputs, so that no error adds up. The graph with few
results, and its function for sizes that are symbols, must compute the same numbers.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from random import Random
from typing import Any, Final

import numpy as np
from attrs import frozen
from onnx import ModelProto, NodeProto, helper

import tileir
import tileir_onnx
from drawing import BF16, FLOATS, Array, Drawing, computed, drawn, number_of
from makers import MAKERS
from rarer import RARER
from tileir_onnx.graph import NeededError, Port
from tileir_onnx.importing import imported
from tileir_onnx.model import Model

ERRORS: Final = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 2e-5, np.dtype(np.float16): 4e-3, BF16: 3e-2}
"""Errors that are allowed, relative to the greatest magnitude among inputs and results of a node."""
_IN_F32: Final = frozenset({"Resize"})
"""Operators that others compute in f32, whatever the dtype is."""
_REMOVED: Final = 8
"""Nodes of one graph that may be refused."""
_SHARE: Final = 3
"""One of so many leaves is a result of the graph with few results."""


@frozen
class Finding:
    """A fault found in a graph.

    Attributes:
        kind: ``wrong``, ``crash``, ``refused``, or ``open`` for one that only open sizes have.
        op: The operator that is to blame, and its version.
        told: The rest, in words.

    """

    kind: str
    op: str
    told: str


def check(drawing: Drawing, device: str | None, compiled: bool) -> list[Finding]:
    """Return what is wrong with a drawn graph."""
    found: list[Finding] = []
    results: dict[str, Any] = {}
    while True:
        names = [name for node in drawing.nodes for name in node.output if name and node.op_type != "Constant"]
        if not names:
            return found
        try:
            results = dict(zip(names, run(drawing.model(names), drawing.feeds, device, compiled), strict=True))
            break
        except Exception as error:  # which the run is there to find
            finding, node = _blamed(drawing, error)
            found.append(finding)
            if node is None or len(found) > _REMOVED:
                return found
            _remove(drawing, node)
    known = {name: each for name, each in drawing.values.items() if name not in results} | results
    for node in drawing.nodes:
        if node.op_type != "Constant" and (told := differs(node, drawing.opset, known, drawing.values)):
            found.append(Finding("wrong", f"{node.op_type}-{drawing.opset}", told))
    if not found:
        found += _otherwise(drawing, results, device, compiled)
    return found


def run(model: ModelProto, feeds: Mapping[str, Array], device: str | None, compiled: bool) -> tuple[Any, ...]:
    """Return the results of a model, computed on a device or by the interpreter."""
    loaded = load(model, device)
    if not compiled:
        loaded.compiler = lambda function: partial(_interpreted, function)
    return loaded.run({port.name: feeds[port.name] for port in loaded.inputs})


def _interpreted(function: tileir.Function, *arrays: Any) -> Any:
    return tileir.evaluate(function, arrays)


def load(model: ModelProto, device: str | None = None) -> Model:
    """Return a model as tileir reads it."""
    return tileir_onnx.load(model.SerializeToString(), device)


def run_open(model: ModelProto, feeds: Mapping[str, Array]) -> tuple[Any, ...]:
    """Return the results of a model whose named sizes are symbols; inputs that sizes follow from have their values."""
    loaded = load(model)
    given: dict[str, Any] = {port.name: Port(port.name, port.kind, port.dims) for port in loaded.inputs}
    while True:
        try:
            made = imported(loaded.graph, given)
            break
        except NeededError as error:
            given.update((name, feeds[name]) for name in error.names)
    results: Any = ()
    if made.function is not None:
        results = tileir.evaluate(made.function, [feeds[name] for name in made.inputs])
    return tuple(made.results_of(iter(results if isinstance(results, tuple) else (results,))))


def _otherwise(drawing: Drawing, results: Mapping[str, Any], device: str | None, compiled: bool) -> Iterator[Finding]:
    """Yield what is wrong with a graph that has few results, and with one whose sizes are symbols."""
    exact = [name for name in drawing.leaves() if name in results and _is_exact(drawing, name)][::_SHARE]
    ways: dict[str, Callable[[ModelProto, Mapping[str, Array]], tuple[Any, ...]]]
    ways = {"few": partial(run, device=device, compiled=compiled), "open": run_open}
    for kind, way in ways.items():
        if not exact:
            return
        try:
            found = way(drawing.model(exact), drawing.feeds)
        except tileir.TileError as error:
            yield Finding(f"{kind} refused", _place(error), f"{error}".splitlines()[0])
            continue
        except Exception as error:  # which the run is there to find
            yield Finding(f"{kind} crash", "", _told(error))
            continue
        for name, each in zip(exact, found, strict=True):
            if told := _unlike(each, results[name], 200):
                yield Finding(f"{kind} wrong", name, told)


_STEPS: Final = frozenset(
    [
        "ArgMax",
        "ArgMin",
        "BitCast",
        "Cast",
        "CastLike",
        "Ceil",
        "DynamicQuantizeLinear",
        "Equal",
        "Floor",
        "Greater",
        "GreaterOrEqual",
        "Hardmax",
        "IsInf",
        "IsNaN",
        "Less",
        "LessOrEqual",
        "Mod",
        "NonZero",
        "Not",
        "QuantizeLinear",
        "Round",
        "Shrink",
        "Sign",
        "ThresholdedRelu",
        "TopK",
        "Where",
    ]
)
"""Operators whose results may jump where their inputs differ little."""


def _is_exact(drawing: Drawing, name: str) -> bool:
    """Return whether nothing that a value depends on may jump."""
    makers = {output: node for node in drawing.nodes for output in node.output}
    waiting, seen = [name], set()
    while waiting:
        node = makers.get(waiting.pop())
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        inputs = [*node.input, *(each for made in node.attribute for step in made.g.node for each in step.input)]
        floats = any(getattr(drawing.values.get(each), "dtype", None) in FLOATS and each in makers for each in inputs)
        if node.op_type in _STEPS and floats:
            return False
        waiting += inputs
    return True


def differs(node: NodeProto, opset: int, known: Mapping[str, Any], drawn_values: Mapping[str, Any]) -> str:
    """Return how the outputs of a node differ from those that others compute from its inputs."""
    names = [name for name in node.output if name]
    told = ""
    for way in (computed, _in_f64, by_onnxruntime):
        try:
            wanted = way(node, opset, known)
        except Exception:  # others raise whatever they like for what they do not have
            continue
        scale = max((_greatest(known.get(name)) for name in node.input), default=0.0)
        least = ERRORS[np.dtype(np.float32)] if node.op_type in _IN_F32 else 0.0
        found = [
            f"{name}: {each}"
            for name, right in zip(names, wanted, strict=True)
            if (each := _unlike(known[name], right, 1, scale, drawn_values[name], least))
        ]
        if not found:
            return ""
        told = told or f"{way.__name__}: {found[0]}"
    return told


def _in_f64(node: NodeProto, opset: int, known: Mapping[str, Any]) -> list[Any]:
    """Return the outputs of a node in f64, by ONNX's reference."""
    return computed(node, opset, {name: _wide(each) for name, each in known.items()})


def _wide(value: Any) -> Any:
    return value.astype(np.float64) if isinstance(value, np.ndarray) and value.dtype in FLOATS else value


def by_onnxruntime(node: NodeProto, opset: int, known: Mapping[str, Any]) -> list[Any]:
    """Return the outputs of a node, by onnxruntime; in f32 where it has not the dtype."""
    inner = [each for made in node.attribute for step in made.g.node for each in step.input]
    feeds = {name: known[name] for name in dict.fromkeys((*node.input, *inner)) if name in known}
    try:
        return _by_onnxruntime(node, opset, feeds)
    except Exception:  # of classes that it does not export
        narrow = {name: each.astype(np.float32) if each.dtype in FLOATS else each for name, each in feeds.items()}
        return _by_onnxruntime(node, opset, narrow)


def _by_onnxruntime(node: NodeProto, opset: int, feeds: Mapping[str, Array]) -> list[Any]:
    import onnxruntime  # which not everybody has

    ports = [helper.make_tensor_value_info(name, number_of(each.dtype), each.shape) for name, each in feeds.items()]
    results = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "node", ports, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    found: list[Any] = session.run(None, feeds)
    return found


def _greatest(value: Any) -> float:
    if not isinstance(value, np.ndarray) or value.dtype not in FLOATS:
        return 0.0
    wide = np.abs(value.astype(np.float64))
    return float(wide[np.isfinite(wide)].max(initial=0.0))


def _unlike(found: Any, wanted: Any, factor: float, scale: float = 0.0, typed: Any = None, least: float = 0.0) -> str:
    """Return how a value differs from another one, in words.

    Args:
        found: The value.
        wanted: What it must be.
        factor: By how much the error of its dtype is multiplied.
        scale: The greatest magnitude of what it is computed from.
        typed: A value of the dtype that it must have, where ``wanted`` has another one.
        least: The least error that is allowed.

    """
    if isinstance(wanted, list):
        if not isinstance(found, list) or len(found) != len(wanted):
            return "it is no such sequence"
        return next(filter(None, (_unlike(*each, factor, scale) for each in zip(found, wanted, strict=True))), "")
    found, wanted = np.asarray(found), np.asarray(wanted)
    dtype = typed.dtype if isinstance(typed, np.ndarray) else wanted.dtype
    if (found.dtype, found.shape) != (dtype, wanted.shape):
        return f"{found.dtype}{list(found.shape)} and not {dtype}{list(wanted.shape)}"
    if found.dtype not in FLOATS:
        off = found != wanted
    else:
        left, right = found.astype(np.float64), wanted.astype(np.float64)
        with np.errstate(all="ignore"):
            error = max(ERRORS[found.dtype], ERRORS.get(wanted.dtype, 0.0), least)
            allowed = factor * error * np.maximum(np.abs(right), max(_greatest(wanted), scale, 1e-6))
            off = ~((np.abs(left - right) <= allowed) | (left == right) | (np.isnan(left) & np.isnan(right)))
    if not np.any(off):
        return ""
    at = tuple(map(int, np.argwhere(off)[0]))
    return f"{np.count_nonzero(off)} of {off.size} differ: {found[at]} and not {wanted[at]} at {list(at)}"


def _place(error: tileir.TileError) -> str:
    words = f"{error}".splitlines()[0]
    return words.split("(")[1].split(")")[0] if "(" in words else ""


def _told(error: Exception) -> str:
    return f"{error!r:.200}\n{''.join(traceback.format_tb(error.__traceback__, -3))}"


def _blamed(drawing: Drawing, error: Exception) -> tuple[Finding, NodeProto | None]:
    """Return a finding for an error, and the node that it names."""
    words = f"{error}"
    node = next((each for each in drawing.nodes if f"of '{each.output[0] or each.output[-1]}'" in words), None)
    op = f"{node.op_type}-{drawing.opset}" if node is not None else ""
    if isinstance(error, tileir.TileError):
        return Finding("refused", op, words.splitlines()[0]), node
    return Finding("crash", op, _told(error)), node


def _remove(drawing: Drawing, node: NodeProto) -> None:
    """Drop a node, and those that need it."""
    gone = set(node.output)
    kept = []
    for each in drawing.nodes:
        inner = [name for made in each.attribute for step in made.g.node for name in step.input]
        if each is node or gone.intersection((*each.input, *inner)) - {""}:
            gone.update(each.output)
        else:
            kept.append(each)
    drawing.nodes = kept


def draw(seed: int, most: int) -> Drawing:
    """Return the graph of a seed."""
    random = Random(seed)
    return drawn(random, random.randint(1, most), (*MAKERS, *RARER))


def examine(seed: int, most: int = 60, device: str | None = None, share: int = 10) -> tuple[int, int, list[Finding]]:
    """Return a seed, the number of nodes of its graph, and what is wrong with it; one of ``share`` is compiled."""
    warnings.simplefilter("ignore")
    drawing = draw(seed, most)
    return seed, len(drawing.nodes), check(drawing, device, bool(share) and seed % share == 0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check drawn graphs; return 1 where one is wrong or crashes."""
    parser = argparse.ArgumentParser(prog="python graphs.py", description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of the first graph; others follow")
    parser.add_argument("--nodes", type=int, default=60, help="the greatest number of nodes")
    parser.add_argument("--compiled", type=int, default=10, metavar="N", help="compile one graph of N; 0 for none")
    parser.add_argument("--device", metavar="ID", help="the device, as `tileir devices` lists it")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    given = parser.parse_args(arguments)
    work = partial(examine, most=given.nodes, device=given.device, share=given.compiled)
    counts: Counter[str] = Counter()
    began, nodes = time.perf_counter(), 0
    with ProcessPoolExecutor(given.jobs) as pool:
        for seed, size, findings in pool.map(work, range(given.seed, given.seed + given.graphs), chunksize=4):
            nodes += size
            counts.update({each.kind for each in findings} or {"fine"})
            for each in findings:
                sys.stdout.write(f"{each.kind}: graph {seed}: {each.op}: {each.told}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{dict(counts)}, {nodes} nodes, {time.perf_counter() - began:.1f} s\n")
    return int(any(kind.endswith(("wrong", "crash")) for kind in counts))


if __name__ == "__main__":
    sys.exit(main())
