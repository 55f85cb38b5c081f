"""Texts read and written: tokens, spans, indentation, names."""
