"""Contractions by matrix instructions: plans, tiles, copies, and results."""
