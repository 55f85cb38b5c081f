"""Contractions in register tiles."""
