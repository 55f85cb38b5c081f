"""Derivatives of typed operations: forward and reverse mode, and the rule of each operation."""
