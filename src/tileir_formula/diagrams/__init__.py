"""Drawings of formulas: which step reads which."""
