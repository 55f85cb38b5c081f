"""Transformations by which dot products on the processor are exact, before they are emitted."""
