"""Contractions by instructions that multiply matrices: plans, tiles, copies, and results."""
