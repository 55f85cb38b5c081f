"""Contractions over registers: which tiles, what they cost, and the blocks that compute them."""
