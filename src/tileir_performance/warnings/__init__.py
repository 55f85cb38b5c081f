"""Warnings, like a compiler's: what is legal, and seldom meant."""
