"""Derivatives of typed operations: reverse sweeps, and the rule of each operation."""
