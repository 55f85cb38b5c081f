"""Simplifications and optimisations of typed functions."""
