"""Shapes, parts and orders of arrays."""
