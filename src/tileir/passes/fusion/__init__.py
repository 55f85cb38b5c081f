"""Fusion of blocks: legality, profitability, and construction of the joined blocks."""
