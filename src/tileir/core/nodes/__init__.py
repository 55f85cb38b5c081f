"""Immutable nodes: their classes, the roles of their fields, and rewriting."""
