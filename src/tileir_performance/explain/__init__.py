"""Explanations: costs of kernels and of tiles, as text, JSON and HTML."""
