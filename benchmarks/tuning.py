"""Quality of the cost model's choices: each workload as the model schedules it, and as tuning does.

``python benchmarks/tuning.py`` prints, for each workload of the suite, the time that the model predicts, the time
without tuning, the time with it, and their ratio; last the medians. Winners go to a cache on disk that is thrown away.
"""

from __future__ import annotations

import json
import math
import re
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

import suite
import tileir

if TYPE_CHECKING:
    from tileir_performance.tuning.search import Tuned

BAR: Final = 1.2
"""Largest median time of the model's own choice over the tuned one."""


def measure(workload: suite.Workload, context: tileir.Context, time_limit: float, top: int) -> dict[str, Any]:
    """Return the figures of one workload, in seconds."""
    types = {name: tileir.TensorType(_dtype(dtype), shape) for name, (dtype, shape) in workload.inputs.types().items()}
    predicted = tileir.explain(workload.text, types, context=context).seconds
    found = tileir.tune(workload.text, types, context=context, time_limit=time_limit, top=top)
    return {
        "name": workload.name,
        "predicted": predicted,
        "default": found.default_seconds,
        "tuned": found.seconds,
        "trials": len(found.trials),
        "changed": _changed(found),
    }


def _dtype(dtype: Any) -> tileir.DType:
    found = tileir.DType.of(dtype)
    assert found is not None
    return found


def _changed(found: Tuned) -> str:
    """Return the options by which the winner differs from the usual pipeline."""
    usual = json.loads(found.trials[0].passes)
    winner = next(trial for trial in found.trials if trial.seconds is not None)
    for trial in found.trials:
        if trial.seconds is not None and trial.seconds < (winner.seconds or math.inf):
            winner = trial
    if found.seconds == found.default_seconds:
        return ""
    parts = []
    for step, normal in zip(json.loads(winner.passes), usual, strict=False):
        options, before = step.get("options", {}), normal.get("options", {})
        changed = [f"{name}={value}" for name, value in options.items() if before.get(name) != value]
        if changed:
            parts.append(f"{step['name']}{{{','.join(changed)}}}")
    return ", ".join(parts)


@click.command()
@click.option("--only", default="", help="Only workloads whose names match this expression.")
@click.option("--time-limit", default=20.0, show_default=True, help="Seconds for each workload.")
@click.option("--top", default=16, show_default=True, help="Candidates to time for each workload.")
@click.option("--device", help="Device id; by default the first one.")
@click.option("--json", "path", type=click.Path(dir_okay=False, path_type=Path), help="Write all figures here.")
def main(only: str, time_limit: float, top: int, device: str | None, path: Path | None) -> None:
    """Print the table and the medians."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        context = tileir.Context(device_id=device, disk_cache=tileir.DiskCache(folder))
        print(f"{'workload':32} {'predicted':>10} {'default':>10} {'tuned':>10} {'ratio':>6}  milliseconds")
        for workload in suite.WORKLOADS:
            if not re.search(only, workload.name):
                continue
            row = measure(workload, context, time_limit, top)
            rows.append(row)
            times = " ".join(f"{1e3 * row[key]:10.4f}" for key in ("predicted", "default", "tuned"))
            print(f"{row['name']:32} {times} {row['default'] / row['tuned']:6.2f}  {row['changed']}", flush=True)
        context.close()
    if not rows:
        raise click.BadParameter("no workload has such a name", param_hint="--only")
    ratio = statistics.median(row["default"] / row["tuned"] for row in rows)
    error = statistics.median(abs(math.log(row["predicted"] / row["default"])) for row in rows)
    print(f"default / tuned: median {ratio:.3f} (bar {BAR}), {'met' if ratio <= BAR else 'missed'}")
    print(f"predicted against default: off by a factor of {math.exp(error):.2f} in the median")
    if path is not None:
        path.write_text(json.dumps(rows, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
