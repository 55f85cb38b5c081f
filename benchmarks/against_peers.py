"""The suite on tileir and eleven peers, by a harness for them that lies elsewhere.

    python benchmarks/against_peers.py HARNESS [--threads 2] [--only REGEX] [--peers a,b] [--rounds N] [--out FILE.md]

HARNESS is the folder with the harness' bench.py; PEERS_HOME names where its environments are. tileir gets an
environment of its own beside them, with this checkout installed, and takes part like every other peer: one
process, the same inputs, turns with the others, every result checked against f64. Options after HARNESS are
the harness' own.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FILES = ("suite.py", "texts.py", "numpy_peer.py")


def _environment(home: Path) -> None:
    """Make the environment that tileir runs in, unless it is there."""
    folder = home / "venvs" / "tileir"
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "-q", f"{HERE.parent}[llvm]"], check=True)


def _with_tileir(harness: Path, copy: Path) -> None:
    """Copy the harness and add one peer to it."""
    shutil.copytree(harness, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(HERE / "tileir_peer.py", copy / "peers" / "p_tileir.py")
    for name in FILES:
        shutil.copy(HERE / name, copy / name)
    bench = copy / "bench.py"
    text = bench.read_text(encoding="utf-8")
    marker = "CACHE = HOME + "
    if marker not in text:
        raise SystemExit(
            f"{harness}/bench.py is not the harness that this script knows: no line starts with {marker!r}"
        )
    row = "PEERS['tileir'] = ('tileir', 'p_tileir', 1)\n"
    bench.write_text(text.replace(marker, row + marker, 1), encoding="utf-8")


def summary(result: dict[str, Any]) -> str:
    """Return tileir's figures beside the best peer of each workload, and the geometric mean of the ratios."""
    lines: list[str] = []
    for threads in result["peak"]:
        lines += ["", f"### tileir against the best peer, {threads} threads", ""]
        lines += [
            "| workload | tileir | best peer | time | best / tileir | cold compile |",
            "|---|---|---|---|---|---|",
        ]
        ratios, cold = [], []
        for name, by_threads in result["res"].items():
            cells = by_threads.get(threads, {})
            ours = cells.get("tileir", {"ok": False, "err": "not run"})
            others = [(cell["t"], peer) for peer, cell in cells.items() if cell["ok"] and peer != "tileir"]
            if not ours["ok"] or not others:
                lines.append(f"| {name} | {ours.get('err')} | | | | |")
                continue
            best, peer = min(others)
            ratios.append(best / ours["t"])
            cold.append(ours["cold_s"])
            lines.append(
                f"| {name} | {_time(ours['t'])} | {peer} | {_time(best)} | {ratios[-1]:.2f} | {ours['cold_s']:.2f} s |"
            )
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            middle = sorted(cold)[len(cold) // 2]
            lines += [
                "",
                f"Geometric mean of best / tileir over {len(ratios)} workloads: {mean:.2f}; least {min(ratios):.2f}."
                f" Cold compile: median {middle:.2f} s, longest {max(cold):.2f} s.",
            ]
    return "\n".join(lines) + "\n"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"


def main() -> None:
    """Run the harness with one more peer, and print the summary."""
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        raise SystemExit(__doc__)
    harness, options = Path(sys.argv[1]), sys.argv[2:]
    home = Path(os.environ.setdefault("PEERS_HOME", str(Path.home() / ".cache" / "tileir-peers")))
    report = Path(options[options.index("--out") + 1]) if "--out" in options else home / "peers.md"
    _environment(home)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "harness")
        _with_tileir(harness, copy)
        python = home / "venvs" / "main" / "bin" / "python"
        subprocess.run([str(python), str(copy / "bench.py"), "--out", str(report), *options], check=True)
    result = json.loads(report.with_suffix(".json").read_text(encoding="utf-8"))
    table = summary(result)
    with report.open("a", encoding="utf-8") as file:
        file.write(table)
    print(table)


if __name__ == "__main__":
    main()
