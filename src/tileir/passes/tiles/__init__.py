"""Sizes of tiles: what they cost, how they are found, and the stencils that ask for them."""
