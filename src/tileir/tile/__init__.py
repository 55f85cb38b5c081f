"""The Tile language: what the user wrote, with symbolic dimensions, and dtypes only in signatures."""
