"""Typed functions made smaller or cheaper."""
