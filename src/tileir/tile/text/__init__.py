"""Tile functions as text: read by a lexer and recursive parsers, and printed."""
