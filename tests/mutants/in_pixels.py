"""Faults to plant into what takes whole pixels: channels written out, split temporaries, interleaved vectors."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

IN_PIXELS: Final = (
    Mutant(
        "constant of the first channel taken for all",
        "passes.layouts.deinterleave",
        "loaded[source][int(element.offset)]",
        "loaded[source][0 * int(element.offset)]",
        tests="passes/test_deinterleave.py",
    ),
    Mutant(
        "temporary of the first channel taken for all",
        "passes.layouts.deinterleave",
        "source=parts[place]",
        "source=parts[0 * place]",
        tests="passes/test_deinterleave.py",
    ),
    Mutant(
        "elements that neighbouring points touch taken to be apart",
        "passes.fusion.match",
        "return distance == 0",
        "return False",
        tests="passes/test_deinterleave.py",
    ),
    Mutant(
        "vectors read beyond their last element",
        "semtree.transform.interleaving",
        "min(start, count - kind.lanes)",
        "min(start, count)",
        tests="semtree/test_interleaving.py",
    ),
    Mutant(
        "load moved past a store to what may overlap",
        "semtree.transform.interleaving",
        "array == place.array or {array, place.array} <= self.shared",
        "array == place.array",
        tests="semtree/test_interleaving.py",
    ),
)
