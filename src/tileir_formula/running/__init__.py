"""Formulas compiled and called on pictures."""
