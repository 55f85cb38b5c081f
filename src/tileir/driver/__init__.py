"""Compiler driver and its entry points."""
