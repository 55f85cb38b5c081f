"""PlaidML 0.7.0 as a peer: run by an interpreter that has it, one workload for each process.

Usage: python plaidml_peer.py INPUTS.npz OUTPUT.npy SECONDS < TILE_TEXT
Prints one JSON object with the times of the calls, in seconds.
"""

import collections
import collections.abc
import json
import os
import sys
import time

os.environ.setdefault("PLAIDML_EXPERIMENTAL", "1")
os.environ.setdefault("PLAIDML_DEVICE_IDS", "llvm_cpu.0")
for _name in ("Sequence", "Mapping", "MutableMapping", "Iterable", "Callable"):
    setattr(collections, _name, getattr(collections.abc, _name))  # PlaidML wants these in their old place

import numpy as np
import plaidml


def main() -> None:
    """Compile the text of standard input, run it, and report."""
    inputs_path, output_path, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    plaidml.quiet()
    context = plaidml.Context()
    found, _ = plaidml.devices(context, limit=100, return_all=True)
    device = plaidml.Device(context, found[0])
    inputs = {}
    for name, array in np.load(inputs_path).items():
        tensor = plaidml.Tensor(device, plaidml.Shape(context, plaidml.DType.FLOAT32, *array.shape))
        with tensor.mmap_discard(context) as view:
            view.copy_from_ndarray(array)
            view.writeback()
        inputs[name] = tensor
    expected = np.load(output_path)
    output = plaidml.Tensor(device, plaidml.Shape(context, plaidml.DType.FLOAT32, *expected.shape))
    start = time.perf_counter()
    function = plaidml.Function(sys.stdin.read())
    invoker = plaidml.Invoker(context, function, inputs=inputs, outputs={"O": output})

    def call() -> None:
        invoker.invoke()
        with output.mmap_current():
            pass  # waits until the result is there

    call()
    first = time.perf_counter() - start
    times: list[float] = []
    stop = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < stop:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    error = float(np.abs(output.as_ndarray(context) - expected).max() / np.abs(expected).max())
    print(json.dumps({"times": times, "first": first, "error": error}))


main()
