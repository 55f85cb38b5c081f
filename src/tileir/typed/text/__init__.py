"""Typed functions as text, and back."""
